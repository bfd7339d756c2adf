"""Targets: patterns applied to one batch, checked, and how they relate to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscan.errors import OptionError
from attnscan.inputs.batch import EncodedBatch
from attnscan.results.dependencies import Help
from attnscan.scoring.patterns import PATTERNS, Pattern


@dataclass(frozen=True)
class Target:
    """A pattern's target for one batch, and how to measure weights against it."""

    id: str
    matrix: Tensor
    """Shape: [batch, query, key], bool or float in [0, 1]; a query with a zero row is not eligible."""
    even: bool = False
    """Score min(weight, target) instead of weight x target."""
    part_of: str | None = None
    """The id of the wider target that this is a part of."""

    def if_any(self, ids: Sequence[str]) -> Target:
        """The same if its id is among some; else one that no query is eligible for."""
        return self if self.id in ids else replace(self, matrix=torch.zeros_like(self.matrix))


def targets_of(batch: EncodedBatch, patterns: Sequence[Pattern], helps: Sequence[Help] = ()) -> list[Target]:
    """The targets of one batch. For the pattern that only the model can tell, no query is eligible without `helps`."""
    asked = torch.zeros_like(batch.same_sentence, dtype=torch.float32)
    for row, found in zip(asked, helps, strict=False):
        target = torch.from_numpy(found.target).to(row)
        row[: len(target), : len(target)] = target
    return [Target(p.id, asked if p.target is None else _target(p, batch), p.even, p.part_of) for p in patterns]


def _target(pattern: Pattern, batch: EncodedBatch) -> Tensor:
    """A pattern's own matrix, which nobody has checked if it is not one of ours.

    Raises: OptionError if it is no target of this batch.
    """
    assert pattern.target is not None
    matrix = pattern.target(batch)
    if pattern in PATTERNS:
        return matrix
    remedy = "return a tensor [batch, query, key] of bool, or of numbers from 0 to 1"
    if not isinstance(matrix, Tensor):
        raise OptionError(f"pattern '{pattern.id}' gives a {type(matrix).__name__}", remedy)
    if matrix.shape != batch.same_sentence.shape:
        due = list(batch.same_sentence.shape)
        raise OptionError(f"pattern '{pattern.id}' gives a target of shape {list(matrix.shape)}, not {due}", remedy)
    target = matrix.to(batch.word.device, torch.bool if matrix.dtype == torch.bool else torch.float32)
    if target.dtype != torch.bool and not ((target >= 0) & (target <= 1)).all():
        raise OptionError(f"pattern '{pattern.id}' gives numbers outside [0, 1]", remedy)
    return target
