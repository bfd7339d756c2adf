"""Keys may be of another text than queries; which keys a query may see is told from saved weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor

from attnscan.inputs.batch import SPECIAL, EncodedBatch, EncodedInput, collate
from attnscan.inputs.tokens import WholeWords
from attnscan.model.attention_block import AttentionBlock, of_both_texts, visible_keys
from attnscan.results.grid import AttentionKind, Grid
from attnscan.scoring.patterns import Pattern
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.units import Units

LAYERS, HEADS = 2, 3
VOCABULARY = WholeWords.of({5: "the", 6: "cat", 7: "ran", 8: "straw"})


@dataclass(frozen=True)
class BetweenTexts:
    """Targets from the words of one text to those of another, as they are given."""

    batch: EncodedBatch
    patterns: list[Pattern]
    matrices: list[Tensor]
    units: Units
    by_query: bool = False

    def of(self, batch: EncodedBatch) -> list[Tensor]:
        assert batch.visible is not None
        return [matrix * batch.visible for matrix in self.matrices]


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
    targets = [Pattern(name, name, None, "", even=name == "even", part_of=part_of.get(name)) for name in matrices]
    sentence = (*(0 if word else SPECIAL for word in is_key), SPECIAL, *[1] * (queries - 1))
    size = keys + queries
    encoded = EncodedInput(("cat",) * size, sentence, tuple(range(size)), (False,) * size, source=keys)
    batch = collate([encoded])
    given_targets: Any = BetweenTexts(
        batch, targets, [torch.tensor(matrix)[None] for matrix in matrices.values()], Units(batch)
    )
    scorer = Scorer(given_targets)
    rows, seen = (
        torch.tensor(weights, dtype=torch.float32)[None],
        of_both_texts(torch.tensor(visible)[None], [(queries, keys)]),
    )
    grid = Grid((1, HEADS), AttentionKind.CROSS)
    block = AttentionBlock(grid, 0, slice(0, 1), slice(0, HEADS), rows, seen, None, None, None, None)
    scorer(block)
    sums = scorer.sums()
    for kind, mask in (("every_key", np.ones(keys)), ("words_only", is_key)):
        for head, p in np.ndindex(HEADS, len(targets)):
            seen = matrices[targets[p].id] * visible
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


def test_a_causal_mask_is_told_beside_padding() -> None:
    """Two tokens of padding in front spread over everything, as softmax does where all is hidden; words look back."""
    weights = torch.tensor([[0.25] * 4, [0.25] * 4, [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.5, 0.5]])[None, None]
    visible = visible_keys(weights, torch.tensor([[False, False, True, True]]))[0]
    assert visible[2:].tolist() == [[False, False, True, False], [False, False, True, True]]


def test_without_padding_every_distance_that_any_head_attends_to_is_seen() -> None:
    ahead = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    visible = visible_keys(torch.stack([ahead, torch.eye(3)])[None], torch.ones(1, 3, dtype=torch.bool))[0]
    assert visible.tolist() == [[True, True, False], [False, True, True], [False, False, True]]
