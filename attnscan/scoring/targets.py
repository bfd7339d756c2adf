"""Targets: patterns applied to one batch, and checked."""

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
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import Pattern
from attnscan.scoring.units import Units


@dataclass(frozen=True)
class Targets:
    """Patterns applied to one batch, under whatever mask a layer has: what a query cannot see is no target of it."""

    batch: EncodedBatch
    patterns: Sequence[Pattern]
    helps: Sequence[Help] = ()  # of each input, for the pattern that only the model can tell; without, no query counts
    only: Sequence[str] | None = None  # the patterns that count; None for all. For the others no query is eligible
    by_query: bool = False  # whether the queries of the batch's single input are measured one by one

    @cached_property
    def units(self) -> Units:
        """The batch by its units."""
        return Units(self.batch, by_query=self.by_query)

    def of_layers(
        self, visible: NDArray[np.bool_], rows: Sequence[int] | None = None
    ) -> tuple[NDArray[np.float32], ...]:
        """The targets of the batch's single input under each layer's mask, which layers of one mask share.

        Of some neighbouring `rows` alone if these are given.
        Shape: `visible` [layer, query, key], of tokens -> of each layer [pattern, query, key], of units, in [0, 1].
        """
        queries = slice(None) if rows is None else slice(rows[0], rows[-1] + 1)
        made: dict[bytes, NDArray[np.float32]] = {}
        for mask in visible:
            if (key := mask.tobytes()) not in made:
                seen = torch.from_numpy(mask)[None].to(self.batch.word.device)
                targets = self.of(self.batch.under(seen, slice(0, 1), queries, slice(0, seen.shape[2])))
                made[key] = torch.cat([target.float() for target in targets]).cpu().numpy()
        return tuple(made[mask.tobytes()] for mask in visible)

    def of(self, batch: EncodedBatch) -> list[Tensor]:
        """The target of each pattern for some of the batch's inputs, as `EncodedBatch.under` gives them.

        Shape: each [batch, query, key], bool or float in [0, 1]; a query with a zero row is not eligible.
        Raises: OptionError if a pattern that is not ours gives no target of this batch.
        """
        targets = []
        for pattern in self.patterns:
            if self.only is not None and pattern.id not in self.only:
                matrix = torch.zeros_like(batch.same_sentence)
            elif pattern.target is None:
                matrix = self._helpers(batch)
            else:
                matrix = pattern.target(batch) if pattern in ALL_PATTERNS else _own_target(pattern, batch)
            if batch.visible is not None:
                matrix = matrix & batch.visible if matrix.dtype == torch.bool else matrix * batch.visible
            if pattern.even:
                keys = matrix != 0
                matrix = keys / keys.sum(-1, keepdim=True).clip(1)
            targets.append(matrix)
        return targets

    def _helpers(self, batch: EncodedBatch) -> Tensor:
        """The target of the pattern that only the model can tell."""
        targets = torch.zeros_like(batch.same_sentence, dtype=torch.float32)
        help_of = {id(encoded): own for encoded, own in zip(self.batch.inputs, self.helps, strict=False)}
        for row, encoded in zip(targets, batch.inputs, strict=True):
            if id(encoded) in help_of:
                target = torch.from_numpy(help_of[id(encoded)].targets_of(batch.queries)[:, batch.keys]).to(row)
                row[: len(target), : target.shape[1]] = target
        return targets


def _own_target(pattern: Pattern, batch: EncodedBatch) -> Tensor:
    """The target of a pattern that is not ours: its function is shown whole inputs, and what it gives is checked.

    Raises: OptionError if it is no target of this batch.
    """
    assert pattern.target is not None
    remedy, whole = "return a tensor [batch, query, key] of bool, or of numbers from 0 to 1", slice(None)
    visible = None
    if batch.visible is not None:
        visible = torch.zeros_like(batch.word)[:, :, None] & batch.word[:, None]
        visible[:, batch.queries, batch.keys] = batch.visible
    try:
        matrix = pattern.target(replace(batch, queries=whole, keys=whole, visible=visible))
    except Exception as error:
        if isinstance(error, AttnscanError) or out_of_memory(error):
            raise
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise OptionError(f"the function of pattern '{pattern.id}' fails: {why}", remedy) from error
    shape = [*batch.word.shape, batch.word.shape[1]]
    if not isinstance(matrix, Tensor) or list(matrix.shape) != shape:
        given = f"target of shape {list(matrix.shape)}" if isinstance(matrix, Tensor) else type(matrix).__name__
        raise OptionError(f"pattern '{pattern.id}' gives a {given}, not one of shape {shape}", remedy)
    target = matrix.to(batch.word.device, torch.bool if matrix.dtype == torch.bool else torch.float32)
    if not ((target >= 0) & (target <= 1)).all():
        raise OptionError(f"pattern '{pattern.id}' gives numbers outside [0, 1]", remedy)
    return target[:, batch.queries, batch.keys]
