"""Blocks of some queries add up to the whole; keys may be of another text than queries; what heads carry is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor
from written import input_of

from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.tokens import Unit, WholeWords
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.terms import Scored
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.merging import Units, View
from attnscan.scoring.patterns import PATTERNS, Pattern
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Rows, Target, Targets

LAYERS, HEADS = 2, 3
VOCABULARY = WholeWords.of({5: "the", 6: "cat", 7: "ran", 8: "straw"})


def nearer_more(batch: EncodedBatch) -> Tensor:
    """Each word looks at everything, at what is near the most."""
    return (1 / (1 + batch.offset.abs())).expand_as(batch.same_sentence)


EVERY = (*PATTERNS, Pattern.of(nearer_more))
Sums = dict[str, NDArray[np.float64]]


def of_scores(batch: EncodedBatch) -> tuple[Scorer, Callable[[Scorer], Sums]]:
    return Scorer(Targets(batch, EVERY)), lambda scorer: {
        **scorer.pair_sums(),
        **vars_of(scorer.sums(), "entropy words"),
    }


def of_words(batch: EncodedBatch) -> tuple[Scorer, Callable[[Scorer], Sums]]:
    return Scorer(Targets(batch, EVERY), by_query=True), Scorer.word_sums


def of_classes(batch: EncodedBatch) -> tuple[ClassScorer, Callable[[ClassScorer], Sums]]:
    return ClassScorer(batch, special=True), ClassScorer.sums


def of_classes_of_words(batch: EncodedBatch) -> tuple[ClassScorer, Callable[[ClassScorer], Sums]]:
    return ClassScorer(batch, special=False, by_query=True), ClassScorer.sums


def vars_of(sums: Any, names: str) -> Sums:
    return {name: getattr(sums, name) for name in names.split()}


@dataclass(frozen=True)
class Case:
    """Some inputs with random attention, and where their queries and heads are cut."""

    batch: EncodedBatch
    weights: Tensor
    """Shape: [layer, batch, head, query, key], float64."""
    visible: Tensor
    idle: Tensor | None
    with_logits: bool
    queries: list[int]
    heads: list[int]
    borders: list[int]
    """Of words, behind the first."""

    def blocks(self, *, cut: bool) -> Iterator[AttentionBlock]:
        """As a tap would show them; heads are cut alike, so that nothing else differs."""
        ends = self.queries if cut else [0, self.weights.shape[-1]]
        for layer in range(LAYERS):
            for heads in (slice(*ends_of_heads) for ends_of_heads in pairwise(self.heads)):
                for preview in (True, False) if cut else (False,):
                    for start, stop in pairwise(ends):
                        yield self.block(layer, heads, slice(start, stop) if cut else slice(None), preview)

    def block(self, layer: int, heads: slice, queries: slice, preview: bool) -> AttentionBlock:
        """Some rows; of a range of queries, with no more keys than these may see and borders of words allow."""
        keys, weights = slice(None), self.weights[layer]
        if queries != slice(None):
            seen = self.visible[:, queries].any((0, 1)).nonzero()
            stop = next(border for border in [*self.borders, weights.shape[-1]] if border > int(seen[-1]))
            keys = slice(max(border for border in [0, *self.borders] if border <= int(seen[0])), stop)
        rows = weights[:, heads, queries, keys]
        logits = rows.clip(1e-30).log() if self.with_logits else None
        idle = None if self.idle is None else self.idle[:, heads, queries]
        given = (rows, self.visible, None, None, None, logits, None, idle)
        block = AttentionBlock(Grid.square(LAYERS, HEADS), layer, slice(0, len(weights)), heads, *given)
        return replace(block, queries=queries, keys=keys, length=weights.shape[-1], preview=preview)


@st.composite
def cases(draw: st.DrawFn, unit: Unit, most: int) -> Case:
    word = st.sampled_from(["the", "cat", "Cat", "ran", "straw", "##berries", ".", ","])
    sentence = st.lists(word, min_size=1, max_size=9).map(" ".join)
    texts = draw(st.lists(st.lists(sentence, min_size=1, max_size=2).map(" [SEP] ".join), min_size=1, max_size=most))
    inputs = [input_of(f"[CLS] {text} [SEP]", unit) for text in texts]
    batch, lengths = collate(inputs, vocabulary=VOCABULARY), [len(one.tokens) for one in inputs]
    width, causal, window = max(lengths), draw(st.booleans()), draw(st.integers(1, 20))
    near = (torch.arange(width) - torch.arange(width)[:, None]).abs() <= window
    visible = torch.zeros(len(texts), width, width, dtype=torch.bool)
    for row, length in enumerate(lengths):
        visible[row, :length, :length] = torch.ones(length, length).tril().bool() if causal else True
    visible &= near
    logits = np.random.default_rng(draw(st.integers(0, 99))).normal(0, 2, (LAYERS, len(texts), HEADS, width, width))
    weights = torch.tensor(np.exp(logits)) * visible[None, :, None]
    weights /= weights.sum(-1, keepdim=True).clip(1e-9)
    idle = None
    if draw(st.booleans()):
        idle = torch.zeros(*weights.shape[1:4], dtype=torch.bool)
        idle[:, 1, draw(st.integers(0, width - 1))] = True
        weights = weights.masked_fill(idle[None, ..., None], 0)
    borders = list(inputs[0].first_tokens)[1:] if unit == "word" else list(range(1, width))
    cuts = sorted(draw(st.sets(st.sampled_from(borders), max_size=4))) if borders else []
    heads = [0, *sorted(draw(st.sets(st.integers(1, HEADS - 1)))), HEADS]
    return Case(batch, weights, visible, idle, draw(st.booleans()), [0, *cuts, width], heads, borders)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize(
    ("consumer_of", "most", "dtype"),
    [
        (of_scores, 3, torch.float64),  # else the order in which ranges are added would be seen
        (of_words, 1, torch.float64),
        (of_classes, 3, torch.float32),
        (of_classes_of_words, 1, torch.float32),
    ],
)
@settings(deadline=None, max_examples=draws(24))
@given(data=st.data())
def test_ranges_of_queries_add_up_to_the_whole(
    consumer_of: Any, most: int, dtype: torch.dtype, unit: Unit, data: st.DataObject
) -> None:
    """Whatever came before: a model that turns out not to call the tap shows all blocks once more."""
    case = data.draw(cases(unit, most=1 if unit == "word" else most))
    case = replace(case, weights=case.weights.to(dtype))
    found = []
    for cut in (False, True):
        consumer, sums_of = consumer_of(case.batch)
        for block in case.blocks(cut=True) if data.draw(st.booleans()) else ():
            consumer(replace(block, weights=block.weights * 0.7))
        for block in case.blocks(cut=cut):
            consumer(block)
        found.append(sums_of(consumer))
    whole, ranges = found
    assert whole.keys() == ranges.keys()
    for name, values in whole.items():
        assert_allclose(ranges[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


def test_ranges_of_queries_are_kept_at_their_places() -> None:
    weights = torch.rand(LAYERS, 1, HEADS, 5, 5)
    neurons = torch.rand(1, HEADS, 5, 4)
    keeper = AttentionKeeper()
    for layer in range(LAYERS):
        for start, stop in ((0, 2), (2, 5)):
            rows, given = (
                slice(start, stop),
                (torch.ones(1, 5, 5, dtype=torch.bool), neurons[:, :, start:stop], neurons),
            )
            block = AttentionBlock(
                Grid.square(LAYERS, HEADS),
                layer,
                slice(0, 1),
                slice(0, HEADS),
                weights[layer, :, :, rows],
                *given,
                0.5,
                None,
            )
            keeper(replace(block, queries=rows))
    kept = keeper.attention(input_of("[CLS] the cat ran [SEP]"))
    assert_allclose(kept.weights, weights[:, 0])
    assert kept.query is not None and kept.key is not None
    assert_allclose(kept.query[1], neurons[0])
    assert_allclose(kept.key[1], neurons[0])


@dataclass(frozen=True)
class BetweenTexts:
    """Targets from the words of one text to those of another, as they are given."""

    batch: EncodedBatch
    is_word: tuple[Tensor, Tensor]
    targets: list[Target]
    units: Units

    @property
    def scored(self) -> tuple[Scored, ...]:
        return tuple(Scored(target.id, target.part_of) for target in self.targets)

    def of_rows(self, _: AttentionBlock, block: AttentionBlock) -> Rows:
        own = (block.inputs, block.rows, slice(None))
        targets = [replace(target, matrix=(target.matrix[own] * block.visible[own])) for target in self.targets]
        return Rows(targets, View(self.batch, own, block.columns, self.batch))


@settings(deadline=None, max_examples=draws(40))
@given(queries=st.integers(1, 9), keys=st.integers(1, 9), seed=st.integers(0, 999), cut=st.integers(0, 8))
def test_keys_of_another_text_are_scored_as_plain_loops_do(queries: int, keys: int, seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    few = rng.random((queries, keys)) < 0.2
    matrices = {
        "wide": few | (rng.random((queries, keys)) < 0.3),
        "part": few,
        "even": np.full((queries, keys), 1 / keys),
    }
    matrices["many"] = rng.random((queries, keys)) * (rng.random((queries, 1)) < 0.7)
    visible, is_key = rng.random((queries, keys)) < 0.8, rng.random(keys) < 0.7
    weights = rng.random((HEADS, queries, keys)) ** 3 * visible
    weights /= weights.sum(-1, keepdims=True).clip(1e-9)
    part_of = {"part": "wide"}
    targets = [
        Target(name, torch.tensor(matrix)[None], name == "even", part_of.get(name)) for name, matrix in matrices.items()
    ]
    batch = collate([input_of(" ".join(["[CLS]", *["cat"] * (queries - 1)]))])
    given_targets: Any = BetweenTexts(batch, (batch.word, torch.tensor(is_key)[None]), targets, Units(batch))
    scorer = Scorer(given_targets)
    for start, stop in pairwise(sorted({0, min(cut, queries), queries})):
        rows, given = slice(start, stop), (torch.tensor(visible)[None], None, None, None, None)
        block = AttentionBlock(
            Grid.square(1, HEADS), 0, slice(0, 1), slice(0, HEADS), torch.tensor(weights)[None, :, rows], *given
        )
        scorer(replace(block, queries=rows, kind=AttentionKind.CROSS))
    sums = scorer.pair_sums()
    for kind, mask in (("every_key", np.ones(keys)), ("words_only", is_key)):
        for head, p in np.ndindex(HEADS, len(targets)):
            seen = targets[p].matrix[0].numpy() * visible
            expected = by_loops(weights[head], seen, visible, mask, even=targets[p].even)
            found = [sums[f"{kind}.{name}"][0, 0, head, p] for name in ("weight", "n", "chance", "itself")]
            assert_allclose(found, [*expected, 0], atol=1e-6, err_msg=targets[p].id)


def by_loops(
    weights: NDArray[Any], target: NDArray[Any], visible: NDArray[Any], mask: NDArray[Any], *, even: bool
) -> tuple[float, int, float]:
    """The weight on a target, how many queries are eligible, and their weight by chance."""
    on, n, chance = 0.0, 0, 0.0
    of_words = not mask.all() or mask.dtype == bool
    for row, goal, sees in zip(weights, target, visible, strict=True):
        left = row @ mask
        goal = goal * mask
        if not goal.any() or (of_words and left < 1e-6):
            continue
        by_chance = sees / max(sees.sum(), 1) * mask
        if of_words:
            row, by_chance = row * mask / left, by_chance / max(by_chance.sum(), 1e-6)
        n += 1
        on += np.minimum(row, goal).sum() if even else row @ goal
        chance += np.minimum(by_chance, goal).sum() if even else by_chance @ goal
    return on, n, chance
