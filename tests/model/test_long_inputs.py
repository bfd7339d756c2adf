"""Ranges of queries: what the tap shows of long inputs is what it shows of whole ones, whatever the mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from draws import draws
from families import TAPPED, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor
from transformers import masking_utils
from written import input_of

from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.tokens import Unit, WholeWords
from attnscan.model import tap as capture
from attnscan.model.attention_block import AttentionBlock, Cut, output_projections
from attnscan.model.tap import Tap
from attnscan.results.dependencies import Help
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.patterns import PATTERNS, PREDICTIVE
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Targets

pytestmark = pytest.mark.usefixtures("quiet")
WORDS = ("the", "cat", "Cat", "ran", "straw", "##berries", ".", ",")
VOCABULARY = WholeWords.of({5: "the", 6: "cat", 7: "ran", 8: "straw"})


def batch_of(lengths: list[int], seed: int, unit: Unit = "token", *, related: bool = False) -> EncodedBatch:
    """Pairs of random words of so many tokens, some of them related."""
    rng, texts = np.random.default_rng(seed), list[str]()
    for length in lengths:
        words = [str(word) for word in rng.choice(WORDS, length - 3)]
        texts.append(" ".join(["[CLS]", *words[: length // 2], "[SEP]", *words[length // 2 :], "[SEP]"]))
    batch = collate([input_of(text, unit) for text in texts], vocabulary=VOCABULARY)
    some = torch.tensor(rng.random((*batch.word.shape, batch.word.shape[1])) < 0.02)
    batch = replace(batch, related=(some | some.mT) if related else None)
    present = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.tensor(rng.integers(5, 40, present.shape)) * present
    return EncodedBatch(**{**vars(batch), "model_inputs": {"input_ids": ids, "attention_mask": present.long()}})


def read(
    model: Any, batch: EncodedBatch, cells: int | None, *, carried: bool, helps: Sequence[Help] = ()
) -> tuple[dict[str, Any], list[int]]:
    """All sums of a batch, in blocks of so many weights or whole; and how many weights the blocks had."""
    targets, sizes, one = Targets(batch, PATTERNS, helps), list[int](), len(batch) == 1
    classes = ClassScorer(batch, special=False)
    words = Scorer(targets, by_query=one)
    beside = ClassScorer(batch, special=True, by_query=one, units=targets.units)
    consumers = [Scorer(targets), words, classes, beside]
    projections = output_projections(model, batch.model_inputs) if carried else None

    def consume(block: AttentionBlock) -> None:
        sizes.append(block.weights.numel())
        for consumer in consumers:
            consumer(block if projections is None else projections.carried(block))

    with pytest.MonkeyPatch.context() as patch, Tap(model) as tap:
        patch.setattr(capture, "_BLOCK", 1 if cells else 10**9)
        patch.setattr(capture, "MOST_CELLS", cells or 10**9)
        tap.run(batch.model_inputs, consume, cut=Cut(batch.unit, previews=True) if cells else None)
        assert tap.works
    sums = {f"scores.{name}": values for name, values in consumers[0].pair_sums().items()}  # type: ignore[union-attr]
    sums |= {f"words.{name}": values for name, values in words.pair_sums().items()}
    sums |= {f"classes.{name}": values for name, values in classes.sums().items()}
    sums |= {f"classes beside.{name}": values for name, values in beside.sums().items()}
    return {**sums, "entropy": words.sums().entropy}, sizes


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("family", ["bert", "modernbert", "gpt2", "mistral"])
@settings(deadline=None, max_examples=draws(3))
@given(
    lengths=st.lists(st.integers(6, 44), min_size=1, max_size=3) | st.integers(30, 64).map(lambda length: [length]),
    cells=st.sampled_from([1, 700, 2500, 9000]),
    seed=st.integers(0, 99),
    unit=st.sampled_from(["token", "word"]),
    related=st.booleans(),
)
def test_ranges_say_what_whole_rows_say(
    family: str, carried: bool, lengths: list[int], cells: int, seed: int, unit: Unit, related: bool
) -> None:
    model, batch = tiny_model(family, TAPPED[family]), batch_of(lengths, seed, unit, related=related)
    (whole, _), (ranges, _) = (read(model, batch, size, carried=carried) for size in (None, cells))
    assert whole.keys() == ranges.keys()
    for name, values in whole.items():
        assert_allclose(ranges[name], values, atol=2e-6 * max(lengths), rtol=1e-6, err_msg=name)


def test_at_300_tokens_the_means_differ_by_less_than_a_millionth() -> None:
    model, batch = (
        tiny_model("modernbert", {**TAPPED["modernbert"], "max_position_embeddings": 400}),
        batch_of([300], 0),
    )
    (whole, _), (ranges, sizes) = (read(model, batch, size, carried=True) for size in (None, 20_000))
    for name, values in whole.items():
        assert_allclose(ranges[name] / 300, values / 300, atol=1e-6, err_msg=name)
    assert max(sizes) <= 20_000


def test_words_that_help_to_predict_are_read_where_there_are_any() -> None:
    model = tiny_model("bert", {**TAPPED["bert"], "max_position_embeddings": 400})
    batch = batch_of([120], 0)
    helps = np.zeros((120, 120))
    helps[40:44, 90:] = np.random.default_rng(0).uniform(0, 3, (4, 30))
    given = [Help(helps, "cpmi", 4, tuple(range(120)), 117, 120)]
    (whole, _), (ranges, sizes) = (read(model, batch, size, carried=False, helps=given) for size in (None, 6000))
    assert max(sizes) <= 6000
    of_them = PATTERNS.index(PREDICTIVE)
    assert (whole["scores.every_key.n"][..., of_them] == 4).all()
    for name, values in whole.items():
        assert_allclose(ranges[name] / 120, values / 120, atol=1e-6, err_msg=name)


def test_a_window_is_read_without_the_keys_beyond_it() -> None:
    model, batch = tiny_model("modernbert", TAPPED["modernbert"]), batch_of([44], 0)
    widths: dict[int, set[int]] = {}
    with pytest.MonkeyPatch.context() as patch, Tap(model) as tap:
        patch.setattr(capture, "_BLOCK", 1)
        patch.setattr(capture, "MOST_CELLS", 1)
        tap.run(
            batch.model_inputs,
            lambda block: widths.setdefault(block.layer, set()).add(block.weights.shape[-1]),
            cut=Cut(),
        )
    assert widths[0] == {44} and max(widths[1]) <= 8 + 4


def test_a_model_that_changes_its_mask_is_read_by_the_mask_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny_model("bert", TAPPED["bert"]), batch_of([20, 12], 0)
    expected, _ = read(model, batch, None, carried=False)
    inner = model.encoder.forward

    def changed(states: Tensor, attention_mask: Tensor | None = None, **given: Any) -> Any:
        return inner(states, None if attention_mask is None else attention_mask * 1, **given)

    monkeypatch.setattr(model.encoder, "forward", changed)
    found, _ = read(model, batch, 500, carried=False)
    for name, values in expected.items():
        assert_allclose(found[name], values, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("family", ["bert", "mistral"])
def test_masks_are_asked_for_as_transformers_5_0_does(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """By the places of the queries rather than by how many there are and where the first is."""
    model, batch = tiny_model(family, TAPPED[family]), batch_of([30, 21], 0)
    expected, _ = read(model, batch, None, carried=False)
    of_numbers, mask_of_numbers = Tap._mask, masking_utils.sdpa_mask

    def asked(tap: Tap, *, q_length: int, q_offset: int = 0, **rest: Any) -> Tensor | None:
        return of_numbers(tap, cache_position=torch.arange(q_offset, q_offset + q_length), **rest)

    def of_places(*, cache_position: Tensor, **rest: Any) -> Tensor | None:
        return mask_of_numbers(q_length=len(cache_position), q_offset=int(cache_position[0]), **rest)

    monkeypatch.setattr(Tap, "_mask", asked)
    monkeypatch.setattr(masking_utils, "sdpa_mask", of_places)
    ranges, _ = read(model, batch, 500, carried=False)
    for name, values in expected.items():
        assert_allclose(ranges[name], values, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("unit", ["token", "word"])
def test_no_range_is_of_padding_on_a_device_either(monkeypatch: pytest.MonkeyPatch, unit: Unit) -> None:
    model, batch = tiny_model("bert", TAPPED["bert"]), batch_of([40, 12], 0, unit)
    expected, _ = read(model, batch, None, carried=False)
    monkeypatch.setattr(capture, "_on_cpu", lambda _: False)
    monkeypatch.setattr(capture, "_ON_DEVICE", 500)
    ranges, _ = read(model, batch, 500, carried=False)
    for name, values in expected.items():
        assert_allclose(ranges[name], values, atol=1e-5, err_msg=name)


def test_queries_may_see_nothing_near_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny_model("bert", TAPPED["bert"]), batch_of([40], 0)
    inner = model.encoder.forward

    def far(states: Tensor, **given: Any) -> Any:
        hidden = torch.zeros(1, 1, 40, 40)
        hidden[..., 16:, 3:] = torch.finfo(torch.float32).min
        return inner(states, **{**given, "attention_mask": hidden})

    monkeypatch.setattr(model.encoder, "forward", far)
    expected, _ = read(model, batch, None, carried=False)
    ranges, _ = read(model, batch, 1, carried=False)
    for name, values in expected.items():
        assert_allclose(ranges[name], values, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("unit", "expected"), [(None, [4, 8, 10]), ([0, 0, 0, 1, 2, 2, 2, 2, 2, 3], [4, 9, 10])])
def test_ranges_end_where_words_do(unit: list[int] | None, expected: list[int]) -> None:
    cut = Cut(None if unit is None else torch.tensor([unit]))
    assert [part.stop for part in cut.ranges(0, 10, 4)] == expected
    assert cut.whole_words(0, 10, slice(5, 6)) == (slice(5, 6) if unit is None else slice(4, 9))
