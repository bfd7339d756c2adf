"""Which neurons of queries and keys a head's pattern rests on, in the basis that the checkpoint has and in others.

A *neuron* is one of the d dimensions of a head. What it adds to the logit of a key is q_n k_n scaled. The
*contrast* of a query is what each neuron adds to its target keys beyond what it adds to the others. Rotating queries
and keys together changes no weight, so that what rotated bases show as well is no finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock
from attnscan.results.explanation import NeuronTable
from attnscan.results.grid import AttentionKind, Grid, Head
from attnscan.results.scores import FloatArray
from attnscan.scoring.targets import Targets
from attnscan.studies.passes import generator

ROTATIONS = 8
SUMS = ("effective", "queries", "overlap", "twos", "agree", "with_both")
"""What is summed over queries: their effective neurons, and how many they are; the overlap of two queries' strongest
neurons, and of how many twos; 1 where these agree in sign inside the sentence and differ across, and of how many."""
_STRONGEST = 4
_TOGETHER = 1 << 20  # numbers of a basis that are worked on at once: more fall out of the cache
_MOST_QUERIES = 1024  # of an input: what two have in common is counted for every two
_SILENT = 1e-4  # of the strongest neuron's contrast: one with less takes no part


def neuron_table(sums: FloatArray) -> NeuronTable:
    """The means; NaN where there was nothing to take one of. Shape: [sum, basis, layer, head, pattern]."""
    effective, queries, overlap, twos, agree, with_both = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        return NeuronTable(effective / queries, overlap / twos, agree / with_both)


def orthogonal(rng: np.random.Generator, count: int, size: int) -> NDArray[np.float64]:
    """Orthogonal matrices, every one as probable as any other. Shape: [count, size, size].

    Q of a Gaussian matrix's QR is so only if R's diagonal is positive, which the algorithm leaves open.
    Source: Mezzadri, "How to Generate Random Matrices from the Classical Compact Groups", Notices of the AMS 54 (2007).
    """
    q, r = np.linalg.qr(rng.standard_normal((count, size, size)))
    turned: NDArray[np.float64] = q * np.sign(np.einsum("rii->ri", r))[:, None, :]
    return turned


@lru_cache(maxsize=1024)
def rotations(seed: int, layer: int, head: int, size: int) -> Tensor:
    """A head's random orthogonal matrices, the same for all inputs. Shape: [rotation, size, size], float32."""
    return torch.from_numpy(orthogonal(generator(seed, layer, head), ROTATIONS, size)).float()


@dataclass(frozen=True)
class _Question:
    """One pattern's eligible queries, those of an input in a row, and what tells their targets."""

    queries: Tensor
    """Their numbers; behind an input's last one, any. Shape: [batch, eligible]."""
    counted: Tensor
    """Whether there is one. Shape: [batch, eligible], bool."""
    contrast: Tensor
    """The mean over target keys less the mean over the other keys that are visible. Shape: [batch, eligible, key]."""


@dataclass(frozen=True)
class _Masks:
    """What inputs of one length and mask are measured by."""

    visible: Tensor
    """Kept alive, so that its id stays its own."""
    questions: dict[int, _Question]
    """By the number of the pattern; those that any query is eligible for."""
    inside: Tensor
    """The mean over words of the query's sentence. Shape: [batch, query, key]."""
    outside: Tensor
    """The mean over words of the other sentence; zero where there is none. Shape: [batch, query, key]."""
    both: Tensor
    """Which queries have words in both. Shape: [batch, query], bool."""


class NeuronScorer:
    """A consumer that measures the neurons of one batch, of all heads and patterns or of some."""

    def __init__(
        self, targets: Targets, seed: int, only: Sequence[Head] | None = None, pattern: str | None = None
    ) -> None:
        self._targets, self._seed = targets, seed
        self._patterns = [p for p, known in enumerate(targets.patterns) if pattern in (None, known.id)]
        self._only = None if only is None else {head.place for head in only}
        self._kept: dict[tuple[int, int, int], tuple[list[int], list[int], FloatArray]] = {}
        """By layer, first head and first input of a block: its heads, its patterns, and their sums over its inputs."""
        self._grid: Grid | None = None
        self._masks: dict[tuple[int, int, int, int], _Masks] = {}

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; of models that show no queries there is nothing to take."""
        if block.query is None or block.key is None or block.scaling is None:
            self._kept.clear()  # all blocks come once more, and these have none
            return
        first, last, _ = block.heads.indices(block.grid.shape[1])
        heads = [h for h in range(first, last) if self._only is None or (block.layer, h) in self._only]
        if not heads:
            return
        self._grid = block.grid
        start, stop, _ = block.inputs.indices(len(self._targets.batch))
        length = block.query.shape[2]
        asked = slice(0, length, -(-length // _MOST_QUERIES))  # all or, of a long input, some that are spread evenly
        key_of_masks = (start, stop, length, id(block.visible))
        if key_of_masks not in self._masks:
            self._masks[key_of_masks] = self._masks_of(block, slice(start, stop), length, asked)
        masks, chosen = self._masks[key_of_masks], [h - first for h in heads]
        query, key = block.query[:, chosen][:, :, asked].float() * block.scaling, block.key[:, chosen].float()
        turns = torch.stack([rotations(self._seed, block.layer, head, query.shape[-1]) for head in heads], 1)
        sums = _measure_bases(query, key, masks, turns.to(query.device)).cpu().double().sum(2).numpy()
        self._kept[block.layer, first, start] = heads, list(masks.questions), sums

    def sums(self) -> FloatArray | None:
        """The batch's sums; None without queries. Shape: [sum, basis, layer, head, pattern]; first the own basis."""
        if not self._kept or self._grid is None:
            return None
        total = np.zeros((len(SUMS), 1 + ROTATIONS, *self._grid.shape, len(self._targets.patterns)))
        for (layer, _, _), (heads, patterns, sums) in self._kept.items():
            total[:, :, layer, np.array(heads)[:, None], patterns] += sums
        return total

    def _masks_of(self, block: AttentionBlock, inputs: slice, length: int, asked: slice) -> _Masks:
        """Made once for all layers of one mask."""
        batch, across = self._targets.batch, block.grid.kind is AttentionKind.CROSS
        rows, columns = (block.rows, block.columns) if across else (slice(length), slice(length))
        visible = block.visible[inputs, rows, columns][:, asked]
        same = batch.same_sentence[inputs, rows, columns][:, asked]
        word = batch.word[inputs]
        # Across, all keys are of the other text, and no query has words of its own sentence beside them
        other = word[:, rows, None][:, asked] & word[:, None, columns] & ~same & (not across)
        seen = batch.of_range(inputs, rows, columns, block.visible[inputs, rows, columns])
        matrices = self._targets.of(seen)
        questions = {}
        for p in self._patterns:
            matrix = matrices[p][:, asked].float()
            others = visible & (matrix == 0)
            eligible = matrix.any(-1) & others.any(-1)
            if eligible.any():
                counted, queries = torch.sort(eligible.int(), dim=-1, descending=True, stable=True)
                most = int(eligible.sum(-1).max())
                counted, queries = counted[:, :most].bool(), queries[:, :most]
                contrast = _mean(matrix) - _mean(others.float())
                contrast = contrast.gather(1, queries[..., None].expand(-1, -1, contrast.shape[-1]))
                questions[p] = _Question(queries, counted, contrast)
        both = same.any(-1) & other.any(-1)
        return _Masks(block.visible, questions, _mean(same.float()), _mean(other.float()), both)


