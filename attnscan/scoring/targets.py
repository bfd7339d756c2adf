"""Targets: patterns applied to one batch, checked, and how they relate to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.errors import AttnscanError, OptionError, out_of_memory
from attnscan.inputs.batch import EncodedBatch
from attnscan.results.dependencies import Help
from attnscan.results.terms import Scored
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import Pattern
from attnscan.scoring.units import Units


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


@dataclass(frozen=True)
class Targets:
    """Patterns applied to one batch, under whatever mask a layer has: what a query cannot see is no target of it."""

    batch: EncodedBatch
    patterns: Sequence[Pattern]
    helps: Sequence[Help] = ()
    """Of each input, for the pattern that only the model can tell; without them no query is eligible for it."""
    only: Sequence[str] | None = None
    """The patterns that count; None for all. For the others no query is eligible."""

    @cached_property
    def units(self) -> Units:
        """The batch by its units."""
        return Units(self.batch)

    @property
    def scored(self) -> tuple[Scored, ...]:
        """The patterns, as results call them."""
        return tuple(pattern.scored for pattern in self.patterns)

    def under(self, visible: Tensor) -> list[Target]:
        """The targets of the whole batch under a mask. Shape: [batch, query, key], bool, of tokens.

        Raises: OptionError if a pattern that is not ours gives no target of this batch.
        """
        return self.of(self.batch.under(visible))

    def of_layers(
        self, visible: NDArray[np.bool_], rows: Sequence[int] | None = None
    ) -> tuple[NDArray[np.float32], ...]:
        """What a head that follows each pattern gives to each key of the batch's single input, under each layer's mask.

        Of some neighbouring `rows` alone if these are given; none where a pattern is not ours, which looks at all rows.
        Shape: `visible` [layer, query, key], of tokens -> of each layer [pattern, query, key], of units, in [0, 1];
        layers with equal masks share the array.
        Raises: OptionError as `under`.
        """
        if rows is not None and any(map(_is_own, self.patterns)):
            return ()
        asked = slice(None) if rows is None else slice(rows[0], rows[-1] + 1)
        made: dict[bytes, NDArray[np.float32]] = {}
        for mask in visible:
            if mask.tobytes() not in made:
                seen = torch.from_numpy(mask)[None].to(self.batch.word.device)
                if rows is None:
                    targets = self.under(seen)
                else:
                    targets = self.of(self.batch.of_range(slice(0, 1), asked, slice(0, seen.shape[2]), seen))
                made[mask.tobytes()] = torch.stack([target.matrix[0].float() for target in targets]).cpu().numpy()
        return tuple(made[mask.tobytes()] for mask in visible)

    def of(self, batch: EncodedBatch) -> list[Target]:
        """The targets of some of the batch's inputs, queries and keys, as `EncodedBatch.of_range` gives them.

        Raises: OptionError as `under`.
        """
        targets = []
        for pattern in self.patterns:
            if pattern.target is None:
                matrix = self._asked(batch)
            else:
                matrix = _own_matrix(pattern, batch) if _is_own(pattern) else pattern.target(batch)
            if self.only is not None and pattern.id not in self.only:
                matrix = torch.zeros_like(matrix)
            if batch.visible is not None:
                matrix = _seen(matrix, batch.visible, even=pattern.even)
            targets.append(Target(pattern.id, matrix, pattern.even, pattern.part_of))
        return targets

    def _asked(self, batch: EncodedBatch) -> Tensor:
        """The target of the pattern that only the model can tell."""
        asked = torch.zeros_like(batch.same_sentence, dtype=torch.float32)
        of_input = {id(encoded): of_words for encoded, of_words in zip(self.batch.inputs, self.helps, strict=False)}
        for row, encoded in zip(asked, batch.inputs, strict=True):
            if (of_words := of_input.get(id(encoded))) is not None:
                target = torch.from_numpy(of_words.targets_of(batch.queries)[:, batch.keys]).to(row)
                row[: len(target), : target.shape[1]] = target
        return asked


def _is_own(pattern: Pattern) -> bool:
    """Whether it is a function that is not ours, and may look at anything."""
    return pattern.target is not None and pattern not in ALL_PATTERNS


def _seen(matrix: Tensor, visible: Tensor, *, even: bool) -> Tensor:
    """A target less what a query cannot see; an even spread is over the keys that are left, as high in all."""
    if matrix.dtype == torch.bool:
        return matrix & visible
    seen = matrix * visible
    if not even:
        return seen
    kept = seen.sum(-1, keepdim=True) / matrix.sum(-1, keepdim=True).clip(torch.finfo(torch.float32).tiny)
    return (seen / kept.clip(torch.finfo(torch.float32).tiny)).clip(max=1)


def _own_matrix(pattern: Pattern, batch: EncodedBatch) -> Tensor:
    """The matrix of a pattern that is not ours: its function is shown whole inputs, and what it gives is checked.

    Raises: OptionError if it is no target of this batch.
    """
    assert pattern.target is not None
    remedy, width = "return a tensor [batch, query, key] of bool, or of numbers from 0 to 1", batch.word.shape[1]
    visible = None
    if batch.visible is not None:
        visible = torch.zeros(len(batch), width, width, dtype=torch.bool, device=batch.visible.device)
        visible[:, batch.queries, batch.keys] = batch.visible
    whole = replace(batch, queries=slice(None), keys=slice(None), visible=visible)
    try:
        matrix = pattern.target(whole)
    except AttnscanError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise OptionError(f"the function of pattern '{pattern.id}' fails: {why}", remedy) from error
    if not isinstance(matrix, Tensor):
        raise OptionError(f"pattern '{pattern.id}' gives a {type(matrix).__name__}", remedy)
    if matrix.shape != whole.same_sentence.shape:
        due = list(whole.same_sentence.shape)
        raise OptionError(f"pattern '{pattern.id}' gives a target of shape {list(matrix.shape)}, not {due}", remedy)
    target = matrix.to(batch.word.device, torch.bool if matrix.dtype == torch.bool else torch.float32)
    if target.dtype != torch.bool and not ((target >= 0) & (target <= 1)).all():
        raise OptionError(f"pattern '{pattern.id}' gives numbers outside [0, 1]", remedy)
    return target[:, batch.queries, batch.keys]
