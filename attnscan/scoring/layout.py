"""The targets of some inputs under one mask, laid out once for all heads that are measured on them.

Targets have few cells in a row. The cells that any of them uses are picked once, for all targets
and for both measures: over every key, and over words alone with rows renormalised. An even spread
is measured over whole rows.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.scoring.units import Targets, UnitBlock, accumulation_dtype

_MAX_KEYS = 1024
"""Up to so many keys an even spread is kept; of more it would take as much as the weights."""


class Spread(NamedTuple):
    """The target of an even pattern: which keys share the weight, and the share of each."""

    keys: Tensor
    """Shape: [input, 1, query, key], float where it is kept, with the share of each, else bool."""
    height: Tensor
    """Shape: [input, 1, query, 1]."""

    @classmethod
    def of(cls, matrix: Tensor) -> Self:
        """The spread of a target. Shape: [input, query, key]."""
        height = matrix.amax(-1)[:, None, :, None]
        if matrix.shape[-1] <= _MAX_KEYS:
            return cls(matrix[:, None].float(), height)
        return cls((matrix != 0)[:, None], height)

    def target(self) -> Tensor:
        """The share of each key. Shape: [input, 1, query, key], float."""
        return self.keys * self.height if self.keys.dtype == torch.bool else self.keys


class Layout(NamedTuple):
    """The columns that weights are measured on, by `KEY_SETS`: over every key, and among words.

    They are the targets; behind these the wider target of each part, on the part's own queries; and
    of patterns that exclude it the word itself. The columns of even patterns are empty.
    """

    cells: Tensor
    """Places in [query, key] that targets use, filled up with the first.

    Shape: [input, 1, cell]."""
    queries: Tensor
    """The query of each cell. Shape: [input, 1, cell]."""
    values: Tensor
    """Each cell's value in every column, 0 where filled up; among words, 0 where the key is none.
    Shape: [key set, input, cell, column]."""
    words: Tensor
    """1 for keys that are words, else 0. Shape: [input, key, 1], float32."""
    spreads: dict[int, Spread]
    """Of even patterns, by their place."""
    by_query: Tensor
    """Of each pattern which queries are eligible, and its weight under even attention; behind these
    which queries are words; and the same among words. Shape: [input, 1, query, columns]."""


class Cells(NamedTuple):
    """Places in [query, key] that targets of each input use, filled up with the first."""

    places: Tensor
    """Shape: [input, cell]."""
    is_used: Tensor
    """Which are not filled up. Shape: [input, cell], bool."""


class AddedColumns(NamedTuple):
    """Which columns there are beside the targets of the patterns, by the patterns' places."""

    parts: dict[int, int]
    """Patterns that are a part of a wider one, and that."""
    excluding_self: list[int]
    """Patterns that exclude the word itself."""

    def of(self, targets: Targets, matrices: list[Tensor], batch: EncodedBatch) -> list[Tensor]:
        """All columns, of targets of a batch. Shape: each [input, query, key]."""
        columns = [
            torch.zeros_like(matrix) if pattern.even else matrix
            for matrix, pattern in zip(matrices, targets.patterns, strict=True)
        ]
        for part, wide in self.parts.items():
            is_query = (matrices[part] != 0).any(-1, keepdim=True)
            columns.append(matrices[wide] * is_query)
        columns += [matrices[place] * (batch.offset == 0) for place in self.excluding_self]
        return columns


def cells_of_batch(targets: Targets, added: AddedColumns) -> Cells:
    """The cells that targets use whatever the mask, of the whole batch, in [unit, unit]."""
    return _used_cells(added.of(targets, targets.of(targets.batch), targets.batch))


def lay_out(
    targets: Targets, block: UnitBlock, added: AddedColumns, known: Cells | None = None
) -> Layout:
    """Lay out the targets of a block; on a device, the host does not wait for cells `known`."""
    batch = block.batch
    matrices = targets.of(batch)
    is_even = [pattern.even for pattern in targets.patterns]
    words = batch.key_word[:, None, batch.keys]
    uniform = block.even[:, 0]
    among_words = uniform * words
    among_words = among_words / among_words.sum(-1, keepdim=True).clip(MIN_ON_WORDS)
    columns = added.of(targets, matrices, batch)
    cells, is_cell = _used_cells(columns) if known is None else _cells_in_block(known, block)
    dtype = accumulation_dtype(cells.device)
    picked = [column.flatten(1).gather(1, cells).to(dtype) for column in columns]
    values = torch.stack(picked, -1) * is_cell[..., None]
    keys = words.shape[-1]
    key_is_word = words[:, 0].gather(1, cells % keys)[..., None]
    query_word = batch.query_word[:, batch.queries].to(dtype)
    every_key = _by_query(matrices, uniform, is_even, query_word)
    words_only = _by_query(matrices, among_words, is_even, query_word)
    return Layout(
        cells=cells[:, None],
        queries=(cells // keys)[:, None],
        values=torch.stack([values, values * key_is_word]),
        words=words.mT.float(),
        spreads={
            place: Spread.of(matrix) for place, matrix in enumerate(matrices) if is_even[place]
        },
        by_query=torch.cat([every_key, words_only], -1),
    )


def _cells_in_block(of_batch: Cells, block: UnitBlock) -> Cells:
    """Those of a batch's cells that are in a block, by their places in it."""
    units = range(block.batch.word.shape[1])
    queries = units[block.batch.queries]
    keys = units[block.batch.keys]
    inputs = block.token_block.inputs
    places = of_batch.places[inputs]
    query = places // len(units) - queries.start
    key = places % len(units) - keys.start
    is_in_block = (query >= 0) & (query < len(queries)) & (key >= 0) & (key < len(keys))
    is_used = of_batch.is_used[inputs] & is_in_block
    return Cells((query * len(keys) + key) * is_used, is_used)


def _used_cells(columns: list[Tensor]) -> Cells:
    """The cells where any column is not zero. Shape: each column [input, query, key]."""
    used = torch.stack([column != 0 for column in columns]).any(0).flatten(1)
    number, place = used.nonzero().T
    count = used.sum(1)
    start = count.cumsum(0) - count
    cells = used.new_zeros(len(used), int(count.max()), dtype=torch.int64)
    rank = torch.arange(len(place), device=used.device) - start[number]
    cells[number, rank] = place
    is_cell = torch.arange(cells.shape[1], device=used.device) < count[:, None]
    return Cells(cells, is_cell)


def _by_query(
    matrices: list[Tensor], attention: Tensor, is_even: list[bool], query_word: Tensor
) -> Tensor:
    """Which queries are eligible for each target, and what attention that is even gives them.

    A query is eligible if a key that it sees is a target: even attention gives it some weight.

    Shape: each matrix, and `attention`, [input, query, key]; `query_word` [input, query]
    -> [input, 1, query, column].
    """
    dtype = query_word.dtype
    sums = []
    for matrix, even in zip(matrices, is_even, strict=True):
        on_target = torch.minimum(attention, matrix) if even else attention * matrix
        sums.append(on_target.sum(-1))
    chance = torch.stack(sums, -1).to(dtype)
    eligible = (chance > 0).to(dtype)
    return torch.cat([eligible, chance, query_word[..., None]], -1)[:, None]
