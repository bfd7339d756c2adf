"""A consumer of attention that sums what profiles are fitted from: heads' weights, and the parts they may be of.

The parts come first, for some inputs under one mask: rows of even weights, and how they are read off a head's. A part
gives every word a row that is even over some keys that the word may see: it sums to 1, or to 0 where there are none. No
part is laid out that need not be: most are one key at a distance, or the same keys for all words of a sentence, and a
whole matrix a part would be a pass each. The others have few cells, which are picked out. Sums are made in float64, so
that an input's do not depend on the inputs beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, add_range
from attnscan.model.running import not_finite
from attnscan.results.dependencies import Help
from attnscan.results.grid import Grid
from attnscan.results.profile import BLOCKS, OFFSETS, parts_of
from attnscan.results.scores import FloatArray
from attnscan.scoring.cross import ALIGNED, ALL_PATTERNS, near_same_place
from attnscan.scoring.merging import LEAST_LEFT, Units, View, exact
from attnscan.scoring.patterns import Pattern
from attnscan.scoring.resampling import BlockSums, squeezed
from attnscan.scoring.targets import Targets

_SENTENCES = 2
_PUNCTUATION = 3  # its place among the kinds of keys


@dataclass
class _AllRows:
    """What is added up over all queries of some inputs and heads, key by key, for the part `same-keys`."""

    column: Tensor
    """Words' weights. Shape: [batch, head, key]."""
    parts: Tensor
    """Every part's rows. Shape: [batch, key, part]."""
    seen_by: Tensor
    """How many words may see each key. Shape: [batch, key]."""

    def __iadd__(self, other: _AllRows) -> _AllRows:
        for name, values in vars(self).items():
            values += getattr(other, name)
        return self

    def same_keys(self, words: Tensor, on_part: Tensor, squares: Tensor) -> _SameKeys:
        """What the part `same-keys` needs of heads, without a row of it being laid out.

        Word i's row is m_i = (C - a_i) / (n - 1) over the keys that it may see, with C = Σ_k a_k over all n words. So
        Σ a_i·m_i, Σ m_i·m_i and Σ m_i·t_i follow from C and from sums that are there.
        Shape: `words` [batch, 1], how many there are, `on_part` as `Parts.read` gives it, `squares` [batch, head].
        """
        others, seen_by = (words - 1).clip(1), self.seen_by[..., None]
        square, there = self.column.square(), (words > 1) / others
        whole = square.sum(-1)
        by_square = (square @ seen_by)[..., 0] - 2 * whole + squares
        on_parts = (self.column @ self.parts - on_part) * there[..., None]
        return _SameKeys(
            products=torch.cat([on_parts, (by_square * there / others)[..., None]], -1),
            on_part=(whole - squares) * there,
            mass=((self.column @ seen_by)[..., 0] - self.column.sum(-1)) * there,
        )


@dataclass(frozen=True)
class _SameKeys:
    """Sums of what the part `same-keys` is made of, head by head: each word's row is the mean of the other words'."""

    products: Tensor
    """Of its rows times every part's, its own the last. Shape: [batch, head, part + 1]."""
    on_part: Tensor
    """Of its rows times the weights. Shape: [batch, head]."""
    mass: Tensor
    """Of its rows. Shape: [batch, head]."""


def _stacked(columns: Sequence[Tensor], none: Tensor) -> Tensor:
    """Columns side by side; `none` where there are none, as there are no distances within a sentence across texts."""
    return torch.stack([*columns], -1) if columns else none


