"""Which neurons of a head's queries and keys make its pattern: a consumer of attention blocks.

A *neuron* is one of the d dimensions of a head. What it adds to the logit of a key is q_n k_n scaled. The
*contrast* of a query is what each neuron adds to its target keys beyond what it adds to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from attnscan.model.tap import AttentionBlock
from attnscan.results.explanation import NeuronTable
from attnscan.results.heads import Head
from attnscan.results.scores import FloatArray
from attnscan.scoring.targets import Targets

_STRONGEST = 4
_SILENT = 1e-4  # of the strongest neuron's contrast: one with less takes no part


@dataclass(frozen=True)
class NeuronSums:
    """Sums over queries. Shape: each [layer, head, pattern], float64; they add."""

    effective: FloatArray
    """Of each query's effective neurons."""
    queries: FloatArray
    """Eligible queries that any neuron tells their targets for."""
    overlap: FloatArray
    """Of the Jaccard overlap of two queries' strongest neurons, over all twos of one input."""
    twos: FloatArray
    agree: FloatArray
    """Of 1 for each query whose strongest neurons agree in sign inside its sentence and differ across."""
    with_both: FloatArray
    """Queries with words in their own and in the other sentence."""

    def __add__(self, other: NeuronSums) -> NeuronSums:
        return NeuronSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def finish(self) -> NeuronTable:
        """The means; NaN where there was nothing to take one of."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return NeuronTable(self.effective / self.queries, self.overlap / self.twos, self.agree / self.with_both)


class NeuronScorer:
    """A consumer that measures the neurons of one batch, of all heads and patterns or of some."""

    def __init__(
        self,
        targets: Targets,
        only: Sequence[Head] | None = None,
        pattern: str | None = None,
    ) -> None:
        self._batch, self._targets = targets.batch, targets
        self._chosen = [p for p, known in enumerate(targets.patterns) if pattern in (None, known.id)]
        self._only = None if only is None else set(only)
        self._kept: dict[str, Tensor] = {}
        self._parts: dict[tuple[int, int, int, int], _Part] = {}

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; of models that show no queries there is nothing to take."""
        if block.query is None or block.key is None or block.scaling is None:
            return
        first, last, _ = block.heads.indices(block.grid[1])
        heads = [h for h in range(first, last) if self._only is None or (block.layer, h) in self._only]
        if not heads:
            return
        if not self._kept:
            shape = (len(self._batch), *block.grid, len(self._targets.patterns))
            self._kept = {f.name: torch.zeros(shape, dtype=torch.float64) for f in fields(NeuronSums)}
        start, stop, _ = block.inputs.indices(len(self._batch))
        part = self._part(start, stop, block)
        chosen = [h - first for h in heads]
        query, key = block.query[:, chosen].float(), block.key[:, chosen].float()
        inside, outside = part.inside[:, None] @ key, part.outside[:, None] @ key
        for p in self._chosen:
            contrast = (part.contrasts[p][:, None] @ key) * query * block.scaling
            found = _measure(query, contrast, part, p, inside, outside)
            for name, values in found.items():
                self._kept[name][start:stop, block.layer, heads, p] = values.double().cpu()

    def sums(self) -> NeuronSums | None:
        """The batch's sums; None if the model showed no queries."""
        return (
            NeuronSums(**{name: values.sum(0).numpy() for name, values in self._kept.items()}) if self._kept else None
        )

    def _part(self, start: int, stop: int, block: AttentionBlock) -> _Part:
        """What some inputs of one length are measured by, made once for all layers of one mask."""
        length = block.query.shape[2] if block.query is not None else 0
        key = (start, stop, length, id(block.visible))
        if key not in self._parts:
            own = (slice(start, stop), slice(length), slice(length))
            matrices = [target.matrix[own].float() for target in self._targets.under(block.visible)]
            word, visible = self._batch.word[own[:2]], block.visible[own]
            same = self._batch.same_sentence[own]
            self._parts[key] = _Part(
                visible=block.visible,
                contrasts=[_mean(m) - _mean((visible & (m == 0)).float()) for m in matrices],
                eligible=[m.any(-1) & (visible & (m == 0)).any(-1) for m in matrices],
                inside=_mean(same.float()),
                outside=_mean((word[:, :, None] & word[:, None, :] & ~same).float()),
            )
        return self._parts[key]


@dataclass(frozen=True)
class _Part:
    """What some inputs of one length are measured by.

    Shape: each [batch, query, key]; of `eligible`, [batch, query].
    """

    visible: Tensor
    """Kept alive, so that its id stays its own."""
    contrasts: list[Tensor]
    """For each pattern: the mean over target keys less the mean over the other keys that are visible."""
    eligible: list[Tensor]
    inside: Tensor
    """The mean over words of the query's sentence."""
    outside: Tensor
    """The mean over words of the other sentence; zero where there is none."""


def _measure(
    query: Tensor, contrast: Tensor, part: _Part, p: int, inside: Tensor, outside: Tensor
) -> dict[str, Tensor]:
    """The sums of one pattern. Shape: [batch, head, query, neuron] -> each [batch, head]."""
    size = contrast.abs()
    strength = contrast.square().sum(-1)
    counted = (part.eligible[p][:, None] & (strength > 0)).float()
    effective = size.sum(-1).square() / strength.clip(torch.finfo(torch.float32).tiny) * counted

    best, which = size.topk(min(_STRONGEST, size.shape[-1]), dim=-1)
    takes_part = (best > _SILENT * best[..., :1]).float() * counted[..., None]
    strong = torch.zeros_like(size).scatter_(-1, which, takes_part)  # [batch, head, query, neuron]
    shared, members = strong @ strong.transpose(-1, -2), strong.sum(-1)
    union = members[..., :, None] + members[..., None, :] - shared
    overlap = torch.where(union > 0, shared / union.clip(1), 0.0)
    number = counted.sum(-1)

    both = counted * (part.outside.any(-1) & part.inside.any(-1))[:, None]
    products = [(query * keys * strong).sum(-1) for keys in (inside, outside)]
    agree = ((products[0] > 0) & (products[1] < 0)).float() * both
    return {
        "effective": effective.sum(-1),
        "queries": number,
        "overlap": (overlap.sum((-1, -2)) - number) / 2,  # every query overlaps with itself by 1
        "twos": number * (number - 1) / 2,
        "agree": agree.sum(-1),
        "with_both": both.sum(-1),
    }


def _mean(mask: Tensor) -> Tensor:
    """A row of weights that takes the mean over a mask's keys, by their values; zero where there are none."""
    return mask / mask.sum(-1, keepdim=True).clip(torch.finfo(torch.float32).tiny)
