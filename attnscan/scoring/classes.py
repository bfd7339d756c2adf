"""Where attention goes, class by class: a consumer that sums every head's weight on each class of keys.

A class is a set of (query, key) pairs, such as the next word or punctuation, and every key of a word falls into the
first that fits (`results/behaviour.py` lists them). Habits are made of these sums, and of what each row has in
common with an even row and with the mean row of the input's other words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, add_range
from attnscan.results.behaviour import CLASSES, COLUMNS
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray
from attnscan.scoring.merging import LEAST_LEFT, Units, View, blocks_of_words, exact

_SPECIAL = 3  # the first classes are those of special tokens
_LINEAR = len(CLASSES) + 2  # the columns that are sums of weights: classes, then frequent and rare words
_OF_KEYS = [*range(_SPECIAL), len(CLASSES), len(CLASSES) + 1]  # of these, the ones that a key is in whatever the query
_FAR = (
    ("punctuation", "earlier", "later", "elsewhere", "elsewhere"),
    ("punctuation", "elsewhere", "elsewhere", "earlier", "later"),
)
"""Of what classes keys far from a query of A, or of B, are: punctuation, other words of A before and after it, of B."""
_MOVES = (("identical", "later"), ("identical", "earlier"), ("cross-sentence", "elsewhere"))
"""The class of a far key that is alike to its query, and the one that it would be of."""


def class_of_cells(batch: EncodedBatch) -> Tensor:
    """The class of every word-query and key, by its place in `CLASSES`; -1 for a query or a key that is in none.

    Shape: [batch, query, key], int8.
    """
    offset, sentence, columns = batch.offset, batch.sentence, batch.keys
    words = batch.asked[:, :, None] & batch.word[:, None, columns]
    own = words & (sentence[:, batch.queries, None] == sentence[:, None, columns])

    def keys(mask: Tensor) -> Tensor:
        return batch.asked[:, :, None] & mask[:, None, columns]

    def at(nearest: int, farthest: int) -> Tensor:
        return own & (offset >= min(nearest, farthest)) & (offset <= max(nearest, farthest))

    cells = {
        **{name: keys(mask) for name, mask in zip(CLASSES, batch.delimiters, strict=False)},
        "itself": at(0, 0),
        "identical": batch.alike & own,
        "cross-sentence": batch.alike & ~own,
        "next": at(1, 1),
        "previous": at(-1, -1),
        "next-2-3": at(2, 3),
        "previous-2-3": at(-2, -3),
        "punctuation": keys(batch.punctuation),
        "next-4-8": at(4, 8),
        "previous-4-8": at(-4, -8),
        "later": own & (offset > 0),
        "earlier": own & (offset < 0),
        "elsewhere": words & ~own,
    }
    classes = torch.full(words.shape, -1, dtype=torch.int8, device=words.device)
    for number, name in reversed(list(enumerate(CLASSES))):
        classes = classes.masked_fill(cells[name], number)
    return classes


def _one_hot(classes: Tensor) -> Tensor:
    """0 or 1: the classes of words that depend on the query. Shape: [...] -> [..., column], float32."""
    return (classes[..., None] == torch.arange(_SPECIAL, len(CLASSES)).to(classes)).float()


@dataclass(frozen=True)
class _Beyond:
    """Keys of one input that are far from some queries: their classes follow from key and sentence, but for a few."""

    keys: Tensor
    """0 or 1: those of `_FAR`. Shape: [key, column], float32."""
    in_b: Tensor
    """Which queries are of sentence B. Shape: [query], int64."""
    cells: Tensor
    """Queries and keys that are alike. Shape: [2, cell]."""
    moves: Tensor
    """Which of `_MOVES` applies to each. Shape: [cell]."""

    @classmethod
    def of(cls, view: View, rows: slice, columns: slice) -> _Beyond | None:
        """The keys beyond those that a view lays out; None if there are none."""
        if (cells := view.beyond) is None:
            return None
        batch = view.batch
        place = torch.arange(batch.word.shape[1], device=batch.word.device)
        sides = place < view.keys.start, place >= view.keys.stop
        sentence = batch.sentence[0].masked_fill(batch.punctuation[0], -1)
        keys = [
            batch.punctuation[0] & (sides[0] | sides[1]),
            *((sentence == s) & side for s in (0, 1) for side in sides),
        ]
        alike = cells.alike[:, 0, 0]
        moves = torch.where(cells.same_sentence[:, 0, 0], (cells.offset[:, 0, 0] < 0).long(), len(_MOVES) - 1)
        places = view.cells - view.cells.new_tensor([[rows.start], [columns.start]])
        in_b = (batch.sentence[0, rows] == 1).long()
        return cls(torch.stack(keys, -1)[columns].float(), in_b, places[:, alike], moves[alike])

    def sums(self, rows: Tensor, counts: Tensor, keys: Tensor, into: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows that count, added up: by class beyond, by the columns of all keys, and into which unit that goes.

        Shape: [head, query, key], [head, query], [key, column] and [query] -> [head, sum, class], [head, sum, column]
        and [sum].
        """
        units, group = torch.unique(2 * into + self.in_b, return_inverse=True)
        if len(units) == len(group):
            order = group.argsort()
            summed = rows[:, order] * counts[:, order, None]
        else:
            groups = torch.arange(len(units), device=group.device)[:, None] == group
            summed = (groups & counts[:, None]).to(rows) @ rows
        on, far = (summed @ columns.to(rows) for columns in (keys, self.keys))
        of_a, of_b, gained, lost = (_one_hot_of(names).to(rows) for names in (*_FAR, *zip(*_MOVES, strict=True)))
        picked = rows.flatten(1).index_select(1, self.cells[0] * rows.shape[2] + self.cells[1])
        moved = rows.new_zeros(len(rows), len(units) * len(_MOVES))
        moved.index_add_(1, group[self.cells[0]] * len(_MOVES) + self.moves, picked)
        classes = torch.where((units % 2 == 1)[:, None], far @ of_b, far @ of_a)
        classes += moved.reshape(len(rows), len(units), len(_MOVES)) @ (gained - lost)
        return classes.clip(0), on, units // 2