def _mean(mask: Tensor) -> Tensor:
    """A row of weights that takes the mean over a mask's keys, by their values; zero where there are none."""
    return mask / mask.sum(-1, keepdim=True).clip(torch.finfo(torch.float32).tiny)


def _measure_bases(query: Tensor, key: Tensor, masks: _Masks, turns: Tensor) -> Tensor:
    """The sums of all patterns in all bases; means over keys are taken once, and rotated in place of the keys.

    Shape: `query`, scaled, and `key` are [batch, head, token, neuron], `turns` [rotation, head, neuron, neuron];
    -> [sum, basis, batch, head, pattern].
    """
    means = [masks.inside[:, None] @ key, masks.outside[:, None] @ key]
    contrasts = [question.contrast[:, None] @ key for question in masks.questions.values()]
    own = torch.eye(query.shape[-1], device=query.device).expand(1, *turns.shape[1:])
    rows = query[..., 0].numel() * max(query.shape[-2:])
    parts = []
    for bases in torch.split(torch.cat([own, turns]), max(1, _TOGETHER // rows)):
        turned, inside, outside, *apart = (values @ bases[:, None] for values in (query, *means, *contrasts))
        signs = [turned * inside, turned * outside] if masks.both.any() else []
        sums = [
            _measure(turned, contrast, question, masks.both, signs)
            for question, contrast in zip(masks.questions.values(), apart, strict=True)
        ]
        parts.append(torch.stack(sums, -1) if sums else turned.new_zeros(len(SUMS), *turned.shape[:3], 0))
    return torch.cat(parts, 1)


def _measure(query: Tensor, keys: Tensor, question: _Question, both: Tensor, signs: Sequence[Tensor]) -> Tensor:
    """The sums of one pattern in some bases, as `SUMS` names them.

    Shape: `query` is [basis, batch, head, token, neuron], `keys`, those of targets less others, likewise for eligible
    queries; `signs`, what every neuron adds inside the sentence and across, each that of `query`;
    -> [sum, basis, batch, head].
    """
    chosen = question.queries[:, None, :, None]
    contrast = query.gather(3, chosen.expand(keys.shape)) * keys
    size, strength = contrast.abs(), contrast.square().sum(-1)
    counted = (question.counted[:, None] & (strength > 0)).float()
    effective = size.sum(-1).square() / strength.clip(torch.finfo(torch.float32).tiny) * counted

    best, which = size.topk(min(_STRONGEST, size.shape[-1]), dim=-1)
    takes_part = (best > _SILENT * best[..., :1]).float() * counted[..., None]
    strong = torch.zeros_like(size).scatter_(-1, which, takes_part)  # [basis, batch, head, eligible, neuron]
    shared, members = strong @ strong.transpose(-1, -2), strong.sum(-1)
    union = members[..., :, None] + members[..., None, :] - shared
    overlap, number = (shared / union.clip(1)).sum((-1, -2)), counted.sum(-1)

    agree = with_both = torch.zeros_like(number)
    if signs:
        places = (chosen * size.shape[-1] + which).flatten(3)  # among an input's tokens and neurons
        inside, outside = (
            (signed.flatten(3).gather(3, places).view_as(which) * takes_part).sum(-1) for signed in signs
        )
        of_both = both.gather(1, question.queries)[:, None] * counted
        agree, with_both = (((inside > 0) & (outside < 0)) * of_both).sum(-1), of_both.sum(-1)
    # every query overlaps with itself by 1
    return torch.stack([effective.sum(-1), number, (overlap - number) / 2, number * (number - 1) / 2, agree, with_both])
