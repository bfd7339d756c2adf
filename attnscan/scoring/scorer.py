"""Weights x targets: a consumer of attention that measures every head of a batch against its targets.

How targets are read off weights comes first: the few cells that most targets have are picked out, not multiplied
through. A target of `next-word` has one cell a query, and one of `delimiter` two or three; only what is spread over
much of the matrix is worth a pass over it, and a pass costs as much as a layer's feed-forward does on a few tokens. So
each cell is picked once, for all targets, and once for both measures: over every key, and over words alone, where
it counts for more by what its row has left. Sums are made in float64: that costs nothing on so few cells, and makes
an input's sums independent of the inputs beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock
from attnscan.model.running import not_finite
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.scores import FloatArray
from attnscan.results.terms import DELIMITER, Scored
from attnscan.scoring.blocks import KINDS, PAIR_SUMS
from attnscan.scoring.merging import blocks_of_words, exact
from attnscan.scoring.targets import Target, Targets

_DENSE = 1 / 8  # of a matrix's cells: a target with more is multiplied through

_LEAST_LEFT = 1e-6  # a query with less weight than this on words does nothing but park


@dataclass(frozen=True)
class Columns:
    """What the columns of a readout stand for: a target each, then wider targets, then what lies on the query itself.

    A target that is a part of a wider one has two more columns, one for each measure: the weight on the wider
    target, of the queries that are eligible for the part over every key, or over words alone.
    """

    targets: int
    parts: tuple[tuple[int, int], ...]
    """The targets that are parts, each with the wider one, by their places."""

    @classmethod
    def of(cls, targets: Sequence[Target | Scored]) -> Columns:
        """The columns of a readout of these targets, or of what was scored."""
        places: dict[str | None, int] = {target.id: p for p, target in enumerate(targets)}
        parts = ((p, places[target.part_of]) for p, target in enumerate(targets) if target.part_of in places)
        return cls(len(targets), tuple(parts))

    def __len__(self) -> int:
        return 2 * self.targets + 2 * len(self.parts)

    def split(self, measured: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The weight on each target, that on the wider target by the same queries (or again its own), and on itself.

        Shape: [2, ..., column] -> each [2, ..., pattern], over every key and over words alone.
        """
        weight, beside, itself = np.split(measured, [self.targets, len(self) - self.targets], axis=-1)
        whole = weight.copy()
        for measure, columns in enumerate(np.split(beside, 2, axis=-1)):
            whole[measure][..., [part for part, _ in self.parts]] = columns[measure]
        return weight, whole, itself


