"""Where attention goes, class by class: a consumer of attention that sums every head's weight on each class of keys.

A class is a set of (query, key) pairs, such as the next word or punctuation, and every key of a word falls into the
first that fits (`results/statement.py` lists them). Statements are made of these sums, and of what each row has in
common with an even row and with the mean row of the input's other words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, add_range
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray
from attnscan.results.statement import CLASSES, COLUMNS
from attnscan.scoring.block_sums import BlockSums, most_blocks, squeezed
from attnscan.scoring.merging import Layouts, Units, blocks_of_words, exact
from attnscan.scoring.readout import LEAST_LEFT

_SPECIAL = 3  # the first classes are those of special tokens
_LINEAR = len(CLASSES) + 2  # the columns that are sums of weights: classes, then frequent and rare words
_OF_KEYS = [*range(_SPECIAL), len(CLASSES), len(CLASSES) + 1]  # of these, the ones that a key is in whatever the query


def class_of_cells(batch: EncodedBatch) -> Tensor:
    """The class of every word-query and key, by its place in `CLASSES`; -1 for a query or a key that is in none.

    Shape: [batch, query, key], int8.
    """
    word, special, offset = batch.word, batch.special, batch.offset
    place = torch.arange(word.shape[1], device=word.device).expand_as(word)
    first, last = (
        where[:, None]
        for where in (place.where(batch.key_word, word.shape[1]).amin(1), place.where(batch.key_word, -1).amax(1))
    )
    start, end = special & (place < first), special & (place > last)
    words = batch.asked[:, :, None] & word[:, None, :]
    own = words & (batch.sentence[:, batch.queries, None] == batch.sentence[:, None, :])

    def keys(mask: Tensor) -> Tensor:
        return batch.asked[:, :, None] & mask[:, None, :]

    def at(nearest: int, farthest: int) -> Tensor:
        return own & (offset >= min(nearest, farthest)) & (offset <= max(nearest, farthest))

    cells = {
        "start": keys(start),
        "middle": keys(special & ~start & ~end),
        "end": keys(end),
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
    classes = torch.full(words.shape, -1, dtype=torch.int8, device=word.device)
    for number, name in reversed(list(enumerate(CLASSES))):
        classes = classes.masked_fill(cells[name], number)
    return classes


@dataclass(frozen=True)
class _Layout:
    """What some queries of some inputs of one length are summed by, under one mask."""

    is_word: Tensor
    """Which queries are words. Shape: [batch, query], bool."""
    is_key: Tensor
    """Shape: [batch, key], bool."""
    classes: Tensor
    """Shape: [batch, query, key], int8."""
    cells: Tensor | None
    """`one_hot` of the classes; None of a range of queries, which makes it again.

    Shape: [batch, query, key, column]."""
    keys: Tensor
    """0 or 1: the columns `_OF_KEYS`. Shape: [batch, key, column], float32."""
    even: Tensor
    """Even attention of every word. Shape: [batch, query, key], float32."""
    on_even: Tensor
    """What that has on each column. Shape: [batch, query, column], float64."""


def one_hot(classes: Tensor) -> Tensor:
    """0 or 1: the classes of words that depend on the query. Shape: [...] -> [..., column], float32."""
    return (classes[..., None] == torch.arange(_SPECIAL, len(CLASSES)).to(classes)).float()


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    def __init__(
        self, batch: EncodedBatch, *, special: bool, by_query: bool = False, layouts: Layouts | None = None
    ) -> None:
        """With `special`, special tokens are keys; without, each word's weights on words are renormalised.

        With `by_query`, a batch of one input is summed word by word, or by blocks of neighbours if it has many.
        Scorers of the same batch may share their `layouts`.
        """
        assert not by_query or len(batch) == 1
        self._batch, self._special, self._units = batch, special, Units(batch)
        self._word_block = blocks_of_words(batch.query_word[0]) if by_query else None
        self._layouts = Layouts() if layouts is None else layouts
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

    def _take(self, of_tokens: AttentionBlock, block: AttentionBlock) -> None:
        """Sum some inputs of one length."""
        weights = block.weights
        layout = self._layouts.of(f"classes {self._special}", block, lambda: self._layout(of_tokens, block))
        eligible = layout.is_word[:, None].expand(weights.shape[:3])
        if block.idle is not None:
            eligible = eligible & ~block.idle
        if self._special:
            rows = weights * eligible[..., None]
        else:
            rows = weights * layout.is_key[:, None, None]
            left = rows.sum(-1)
            eligible = eligible & (left >= LEAST_LEFT)
            rows *= (eligible / left.clip(LEAST_LEFT))[..., None]
        if block.preview:
            self._foresee(block, rows, eligible)
        elif block.is_whole:
            self._add(layout, block, rows, eligible, rows.sum(2), eligible.sum(-1))
        else:
            assert self._all_rows is not None  # ranges are previewed
            column, words = self._all_rows
            self._add(layout, block, rows, eligible, column[..., block.columns], words)

    def _foresee(self, block: AttentionBlock, rows: Tensor, eligible: Tensor) -> None:
        """Add a range's rows to those of all queries."""
        if block.is_first:
            room = rows.new_zeros(*rows.shape[:2], self._batch.word.shape[1])
            self._all_rows = room, eligible.new_zeros(rows.shape[:2], dtype=torch.int64)
        assert self._all_rows is not None
        column, words = self._all_rows
        column[..., block.columns] += rows.sum(2)
        words += eligible.sum(-1)

    def _add(
        self, layout: _Layout, block: AttentionBlock, rows: Tensor, eligible: Tensor, column: Tensor, words: Tensor
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
        like_others = (like_mean - rows.sum(-1)) / (words - 1).clip(1)
        common = torch.stack([like_even.to(self._on), like_others], -1)
        counted, cells = eligible.to(self._on), one_hot(layout.classes) if layout.cells is None else layout.cells
        if self._word_block is not None:
            own, into = rows[0].transpose(0, 1), self._word_block[block.rows]
            linear = self._linear(own @ cells[0], own @ layout.keys[0])
            sums = [(self._on, torch.cat([linear, common[0].transpose(0, 1)], -1))]
            on_even = self._on.new_zeros(*linear.shape[:2], COLUMNS)
            on_even[..., :_LINEAR] = counted[0].T[..., None] * layout.on_even[0][:, None]
            for total, values in (*sums, (self._even, on_even), (self._n, counted[0].T[..., None])):
                of_heads = total[:, block.layer, block.heads]
                if block.is_first:
                    of_heads.zero_()
                of_heads.index_add_(0, into, values)
            return
        place = (block.inputs, block.layer, block.heads)
        # input by input, since the rounding of a product of several depends on how many there are
        on_cells = torch.stack([own.flatten(1) @ by.flatten(0, 1) for own, by in zip(rows, cells, strict=True)])
        column = column if block.is_whole else rows.sum(2)
        linear = self._linear(on_cells, torch.stack([own @ by for own, by in zip(column, layout.keys, strict=True)]))
        add_range(self._on, place, torch.cat([linear, common.sum(2)], -1), block)
        add_range(self._even, (*place, slice(_LINEAR)), counted @ layout.on_even, block)
        add_range(self._n, place, counted.sum(-1, keepdim=True), block)

    def _layout(self, of_tokens: AttentionBlock, block: AttentionBlock) -> _Layout:
        """The columns of some inputs' queries, under their mask."""
        inputs, columns = block.inputs, block.columns
        batch, place = self._units.view(of_tokens, inputs)
        if self._classes[0] is not batch:  # of whole inputs it is of the mask's whole batch
            self._classes = batch, class_of_cells(batch)
        classes = self._classes[1][place, : block.weights.shape[2], columns].contiguous()
        word = self._batch.word[inputs]
        is_word, is_key = word[:, block.rows], word[:, columns]
        even = self._units.even(of_tokens, inputs) * is_word[..., None]
        if not self._special:
            even = even * is_key[:, None]
            even = even / even.sum(-1, keepdim=True).clip(LEAST_LEFT)
        special = torch.stack([(classes == number).any(1) for number in range(_SPECIAL)], -1)
        keys = torch.cat([special, self._frequent_and_rare()[inputs, columns]], -1).float()
        precise = even.to(exact(word.device))
        on_classes = precise.new_zeros(*precise.shape[:2], 1 + len(CLASSES))
        on_classes.scatter_add_(2, classes.long() + 1, precise)
        on_even = self._linear(on_classes[..., 1 + _SPECIAL :], precise @ keys.to(precise))
        return _Layout(is_word, is_key, classes, one_hot(classes) if block.is_whole else None, keys, even, on_even)

    def _linear(self, cells: Tensor, keys: Tensor) -> Tensor:
        """The columns that are sums of weights, in their order. Shape: [..., column] each."""
        linear = keys.new_zeros(*keys.shape[:-1], _LINEAR, dtype=self._on.dtype)
        linear[..., _SPECIAL : len(CLASSES)], linear[..., _OF_KEYS] = cells.to(linear), keys.to(linear)
        return linear

    def _frequent_and_rare(self) -> Tensor:
        """Which words are frequent, and which are neither that nor punctuation; none where that is not known.

        Shape: [batch, unit, 2], bool.
        """
        batch = self._batch
        if batch.frequent is None:
            return torch.zeros(*batch.word.shape, 2, dtype=torch.bool, device=batch.word.device)
        return torch.stack([batch.frequent, batch.word & ~batch.frequent & ~batch.punctuation], -1)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1].
        """
        units = slice(None) if self._word_block is None else slice(1, None)  # before words, all other queries
        named = {"on": self._on, "even": self._even, "n": self._n}
        return {name: values.cpu().numpy().astype(np.float64, copy=False)[units] for name, values in named.items()}


def class_sums(pairs: Mapping[str, FloatArray], keys: Sequence[str]) -> BlockSums:
    """The sums of some pairs, by the `Pair.key` of each; what layers and heads have in common is kept once."""
    on = pairs["on"]
    sums = {"on": on, "even": squeezed(pairs["even"]), "n": squeezed(pairs["n"])}
    return BlockSums.of(keys, sums, most_blocks(on[0].size))
