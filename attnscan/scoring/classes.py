"""Where attention goes, class by class: a consumer that sums every head's weight on each class of keys.

A class is a set of (query, key) pairs, such as the next word or punctuation, and every key of a word falls into the
first that fits (`results/behaviour.py` lists them). Habits are made of these sums, and of what each row has in
common with an even row and with the mean row of the input's other words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.behaviour import CLASSES, COLUMNS
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray
from attnscan.scoring.merging import LEAST_LEFT, Units, blocks_of_words, exact

_SPECIAL = 3  # the first classes are those of special tokens
_LINEAR = len(CLASSES) + 2  # the columns that are sums of weights: classes, then frequent and rare words
_OF_KEYS = [*range(_SPECIAL), len(CLASSES), len(CLASSES) + 1]  # of these, the ones that a key is in whatever the query
_MOST_CELLS = 1 << 22  # whose classes are laid out side by side; of longer inputs, some queries at a time


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
class _Layout:
    """What some inputs of one length are summed by, under one mask."""

    is_word: Tensor
    """Which queries are words. Shape: [batch, query], bool."""
    is_key: Tensor
    """Shape: [batch, key], bool."""
    classes: Tensor
    """Shape: [batch, query, key], int8."""
    cells: Tensor | None
    """`_one_hot` of the classes; None of long inputs, for which it is made again.

    Shape: [batch, query, key, column]."""
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
        self._classes: tuple[EncodedBatch | None, Tensor] = None, batch.word
        """The batch under a mask whose cells were classed last, and their classes."""
        self._grid: Grid | None = None

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
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
        weights = block.weights
        layout = self._units.layouts.of(f"classes {self._special}", block, lambda: self._layout(of_tokens, block))
        eligible = layout.is_word[:, None].expand(weights.shape[:3])
        if block.idle is not None:
            eligible = eligible & ~block.idle
        self._add_rest(of_tokens, layout, block, eligible)
        if self._special:
            rows = weights * eligible[..., None]
        else:
            rows = weights * layout.is_key[:, None, None]
            left = rows.sum(-1)
            eligible = eligible & (left >= LEAST_LEFT)
            rows *= (eligible / left.clip(LEAST_LEFT))[..., None]
        self._add(of_tokens, layout, block, rows, eligible)

    def _add(
        self, of_tokens: AttentionBlock, layout: _Layout, block: AttentionBlock, rows: Tensor, eligible: Tensor
    ) -> None:
        """Sum rows [batch, head, query, key] of the queries that count, [batch, head, query]; others are zero."""
        words, column = eligible.sum(-1).to(self._on)[..., None], rows.sum(2)
        common = torch.minimum(rows, layout.even[:, None])
        like_even = common.sum(-1)
        # With C the sum of n words' rows, min(a, (C - a) / (n - 1)) is (n min(a, C / n) - a) / (n - 1)
        mean = (column / words.to(column).clip(1))[:, :, None]
        like_mean = torch.minimum(rows, mean, out=common).sum(-1).to(self._on) * words
        counted = eligible.to(self._on)
        like_others = (like_mean - rows.sum(-1)) / (words - 1).clip(1)
        common = torch.stack([like_even.to(self._on), like_others], -1) * counted[..., None]
        even = None if of_tokens.value_norms is None else self._even_carried(of_tokens, block, layout, eligible)
        if self._word_block is not None:
            linear = self._linear_of_words(layout, rows)
            on_even = counted[0].T[..., None] * layout.on_even[0][:, None]
            if even is not None:
                on_even = self._linear_of_words(layout, even)
            self._add_words(block, self._on, torch.cat([linear, common[0].transpose(0, 1)], -1))
            self._add_words(block, self._even, pad(on_even, (0, COLUMNS - _LINEAR)))
            self._add_words(block, self._n, counted[0].T[..., None])
            return
        place = (block.inputs, block.layer, block.heads)
        self._on[place] = torch.cat([self._linear_of_pairs(layout, rows, column), common.sum(2)], -1)
        on_even = counted @ layout.on_even
        if even is not None:
            on_even = self._linear_of_pairs(layout, even, even.sum(2))
        self._even[(*place, slice(_LINEAR))] = on_even
        self._n[place] = counted.sum(-1, keepdim=True)

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
                total[block.inputs, block.layer, block.heads] = values.sum(2)
            else:
                self._add_words(block, total, values[0].transpose(0, 1))

    def _even_carried(
        self, of_tokens: AttentionBlock, block: AttentionBlock, layout: _Layout, eligible: Tensor
    ) -> Tensor:
        """What even attention would carry, of queries that count. Shape: [batch, head, query, key]."""
        even = self._units.even_carried(of_tokens, block)
        if not self._special:
            even = even * layout.is_key[:, None, None]
            even = even / even.sum(-1, keepdim=True).clip(LEAST_LEFT)
        return even * eligible[..., None]

    def _linear_of_words(self, layout: _Layout, rows: Tensor) -> Tensor:
        """The sums of weights of each query of one input.

        Shape: `rows` [1, head, query, key] -> [query, head, column].
        """
        of_queries = rows[0].transpose(0, 1)
        on_cells = [of_queries[some] @ cells for some, cells in self._cells(layout, 0)]
        return self._linear(torch.cat(on_cells), of_queries @ layout.keys[0])

    def _linear_of_pairs(self, layout: _Layout, rows: Tensor, column: Tensor) -> Tensor:
        """The sums of weights over queries; `column` are the keys' sums.

        Shape: `rows` [batch, head, query, key], `column` [batch, head, key] -> [batch, head, column].
        """
        # input by input, since the rounding of a product of several depends on how many there are
        on_cells = [
            torch.stack([own[:, some].flatten(1) @ cells.flatten(0, 1) for some, cells in self._cells(layout, place)])
            for place, own in enumerate(rows)
        ]
        on_keys = [own @ by for own, by in zip(column, layout.keys, strict=True)]
        return self._linear(torch.stack([parts.sum(0) for parts in on_cells]), torch.stack(on_keys))

    @staticmethod
    def _cells(layout: _Layout, place: int) -> Iterator[tuple[slice, Tensor]]:
        """Some queries at a time of one of the inputs, and the classes of their cells. Shape: [query, key, column]."""
        if layout.cells is not None:
            yield slice(None), layout.cells[place]
            return
        classes = layout.classes[place]
        step = max(1, _MOST_CELLS // classes.shape[1])
        for start in range(0, len(classes), step):
            some = slice(start, start + step)
            yield some, _one_hot(classes[some])

    def _add_words(self, block: AttentionBlock, total: Tensor, values: Tensor) -> None:
        """Add [query, head, column] to the words, or blocks of words, that the queries are of."""
        assert self._word_block is not None
        total[:, block.layer, block.heads].zero_().index_add_(0, self._word_block[block.rows], values)

    def _layout(self, of_tokens: AttentionBlock, block: AttentionBlock) -> _Layout:
        """The columns of some inputs under their mask."""
        inputs, columns = block.inputs, block.columns
        view = self._units.view(of_tokens, block)
        if self._classes[0] is not view.batch:  # of whole inputs it is of the mask's whole batch
            self._classes = view.batch, class_of_cells(view.batch)
        classes = self._classes[1][view.own].contiguous()
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
        on_classes.scatter_add_(2, classes.long() + 1, precise)
        on_even = self._linear(on_classes[..., 1 + _SPECIAL :], precise @ keys.to(precise))
        cells = _one_hot(classes) if classes[0].numel() <= _MOST_CELLS else None
        even_special = all_even @ keys[..., :_SPECIAL].to(all_even)
        return _Layout(is_word, is_key, classes, cells, keys, even, on_even, even_special)

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
