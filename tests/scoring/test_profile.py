"""Profiles against plain loops that lay every part out and fit them otherwise, and heads of known mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import profiles
import pytest
import torch
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from profiles import OwnPart, WrittenPair
from reference import Written
from written import input_of

from attnscan.errors import CaptureError
from attnscan.inputs.batch import EncodedBatch, EncodedInput, collate
from attnscan.inputs.sentence import Pair
from attnscan.inputs.tokens import Unit
from attnscan.model.attention_block import AttentionBlock, OutputProjections
from attnscan.results.dependencies import Help
from attnscan.results.grid import Grid
from attnscan.results.profile import Fit, parts_of
from attnscan.scoring.patterns import PATTERNS, Pattern
from attnscan.scoring.profile import Profiler, profile_sums, profiled
from attnscan.scoring.profile_sums import fitted
from attnscan.scoring.resampling import BITS, BlockSums

LAYERS, HEADS = 2, 3
WORDS = ["a", "A", "the", "cat", "##s", ".", ",", "ran", "Ġcat", "mat", "on", "!"]
Masks = Sequence[torch.Tensor]
"""Of each layer. Shape: each [token, token], bool."""


@dataclass(frozen=True)
class Case:
    """One input, what its layers may see, and what its heads do."""

    encoded: EncodedInput
    masks: Masks
    weights: torch.Tensor
    """Shape: [layer, head, token, token]."""
    idle: torch.Tensor | None = None
    """Which rows are of nothing. Shape: [layer, head, token]."""

    @property
    def key(self) -> str:
        """Of the pair."""
        return self.encoded.known_pair.key

    def written(self, layer: int, own: dict[str, OwnPart]) -> WrittenPair:
        """The same for the plain loops, by units."""
        one, unit = self.encoded, self.encoded.unit
        written = Written([text.lstrip("Ġ") for text in one.units], one.unit_sentence)
        weights, seen = self.weights[layer].double().numpy(), self.masks[layer].numpy()
        if len(one.units) < len(one.tokens):
            weights = profiles.merged(weights, unit, taking=self.idle is not None)
            seen = profiles.merged_mask(seen, unit)
        return WrittenPair(written, seen, weights, int(self.key[: BITS // 4], 16), own)


def masks_of(length: int, kind: str) -> list[torch.Tensor]:
    """Full ones, causal ones, or a full one and a window of one to either side."""
    full = torch.ones(length, length, dtype=torch.bool)
    if kind == "causal":
        return [full.tril()] * LAYERS
    return [full, full.triu(-1).tril(1) if kind == "windows" else full]


def case_of(text: str, kind: str = "full", unit: Unit = "token", seed: int = 0, *, resting: bool = False) -> Case:
    """Random attention under a mask; some rows of it nothing, if heads are `resting`."""
    encoded = replace(input_of(text, unit), pair=Pair(text, str(seed % 5)))
    length = len(encoded.tokens)
    masks = masks_of(length, kind)
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(LAYERS, HEADS, length, length, generator=generator) * 3
    logits = logits.masked_fill(~torch.stack(masks)[:, None], -torch.inf)
    weights, idle = logits.softmax(-1), None
    if resting:
        idle = torch.rand(LAYERS, HEADS, length, generator=generator) < 0.3
        weights = weights.masked_fill(idle[..., None], 0)
    return Case(encoded, masks, weights, idle)


def profiler_of(
    cases: Sequence[Case],
    patterns: Sequence[Pattern] = PATTERNS,
    helps: Sequence[Help] = (),
    heads_at_once: int = HEADS,
    *,
    padded: bool = False,
    again: bool = False,
) -> Profiler:
    """Shown its blocks as the tap shows them: inputs of one length together, or all of them, `padded` with zeros.

    With `again`, everything comes once before with other numbers.
    """
    batch = collate([case.encoded for case in cases])
    profiler = Profiler(batch, patterns, helps)
    lengths = [len(case.encoded.tokens) for case in cases]
    width, layers, heads = max(lengths), *cases[0].weights.shape[:2]
    visible = [torch.zeros(len(cases), width, width, dtype=torch.bool) for _ in range(layers)]
    for layer, row, case in ((layer, row, case) for layer in range(layers) for row, case in enumerate(cases)):
        visible[layer][row, : lengths[row], : lengths[row]] = case.masks[layer]
    if all(torch.equal(each, visible[0]) for each in visible):
        visible = [visible[0]] * layers
    groups = [slice(row, row + 1) for row in range(len(cases))] if not padded else [slice(0, len(cases))]
    for factor in (0.7, 1.0) if again else (1.0,):
        for layer in range(layers):
            for inputs in groups:
                length = width if padded else lengths[inputs.start]
                weights = torch.zeros(inputs.stop - inputs.start, heads, length, length)
                idle = torch.zeros(weights.shape[:3], dtype=torch.bool)
                for row, case in enumerate(cases[inputs]):
                    own = slice(len(case.encoded.tokens))
                    weights[row, :, own, own] = case.weights[layer] * factor
                    if case.idle is not None:
                        idle[row, :, own] = case.idle[layer]
                for first in range(0, heads, heads_at_once):
                    some = slice(first, min(first + heads_at_once, heads))
                    of_idle = idle[:, some] if cases[0].idle is not None else None
                    given = (weights[:, some], visible[layer], None, None, None, None, None, of_idle)
                    profiler(AttentionBlock(Grid.square(layers, heads), layer, inputs, some, *given))
    return profiler


def summed(cases: Sequence[Case], *given: Any, **how: Any) -> BlockSums:
    """What a batch adds up to."""
    return profile_sums(profiler_of(cases, *given, **how).sums(), [case.key for case in cases])


def fit_of(cases: Sequence[Case], *given: Any, **how: Any) -> Fit:
    """The profiles of a batch."""
    return fitted(summed(cases, *given, **how).stacked())


def every_other(batch: EncodedBatch) -> torch.Tensor:
    """Each word looks at all words an even number of places away."""
    return batch.word[:, :, None] & batch.word[:, None, :] & (batch.offset % 2 == 0)


def nearer_more(batch: EncodedBatch) -> torch.Tensor:
    """Each word looks at everything, at what is near the most."""
    return (1 / (1 + batch.offset.abs())).expand_as(batch.same_sentence)


OWN_PATTERNS = (*PATTERNS, Pattern.of(every_other), Pattern.of(nearer_more))
OWN_PARTS: dict[str, OwnPart] = {
    "every-other": lambda one, i, j: float(one.sentence[j] >= 0 and (i - j) % 2 == 0),
    "nearer-more": lambda _, i, j: 1 / (1 + abs(i - j)),
}


@st.composite
def written_inputs(draw: st.DrawFn) -> str:
    """One or two sentences of a small vocabulary, so that words repeat and some are all punctuation."""
    words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=10)
    marks = st.lists(st.sampled_from([".", ",", "!"]), min_size=1, max_size=3)
    sentences = draw(st.lists(words | marks, min_size=1, max_size=2))
    return " ".join(["[CLS]", *(word for sentence in sentences for word in [*sentence, "[SEP]"])])


def assert_are_the_loops(found: BlockSums, cases: Sequence[Case], own: dict[str, OwnPart]) -> None:
    """Every sum of every block."""
    for layer in range(LAYERS):
        pairs = [case.written(layer, own) for case in cases]
        assert set(found.blocks) == {pair.block for pair in pairs}
        for block, sums in found.blocks.items():
            expected = profiles.sums(pairs, block)
            for name in set(sums) - {"words"}:
                values = sums[name][layer if len(sums[name]) > 1 else 0]
                assert_allclose(values, getattr(expected, name), rtol=1e-6, atol=1e-6, err_msg=name)
            assert sums["words"] == expected.words


@settings(deadline=None, max_examples=draws(60))
@given(
    st.lists(written_inputs(), min_size=1, max_size=4),
    st.sampled_from(["full", "causal", "windows"]),
    st.sampled_from(["token", "word"]),
    st.integers(1, HEADS),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_sums_are_those_of_plain_loops(
    texts: list[str], kind: str, unit: Unit, heads: int, padded: bool, again: bool, resting: bool, with_own: bool
) -> None:
    """Whatever a layer may see, words merged or not, in blocks of any size that come again, rows that rest."""
    cases = [case_of(text, kind, unit, seed, resting=resting) for seed, text in enumerate(texts)]
    padded &= unit == "token"  # the tap pads nothing where it is on a CPU, and merging takes one input at a time
    patterns, own = (OWN_PATTERNS, OWN_PARTS) if with_own else (PATTERNS, {})
    assert_are_the_loops(summed(cases, patterns, (), heads, padded=padded, again=again), cases, own)


@settings(deadline=None, max_examples=draws(15))
@given(st.lists(written_inputs(), min_size=1, max_size=5), st.sampled_from(["full", "causal", "windows"]))
def test_fits_are_those_of_another_solver(texts: list[str], kind: str) -> None:
    """What is explained always is, as its error; shares and their errors where no others fit as well."""
    cases = [case_of(text, kind, seed=seed) for seed, text in enumerate(texts)]
    assert_fits_are_the_loops(cases, [0])


def assert_fits_are_the_loops(cases: Sequence[Case], heads: Sequence[int]) -> int:
    """Every number of a profile, where it is determined. Returns for how many heads shares were."""
    found, unique = fit_of(cases), 0
    for layer in range(LAYERS):
        pairs = [case.written(layer, {}) for case in cases]
        for head in heads:
            place = layer, head
            expected = profiles.fit(pairs, head)
            assert expected.most_left < 1e-9
            assert_allclose(found.explained[place], expected.explained, atol=1e-6)
            assert_allclose(found.by_even[place], expected.by_even, atol=1e-6)
            assert (np.isnan(found.share[place]) == np.isnan(expected.share)).all()
            share_error, explained_error, errors_too = profiles.jackknife(pairs, head)
            assert_allclose(found.explained_se[place], explained_error, atol=1e-6)
            if expected.unique:
                unique += 1
                assert_allclose(found.share[place], expected.share, atol=1e-6)
                if errors_too:
                    assert_allclose(found.se[place], share_error, atol=1e-6)
    return unique


def texts_of(count: int, seed: int = 0) -> list[str]:
    """Pairs of sentences of one to twelve words, with which all parts can be told apart."""
    rng = np.random.default_rng(seed)
    words = [*WORDS, *(f"w{number}" for number in range(30))]
    return [
        " ".join(["[CLS]", *rng.choice(words, rng.integers(1, 13)), "[SEP]", *rng.choice(words, rng.integers(1, 13))])
        + " [SEP]"
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", ["full", "causal"])
def test_every_number_of_a_profile_is_that_of_the_loops_where_parts_differ(kind: str) -> None:
    """Of every layer's first two heads, as many blocks as there are texts left out in turn."""
    cases = [case_of(text, kind, seed=seed) for seed, text in enumerate(texts_of(9))]
    assert len({case.key for case in cases}) == 9
    assert assert_fits_are_the_loops(cases, range(2)) == 4


