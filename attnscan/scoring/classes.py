"""Where attention goes, class by class: a consumer that sums every head's weight on each class of keys.

A class is a set of (query, key) pairs, such as the next word or punctuation, and every key of a word falls into the
first that fits (`results/behaviour.py` lists them). Habits are made of these sums, and of what each row has in
common with an even row and with the mean row of the input's other words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.behaviour import CLASSES
from attnscan.results.scores import FloatArray
from attnscan.scoring.units import LEAST_LEFT, SumsOfBatch, UnitBlock, Units, exact

_DISTANCES = {
    "itself": (0, 0),
    "next": (1, 1),
    "previous": (-1, -1),
    "next-2-3": (2, 3),
    "previous-2-3": (-3, -2),
    "next-4-8": (4, 8),
    "previous-4-8": (-8, -4),
    "later": (1, 1 << 30),
    "earlier": (-1 << 30, -1),
}
"""How far a key of the own sentence stands behind the query, at least and at most."""


def class_of_cells(batch: EncodedBatch) -> Tensor:
    """The class of every word-query and key, by its place in `CLASSES`; the number behind the last for all others.

    Shape: [batch, query, key], int8.
    """
    asked, keys = batch.word[:, batch.queries, None], batch.word[:, None, batch.keys]
    offset, words, alike = batch.offset, asked & keys, batch.alike
    own = words & (batch.sentence[:, batch.queries, None] == batch.sentence[:, None, batch.keys])
    cells = {name: own & (offset >= least) & (offset <= most) for name, (least, most) in _DISTANCES.items()}
    of_keys = (*zip(CLASSES, batch.delimiters, strict=False), ("punctuation", batch.punctuation))
    cells |= {name: asked & mask[:, None, batch.keys] for name, mask in of_keys}
    cells |= {"identical": alike & own, "cross-sentence": alike & ~own, "elsewhere": words & ~own}
    classes = torch.full(words.shape, len(CLASSES), dtype=torch.int8, device=words.device)
    for number, name in reversed(list(enumerate(CLASSES))):
        classes.masked_fill_(cells[name], number)
    return classes


class _Rows(NamedTuple):
    """What the rows of some queries are by the reading. Shape: [input, head, query, ...] each."""

    eligible: Tensor  # which queries are words that have a row
    scale: Tensor  # what weights on keys that count are multiplied with; 0 of queries that have no row
    total: Tensor  # of each row, once it is multiplied
    special: Tensor  # weight on special tokens at the start, in the middle, at the end
    marked: Tensor  # of the multiplied row, on frequent words and on rare ones


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    def __init__(self, units: Units, *, special: bool) -> None:
        """With `special`, special tokens are keys; without, each word's weights on words are renormalised.

        Scorers of the same batch may share their `units`.
        """
        self._units, self._special, self._sums = units, special, SumsOfBatch(units)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        for parts in self._units.blocks(block):
            rows = [self._rows(part, part.weights, part.takes) for part in parts]
            count = torch.stack([own.eligible.sum(2, keepdim=True) for own in rows]).sum(0)
            mean = torch.stack([own.scale.mT @ part.weights for part, own in zip(parts, rows, strict=True)]).sum(0)
            mean /= count.clip(1)
            for part, own in zip(parts, rows, strict=True):
                self._sums.put(part, self._sums_of(part, own, mean, count))

    def _layout(self, block: UnitBlock) -> tuple[Tensor, Tensor]:
        """Which keys count, which are special tokens at each of three places, frequent words, rare ones; and classes.

        Shape: [input, 1, key, 6], 0 or 1; [input, 1, query, key], int8.
        """
        batch, word = block.batch, block.batch.word
        frequent = torch.zeros_like(word) if batch.frequent is None else batch.frequent
        rare = word & ~frequent & ~batch.punctuation & (batch.frequent is not None)
        marks = torch.stack([word | self._special, *batch.delimiters, frequent, rare], -1)[:, None, batch.keys]
        return marks.float(), class_of_cells(batch)[:, None]

    def _rows(self, block: UnitBlock, weights: Tensor, takes: Tensor) -> _Rows:
        """The rows of queries that take part. Shape: `takes` [input, head, query], bool."""
        marks, _ = block.once(f"classes {self._special}", lambda: self._layout(block))
        left, special, marked = (weights @ marks).tensor_split([1, 4], -1)
        eligible = takes[..., None] & (left >= LEAST_LEFT)
        scale = eligible.float() if self._special else eligible / left.clip(LEAST_LEFT)
        return _Rows(eligible, scale, left * scale, special, marked * scale)

    def _on_columns(self, block: UnitBlock, weights: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
        """The rows by key, and what they have on all classes and marked words. Shape: [input, head, query, ...]."""
        marks, classes = block.once(f"classes {self._special}", lambda: self._layout(block))
        by_key = (weights * marks[..., 0][:, :, None]).mul_(rows.scale)
        on = by_key.new_zeros(*by_key.shape[:3], len(CLASSES) + 1)
        on.scatter_add_(3, classes.long().expand_as(by_key), by_key)
        return by_key, torch.cat([on[..., :-1], rows.marked], -1)

    def _on_even(self, block: UnitBlock, even: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The most that even rows give a key, what they have on all columns, and what special tokens have of them.

        Shape: [input, head, query, ...] each; of keys that are tokens, which all get the same, the first has one.
        """
        rows = self._rows(block, even, torch.ones_like(even[..., 0], dtype=torch.bool))
        by_key, on = self._on_columns(block, even, rows)
        return by_key if block.batch.unit is not None else by_key.amax(-1, keepdim=True), on, rows.special

    def _sums_of(self, block: UnitBlock, rows: _Rows, mean: Tensor, count: Tensor) -> dict[str, Tensor]:
        """The sums of some queries, whose inputs have so many words and this mean row.

        Shape: `mean` [input, head, 1, key], `count` [input, head, 1, 1].
        """
        most, on_even, even_special = block.once(f"even {self._special}", lambda: self._on_even(block, block.even))
        if (even := block.even_carried) is not None:
            _, on_even, even_special = self._on_even(block, even)
        by_key, on = self._on_columns(block, block.weights, rows)
        takes = block.takes[..., None]
        # The mean m of n rows has (n m - a) / (n - 1) of the others; min(a, that) is (n min(a, m) - a) / (n - 1)
        common = torch.minimum(by_key, mean)
        like_others = (common.sum(-1, keepdim=True) * count.to(exact(count.device)) - rows.total) / (count - 1).clip(1)
        like_even = torch.minimum(by_key, most, out=common).sum(-1, keepdim=True)
        alike = torch.cat([like_even, like_others * rows.eligible], -1)
        return {
            "on": torch.cat([on, alike], -1),
            "even": torch.cat([on_even * rows.eligible, torch.zeros_like(alike)], -1),
            "n": rows.eligible,
            "special": rows.special * takes,
            "even_special": even_special * takes,
            "all_words": takes,
        }

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1]; of all attention `special` and
        `even_special` [pair, layer, head, 3], `all_words` [pair, layer, head, 1].
        """
        return self._sums.of_units()
