"""Where attention goes, class by class: a consumer that sums every head's weight on each class of keys.

A class is a set of (query, key) pairs, such as the next word or punctuation, and every key of a word falls into the
first that fits (`results/behaviour.py` lists them). Habits are made of these sums, and of what each row has in
common with an even row and with the mean row of the input's other words.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    offset, sentence, asked = batch.offset, batch.sentence, batch.word[:, batch.queries, None]
    words, alike = asked & batch.word[:, None, batch.keys], batch.alike
    own = words & (sentence[:, batch.queries, None] == sentence[:, None, batch.keys])
    of_keys = {**dict(zip(CLASSES, batch.delimiters, strict=False)), "punctuation": batch.punctuation}

    def cells(name: str) -> Tensor:
        if name in of_keys:
            return asked & of_keys[name][:, None, batch.keys]
        if name in _DISTANCES:
            least, most = _DISTANCES[name]
            return own & (offset >= least) & (offset <= most)
        if name == "elsewhere":
            return words & ~own
        return alike & (own if name == "identical" else ~own)

    classes = torch.full(words.shape, len(CLASSES), dtype=torch.int8, device=words.device)
    for number, name in reversed(list(enumerate(CLASSES))):
        classes.masked_fill_(cells(name), number)
    return classes


@dataclass(frozen=True)
class _Layout:
    """What some inputs are summed by, under one mask."""

    marks: Tensor
    """0 or 1: which keys count by the reading; which are special tokens at the start, in the middle, at the end; which
    are frequent words, which rare ones. Shape: [input, 1, key, 6]."""
    classes: Tensor  # Shape: [input, 1, query, key], int8

    @classmethod
    def of(cls, batch: EncodedBatch, *, special: bool) -> _Layout:
        """Of some inputs under their mask; with `special`, every key counts."""
        word, keys = batch.word, torch.ones_like(batch.word) if special else batch.word
        frequent = torch.zeros_like(word) if batch.frequent is None else batch.frequent
        rare = word & ~frequent & ~batch.punctuation & (batch.frequent is not None)
        marks = torch.stack([keys, *batch.delimiters, frequent, rare], -1)[:, None, batch.keys]
        return cls(marks.float(), class_of_cells(batch)[:, None])


@dataclass(frozen=True)
class _Rows:
    """Some heads' rows by the reading. Shape: [input, head, query, ...] each."""

    layout: _Layout
    weights: Tensor  # as they are, by key
    eligible: Tensor  # which queries are words that have a row
    scale: Tensor  # what weights on keys that count are multiplied with; 0 of queries that have no row
    total: Tensor  # of each row, once it is multiplied
    special: Tensor  # weight on special tokens at the start, in the middle, at the end
    marked: Tensor  # of the multiplied row, on frequent words and on rare ones

    @classmethod
    def of(cls, weights: Tensor, takes: Tensor, layout: _Layout, *, special: bool) -> _Rows:
        """The rows of queries that take part. Shape: `takes` [input, head, query], bool."""
        left, on_special, marked = (weights @ layout.marks).split([1, 3, 2], -1)
        eligible = takes[..., None] if special else takes[..., None] & (left >= LEAST_LEFT)
        scale = eligible.float() if special else eligible / left.clip(LEAST_LEFT)
        return cls(layout, weights, eligible, scale, left * scale, on_special, marked * scale)

    def made(self) -> Tensor:
        """The rows themselves. Shape: [input, head, query, key]."""
        return (self.weights * self.layout.marks[..., 0][:, :, None]).mul_(self.scale)

    def on_columns(self, made: Tensor) -> Tensor:
        """What they have on all classes, and on marked words. Shape: [input, head, query, column]."""
        on = made.new_zeros(*made.shape[:3], len(CLASSES) + 1)
        on.scatter_add_(3, self.layout.classes.long().expand_as(made), made)
        return torch.cat([on[..., :-1], self.marked], -1)


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
            mean = torch.stack([own.scale.mT @ own.weights for own in rows]).sum(0) / count.clip(1)
            for part, own in zip(parts, rows, strict=True):
                self._sums.put(part, self._sums_of(part, own, mean, count))

    def _rows(self, block: UnitBlock, weights: Tensor, takes: Tensor) -> _Rows:
        layout = block.once(f"classes {self._special}", lambda: _Layout.of(block.batch, special=self._special))
        return _Rows.of(weights, takes, layout, special=self._special)

    def _sums_of(self, block: UnitBlock, rows: _Rows, mean: Tensor, count: Tensor) -> dict[str, Tensor]:
        """The sums of some queries, whose inputs have so many words and this mean row.

        Shape: `mean` [input, head, 1, key], `count` [input, head, 1, 1].
        """
        bound, on_even, even_special = block.once(f"even {self._special}", lambda: self._on_even(block, block.even))
        if (even := block.even_carried) is not None:
            _, on_even, even_special = self._on_even(block, even)
        made, takes, eligible = rows.made(), block.takes[..., None], rows.eligible
        on = rows.on_columns(made)
        # The mean m of n rows has (n m - a) / (n - 1) of the others; min(a, that) is (n min(a, m) - a) / (n - 1)
        common = torch.minimum(made, mean)
        like_others = (common.sum(-1, keepdim=True) * count.to(exact(count.device)) - rows.total) / (count - 1).clip(1)
        like_even = torch.minimum(made, bound, out=common).sum(-1, keepdim=True)
        alike = torch.cat([like_even, like_others * eligible], -1)
        return {
            "on": torch.cat([on, alike], -1),
            "even": torch.cat([on_even * eligible, torch.zeros_like(alike)], -1),
            "n": eligible,
            "special": rows.special * takes,
            "even_special": even_special * takes,
            "all_words": takes,
        }

    def _on_even(self, block: UnitBlock, even: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The most that even rows give a key, what they have on all columns, and what special tokens have of them.

        Shape: [input, head, query, key], or 1 in place of keys that are tokens and get the same; [input, head, query,
        column]; [input, head, query, 3].
        """
        rows = self._rows(block, even, torch.ones_like(even[..., 0], dtype=torch.bool))
        made = rows.made()
        return made if block.batch.unit is not None else made.amax(-1, True), rows.on_columns(made), rows.special

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1]; of all attention `special` and
        `even_special` [pair, layer, head, 3], `all_words` [pair, layer, head, 1].
        """
        return self._sums.of_units()