class Parts:
    """The parts of some queries of some inputs of one length, in the order of `results/profile.py`, but `same-keys`."""

    def __init__(self, view: View, block: AttentionBlock, others: Sequence[Tensor], *, special: bool) -> None:
        """With `special`, special tokens are keys.

        Shape: `others` [input, query, key] each, the parts that are neither distances nor kinds of keys.
        """
        batch, own, self._keys_at, self._is_range = view.batch, view.own, block.columns, not block.is_whole
        self._near = slice(view.keys.start - block.columns.start, view.keys.stop - block.columns.start)
        self._first = block.rows.start - block.columns.start
        self._sentence = batch.sentence[own[0], block.rows]
        self._of_keys = batch.sentence[own[0], block.columns]
        self.word = batch.word[own[0], block.rows]
        """Which queries are words. Shape: [batch, query], bool."""
        assert batch.visible is not None
        is_key = torch.ones_like(self._of_keys, dtype=torch.bool) if special else self._of_keys >= 0
        self._visible, self._open = batch.visible[own] & is_key[:, None, self._near], is_key.clone()
        """Which of the keys that are laid out each query may see, and which of the others all may see.

        Shape: [batch, query, near key] and [batch, key], bool."""
        self._open[:, self._near] = False
        same = batch.same_sentence[own]
        self._exact, self._shape = exact(same.device), (same.shape[1], self._of_keys.shape[1])
        across = batch.asks is not None
        diagonals = {
            o: same.diagonal(self._first - self._near.start + o, dim1=1, dim2=2) for o in (() if across else OFFSETS)
        }
        self._offsets = {offset: near.to(self._exact) for offset, near in diagonals.items()}
        """By each word that has one at that distance before or behind it: 1. Shape: [batch, word] each."""
        alike = batch.alike[own]
        itself = torch.zeros_like(alike[0])
        itself.diagonal(self._first - self._near.start).fill_(True)
        cells = [alike & same & ~itself, alike & ~same]
        if across:  # source words: by the target word's place, and identical ones
            seen = batch.visible[own]
            cells = [*(near[own] & seen for near in near_same_place(batch, OFFSETS)), *reversed(cells)]
        self._pick_cells(torch.stack([*cells, *others], -1), view)
        self._keys = self._kinds(batch, own[0])
        """Which keys are of which kind, those of sentence A and of B at the end. Shape: [batch, key, kind]."""
        seen = self._by_query(self._of_seen(self._keys)).to(self._exact)
        self._scale = (seen > 0) * self.word[..., None] / seen.clip(1)
        """What each key of a kind has in a word's row. Shape: [batch, query, kind]."""
        self.gram = self._products()
        """Every two parts' rows multiplied and added. Shape: [batch, part, part]."""
        distances = _stacked(
            [near.sum(1) for near in self._offsets.values()], self._scale.new_zeros(len(self._scale), 0)
        )
        self.mass = torch.cat([distances, self._values.sum(1), (self._scale > 0).sum(1)], 1)
        """Every part's rows added. Shape: [batch, part]."""
        self._columns = self._column_sums()
        """What each key gets of every part, over these rows. Shape: [batch, key, part]."""
        word = self.word.to(self._exact)
        self._seen_by = self._of_seeing(word[..., None])[..., 0]
        """How many of these words may see each key. Shape: [batch, key]."""
        sees = self._of_seen(torch.ones_like(self._keys[..., :1]))[..., 0]
        self._even_rows = word / sees.to(word).clip(1)
        """What each word gives each key that it may see, if it spreads evenly. Shape: [batch, query]."""

    def _of_seen(self, values: Tensor) -> Tensor:
        """What the keys have that each query may see. Shape: [batch, key, column] -> [batch, query, column]."""
        near = self._visible.to(values) @ values[:, self._near]
        return near + (values * self._open[..., None]).sum(1, keepdim=True)

    def _of_seeing(self, values: Tensor) -> Tensor:
        """What the queries have that may see each key. Shape: [batch, query, column] -> [batch, key, column]."""
        columns = self._open[..., None] * values.sum(1, keepdim=True)
        columns[:, self._near] += self._visible.to(values).mT @ values
        return columns

    def _pick_cells(self, matrices: Tensor, view: View) -> None:
        """Find the cells that any of some parts has, and what each is in each. Shape: [batch, query, key, part]."""
        cells = [used.nonzero()[:, 0] for used in (matrices != 0).any(-1).flatten(1)]
        padded = pad_sequence(cells, batch_first=True, padding_value=-1)
        places, width = padded.clip(0), matrices.shape[2]  # padding points to the first cell, and weighs nothing
        self._queries, keys = places // width, places % width + self._near.start
        values = matrices.flatten(1, 2).gather(1, places[..., None].expand(-1, -1, matrices.shape[3]))
        self._values = (values * (padded >= 0)[..., None]).to(self._exact)
        if (far := view.beyond) is not None:
            alike, same = far.alike[:, 0, 0], far.same_sentence[:, 0, 0]
            none = torch.zeros(len(alike), matrices.shape[3] - 2, dtype=torch.bool, device=alike.device)
            beyond = torch.cat([torch.stack([alike & same, alike & ~same], -1), none], -1)
            queries, of_keys = view.cells - view.cells.new_tensor([[view.batch.queries.start], [self._keys_at.start]])
            self._queries, keys = torch.cat([self._queries, queries[None]], 1), torch.cat([keys, of_keys[None]], 1)
            self._values = torch.cat([self._values, beyond[None].to(self._values)], 1)
        self._values *= self.word.gather(1, self._queries)[..., None]
        whole = self._added(self._queries, self._values, self._shape[0]).gather(
            1, self._queries[..., None].expand_as(self._values)
        )
        self._values /= torch.where(whole > 0, whole, 1)  # words' rows in proportion, each of them adding up to 1
        self._cells, self._of_cells = self._queries * self._shape[1] + keys, keys

    @staticmethod
    def _added(into: Tensor, values: Tensor, count: int) -> Tensor:
        """Cells added up by query, or by key. Shape: [batch, cell] and [batch, cell, part] -> [batch, count, part]."""
        sums = values.new_zeros(len(values), count, values.shape[-1])
        return sums.scatter_add_(1, into[..., None].expand_as(values), values)

    def _kinds(self, batch: EncodedBatch, inputs: slice) -> Tensor:
        word = batch.word[inputs]
        kinds = [*(mask[inputs] for mask in batch.delimiters), batch.punctuation[inputs]]
        kinds += [word & (batch.sentence[inputs] == sentence) for sentence in range(_SENTENCES)]
        return torch.stack(kinds, -1).float()[:, self._keys_at]

    def _by_query(self, kinds: Tensor, sentence: Tensor | None = None) -> Tensor:
        """What each query has of every kind, that of its own sentence before the other one's.

        Shape: [batch, ..., query, kind]; `sentence` [batch, query] if that is not of all queries.
        """
        *others, a, b = kinds.unbind(-1)
        sentence = self._sentence if sentence is None else sentence
        in_b = sentence.reshape(len(kinds), *[1] * (kinds.ndim - 3), -1) == 1
        return torch.stack([*others, torch.where(in_b, b, a), torch.where(in_b, a, b)], -1)

    def read(self, weights: Tensor) -> Tensor:
        """The sum of weights times each part's rows. Shape: [batch, head, query, key] -> [batch, head, part]."""
        distances = [
            (weights.diagonal(self._first + offset, dim1=2, dim2=3) * near[:, None]).sum(-1)
            for offset, near in self._offsets.items()
        ]
        picked = weights.flatten(2).gather(2, self._cells[:, None].expand(-1, weights.shape[1], -1))
        on_kinds = (weights.flatten(1, 2) @ self._keys.to(weights)).reshape(*weights.shape[:3], -1)
        of_kinds = self._by_query(on_kinds) * self._scale[:, None]
        none = weights.new_zeros(*weights.shape[:2], 0)
        return torch.cat([_stacked(distances, none), picked.to(self._exact) @ self._values, of_kinds.sum(2)], -1)

    def all_rows(self, weights: Tensor, keys: int) -> _AllRows:
        """What these rows add to what `same-keys` needs, at their places among so many keys.

        Shape: `weights` [batch, head, query, key].
        """
        if self._is_range:
            column = (self.word.to(weights)[:, None, None] @ weights)[:, :, 0].to(self._exact)
        else:  # in float64, so that an input's sums do not depend on the inputs beside it
            column = (weights * self.word[:, None, :, None]).sum(2, dtype=self._exact)
        if column.shape[-1] == keys:
            return _AllRows(column, self._columns.clone(), self._seen_by.clone())
        room = (self._keys_at.start, keys - self._keys_at.stop)
        return _AllRows(pad(column, room), pad(self._columns, (0, 0, *room)), pad(self._seen_by, room))

    def on_even(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Heads' weights times even rows over all keys that a word may see; and those rows' own squares.

        Shape: [batch, head] and [batch, 1].
        """
        rows = weights.sum(-1).to(self._exact)
        return (rows @ self._even_rows[..., None])[..., 0], self._even_rows.sum(1, keepdim=True)

    def _column_sums(self) -> Tensor:
        """Every part's rows added, key by key. Shape: [batch, key, part]."""
        distances = [self._by_keys(offset, cells) for offset, cells in self._offsets.items()]
        *plain, own, other = self._scale.unbind(-1)
        in_b = self._sentence == 1
        by_sentence = [values * of for of in (~in_b, in_b) for values in (own, other)]
        *plain, own_a, other_a, own_b, other_b = self._of_seeing(torch.stack([*plain, *by_sentence], -1)).unbind(-1)
        *kinds, a, b = self._keys.unbind(-1)
        kinds = [kind * values for kind, values in zip(kinds, plain, strict=True)]
        sums = torch.stack([*distances, *kinds, a * own_a + b * own_b, a * other_b + b * other_a], -1)
        cells = self._added(self._of_cells, self._values, self._shape[1])
        return torch.cat([sums[..., : len(distances)], cells, sums[..., len(distances) :]], -1)

    def _products(self) -> Tensor:
        """Every two parts' rows multiplied and added. Shape: [batch, part, part].

        A word has no two distances to one key, and no key is of two kinds but punctuation.
        """
        of_queries = [self._of_queries(offset, cells) for offset, cells in self._offsets.items()]
        near = _stacked(of_queries, self._scale.new_zeros(*self._scale.shape[:2], 0))
        # [batch, distance, query, kind]: what is beyond the keys is not near, so that anything may stand there
        offsets = near.new_tensor([*self._offsets], dtype=torch.long)
        at = torch.arange(self._shape[0], device=near.device)[None] + offsets[:, None]
        nearby = self._keys[:, (at + self._first).clip(0, self._shape[1] - 1)]
        scaled = self._by_query(nearby) * self._scale[:, None]
        near_kinds = (scaled * near.permute(0, 2, 1)[..., None]).sum(2)
        punctuation = self._by_query(self._of_seen(self._keys * self._keys[..., _PUNCTUATION, None]))
        marked = (punctuation * self._scale * self._scale[..., _PUNCTUATION, None]).sum(1)
        kinds = torch.diag_embed(self._scale.sum(1))
        kinds[:, _PUNCTUATION] = kinds[:, :, _PUNCTUATION] = marked
        of_cells = self._queries[..., None].expand(-1, -1, max(near.shape[2], kinds.shape[2]))
        distance = (self._of_cells - self._queries - self._first)[..., None] == offsets
        at_distance = distance * near.gather(1, of_cells[..., : near.shape[2]])
        of_kinds = self._keys.gather(1, self._of_cells[..., None].expand(-1, -1, kinds.shape[2]))
        of_kinds = self._by_query(of_kinds, self._sentence.gather(1, self._queries))
        of_kinds = of_kinds * self._scale.gather(1, of_cells[..., : kinds.shape[2]])
        cells = self._values.mT @ torch.cat([at_distance, self._values, of_kinds], -1)
        before, itself, after = torch.split(cells, [near.shape[2], cells.shape[1], kinds.shape[2]], -1)
        first = torch.cat([torch.diag_embed(near.sum(1)), before.mT, near_kinds], 2)
        last = torch.cat([near_kinds.mT, after.mT, kinds], 2)
        return torch.cat([first, torch.cat([before, itself, after], 2), last], 1)

    def _of_queries(self, offset: int, cells: Tensor) -> Tensor:
        """A diagonal's cells by their queries. Shape: [batch, cell] -> [batch, query]."""
        before = min(max(0, -self._first - offset), self._shape[0])
        return pad(cells, (before, self._shape[0] - before - cells.shape[1]))

    def _by_keys(self, offset: int, cells: Tensor) -> Tensor:
        """A diagonal's cells by their keys. Shape: [batch, cell] -> [batch, key]."""
        before = min(max(0, self._first + offset), self._shape[1])
        return pad(cells, (before, self._shape[1] - before - cells.shape[1]))


def profiled(patterns: Sequence[Pattern], *, predictive: bool) -> tuple[str, ...]:
    """The parts of a profile: ours, and the patterns of one's own."""
    return parts_of([pattern.id for pattern in _others(patterns, predictive=predictive)])


def _others(patterns: Sequence[Pattern], *, predictive: bool) -> list[Pattern]:
    """The patterns that are parts by their targets: `predictive` if it was asked for, links, and those of one's own."""
    ours = [
        pattern for pattern in ALL_PATTERNS if pattern is not ALIGNED and not (pattern.target is None and predictive)
    ]
    return [pattern for pattern in patterns if pattern not in ours]


class Profiler:
    """A consumer of attention blocks that sums one batch for profiles."""

    def __init__(
        self,
        batch: EncodedBatch,
        patterns: Sequence[Pattern],
        helps: Sequence[Help] = (),
        *,
        special: bool = True,
        units: Units | None = None,
    ) -> None:
        """With `helps`, those of every input, the words that help to predict are a part.

        With `special`, special tokens are keys; without, each word's weights on words are renormalised.
        Profilers of the same batch and patterns may share their `units`.
        """
        others = _others(patterns, predictive=bool(helps))
        self._batch, self._targets, self._special = batch, Targets(batch, others, helps), special
        self.parts = parts_of([pattern.id for pattern in others])
        """By name."""
        self._units = Units(batch) if units is None else units
        self._all_rows: _AllRows | None = None
        """Of the ranges so far of some inputs and heads."""
        self._grid: Grid | None = None

    def _start(self, grid: Grid) -> None:
        """Make room for every layer and head."""
        self._grid, parts, word = grid, len(self.parts), self._batch.word
        inputs, (layers, heads) = len(self._batch), grid.shape

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(inputs, *shape, dtype=exact(word.device), device=word.device)

        self._sums = {
            "gram": zeros(layers, parts - 1, parts - 1),
            "mass": zeros(layers, parts),
            "even": zeros(layers),
            "products": zeros(layers, heads, parts),
            "on_part": zeros(layers, heads, parts),
            "same_keys": zeros(layers, heads),
            "squares": zeros(layers, heads),
            "on_even": zeros(layers, heads),
        }

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        if block.preview:
            return
        if block.grid != self._grid:
            self._start(block.grid)
        for of_tokens, of_units in self._units.blocks(block):
            self._take(of_tokens, of_units)

    def _take(self, of_tokens: AttentionBlock, block: AttentionBlock) -> None:
        """Sum some queries of some inputs of one length; the last of them bring what `same-keys` needs of all rows."""
        parts = self._units.layouts.of(f"profile {self._special}", block, lambda: self._of(of_tokens, block))
        sums, weights, words = self._sums, block.weights, self._batch.query_word[block.inputs].sum(1, keepdim=True)
        layer, place = (block.inputs, block.layer), (block.inputs, block.layer, block.heads)
        if not self._special and not block.is_whole:
            weights, _ = self._units.among_words(block)
        elif not self._special:
            weights = weights * self._batch.word[block.inputs, None, None, block.columns]
            weights = weights / weights.sum(-1, keepdim=True).clip(LEAST_LEFT)
        lengths = torch.linalg.vector_norm(weights, dim=-1) * parts.word[:, None]
        on_even, even = parts.on_even(weights)
        add_range(sums["squares"], place, lengths.to(sums["squares"]).square().sum(-1), block)
        add_range(sums["on_even"], place, on_even, block)
        add_range(sums["even"], layer, even[:, 0], block)
        add_range(sums["on_part"], (*place, slice(-1)), parts.read(weights), block)
        add_range(sums["gram"], layer, parts.gram, block)
        add_range(sums["mass"], (*layer, slice(-1)), parts.mass, block)
        whole = parts.all_rows(weights, block.columns.stop if block.is_whole else self._batch.word.shape[1])
        if block.is_first or self._all_rows is None:
            self._all_rows = whole
        else:
            self._all_rows += whole
        if not of_tokens.is_last:
            return
        words = words.to(sums["mass"])
        same = self._all_rows.same_keys(words, sums["on_part"][*place, :-1], sums["squares"][place])
        sums["on_part"][*place, -1] = same.on_part
        sums["products"][place], sums["same_keys"][place] = same.products, same.mass
        sums["mass"][*layer, -1] = (words * (words > 1))[:, 0]

    def _of(self, of_tokens: AttentionBlock, block: AttentionBlock) -> Parts:
        """The parts of some inputs' queries, under their mask."""
        rows = self._targets.of_rows(of_tokens, block)
        return Parts(rows.view, block, [target.matrix for target in rows.targets], special=self._special)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums, once every block has come, as `fitted` takes them.

        Shape: [pair, ...] each, then as `sums_shapes` says.
        Raises: CaptureError if the model's attention is not finite.
        """
        sums = {**self._sums, "words": self._batch.query_word.sum(1)}
        arrays = {name: values.cpu().numpy().astype(np.float64) for name, values in sums.items()}
        if not np.isfinite(arrays["squares"]).all():
            raise not_finite("the attention weights")
        return arrays


def profile_sums(pairs: Mapping[str, FloatArray], keys: Sequence[str]) -> BlockSums:
    """The sums of some pairs, by the `Pair.key` of each; what all layers have in common is kept once."""
    alike = {name: squeezed(pairs[name], [1]) for name in ("gram", "mass", "even")}
    return BlockSums.of(keys, {**pairs, **alike}, BLOCKS)
