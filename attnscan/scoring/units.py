"""A batch by its scored units: weights of tokens made weights of words, the targets that patterns set, and sums.

Attention to a word is the sum over its pieces, from it the mean. Sums are made in float64: so those of an input do not
depend on the inputs beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.errors import AttnscanError, OptionError, out_of_memory
from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.predictions import WordDependencies
from attnscan.results.scores import FloatArray
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import Pattern

T = TypeVar("T")
EPSILON = 1e-30  # of a word's weight on words: less is not renormalised, and its row stays zero
CELLS = (
    1 << 20
)  # weights of a head and an input that are measured at a time: of 8,192 keys, 128 queries
MOST_WORDS = 512  # blocks of one input's words: with one each, sums of 8,192 words and 264 heads would take 3 GB


@dataclass(frozen=True)
class UnitBlock:
    """Attention by units: some inputs, some heads of a layer, and all or some queries, with whole rows."""

    token_block: AttentionBlock  # these inputs' alone
    batch: EncodedBatch  # these inputs by units under the block's mask, with the units that ask and that are keys
    rows: slice  # the tokens that ask
    cache: dict[str, Any]  # values that all layers of one mask share

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` computes from the mask and these queries; layers of one mask share it."""
        if name not in self.cache:
            self.cache[name] = make()
        return cast(T, self.cache[name])

    def by_units(self, weights: Tensor) -> Tensor:
        """Shape: [input, head, query token, key token] -> [input, head, query, key]."""
        if self.batch.unit is None:
            return weights
        (unit,) = self.batch.unit
        queries, keys = (
            ids[ids >= 0] for ids in (unit[self.rows], unit[self.token_block.columns])
        )  # without padding
        weights, count = (
            weights[..., : len(queries), : len(keys)],
            (queries - queries[0]).bincount(),
        )
        to_units = weights.new_zeros(*weights.shape[:3], int(keys[-1]) + 1).index_add_(
            3, keys, weights
        )
        summed = to_units.new_zeros(*weights.shape[:2], len(count), to_units.shape[3])
        mean: Tensor = summed.index_add_(2, queries - queries[0], to_units) / count[:, None]
        return mean

    @cached_property
    def weights(self) -> Tensor:
        """Shape: [input, head, query, key]."""
        first, rows = self.token_block.rows.start, self.rows
        return self.by_units(self.token_block.weights[:, :, rows.start - first : rows.stop - first])

    @cached_property
    def has_row(self) -> Tensor:
        """Which queries have weight on any key. Shape: [input, head, query], bool."""
        if self.token_block.value_norms is None:
            return torch.ones_like(self.weights[..., 0], dtype=torch.bool)
        return self.weights.sum(-1) > 0

    @cached_property
    def takes(self) -> Tensor:
        """Which queries are words and have weight on any key. Shape: [input, head, query], bool."""
        return self.has_row & self.batch.query_word[:, None, self.batch.queries]

    @property
    def even(self) -> Tensor:
        """Even attention over the keys that may be seen. Shape: [input, 1, query, key], float32."""
        visible = self._visible
        return self.by_units(visible / visible.sum(-1, keepdim=True).clip(1))

    @property
    def even_carried(self) -> Tensor | None:
        """What heads would carry if they attended evenly, ‖f(x_j)‖ as a share of all keys that may be seen.

        A row that carries nothing is zero. Shape: [input, head, query, key], float32; None of weights.
        """
        if self.token_block.value_norms is None:
            return None
        even = self._visible * self.token_block.value_norms[:, :, None]
        return (
            self.by_units(even / even.sum(-1, keepdim=True).clip(EPSILON)) * self.has_row[..., None]
        )

    @property
    def _visible(self) -> Tensor:
        """Which tokens may be seen, 0 or 1. Shape: [input, 1, query token, key token]."""
        block = self.token_block
        return block.visible[block.inputs, None, self.rows, block.columns].float()


