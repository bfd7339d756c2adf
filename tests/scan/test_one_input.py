"""From one input to scores on real models: options, saved weights, which words help."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from one_run import classify
from scans import ARTICLE, BUNDLED
from tiny_checkpoints import SMALL, save
from transformers import BertConfig, BertForMaskedLM

from attnscan.errors import ModelError
from attnscan.inputs.sentence import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.weights import classify_weights
from attnscan.scoring.patterns import PATTERNS


def test_saved_causal_weights_are_judged_by_the_keys_they_may_see() -> None:
    """Three words, each spread evenly over itself and what is before it, are at chance, not above."""
    from attnscan.inputs.weights import SavedWeights

    even = np.tril(np.ones((4, 4), dtype=np.float32))
    even /= even.sum(-1, keepdims=True)
    saved = SavedWeights(even[None, None], ("the", "cat", "sat", "down"), (0,) * 4, (False,) * 4, (False,) * 4)
    scores = classify_weights(saved, "causal", ScanOptions()).scores
    previous = scores.patterns.index("previous-word")
    assert scores.every_key.score[0, 0, previous] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert scores.every_key.above_chance[0, 0, previous] == pytest.approx(0, abs=1e-6)
    assert np.isnan(scores.every_key.score[0, 0, scores.patterns.index("delimiter")])


def test_the_best_measure_that_the_checkpoint_allows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    whole = BertForMaskedLM(BertConfig(**SMALL))
    with_head, bare = (str(save(tmp_path / name, model)) for name, model in (("lm", whole), ("bare", whole.bert)))
    pair = Pair("the cat sat", "the cat")
    for model, asked, used in (
        (with_head, "auto", "cpmi"),
        (with_head, "distance", "distance"),
        (with_head, "off", "off"),
        (bare, "auto", "distance"),
    ):
        result = classify(pair, ScanOptions(model=model, predictive=asked))  # type: ignore[arg-type]
        assert result.signature.predictive == used
        assert ("predictive" in result.not_measured) == (used == "off")
    with pytest.raises(ModelError, match=r"predictive='cpmi' .* no masked-LM head"):
        classify(pair, ScanOptions(model=bare, predictive="cpmi"))


def test_targets_are_kept_with_the_attention_and_scores_are_their_mean() -> None:
    options = replace(BUNDLED, predictive="off", unit="word")
    assert classify(ARTICLE, options).targets == ()
    result = classify(ARTICLE, options, keep=True)
    for kept in (
        result,
        classify_weights(result.kept_attention().saved(), "again", replace(options, related=False), keep=True),
    ):
        targets = kept.targets[1]
        assert len(kept.targets) == 6 and all(of_layer is targets for of_layer in kept.targets)
        assert targets.shape == (7, len(kept.units), len(kept.units))
        weights = kept.kept_attention().in_words(kept.units).weights[1, 8]
        for p, pattern in enumerate(PATTERNS):
            inside = np.minimum(weights, targets[p]) if pattern.even else weights * targets[p]
            rows = targets[p].any(-1)
            assert rows.any() == (pattern.id != "predictive")
            if rows.any():
                assert inside.sum(-1)[rows].mean() == pytest.approx(kept.scores.every_key.score[1, 8, p], abs=1e-5)


RELATED = Pair("The king went to war.", "The queen won the battle, and the war.")


def test_what_counted_as_related_is_listed() -> None:
    result = classify(RELATED, replace(BUNDLED, predictive="off"))
    king, war, queen, battle = (result.units.index(word) for word in ("king", "war", "queen", "battle"))
    again = result.units.index("war", battle)
    assert set(result.related) == {(king, queen), (war, battle), (battle, again)}
    assert result.notes == ("related words: king – queen, war – battle",)
    assert result.to_frame().attrs["related"] == [list(pair) for pair in result.related]
    without = classify(RELATED, replace(BUNDLED, predictive="off", related=False))
    assert without.related == () and without.notes == ()
