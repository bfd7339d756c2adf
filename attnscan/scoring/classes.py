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
from attnscan.model.attention_block import AttentionBlock, Ranges
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray
from attnscan.results.statement import CLASSES, COLUMNS
from attnscan.scoring.block_sums import BlockSums, most_blocks, squeezed
from attnscan.scoring.merging import Merge
from attnscan.scoring.readout import LEAST_LEFT, exact

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
        where[:, None] for where in (place.where(word, word.shape[1]).amin(1), place.where(word, -1).amax(1))
    )
    start, end = special & (place < first), special & (place > last)
    words = word[:, :, None] & word[:, None, :]
    own = words & (batch.sentence[:, :, None] == batch.sentence[:, None, :])

    def keys(mask: Tensor) -> Tensor:
        return word[:, :, None] & mask[:, None, :]

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
    """What some inputs of one length are summed by, under one mask."""

    visible: Tensor
    """Kept alive, so that its id stays its own."""
    is_word: Tensor
    """Shape: [batch, unit], bool."""
    cells: Tensor
    """0 or 1: the classes of words that depend on the query. Shape: [batch, query, key, column], float32."""
    keys: Tensor
    """0 or 1: the columns `_OF_KEYS`. Shape: [batch, key, column], float32."""
    even: Tensor
    """Even attention of every word. Shape: [batch, query, key], float32."""
    on_even: Tensor
    """What that has on each column. Shape: [batch, query, column], float64."""


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    def __init__(self, batch: EncodedBatch, *, special: bool, by_query: bool = False) -> None:
        """With `special`, special tokens are keys; without, each word's weights on words are renormalised.

        With `by_query`, every word of a batch of one input is summed by itself, and is what else a pair is.
        """
        assert not by_query or len(batch) == 1
        self._batch, self._special, self._by_query = batch, special, by_query
        self._merge = None if batch.unit is None else Merge(batch.unit)
        self._ranges = Ranges()
        self._layouts: dict[tuple[int, int, int, int], _Layout] = {}
        self._classes: tuple[Tensor | None, Tensor] = None, batch.word
        """The classes under the mask that came last, and that mask."""
        self._grid: Grid | None = None

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before.

        Of several ranges of queries, the last brings the sums: `same-keys` needs the mean of all rows.
        """
        if (joined := self._ranges.joined(block)) is None:
            return
        block = joined
        if block.grid != self._grid:
            self._start(block.grid)
        start, stop, _ = block.inputs.indices(len(self._batch))
        if self._merge is None:
            self._take(block, slice(start, stop), block.weights, block.idle)
            return
        for row, number in enumerate(range(start, stop)):  # words are of any number, whatever that of tokens
            merged = self._merge.block(block, row, number)
            self._take(block, merged.inputs, merged.weights, merged.idle)

    def _start(self, grid: Grid) -> None:
        """Make room for every layer and head."""
        self._grid, word = grid, self._batch.word
        units = word.shape[1] if self._by_query else len(word)

        def zeros(columns: int) -> Tensor:
            return torch.zeros(units, *grid.shape, columns, dtype=exact(word.device), device=word.device)

        self._on, self._even, self._n = zeros(COLUMNS), zeros(COLUMNS), zeros(1)

    def _take(self, block: AttentionBlock, inputs: slice, weights: Tensor, idle: Tensor | None) -> None:
        """Sum some inputs of one length."""
        layout = self._layout(block, inputs, weights.shape[-1])
        eligible = layout.is_word[:, None].expand(weights.shape[:3])
        if idle is not None:
            eligible = eligible & ~idle
        if self._special:
            rows = weights * eligible[..., None]
        else:
            rows = weights * layout.is_word[:, None, None]
            left = rows.sum(-1)
            eligible = eligible & (left >= LEAST_LEFT)
            rows *= (eligible / left.clip(LEAST_LEFT))[..., None]
        self._add(layout, inputs, block, rows, eligible)

    def _add(self, layout: _Layout, inputs: slice, block: AttentionBlock, rows: Tensor, eligible: Tensor) -> None:
        """Sum rows [batch, head, query, key] of the queries that count, [batch, head, query]."""
        column, words = rows.sum(2), eligible.sum(-1).to(self._on)[..., None]
        common = torch.minimum(rows, layout.even[:, None])
        like_even = common.sum(-1)
        # With C the sum of n words' rows, min(a, (C - a) / (n - 1)) is (n min(a, C / n) - a) / (n - 1)
        mean = (column / words.to(column).clip(1))[:, :, None]
        like_mean = torch.minimum(rows, mean, out=common).sum(-1).to(self._on) * words
        like_others = (like_mean - rows.sum(-1)) / (words - 1).clip(1)
        common = torch.stack([like_even.to(self._on), like_others], -1)
        counted = eligible.to(self._on)
        if self._by_query:
            own = rows[0].transpose(0, 1)
            linear = self._linear(own @ layout.cells[0], own @ layout.keys[0])
            place = (slice(rows.shape[-1]), block.layer, block.heads)
            self._on[place] = torch.cat([linear, common[0].transpose(0, 1)], -1)
            self._even[place][..., :_LINEAR] = counted[0].T[..., None] * layout.on_even[0][:, None]
            self._n[place] = counted[0].T[..., None]
            return
        place = (inputs, block.layer, block.heads)
        # input by input, since the rounding of a product of several depends on how many there are
        cells = torch.stack([own.flatten(1) @ by.flatten(0, 1) for own, by in zip(rows, layout.cells, strict=True)])
        linear = self._linear(cells, torch.stack([own @ by for own, by in zip(column, layout.keys, strict=True)]))
        self._on[place] = torch.cat([linear, common.sum(2)], -1)
        self._even[place][..., :_LINEAR] = counted @ layout.on_even
        self._n[place] = counted.sum(-1, keepdim=True)

    def _layout(self, block: AttentionBlock, inputs: slice, length: int) -> _Layout:
        """The columns of some inputs, laid out once for all layers that have a mask."""
        visible = block.visible
        key = (inputs.start, inputs.stop, length, id(visible))
        if key not in self._layouts:
            own = (inputs, slice(length))
            word, classes = self._batch.word[own], self._classes_under(visible)[(*own, slice(length))]
            cells = (classes[..., None] == torch.arange(_SPECIAL, len(CLASSES)).to(classes)).float()
            special = classes[..., None] == torch.arange(_SPECIAL).to(classes)
            keys = torch.cat([special.any(1), self._frequent_and_rare()[own]], -1).float()
            even = self._even_rows(block, inputs, visible, word)
            precise = even.to(exact(word.device))
            if self._merge is None:  # of even rows the keys need but be counted, which floats do exactly
                in_cells = ((even > 0).float()[:, :, None] @ cells)[:, :, 0] * precise.amax(-1, keepdim=True)
            else:
                in_cells = (precise[:, :, None] @ cells.to(precise))[:, :, 0]
            on_even = self._linear(in_cells, precise @ keys.to(precise))
            self._layouts[key] = _Layout(visible, word, cells, keys, even, on_even)
        return self._layouts[key]

    def _classes_under(self, visible: Tensor) -> Tensor:
        """The classes of all inputs' cells, worked out once for all blocks and layers that have a mask."""
        mask, classes = self._classes
        if mask is not visible:
            classes = class_of_cells(self._batch.under(visible[: len(self._batch)]))
            self._classes = visible, classes
        return classes

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

    def _even_rows(self, block: AttentionBlock, inputs: slice, visible: Tensor, word: Tensor) -> Tensor:
        """Even attention of words over the keys that they may see. Shape: as `_Layout.even`."""
        tokens = block.weights.shape[-1]
        even = visible[inputs, :tokens, :tokens].float()
        even = even / even.sum(-1, keepdim=True).clip(1)
        if self._merge is not None:
            even = self._merge(inputs.start, even[:, None])[:, 0]
        even = even * word[..., None]
        if self._special:
            return even
        even = even * word[:, None]
        return even / even.sum(-1, keepdim=True).clip(LEAST_LEFT)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's, once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1].
        """
        units = self._batch.word[0].cpu().numpy() if self._by_query else slice(None)
        named = {"on": self._on, "even": self._even, "n": self._n}
        return {name: values.cpu().numpy().astype(np.float64, copy=False)[units] for name, values in named.items()}


def class_sums(pairs: Mapping[str, FloatArray], keys: Sequence[str]) -> BlockSums:
    """The sums of some pairs, by the `Pair.key` of each; what layers and heads have in common is kept once."""
    on = pairs["on"]
    sums = {"on": on, "even": squeezed(pairs["even"]), "n": squeezed(pairs["n"])}
    return BlockSums.of(keys, sums, most_blocks(on[0].size))