class _Readout:
    """Targets of some inputs, ready to measure weights: over every key, and over words alone."""

    def __init__(self, targets: Sequence[Target], words: Tensor, *, cross: bool) -> None:
        """In `cross` attention keys are of another text, and no query is among them.

        Shape: targets [batch, query, key], `words` [batch, key], 0 or 1.
        """
        self._columns = Columns.of(targets)
        self._words = words[:, None, None]
        matrices = [target.matrix for target in targets]
        self._rows, self._keys = matrices[0].shape[1], words.shape[1]
        self._cross = cross
        self._even = {p: matrix.float() for p, matrix in enumerate(matrices) if targets[p].even}
        self._even_on_words = {p: matrix * self._words[:, 0] for p, matrix in self._even.items()}
        self._dense: dict[int, Tensor] = {}
        """By column. Shape: [batch, query, key], zero for the inputs of which the column is sparse."""
        self._pick_cells({p: matrix for p, matrix in enumerate(matrices) if p not in self._even})
        self.eligible, self.eligible_on_words = self._with_a_target()
        """Shape: [batch, query, pattern], 0 or 1."""
        self._add_parts()
        self._on_itself = torch.stack([self._diagonal(matrix) for matrix in matrices], -1).to(self._values)
        """What each query is among its own targets, in [0, 1]. Shape: [batch, query, pattern]."""

    def _diagonal(self, cells: Tensor) -> Tensor:
        """What each query has on itself; 0 where keys are of another text. Shape: [..., query, key] -> [..., query]."""
        return torch.zeros_like(cells[..., 0]) if self._cross else cells.diagonal(dim1=-2, dim2=-1)

    def _pick_cells(self, matrices: dict[int, Tensor]) -> None:
        """Find the cells of all sparse targets together, and what each is in each; note the targets that are not."""
        shape, most = (len(self._words), self._rows, self._keys), _DENSE * self._rows * self._keys
        used = {p: matrix if matrix.dtype == torch.bool else matrix != 0 for p, matrix in matrices.items()}
        sparse = {p: torch.ones(shape[0], dtype=torch.bool, device=self._words.device) for p in used}
        padded = _places(used.values(), shape, self._words.device)
        if padded.shape[1] > most:
            sparse = {p: cells.count_nonzero((1, 2)) <= most for p, cells in used.items()}
            padded = _places([cells & sparse[p][:, None, None] for p, cells in used.items()], shape, self._words.device)
            for p in (p for p in used if not bool(sparse[p].all())):
                self._dense[p] = matrices[p] * ~sparse[p][:, None, None]
        places = padded.clip(0)  # padding points to the first cell, and weighs nothing
        self._queries, keys, self._cells = places // self._keys, places % self._keys, places
        self._on_words = self._words[:, 0, 0].gather(1, keys)[:, None]
        """Whether each cell's key is a word. Shape: [batch, 1, cell], 0 or 1."""
        kind = exact(padded.device)
        self._values = torch.zeros(*padded.shape, self._columns.targets, dtype=kind, device=padded.device)
        """Shape: [batch, cell, column]."""
        for p, matrix in matrices.items():
            counts = (padded >= 0) & sparse[p][:, None]
            self._values[..., p] = matrix.flatten(1).gather(1, places) * counts

    def _with_a_target(self) -> Iterator[Tensor]:
        """Which queries have a target: over every key, and over words alone."""
        for on_words in (False, True):
            cells = self._values * self._on_words[:, 0, :, None] if on_words else self._values
            counts = self._by_query(cells)
            for p, matrix in self._dense.items():
                counts[..., p] += (matrix * self._words[:, 0] if on_words else matrix).sum(-1)
            for p, matrix in self._even.items():
                counts[..., p] = (self._even_on_words[p] if on_words else matrix).amax(-1)
            yield (counts > 0).to(counts.dtype)

    def _add_parts(self) -> None:
        """Add the columns that parts have beside their own."""
        for eligible in (self.eligible, self.eligible_on_words):
            for part, whole in self._columns.parts:
                column, queries = self._values.shape[-1], eligible[..., part]
                cells = self._values[..., whole] * queries.gather(1, self._queries)
                self._values = torch.cat([self._values, cells[..., None]], -1)
                through = self._even.get(whole, self._dense.get(whole))
                if through is not None:
                    self._dense[column] = through * queries[..., None].float()

    def _by_query(self, cells: Tensor) -> Tensor:
        """The sums of cells in each query's row. Shape: [batch, cell, column] -> [batch, query, column]."""
        sums = cells.new_zeros(len(cells), self._rows, cells.shape[-1])
        return sums.scatter_add_(1, self._queries[..., None].expand_as(cells), cells)

    def left(self, weights: Tensor) -> Tensor:
        """The weight that each query has on words. Shape: [batch, head, query, key] -> [batch, head, query]."""
        return (weights * self._words).sum(-1)

    def __call__(self, weights: Tensor, share: Tensor) -> Tensor:
        """Weight on target, summed over queries.

        Shape: [batch, head, query, key], and what a query's weights are multiplied with over words alone
        [batch, head, query] -> [2, batch, head, column], over every key and over words alone.
        """
        measured = self._on_cells(weights, share)
        for c, column in self._dense.items():  # no matrix product: its rounding depends on how many inputs there are
            on_column = weights * column[:, None]
            measured[0, ..., c] += on_column.sum((-1, -2))
            measured[1, ..., c] += ((on_column * self._words).sum(-1) * share).sum(-1)
        for p, target in self._even.items():
            measured[0, ..., p] = torch.minimum(weights, target[:, None]).sum((-1, -2))
            measured[1, ..., p] = self._on_even_words(p, weights, share).sum((-1, -2))
        on_itself = [own.sum(2) for own in self._itself(weights, share)]
        return torch.cat([measured, torch.stack(on_itself)], -1)

    def _on_even_words(self, column: int, weights: Tensor, share: Tensor) -> Tensor:
        """What rows over words alone have in common with an even target. Shape: [batch, head, query, key]."""
        shared = weights * share[..., None]
        return torch.minimum(shared, self._even_on_words[column][:, None], out=shared)

    def _on_cells(self, weights: Tensor, share: Tensor) -> Tensor:
        """Weight on the targets of sparse columns, summed over queries. Shape: [2, batch, head, column]."""
        heads = weights.shape[1]
        cells, queries = (index[:, None].expand(-1, heads, -1) for index in (self._cells, self._queries))
        picked = weights.flatten(2).gather(2, cells)
        on_words = picked * share.gather(2, queries) * self._on_words
        both = torch.cat([picked, on_words], 1).to(self._values.dtype) @ self._values
        return both.view(len(both), 2, heads, -1).transpose(0, 1)

    def _itself(self, weights: Tensor, share: Tensor) -> Iterator[Tensor]:
        """Of each query's weight on target, what lies on the query itself: over every key, and over words alone.

        Shape: each [batch, head, query, pattern].
        """
        own = self._diagonal(weights).to(self._on_itself.dtype)[..., None]
        is_word = self._diagonal(self._words.expand(-1, -1, self._rows, -1))
        for on_itself in (own, own * (share * is_word)[..., None]):
            measured = on_itself * self._on_itself[:, None]
            for p in self._even:
                measured[..., p] = torch.minimum(on_itself[..., 0], self._on_itself[:, None, :, p])
            yield measured

    def rows(self, weights: Tensor, share: Tensor) -> Tensor:
        """What a call gives, of each query by itself, and for one input at a time.

        Shape: [1, head, query, key] and [1, head, query] -> [2, query, head, column].
        """
        flat, by_query = weights[0].flatten(1), share[0].T
        cells, into, values, on_words = self._by_column
        columns = self._values.shape[-1]
        measured = self._values.new_zeros(2, self._rows * columns, weights.shape[1])
        picked = flat[:, cells].T * values[:, None]
        measured[0].index_add_(0, into, picked)
        measured[1].index_add_(0, into, picked * on_words[:, None])
        measured = measured.view(2, self._rows, columns, -1).transpose(2, 3)
        measured[1] *= by_query[..., None]
        for c, column in self._dense.items():
            on_column = weights[0] * column[0]
            measured[0, ..., c] += on_column.sum(-1).T
            measured[1, ..., c] += (on_column * self._words[0]).sum(-1).T * by_query
        for p, target in self._even.items():
            measured[0, ..., p] = torch.minimum(weights[0], target[0]).sum(-1).T
            measured[1, ..., p] = self._on_even_words(p, weights, share)[0].sum(-1).T
        itself = torch.stack([own[0].transpose(0, 1) for own in self._itself(weights, share)])
        return torch.cat([measured, itself], -1)

    @cached_property
    def _by_column(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The cells of all sparse columns of one input: where each lies, of which query and column together, what it
        is, and whether its key is a word.

        Shape: each [cell].
        """
        columns, there = self._values[0].T.nonzero(as_tuple=True)
        into = self._queries[0][there] * self._values.shape[-1] + columns
        return self._cells[0][there], into, self._values[0][there, columns], self._on_words[0, 0][there]

    def by_query(self, weights: Tensor) -> Tensor:
        """Weight on target of each query. Shape: [batch, query, key] -> [batch, query, pattern]."""
        picked = weights.flatten(1).gather(1, self._cells)[..., None]
        measured = self._by_query(picked * self._values[..., : self._columns.targets])
        for p in (p for p in self._dense if p < self._columns.targets):
            measured[..., p] += (weights * self._dense[p].to(measured.dtype)).sum(-1)
        for p, target in self._even.items():
            measured[..., p] = torch.minimum(weights, target).sum(-1, dtype=measured.dtype)
        return measured


def _places(used: Iterable[Tensor], shape: tuple[int, int, int], device: torch.device) -> Tensor:
    """The cells of each input that any of some targets uses, by their place in its matrix, then -1.

    Shape: [batch, the most cells of an input].
    """
    union = torch.zeros(shape, dtype=torch.bool, device=device)
    for cells in used:
        union |= cells
    rows, places = union.flatten(1).nonzero().T
    counts = torch.bincount(rows, minlength=shape[0])
    columns = torch.arange(len(rows), device=device) - (counts.cumsum(0) - counts)[rows]
    padded: Tensor = places.new_full((shape[0], int(counts.max())), -1)
    padded[rows, columns] = places
    return padded


@dataclass(frozen=True)
class _Part:
    """What some inputs of one length are scored by, under one mask."""

    is_word: Tensor
    """Which queries are words. Shape: [batch, 1, query], bool."""
    readout: _Readout
    every_key: Tensor
    """Which queries are eligible, and their weight on target under even attention.

    Shape: [batch, query, 2 x pattern]."""
    on_words: Tensor
    """What `every_key` holds, over words alone and of queries that have weight left there."""


class Scorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets, *, by_query: bool = False) -> None:
        """With `by_query`, a batch of one input is measured word by word, or by blocks of neighbours if it has many."""
        batch = targets.batch
        assert not by_query or len(batch) == 1
        self._targets, self._units = targets, targets.units
        self._word_block = blocks_of_words(batch.query_word[0]) if by_query else None
        self._columns = Columns.of(targets.scored)
        self._words, self._keys = (is_word.float() for is_word in targets.is_word)
        self._grid: Grid | None = None

    def fresh(self) -> Scorer:
        """Another scorer of the same batch, which has seen nothing yet."""
        other = copy(self)
        other._grid = None
        return other

    def _start(self, grid: Grid) -> None:
        """Make room for every layer and head."""
        self._grid = grid
        dtype = exact(self._words.device)
        self._entropy = self._words.new_full((len(self._words), *grid.shape), torch.nan, dtype=dtype)
        self._rows = self._words.sum(1, dtype=dtype)[:, None, None].expand_as(self._entropy).clone()
        """Whose entropy that is."""
        measured = len(self._words) if self._word_block is None else int(self._word_block.max()) + 1
        shape = (len(KINDS), measured, *grid.shape)
        self._weight = self._words.new_zeros(*shape, len(self._columns), dtype=dtype)
        """On targets, in the columns of the readout."""
        self._counted = self._words.new_zeros(*shape, 2 * self._columns.targets, dtype=dtype)
        """Eligible queries, and their weight on target by chance."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        if block.grid != self._grid:
            self._start(block.grid)
        for of_tokens, of_units in self._units.blocks(block):
            self._take(of_tokens, of_units)

    def _take(self, of_tokens: AttentionBlock, block: AttentionBlock) -> None:
        """Score some inputs of one length, given by units: over every key, and over words alone, rows renormalised.

        A row that is `idle` counts for nothing.
        """
        weights, idle = block.weights, block.idle
        part = self._units.layouts.of("scores", block, lambda: self._part(of_tokens, block))
        place = (block.inputs, block.layer, block.heads)
        left = part.readout.left(weights)
        counts = left >= _LEAST_LEFT
        share = counts / left.clip(_LEAST_LEFT)
        entropy = _row_entropy(weights, block.logits).where(part.is_word, 0.0)
        if idle is not None:
            entropy = entropy.where(~idle, 0.0)
            every = self._words[block.inputs].sum(1, dtype=self._rows.dtype)[:, None]
            self._rows[place] = every - (part.is_word & idle).sum(-1)
        self._entropy[place] = entropy.sum(-1, dtype=self._entropy.dtype)
        read = part.readout if self._word_block is None else part.readout.rows
        measured, chance = read(weights, share), None
        if of_tokens.value_norms is not None:  # by what heads carry, chance is what even attention would carry
            chance = read(*self._even(of_tokens, block, part, counts))[..., : self._columns.targets]
        if self._word_block is not None:
            self._add_words(block, self._word_block[block.rows], part, measured, counts[0].T, chance)
            return
        self._weight[(slice(None), *place)] = measured
        counted = part.every_key.sum(1, keepdim=True) if idle is None else (~idle).to(part.every_key) @ part.every_key
        both = counted, counts.to(part.on_words) @ part.on_words
        for kind, values in enumerate(both):
            if chance is not None:
                values = torch.cat([values[..., : self._columns.targets].expand_as(chance[kind]), chance[kind]], -1)
            self._counted[(kind, *place)] = values

    def _even(
        self, of_tokens: AttentionBlock, block: AttentionBlock, part: _Part, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What even attention would carry, as a readout takes it. Shape: `counts` [batch, head, query]."""
        even = self._units.even_carried(of_tokens, block)
        return even, counts / part.readout.left(even).clip(_LEAST_LEFT)

    def _add_words(
        self,
        block: AttentionBlock,
        into: Tensor,
        part: _Part,
        measured: Tensor,
        counts: Tensor,
        chance: Tensor | None,
    ) -> None:
        """Add the rows of queries to the words, or blocks of words, that they are of.

        Shape: `into` [query], `measured` [2, query, head, column], `counts` [query, head], `chance`, if heads differ in
        it, [2, query, head, pattern].
        """
        own = (slice(None), slice(None), block.layer, block.heads)
        every_key = part.every_key[0, :, None].expand(-1, counts.shape[1], -1)
        if block.idle is not None:
            every_key = ~block.idle[0].T[..., None] * every_key
        counted = torch.stack([every_key, counts[..., None] * part.on_words[0, :, None]])
        if chance is not None:
            counted[..., self._columns.targets :] = chance
        for total, values in ((self._weight[own], measured), (self._counted[own], counted)):
            total.zero_().index_add_(1, into, values)

    def _part(self, of_tokens: AttentionBlock, block: AttentionBlock) -> _Part:
        """The targets of some inputs under their mask."""
        inputs, rows, columns = block.inputs, block.rows, block.columns
        made = self._targets.of_block(of_tokens, block)
        targets = [replace(target, matrix=target.matrix.contiguous()) for target in made]
        readout = _Readout(targets, self._keys[inputs, columns], cross=block.kind is AttentionKind.CROSS)
        even = self._units.even(of_tokens, inputs)
        on_words = even * self._keys[inputs, None, columns]
        on_words = on_words / on_words.sum(-1, keepdim=True).clip(_LEAST_LEFT)
        return _Part(
            self._words[inputs, None, rows] > 0,
            readout,
            self._by_chance(readout.eligible, readout.by_query(even)),
            self._by_chance(readout.eligible_on_words, readout.by_query(on_words)),
        )

    def _by_chance(self, eligible: Tensor, on_target: Tensor) -> Tensor:
        """What every head has alike. Shape: [batch, query, pattern] twice -> as in `_Part`."""
        return torch.cat([eligible, on_target], -1)

    def sums(self) -> dict[str, FloatArray]:
        """What `pair_sums` gives, once every block has come, and how much `entropy` all words' `rows` have, in nats.

        Beside them `every_key.pairs` and `words_only.pairs`: 1 where a pair has an eligible query.

        Shape: the last two [pair, layer, head, 1].
        Raises: CaptureError if the model's attention is not finite.
        """
        entropy, rows = (of_rows.cpu().numpy().astype(np.float64) for of_rows in (self._entropy, self._rows))
        if not np.isfinite(entropy).all():
            layer = int(np.argwhere(~np.isfinite(entropy))[:, 1].min())
            raise not_finite("the attention weights", f" from layer {layer} on")
        sums = self.pair_sums()
        sums |= {f"{kind}.pairs": (sums[f"{kind}.n"] > 0).astype(float) for kind in KINDS}
        return sums | {"entropy": entropy[..., None], "rows": rows[..., None]}

    def pair_sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums in the layers that have come, such as `every_key.weight` and `words_only.whole`.

        Shape: each [pair, layer, head, pattern].
        """
        sums = self._named()
        return sums if self._word_block is None else {name: v.sum(0, keepdims=True) for name, v in sums.items()}

    def word_sums(self) -> dict[str, FloatArray]:
        """Each word's own sums, or each block's of neighbouring words. Shape: each [word, layer, head, pattern]."""
        assert self._word_block is not None
        return {name: values[1:] for name, values in self._named().items()}

    def _named(self) -> dict[str, FloatArray]:
        """The sums by their names, of pairs or of words; before the words, those of all other queries."""
        weight, whole, itself = self._columns.split(self._weight.cpu().numpy().astype(np.float64, copy=False))
        n, chance = np.split(self._counted.cpu().numpy().astype(np.float64, copy=False), 2, axis=-1)
        sums = dict(zip(PAIR_SUMS, (weight, n, chance, whole, itself), strict=True))
        every_key, words_only = KINDS
        for p in (p for p, known in enumerate(self._targets.scored) if known.id == DELIMITER):
            for values in sums.values():
                values[KINDS.index(words_only)][..., p] = values[KINDS.index(every_key)][..., p]
        return {f"{kind}.{name}": values[k] for k, kind in enumerate(KINDS) for name, values in sums.items()}


def _row_entropy(weights: Tensor, logits: Tensor | None) -> Tensor:
    """Entropy of each row, in nats. Shape: [batch, head, query, key] -> [batch, head, query]."""
    if logits is None:
        precise = weights.to(exact(weights.device))
        return -(precise * precise.clip(torch.finfo(weights.dtype).tiny).log()).sum(-1)
    # Logarithms of all weights cost more than the softmax. One a row is enough: log w = log w_max - (l_max - l).
    below = logits.amax(-1, keepdim=True) - logits
    return (below.mul_(weights).sum(-1) - weights.amax(-1).log()).clip(0)
