"""Keys may be of another text than queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor
from written import input_of

from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.tokens import WholeWords
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.terms import Scored
from attnscan.scoring.merging import Units
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Target

LAYERS, HEADS = 2, 3
VOCABULARY = WholeWords.of({5: "the", 6: "cat", 7: "ran", 8: "straw"})


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

    def of_block(self, _: AttentionBlock, block: AttentionBlock) -> list[Target]:
        own = (block.inputs, block.rows, block.columns)
        return [replace(target, matrix=(target.matrix[own] * block.visible[own])) for target in self.targets]


@settings(deadline=None, max_examples=draws(40))
@given(queries=st.integers(1, 9), keys=st.integers(1, 9), seed=st.integers(0, 999))
def test_keys_of_another_text_are_scored_as_plain_loops_do(queries: int, keys: int, seed: int) -> None:
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

    def among_both(values: NDArray[Any]) -> Tensor:
        """Queries are tokens behind all keys. Shape: [query, key] -> [1, token, token]."""
        return torch.tensor(np.pad(values, ((keys, 0), (0, queries))))[None]

    targets = [Target(name, among_both(matrix), name == "even", part_of.get(name)) for name, matrix in matrices.items()]
    batch = collate([input_of(" ".join(["cat"] * keys + ["[CLS]"] + ["cat"] * (queries - 1)))])
    of_keys = torch.tensor(np.pad(is_key, (0, queries)))[None]
    given_targets: Any = BetweenTexts(batch, (batch.word, of_keys), targets, Units(batch))
    scorer = Scorer(given_targets)
    given = (among_both(visible), None, None, None, None)
    rows = torch.tensor(weights)[None]
    block = AttentionBlock(Grid((1, HEADS)), 0, slice(0, 1), slice(0, HEADS), rows, *given)
    scorer(replace(block, kind=AttentionKind.CROSS))
    sums = scorer.pair_sums()
    for kind, mask in (("every_key", np.ones(keys)), ("words_only", is_key)):
        for head, p in np.ndindex(HEADS, len(targets)):
            seen = targets[p].matrix[0, keys:, :keys].numpy() * visible
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