class Units:
    """A batch by its units. By query, sums are made of each word of its single input."""

    def __init__(self, batch: EncodedBatch, *, by_query: bool = False) -> None:
        self.batch, self.by_query = batch, by_query
        self._cache: dict[tuple[int, ...], tuple[Tensor, EncodedBatch, dict[str, Any]]] = {}

    def blocks(self, block: AttentionBlock, *, all_queries: bool = False) -> list[list[UnitBlock]]:
        """Split a block of tokens into blocks of units; input by input, if words have several tokens.

        A long input has several ranges of queries, in one list; with `all_queries`, a single range.
        """
        start, stop, _ = block.inputs.indices(len(self.batch))
        step = stop - start if self.batch.unit is None else 1
        most = block.weights.shape[2] if all_queries else max(1, CELLS // block.weights.shape[3])
        return [
            self._parts(block, slice(i, i + step), i - start, most)
            for i in range(start, stop, step)
        ]

    def _parts(
        self, block: AttentionBlock, inputs: slice, first: int, most: int
    ) -> list[UnitBlock]:
        """Split some inputs of a block, from its `first` on, into ranges of queries that cut no word in two."""
        places = slice(first, first + inputs.stop - inputs.start)
        norms = None if block.value_norms is None else block.value_norms[places]
        token_block = replace(
            block, inputs=inputs, weights=block.weights[places], value_norms=norms
        )
        starts = list(range(block.rows.start, block.rows.stop, most))
        if self.batch.unit is not None:
            unit = self.batch.inputs[inputs.start].unit
            starts = [unit.index(unit[start]) for start in starts]
        parts = []
        for rows in map(slice, starts, [*starts[1:], block.rows.stop]):
            key = (
                inputs.start,
                inputs.stop,
                rows.start,
                rows.stop,
                block.columns.stop,
                id(block.visible),
            )
            if key not in self._cache:
                visible = block.visible[inputs, rows, block.columns]
                of_units = self.batch.with_mask(visible, inputs, rows, block.columns)
                self._cache[key] = (
                    block.visible,
                    of_units,
                    {},
                )  # the mask is kept alive, so that its id stays its own
            parts.append(UnitBlock(token_block, self._cache[key][1], rows, self._cache[key][2]))
        return parts


class BatchSums:
    """Named sums of each input of a batch or, by query, of one input's words or blocks of neighbouring words."""

    def __init__(self, units: Units) -> None:
        self._sums, self._into, self._count = dict[str, Tensor](), None, len(units.batch)
        if units.by_query:  # the block of each query, from 1 on: a word each, or neighbours; 0 of all that are no words
            (word,), count = units.batch.query_word, int(units.batch.query_word.sum())
            self._count = min(count, MOST_WORDS) + 1
            self._into = ((word.cumsum(0) - 1) * (self._count - 1) // max(1, count) + 1) * word

    def put(self, block: UnitBlock, sums: Mapping[str, Tensor]) -> None:
        """Add the sums of a block. Shape: each [input, head, query, column]; not by query, queries may be one."""
        for name, values in sums.items():
            if name not in self._sums:
                shape = (self._count, *block.token_block.grid.shape, values.shape[-1])
                self._sums[name] = torch.zeros(
                    shape, dtype=accumulation_dtype(values.device), device=values.device
                )
            head_sums = self._sums[name][:, block.token_block.layer, block.token_block.heads]
            if self._into is None:
                head_sums[block.token_block.inputs] += values.sum(2, dtype=head_sums.dtype)
            else:
                head_sums.index_add_(
                    0, self._into[block.batch.queries], values[0].transpose(0, 1).to(head_sums)
                )

    def of_units(self) -> dict[str, FloatArray]:
        """Sums of each input or, by query, each word or block of words. Shape: each [unit, layer, head, column]."""
        words = slice(
            0 if self._into is None else 1, None
        )  # before words, all queries that are none
        return {
            name: sums[words].cpu().numpy().astype(np.float64, copy=False)
            for name, sums in self._sums.items()
        }


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(frozen=True)
class Targets:
    """Patterns applied to one batch, under whatever mask a layer has: what a query cannot see is no target of it."""

    batch: EncodedBatch
    patterns: Sequence[Pattern]
    word_dependencies: Sequence[
        WordDependencies
    ] = ()  # of each input, for the pattern that only the model can tell; without, no query counts
    only: Sequence[str] | None = (
        None  # the patterns that count; None for all. For the others no query is eligible
    )
    by_query: bool = (
        False  # whether the queries of the batch's single input are measured one by one
    )

    @cached_property
    def units(self) -> Units:
        """The batch by its units."""
        return Units(self.batch, by_query=self.by_query)

    def by_layer(
        self, visible: NDArray[np.bool_], rows: Sequence[int] | None = None
    ) -> tuple[NDArray[np.float32], ...]:
        """The targets of the batch's single input under each layer's mask, which layers of one mask share.

        Of some neighbouring `rows` alone if these are given.
        Shape: `visible` [layer, query, key], of tokens -> of each layer [pattern, query, key], of units, in [0, 1].
        """
        queries = slice(None) if rows is None else slice(rows[0], rows[-1] + 1)
        targets_by_mask: dict[bytes, NDArray[np.float32]] = {}
        for mask in visible:
            if (key := mask.tobytes()) not in targets_by_mask:
                tokens_seen = torch.from_numpy(mask)[None].to(self.batch.word.device)
                targets = self.of(
                    self.batch.with_mask(
                        tokens_seen, slice(0, 1), queries, slice(0, tokens_seen.shape[2])
                    )
                )
                targets_by_mask[key] = (
                    torch.cat([target.float() for target in targets]).cpu().numpy()
                )
        return tuple(targets_by_mask[mask.tobytes()] for mask in visible)

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
                matrix = (
                    pattern.target(batch)
                    if pattern in ALL_PATTERNS
                    else _call_user_pattern(pattern, batch)
                )
            if batch.visible is not None:
                matrix = (
                    matrix & batch.visible if matrix.dtype == torch.bool else matrix * batch.visible
                )
            if pattern.even:
                keys = matrix != 0
                matrix = keys / keys.sum(-1, keepdim=True).clip(1)
            targets.append(matrix)
        return targets

    def _helpers(self, batch: EncodedBatch) -> Tensor:
        """The target of `predictive`, from the help that the model measured."""
        targets = torch.zeros_like(batch.same_sentence, dtype=torch.float32)
        queries, keys = (range(batch.word.shape[1])[units] for units in (batch.queries, batch.keys))
        help_of = {
            id(encoded): word_help
            for encoded, word_help in zip(self.batch.inputs, self.word_dependencies, strict=False)
        }
        for row, encoded in zip(targets, batch.inputs, strict=True):
            if id(encoded) in help_of:
                places, shares = (
                    np.array(help_of[id(encoded)].places, int),
                    help_of[id(encoded)].shares,
                )
                asks, helpers = (
                    (places >= units.start) & (places < units.stop) for units in (queries, keys)
                )
                cells = np.ix_(places[asks] - queries.start, places[helpers] - keys.start)
                row[cells] = torch.from_numpy(shares[np.ix_(asks, helpers)]).to(row)
        return targets


def _call_user_pattern(pattern: Pattern, batch: EncodedBatch) -> Tensor:
    """Call a user's pattern on whole inputs, and check the target that it returns.

    Raises: OptionError if it is no target of this batch.
    """
    assert pattern.target is not None
    remedy, every_unit = (
        "return a tensor [batch, query, key] of bool, or of numbers from 0 to 1",
        slice(None),
    )
    visible = None
    if batch.visible is not None:
        visible = torch.zeros_like(batch.word)[:, :, None] & batch.word[:, None]
        visible[:, batch.queries, batch.keys] = batch.visible
    try:
        matrix = pattern.target(
            replace(batch, queries=every_unit, keys=every_unit, visible=visible)
        )
    except Exception as error:
        if isinstance(error, AttnscanError) or out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise OptionError(
            f"the function of pattern '{pattern.id}' fails: {reason}", remedy
        ) from error
    shape = [*batch.word.shape, batch.word.shape[1]]
    if not isinstance(matrix, Tensor) or list(matrix.shape) != shape:
        received = (
            f"target of shape {list(matrix.shape)}"
            if isinstance(matrix, Tensor)
            else type(matrix).__name__
        )
        raise OptionError(
            f"pattern '{pattern.id}' gives a {received}, not one of shape {shape}", remedy
        )
    target = matrix.to(
        batch.word.device, torch.bool if matrix.dtype == torch.bool else torch.float32
    )
    if not ((target >= 0) & (target <= 1)).all():
        raise OptionError(f"pattern '{pattern.id}' gives numbers outside [0, 1]", remedy)
    return target[:, batch.queries, batch.keys]