def _one_hot_of(names: Sequence[str]) -> Tensor:
    """0 or 1: the classes of some names. Shape: [name, class], float32."""
    return _one_hot(torch.tensor([CLASSES.index(name) for name in names]))


@dataclass(frozen=True)
class _Layout:
    """What some queries of some inputs of one length are summed by, under one mask."""

    is_word: Tensor
    """Which queries are words. Shape: [batch, query], bool."""
    is_key: Tensor
    """Shape: [batch, key], bool."""
    near: slice
    """The keys whose classes are laid out."""
    classes: Tensor
    """Shape: [batch, query, near key], int8."""
    cells: Tensor | None
    """`_one_hot` of the classes; None of a range of queries, which makes it again.

    Shape: [batch, query, near key, column]."""
    beyond: _Beyond | None
    """The other keys."""
    keys: Tensor
    """0 or 1: the columns `_OF_KEYS`. Shape: [batch, key, column], float32."""
    even: Tensor
    """Even attention of every word. Shape: [batch, query, key], float32."""
    on_even: Tensor
    """What that has on each column. Shape: [batch, query, column], float64."""
    even_special: Tensor
    """What even attention over all keys has on special tokens. Shape: [batch, query, 3], float64."""


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    def __init__(
        self, batch: EncodedBatch, *, special: bool, by_query: bool = False, units: Units | None = None
    ) -> None:
        """With `special`, special tokens are keys; without, each word's weights on words are renormalised.

        With `by_query`, a batch of one input is summed word by word, or by blocks of neighbours if it has many.
        Scorers of the same batch may share their `units`.
        """
        assert not by_query or len(batch) == 1
        self._batch, self._special, self._units = batch, special, Units(batch) if units is None else units
        self._word_block = blocks_of_words(batch.query_word[0]) if by_query else None
        self._all_rows: tuple[Tensor, Tensor] | None = None
        """By the previews of some inputs and heads: all rows added, and how many they are.

        Shape: [batch, head, key] and [batch, head]."""
        self._classes: tuple[EncodedBatch | None, Tensor] = None, batch.word
        """The batch under a mask whose cells were classed last, and their classes."""
        self._grid: Grid | None = None

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before.

        Ranges of queries have to be previewed: `same-keys` needs the mean of all rows.
        """
        if block.grid != self._grid:
            self._start(block.grid)
        for of_tokens, of_units in self._units.blocks(block):
            self._take(of_tokens, of_units)

    def _start(self, grid: Grid) -> None:
        """Make room for every layer and head."""
        self._grid, word = grid, self._batch.word
        units = len(word) if self._word_block is None else int(self._word_block.max()) + 1

        def zeros(columns: int) -> Tensor:
            return torch.zeros(units, *grid.shape, columns, dtype=exact(word.device), device=word.device)

        self._on, self._even, self._n = zeros(COLUMNS), zeros(COLUMNS), zeros(1)
        self._rest, self._even_rest, self._all_n = zeros(_SPECIAL), zeros(_SPECIAL), zeros(1)

    def _take(self, of_tokens: AttentionBlock, block: AttentionBlock) -> None:
        """Sum some inputs of one length."""
        if block.preview:
            self._foresee(block)
            return
        weights = block.weights
        layout = self._units.layouts.of(f"classes {self._special}", block, lambda: self._layout(of_tokens, block))
        eligible = layout.is_word[:, None].expand(weights.shape[:3])
        if block.idle is not None:
            eligible = eligible & ~block.idle
        self._add_rest(of_tokens, layout, block, eligible)
        if not block.is_whole:
            assert self._all_rows is not None  # ranges are previewed
            rows, left = (weights, None) if self._special else self._units.among_words(block)
            eligible = eligible if left is None else eligible & (left >= LEAST_LEFT)
            column, words = self._all_rows
            self._add(of_tokens, layout, block, rows, eligible, column[..., block.columns], words)
            return
        if self._special:
            rows = weights * eligible[..., None]
        else:
            rows = weights * layout.is_key[:, None, None]
            left = rows.sum(-1)
            eligible = eligible & (left >= LEAST_LEFT)
            rows *= (eligible / left.clip(LEAST_LEFT))[..., None]
        self._add(of_tokens, layout, block, rows, eligible, rows.sum(2), eligible.sum(-1))

    def _foresee(self, block: AttentionBlock) -> None:
        """Add a range's rows to those of all queries, without making them: two products with a vector are less."""
        weights, word = block.weights, self._batch.word[block.inputs]
        if block.is_first:
            room = weights.new_zeros(*weights.shape[:2], word.shape[1])
            self._all_rows = room, weights.new_zeros(weights.shape[:2], dtype=torch.int64)
        assert self._all_rows is not None
        column, words = self._all_rows
        of_keys = weights.new_ones(1) if self._special else word[:, None, block.columns].to(weights)
        of_keys = (of_keys if block.norms is None else of_keys * block.norms).expand(*weights.shape[:2], -1)
        left = (weights @ of_keys[..., None].expand(*weights.shape[:2], weights.shape[3], 1))[..., 0]
        eligible = word[:, None, block.rows] & (left >= LEAST_LEFT)
        if block.idle is not None:
            eligible = eligible & ~block.idle
        column[..., block.columns] += ((eligible / left.clip(LEAST_LEFT))[:, :, None] @ weights)[:, :, 0] * of_keys
        words += eligible.sum(-1)

    def _add(
        self,
        of_tokens: AttentionBlock,
        layout: _Layout,
        block: AttentionBlock,
        rows: Tensor,
        eligible: Tensor,
        column: Tensor,
        words: Tensor,
    ) -> None:
        """Sum rows [batch, head, query, key] of the queries that count, [batch, head, query].

        Shape: `column`, which adds up the rows of all queries, is [batch, head, key]; `words` tells how many they are.
        """
        words = words.to(self._on)[..., None]
        common = torch.minimum(rows, layout.even[:, None])
        like_even = common.sum(-1)
        # With C the sum of n words' rows, min(a, (C - a) / (n - 1)) is (n min(a, C / n) - a) / (n - 1)
        mean = (column / words.to(column).clip(1))[:, :, None]
        like_mean = torch.minimum(rows, mean, out=common).sum(-1).to(self._on) * words
        counted = eligible.to(self._on)
        like_others = (like_mean - (rows.sum(-1) if block.is_whole else 1)) / (words - 1).clip(1)
        common = torch.stack([like_even.to(self._on), like_others], -1) * counted[..., None]
        even = None if of_tokens.value_norms is None else self._even_carried(of_tokens, block, layout, eligible)
        if self._word_block is not None:
            (linear, into), *others = self._linear_of_words(layout, block, rows, eligible)
            self._add_words(block, self._on, torch.cat([linear, common[0].transpose(0, 1)], -1), into)
            self._add_words(block, self._n, counted[0].T[..., None], into)
            for far, units in others:
                self._on[:, block.layer, block.heads, :_LINEAR].index_add_(0, units, far)
            if even is None:
                parts = [(counted[0].T[..., None] * layout.on_even[0][:, None], into)]
            else:
                parts = list(self._linear_of_words(layout, block, even, eligible))
            self._add_words(block, self._even, pad(parts[0][0], (0, COLUMNS - _LINEAR)), into)
            for far, units in parts[1:]:
                self._even[:, block.layer, block.heads, :_LINEAR].index_add_(0, units, far)
            return
        place = (block.inputs, block.layer, block.heads)
        linear = self._linear_of_pairs(layout, block, rows, eligible, column if block.is_whole else None)
        add_range(self._on, place, torch.cat([linear, common.sum(2)], -1), block)
        on_even = counted @ layout.on_even if even is None else self._linear_of_pairs(layout, block, even, eligible)
        add_range(self._even, (*place, slice(_LINEAR)), on_even, block)
        add_range(self._n, place, counted.sum(-1, keepdim=True), block)

    def _add_rest(self, of_tokens: AttentionBlock, layout: _Layout, block: AttentionBlock, eligible: Tensor) -> None:
        """Sum what all words give to special tokens, as a share of all their attention.

        Shape: `eligible` [batch, head, query].
        """
        counted, keys = eligible.to(self._on), layout.keys[..., :_SPECIAL]
        pairs = zip(block.weights, keys, strict=True)
        given = torch.stack([own @ by for own, by in pairs]).to(self._on) * counted[..., None]
        if of_tokens.value_norms is None:
            even = layout.even_special[:, None].expand_as(given) * counted[..., None]
        else:
            carried = self._units.even_carried(of_tokens, block)
            even = (carried @ keys[:, None].to(carried)).to(self._on) * counted[..., None]
        sums = (self._rest, given), (self._even_rest, even), (self._all_n, counted[..., None])
        for total, values in sums:
            if self._word_block is None:
                add_range(total, (block.inputs, block.layer, block.heads), values.sum(2), block)
            else:
                self._add_words(block, total, values[0].transpose(0, 1), self._word_block[block.rows])

    def _even_carried(
        self, of_tokens: AttentionBlock, block: AttentionBlock, layout: _Layout, eligible: Tensor
    ) -> Tensor:
        """What even attention would carry, of queries that count. Shape: [batch, head, query, key]."""
        even = self._units.even_carried(of_tokens, block)
        if not self._special:
            even = even * layout.is_key[:, None, None]
            even = even / even.sum(-1, keepdim=True).clip(LEAST_LEFT)
        return even * eligible[..., None]

    def _linear_of_words(
        self, layout: _Layout, block: AttentionBlock, rows: Tensor, eligible: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The sums of weights of each query of one input, and the words or blocks of words that they are of.

        Shape: `rows` [1, head, query, key] -> [query, head, column] and [query], each.
        """
        assert self._word_block is not None
        into, beyond, keys = self._word_block[block.rows], layout.beyond, layout.keys[0]
        own = self._near(layout, block, rows, eligible)[0].transpose(0, 1)
        on_keys = own @ keys if beyond is None else keys.new_zeros(*own.shape[:2], keys.shape[1])
        yield self._linear(own @ self._cells(layout)[0], on_keys), into
        if beyond is not None:
            on_classes, on_keys, units = beyond.sums(rows[0], eligible[0], keys, into)
            yield self._linear(on_classes, on_keys).transpose(0, 1), units

    def _linear_of_pairs(
        self, layout: _Layout, block: AttentionBlock, rows: Tensor, eligible: Tensor, column: Tensor | None = None
    ) -> Tensor:
        """The sums of weights over queries; `column` are the keys' sums, if they are known.

        Shape: `rows` [batch, head, query, key], `column` [batch, head, key] -> [batch, head, column].
        """
        near, beyond, keys = self._near(layout, block, rows, eligible), layout.beyond, layout.keys
        # input by input, since the rounding of a product of several depends on how many there are
        both = zip(near, self._cells(layout), strict=True)
        on_cells = torch.stack([own.flatten(1) @ by.flatten(0, 1) for own, by in both])
        if beyond is None:
            column = near.sum(2) if column is None else column
            on_keys = torch.stack([own @ by for own, by in zip(column, keys, strict=True)])
        else:
            into = torch.zeros_like(beyond.in_b)
            on_classes, on_keys, _ = beyond.sums(rows[0], eligible[0], keys[0], into)
            on_cells, on_keys = on_cells + on_classes.sum(1), on_keys.sum(1)[None]
        return self._linear(on_cells, on_keys)

    @staticmethod
    def _near(layout: _Layout, block: AttentionBlock, rows: Tensor, eligible: Tensor) -> Tensor:
        """The rows' keys whose classes are laid out. Shape: [batch, head, query, near key]."""
        return rows if block.is_whole else rows[..., layout.near] * eligible[..., None]

    @staticmethod
    def _cells(layout: _Layout) -> Tensor:
        return _one_hot(layout.classes) if layout.cells is None else layout.cells

    @staticmethod
    def _add_words(block: AttentionBlock, total: Tensor, values: Tensor, into: Tensor) -> None:
        """Add [query, head, column] to the words, or blocks of words, that the queries are of."""
        of_heads = total[:, block.layer, block.heads]
        if block.is_first:
            of_heads.zero_()
        of_heads.index_add_(0, into, values)

    def _layout(self, of_tokens: AttentionBlock, block: AttentionBlock) -> _Layout:
        """The columns of some inputs' queries, under their mask."""
        inputs, columns = block.inputs, block.columns
        view = self._units.view(of_tokens, block)
        if self._classes[0] is not view.batch:  # of whole inputs it is of the mask's whole batch
            self._classes = view.batch, class_of_cells(view.batch)
        classes = self._classes[1][view.own].contiguous()
        near = slice(view.keys.start - columns.start, view.keys.stop - columns.start)
        beyond = _Beyond.of(view, block.rows, columns)
        word = self._batch.word[inputs]
        is_word, is_key = word[:, block.rows], word[:, columns]
        even = self._units.even(of_tokens, inputs) * is_word[..., None]
        all_even = even.to(exact(word.device))
        if not self._special:
            even = even * is_key[:, None]
            even = even / even.sum(-1, keepdim=True).clip(LEAST_LEFT)
        keys = torch.stack([*self._batch.delimiters, *self._frequent_and_rare()], -1)[inputs, columns].float()
        precise = even.to(exact(word.device))
        on_classes = precise.new_zeros(*precise.shape[:2], 1 + len(CLASSES))
        on_classes.scatter_add_(2, classes.long() + 1, precise[..., near])
        of_words, on_keys = on_classes[..., 1 + _SPECIAL :], precise @ keys.to(precise)
        if beyond is not None:
            of_words = (
                of_words + beyond.sums(precise, is_word, keys[0], torch.arange(len(beyond.in_b), device=word.device))[0]
            )
        on_even, cells = self._linear(of_words, on_keys), _one_hot(classes) if block.is_whole else None
        even_special = all_even @ keys[..., :_SPECIAL].to(all_even)
        return _Layout(is_word, is_key, near, classes, cells, beyond, keys, even, on_even, even_special)

    def _linear(self, cells: Tensor, keys: Tensor) -> Tensor:
        """The columns that are sums of weights, in their order. Shape: [..., column] each."""
        linear = keys.new_zeros(*keys.shape[:-1], _LINEAR, dtype=self._on.dtype)
        linear[..., _SPECIAL : len(CLASSES)], linear[..., _OF_KEYS] = cells.to(linear), keys.to(linear)
        return linear

    def _frequent_and_rare(self) -> tuple[Tensor, Tensor]:
        """Which words are frequent, and which are neither that nor punctuation; none where that is not known.

        Shape: [batch, unit] each, bool.
        """
        batch = self._batch
        if batch.frequent is None:
            return torch.zeros_like(batch.word), torch.zeros_like(batch.word)
        return batch.frequent, batch.word & ~batch.frequent & ~batch.punctuation

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1]; of all attention `special` and
        `even_special` [pair, layer, head, 3], `all_words` [pair, layer, head, 1].
        """
        units = slice(None) if self._word_block is None else slice(1, None)  # before words, all other queries
        named = {"on": self._on, "even": self._even, "n": self._n}
        named |= {"special": self._rest, "even_special": self._even_rest, "all_words": self._all_n}
        return {name: values.cpu().numpy().astype(np.float64, copy=False)[units] for name, values in named.items()}
