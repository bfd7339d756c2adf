"""Shards, made anywhere and added in any order, are finished into the ranking of all pairs."""

import pickle
from typing import Any

import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from support.small_scans import PAIRS
from support.toy_bert import save_toy_bert
from torch import Tensor

import attnscan
from attnscan.errors import EngineError, InputError, OptionError
from attnscan.inputs.batch import EncodedBatch

TEXTS = [(str(pair.a), str(pair.b)) for pair in PAIRS]
CUTS = ((0, 3), (3, 3), (3, 4), (4, 40))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(
        save_toy_bert(
            tmp_path_factory.mktemp("toy"), 2, 3, {(0, 0): "next-word", (1, 1): "identical"}
        )
    )


@pytest.fixture(scope="module")
def model(toy: str) -> attnscan.LoadedModel:
    return attnscan.load(toy)


def mine(batch: EncodedBatch) -> Tensor:
    """Each word looks at the second before it."""
    return batch.same_sentence & (batch.offset == -2)


@pytest.mark.parametrize(
    "options",
    [
        {"predictive": "off"},
        {"predictive": "distance", "predictive_pairs": 3, "predictive_words": 4},
        {"predictive": "off", "pattern": [*attnscan.PATTERNS, mine]},
        {"predictive": "off", "split": True, "by": "carried"},
    ],
    ids=["labels", "predictive", "own pattern", "split"],
)
def test_shards_from_anywhere_are_the_ranking_of_all(
    model: attnscan.LoadedModel, options: dict[str, Any]
) -> None:
    parts = [attnscan.shard(TEXTS[i:j], model=model, **options) for i, j in CUTS]
    parts.append(attnscan.shard(["the " * 200], model=model, **{**options, "on_long": "skip"}))
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    found = attnscan.finish(sum(parts[3::-1]))
    expected = attnscan.heads(TEXTS, model=model, **options)
    for kind in ("every_key", "words_only"):
        for name in ("score", "chance", "se", "n", "pairs"):
            a, b = (getattr(getattr(each.scores, kind), name) for each in (found, expected))
            assert_allclose(a, b, rtol=1e-9, atol=1e-7 if name == "se" else 1e-12, err_msg=name)
    if expected.has_labels:
        pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())
        pd.testing.assert_frame_equal(found.profile.to_frame(), expected.profile.to_frame())
    assert (found.ranked_by is None) is (expected.ranked_by is None)
    assert (
        found.signature.input_hash
        == attnscan.finish(sum(parts[:4]), model=model).signature.input_hash
    )
    assert found._repr_html_() is not None
    with pytest.raises(EngineError, match="parts of one scan differ: on_long truncate and skip"):
        sum(parts)


def test_shards_of_nothing_add_nothing(model: attnscan.LoadedModel) -> None:
    skipping: Any = {"model": model, "predictive": "off", "on_long": "skip"}
    empty = attnscan.shard([], **skipping)
    skipped = attnscan.shard(["the " * 200], **skipping)
    one = attnscan.shard(TEXTS[:4], **skipping)
    assert attnscan.finish(empty + one).signature == attnscan.finish(one + empty).signature
    assert attnscan.finish(skipped + one).signature.counts == "5 pairs, 1 skipped"
    with pytest.raises(InputError, match="there is no pair to score"):
        attnscan.finish(empty + skipped)
    none: Any = sum([])
    with pytest.raises(OptionError, match="shard is of the class int; give a ScanState"):
        attnscan.finish(none)


def test_what_is_not_of_one_scan_does_not_add(model: attnscan.LoadedModel, tmp_path: Any) -> None:
    other = attnscan.load(str(save_toy_bert(tmp_path, 2, 3, {(0, 1): "identical"})))
    asking: Any = {"predictive": "distance", "predictive_pairs": 1, "predictive_words": 2}
    one = attnscan.shard(TEXTS[:2], model=model, **asking)
    with pytest.raises(
        EngineError, match="differ: seed 0 and 1; use the same model, options and versions"
    ):
        one + attnscan.shard(TEXTS[:2], model=model, seed=1, **asking)
    with pytest.raises(EngineError, match="differ: fingerprint"):
        one + attnscan.shard(TEXTS[:2], model=other, **asking)
    with pytest.raises(EngineError, match="differ: fingerprint"):
        attnscan.finish(one, model=other)


def test_a_model_in_memory_is_given_again_to_finish(model: attnscan.LoadedModel) -> None:
    arguments: Any = {"model": model.model, "tokenizer": model.tokenizer}
    one = attnscan.shard(
        TEXTS[:2], predictive="distance", predictive_pairs=1, predictive_words=2, **arguments
    )
    with pytest.raises(OptionError, match="was in memory; give it again"):
        attnscan.finish(one)
    assert attnscan.finish(one, **arguments).signature.predictive == "distance"


def test_a_model_in_memory_is_as_it_is_at_each_call(toy: str) -> None:
    """Also one that `load` was given: sums of what it was do not add to sums of what it is."""
    kept = attnscan.load(toy)
    arguments: Any = {"model": kept.model, "tokenizer": kept.tokenizer}
    held = attnscan.load(**arguments)
    norm = kept.model.encoder.layer[0].output.LayerNorm
    shards = []
    for eps in (norm.eps, 1.0, norm.eps):
        norm.eps = eps
        shards += [
            attnscan.shard(TEXTS[:2], predictive="off", **model)
            for model in (arguments, {"model": held})
        ]
    before, before_by_handle, changed, changed_by_handle, *after = shards
    assert attnscan.finish(sum([before, before_by_handle, *after])).signature.pairs_read == 8
    assert attnscan.finish(changed + changed_by_handle).signature.pairs_read == 4
    for one in (before, before_by_handle):
        with pytest.raises(EngineError, match="differ: fingerprint"):
            one + changed_by_handle


def test_the_callers_autocast_changes_no_number(model: attnscan.LoadedModel) -> None:
    plain = attnscan.classify(*TEXTS[0], model=model)
    with torch.autocast("cpu", torch.bfloat16):
        cast = attnscan.classify(*TEXTS[0], model=model)
        assert torch.is_autocast_enabled("cpu")
    pd.testing.assert_frame_equal(cast.to_frame(), plain.to_frame())
    assert cast.signature == plain.signature