@settings(deadline=None, max_examples=draws(30))
@given(st.lists(written_inputs(), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_padding_order_and_sharding_change_no_sum(texts: list[str], random: Any) -> None:
    cases = [case_of(text, seed=seed) for seed, text in enumerate(texts)]
    together = summed(cases)
    shuffled = random.sample(cases, len(cases))
    for other in (
        summed(shuffled),
        reduce(add, [summed([case]) for case in shuffled]),
        summed(cases, heads_at_once=1),
    ):
        assert_equal_sums(other, together, 1e-9)
    assert_equal_sums(summed(cases, padded=True), together, 1e-6)


def assert_equal_sums(found: BlockSums, expected: BlockSums, tolerance: float) -> None:
    sums, others = found.stacked(), expected.stacked()
    assert set(sums) == set(others)
    for name, values in sums.items():
        assert_allclose(*np.broadcast_arrays(values, others[name]), rtol=tolerance, atol=tolerance, err_msg=name)


# Planted mixtures

MIXTURES: list[dict[str, float]] = [
    {"offset-1": 0.6, "start": 0.3, "own-sentence": 0.1},
    {"offset+1": 0.5, "offset+2": 0.3, "offset+3": 0.2},
    {"offset-1": 0.25, "offset-2": 0.25, "end": 0.5},
    {"end": 1.0},
    {"offset+0": 0.9, "other-sentence": 0.1},
    {"own-sentence": 0.5, "other-sentence": 0.5},
    {"punctuation": 0.4, "middle": 0.4, "offset+8": 0.2},
    {"identical": 0.7, "start": 0.3},
    {"cross-sentence": 0.8, "end": 0.2},
    {"offset-8": 0.1, "offset-5": 0.2, "offset+5": 0.3, "middle": 0.4},
    {"start": 0.2, "middle": 0.2, "end": 0.2, "punctuation": 0.2, "identical": 0.1, "own-sentence": 0.1},
]
EVERYWHERE: list[dict[str, float]] = [
    {"offset+0": 0.6, "start": 0.3, "own-sentence": 0.1},
    {"start": 0.5, "middle": 0.3, "end": 0.2},
    {"own-sentence": 0.25, "other-sentence": 0.75},
    {"end": 1.0},
]
"""Of parts that every word has, so that rows add up to 1."""


def planted(text: str, mixtures: Sequence[dict[str, float]]) -> tuple[EncodedInput, NDArray[np.float64]]:
    """An input and its mixtures' rows, by the plain loops; special tokens look at themselves.

    Shape: [mixture, query, key].
    """
    encoded = replace(input_of(text), pair=Pair(text))
    written = Written([token.lstrip("Ġ") for token in encoded.tokens], encoded.sentence)
    length = len(encoded.tokens)
    pair = WrittenPair(written, np.ones((length, length), dtype=bool), np.zeros((1, length, length)), 0)
    weights = np.broadcast_to(np.eye(length), (len(mixtures), length, length)).copy()
    for head, mixture in enumerate(mixtures):
        for i in written.words:
            weights[head, i] = sum(much * pair.row(part, i) for part, much in mixture.items())
    return encoded, weights


def case_planted(text: str, mixtures: Sequence[dict[str, float]]) -> Case:
    encoded, weights = planted(text, mixtures)
    full = torch.ones(weights.shape[1:], dtype=torch.bool)
    return Case(encoded, [full], torch.tensor(weights, dtype=torch.float32)[None])


def is_alike(mixture: dict[str, float]) -> bool:
    """Whether all words of two sentences have one row."""
    even = {"own-sentence": 0.5, "other-sentence": 0.5}
    return mixture == even or set(mixture) <= {"start", "middle", "end"}


def of_named_parts(fit: Fit, mixtures: Sequence[dict[str, float]]) -> NDArray[np.float64]:
    """Shares of heads with `same-keys` put down to the mixture, where all words have the same one: both fit alike."""
    share, expected = fit.share[0].copy(), expected_shares(mixtures, fit.existing[0])
    alike = [head for head, mixture in enumerate(mixtures) if is_alike(mixture)]
    share[alike] += share[alike, -1:] * expected[alike]
    share[alike, -1] = 0
    return share


def expected_shares(mixtures: Sequence[dict[str, float]], existing: NDArray[np.float64]) -> NDArray[np.float64]:
    """A part's coefficient times how many words have it."""
    names = parts_of()
    shares = np.zeros((len(mixtures), len(names)))
    for head, mixture in enumerate(mixtures):
        for part, much in mixture.items():
            shares[head, names.index(part)] = much * existing[names.index(part)]
    return shares


def test_planted_mixtures_are_found_and_nothing_else() -> None:
    cases = [case_planted(text, MIXTURES) for text in texts_of(40)]
    found = fit_of(cases, heads_at_once=len(MIXTURES))
    assert (found.existing[0] > 0).all()
    assert_allclose(of_named_parts(found, MIXTURES), expected_shares(MIXTURES, found.existing[0]), atol=1e-4)
    assert_allclose(found.explained[0], 1, atol=1e-6)
    for head, mixture in enumerate(MIXTURES):
        if not is_alike(mixture):  # else either of two parts takes the share, as rounding has it
            assert_allclose(found.se[0, head][found.share[0, head] < 1e-6], 0, atol=1e-4)


def test_planted_mixtures_are_found_under_noise() -> None:
    """Words that look elsewhere at random, a fifth of their weight: it lowers what is explained, not whose it is."""
    rng = np.random.default_rng(0)
    cases = []
    for text in texts_of(150):
        case = case_planted(text, EVERYWHERE)
        noise = torch.tensor(rng.dirichlet(np.ones(case.weights.shape[-1]), case.weights.shape[:3]))
        cases.append(replace(case, weights=(0.8 * case.weights + 0.2 * noise).float()))
    found = fit_of(cases)
    expected = 0.8 * expected_shares(EVERYWHERE, found.existing[0])
    strong = expected > 0.05
    for head, row in enumerate(strong):
        order = np.argsort(-of_named_parts(found, EVERYWHERE)[head, :-1])  # noise has a mean row
        assert set(order[: row.sum()]) == set(np.flatnonzero(row)), head
    assert (found.explained[0] < 0.999).all() and (found.explained[0] > 0.8).all()


def test_planted_mixtures_are_found_in_what_heads_carry() -> None:
    """Weights are the mixture divided by how long the values are, and a head that is read by weight is another."""
    rng = np.random.default_rng(1)
    heads, size, hidden = len(EVERYWHERE), 5, 7
    output = torch.tensor(rng.normal(size=(heads, size, hidden)))
    triangle = torch.linalg.qr(output.mT, mode="r").R.mT.float()
    projections, by_norm, by_weight = OutputProjections((triangle,)), [], []
    for text in texts_of(40):
        case = case_planted(text, EVERYWHERE)
        length = case.weights.shape[-1]
        values = torch.tensor(rng.normal(size=(1, heads, length, size)) * rng.uniform(0.1, 5, (1, heads, length, 1)))
        lengths = (values @ output).norm(dim=-1)
        logits = (case.weights.double() / lengths[:, :, None]).log().clip(-1e4).float()
        weights, every = logits.softmax(-1), slice(0, heads)
        block = AttentionBlock(
            Grid.square(1, heads),
            0,
            slice(0, 1),
            every,
            weights,
            case.masks[0][None],
            None,
            None,
            None,
            logits,
            values.float(),
        )
        carried = projections.carried(block)
        assert_allclose(carried.weights, case.weights, atol=1e-5)
        for found, shown in ((by_norm, carried), (by_weight, block)):
            profiler = Profiler(collate([case.encoded]), PATTERNS)
            profiler(shown)
            found.append(profile_sums(profiler.sums(), [case.key]))
    found, other = (fitted(reduce(add, sums).stacked()) for sums in (by_norm, by_weight))
    expected = expected_shares(EVERYWHERE, found.existing[0])
    assert_allclose(of_named_parts(found, EVERYWHERE), expected, atol=1e-3)
    assert_allclose(found.explained[0], 1, atol=1e-5)
    mixed = [0, 2]  # the others are of special tokens alone, and so of the same keys for all words
    assert (np.abs(of_named_parts(other, EVERYWHERE) - expected).max(-1) > 0.02)[mixed].all()


# Parts of one's own


def test_patterns_of_ones_own_are_parts_in_their_order() -> None:
    names = profiled(OWN_PATTERNS, predictive=False)
    assert names[len(names) - 9 :][:2] == ("every-other", "nearer-more")
    assert names == parts_of(["every-other", "nearer-more"])
    mixture = {"every-other": 0.7, "end": 0.3}
    cases = []
    for text in texts_of(30):
        encoded = replace(input_of(text), pair=Pair(text))
        written = Written([token.lstrip("Ġ") for token in encoded.tokens], encoded.sentence)
        length = len(encoded.tokens)
        full = np.ones((length, length), dtype=bool)
        pair = WrittenPair(written, full, np.zeros((1, length, length)), 0, OWN_PARTS)
        weights = np.zeros((1, 1, length, length))
        for i in written.words:
            weights[0, 0, i] = sum(much * pair.row(part, i) for part, much in mixture.items())
        cases.append(Case(encoded, [torch.tensor(full)], torch.tensor(weights, dtype=torch.float32)))
    found = fit_of(cases, OWN_PATTERNS, (), 1)
    shares = dict(zip(names, found.share[0, 0], strict=True))
    assert shares["every-other"] == pytest.approx(0.7, abs=1e-3)
    assert shares["end"] == pytest.approx(0.3, abs=1e-3)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    assert found.explained[0, 0] == pytest.approx(1, abs=1e-6)


def test_a_pattern_called_as_a_part_of_ours_does_not_take_its_place() -> None:
    def identical(batch: EncodedBatch) -> torch.Tensor:
        return every_other(batch)

    cases = [case_of(text, seed=seed) for seed, text in enumerate(texts_of(3))]
    own: dict[str, OwnPart] = {"another": OWN_PARTS["every-other"]}
    assert_are_the_loops(summed(cases, (PATTERNS[0], Pattern.of(identical))), cases, own)


def test_predictive_is_a_part_where_it_was_asked_for() -> None:
    text = "[CLS] the cat ran [SEP] a cat . [SEP]"
    case = case_of(text)
    matrix = np.full((9, 9), np.nan)
    matrix[1, 2:4] = 1.0, 3.0
    matrix[2, 3] = 0.1
    help_ = Help(matrix, "cpmi", 1, tuple(range(9)), 6, 9)
    names = profiled(PATTERNS, predictive=True)
    assert names == parts_of(["predictive"]) and profiled(PATTERNS, predictive=False) == parts_of()
    assert profiled(PATTERNS[:2], predictive=True) == parts_of()
    own: dict[str, OwnPart] = {
        "predictive": lambda _, i, j: float(np.nan_to_num(help_.target)[i, j]),
    }
    assert help_.target[1, 2] > 0 and help_.target[2].sum() == 0  # a tenth of a nat is no help
    assert_are_the_loops(summed([case], PATTERNS, [help_]), [case], own)


# Edges


def test_one_pair_has_no_errors() -> None:
    found = fit_of([case_of("[CLS] the cat ran [SEP] a cat . [SEP]")])
    assert np.isfinite(found.explained).all()
    assert np.isnan(found.se).all() and np.isnan(found.explained_se).all()


def test_a_head_of_no_weights_has_no_parts_and_nothing_to_explain() -> None:
    cases = [case_of(text, seed=seed) for seed, text in enumerate(texts_of(6))]
    for case in cases:
        case.weights[1, 2] = 0
    found = fit_of(cases)
    assert (np.nan_to_num(found.share[1, 2]) == 0).all()
    assert np.isnan(found.explained[1, 2]) and np.isnan(found.explained_se[1, 2])
    others = np.delete(found.explained.ravel(), 5)
    assert np.isfinite(others).all() and (others > 0).all()


def test_a_part_that_a_layer_never_has_is_none_there() -> None:
    """A window of one to either side: distances of two are not seen in the second layer, nor other sentences."""
    cases = [case_of(text, "windows", seed=seed) for seed, text in enumerate(texts_of(6))]
    found, names = fit_of(cases), parts_of()
    for part in ("offset-2", "offset+8", "other-sentence"):
        place = names.index(part)
        assert found.existing[0, place] > 0 and np.isfinite(found.share[0, :, place]).all()
        assert found.existing[1, place] == 0 and np.isnan(found.share[1, :, place]).all()


def test_parts_that_cannot_be_told_apart_still_explain_what_they_can() -> None:
    """In sentences of two words, the own sentence is the word itself and its neighbour."""
    texts = [f"[CLS] w{n} v{n} [SEP] x{n} y{n} [SEP]" for n in range(10)]
    cases = [case_planted(text, [{"own-sentence": 0.7, "end": 0.3}]) for text in texts]
    found = fit_of(cases)
    shares = dict(zip(parts_of(), np.nan_to_num(found.share[0, 0]), strict=True))
    near = shares["offset-1"] + shares["offset+0"] + shares["offset+1"] + shares["own-sentence"]
    assert near == pytest.approx(0.7, abs=1e-3) and shares["end"] == pytest.approx(0.3, abs=1e-3)
    assert found.explained[0, 0] == pytest.approx(1, abs=1e-6)


def test_attention_that_is_not_finite_is_an_error() -> None:
    case = case_of("[CLS] a cat [SEP]")
    case.weights[1, 2, 1] = torch.nan
    with pytest.raises(CaptureError, match="not finite"):
        summed([case])
