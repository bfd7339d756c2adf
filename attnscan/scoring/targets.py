"""Targets: patterns applied to one batch, checked, and how they relate to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.errors import AttnscanError, OptionError, out_of_memory
from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.dependencies import Help
from attnscan.results.grid import AttentionKind
from attnscan.results.terms import Scored
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.merging import Units
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


@dataclass(frozen=True)
class Targets:
    """Patterns applied to one batch, under whatever mask a layer has: what a query cannot see is no target of it."""

    batch: EncodedBatch
    patterns: Sequence[Pattern]
    helps: Sequence[Help] = ()
    """Of each input, for the pattern that only the model can tell; without them no query is eligible for it."""
    only: Sequence[str] | None = None
    """The patterns that count; None for all. For the others no query is eligible."""
    _made: dict[int, tuple[Tensor, list[Target]]] = field(default_factory=dict)
    """By the id of what is visible: that itself, so that its id stays its own, and the targets."""
    _own: dict[tuple[int, str], tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Likewise, the whole matrices of patterns that are not ours."""

    @cached_property
    def units(self) -> Units:
        """The batch by its units."""
        return Units(self.batch)

    @property
    def is_word(self) -> tuple[Tensor, Tensor]:
        """Which queries are words, and which keys. Shape: [batch, query] and [batch, key], bool."""
        return self.batch.query_word, self.batch.key_word

    @property
    def scored(self) -> tuple[Scored, ...]:
        """The patterns, as results call them."""
        return tuple(pattern.scored for pattern in self.patterns)

    def under(self, visible: Tensor) -> list[Target]:
        """The targets under a mask, worked out once for all layers that have it.

        Shape: [batch, query, key], bool, of tokens; inputs beyond the batch's own are left out.
        Raises: OptionError if a pattern that is not ours gives no target of this batch.
        """
        if id(visible) not in self._made:
            batch = self.batch.under(visible[: len(self.batch)])
            self._made[id(visible)] = visible, [self._target(pattern, batch) for pattern in self.patterns]
        return self._made[id(visible)][1]

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
        made: dict[bytes, NDArray[np.float32]] = {}
        for mask in visible:
            if mask.tobytes() not in made:
                seen = torch.from_numpy(mask)[None].to(self.batch.word.device)
                if rows is None:
                    targets = self.under(seen)
                else:
                    every = slice(0, seen.shape[2])
                    batch = self.batch.of_range(slice(0, 1), slice(rows[0], rows[-1] + 1), every, seen)
                    targets = [self._target(pattern, batch) for pattern in self.patterns]
                made[mask.tobytes()] = torch.stack([target.matrix[0].float() for target in targets]).cpu().numpy()
        return tuple(made[mask.tobytes()] for mask in visible)

    def of_block(self, of_tokens: AttentionBlock, block: AttentionBlock) -> list[Target]:
        """The targets of a block of units, made from one of tokens. Raises: OptionError as `under`."""
        view = self.units.view(of_tokens, block)
        if block.kind is not AttentionKind.CROSS:
            return [replace(target, matrix=target.matrix[view.own]) for target in self.under(block.visible)]
        own = {pattern.id: self._whole(pattern, block.visible) for pattern in self.patterns if _is_own(pattern)}
        place = block.inputs, block.rows, block.columns
        return [
            self._target(pattern, view.batch, own[pattern.id][place] if pattern.id in own else None)
            for pattern in self.patterns
        ]

    def _whole(self, pattern: Pattern, visible: Tensor) -> Tensor:
        """The whole matrix of a pattern that is not ours, which may look at anything."""
        key = id(visible), pattern.id
        if key not in self._own:
            batch = self.batch.under(visible[: len(self.batch)])
            self._own[key] = visible, _matrix(pattern, batch)
        return self._own[key][1]

    def _target(self, pattern: Pattern, batch: EncodedBatch, matrix: Tensor | None = None) -> Target:
        if matrix is None:
            matrix = self._asked(batch) if pattern.target is None else _matrix(pattern, batch)
        if self.only is not None and pattern.id not in self.only:
            matrix = torch.zeros_like(matrix)
        if batch.visible is not None and not (pattern.even and pattern in PATTERNS):
            matrix = _seen(matrix, batch.visible, even=pattern.even)
        return Target(pattern.id, matrix, pattern.even, pattern.part_of)

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


def _matrix(pattern: Pattern, batch: EncodedBatch) -> Tensor:
    """A pattern's own matrix, which nobody has checked if it is not one of ours.

    Raises: OptionError if it is no target of this batch.
    """
    assert pattern.target is not None
    if not _is_own(pattern):
        return pattern.target(batch)
    remedy = "return a tensor [batch, query, key] of bool, or of numbers from 0 to 1"
    try:
        matrix = pattern.target(batch)
    except AttnscanError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise OptionError(f"the function of pattern '{pattern.id}' fails: {why}", remedy) from error
    if not isinstance(matrix, Tensor):
        raise OptionError(f"pattern '{pattern.id}' gives a {type(matrix).__name__}", remedy)
    if matrix.shape != batch.same_sentence.shape:
        due = list(batch.same_sentence.shape)
        raise OptionError(f"pattern '{pattern.id}' gives a target of shape {list(matrix.shape)}, not {due}", remedy)
    target = matrix.to(batch.word.device, torch.bool if matrix.dtype == torch.bool else torch.float32)
    if target.dtype != torch.bool and not ((target >= 0) & (target <= 1)).all():
        raise OptionError(f"pattern '{pattern.id}' gives numbers outside [0, 1]", remedy)
    return target
