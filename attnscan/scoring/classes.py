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

_QUERIES = 1024  # whose classes are made 64-bit indices at a time, which take twice the memory of weights
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
    """The class of every word-query and key, by its place in `CLASSES`; -1 for a query or a key that is in none.

    Shape: [batch, query, key], int8.
    """
    offset, sentence, asked = batch.offset, batch.sentence, batch.word[:, batch.queries, None]
    words = asked & batch.word[:, None, batch.keys]
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
        return batch.alike & (own if name == "identical" else ~own)

    classes = torch.full(words.shape, -1, dtype=torch.int8, device=words.device)
    for number, name in reversed(list(enumerate(CLASSES))):  # one at a time: each is as large as a head's weights
        classes.masked_fill_(cells(name), number)
    return classes


@dataclass(frozen=True)
class _Layout:
    """What some inputs are summed by, under one mask."""

    words: Tensor  # 0 or 1: which keys are. Shape: [batch, 1, 1, key]
    special: Tensor
    """0 or 1: which keys are special tokens at the start, in the middle, at the end. Shape: [batch, 1, key, 3]."""
    marks: Tensor  # 0 or 1: which keys are frequent words, which rare ones. Shape: [batch, 1, key, 2]
    classes: Tensor  # of cells without one, the number behind the last. Shape: [input, query, key], int8

    @classmethod
    def of(cls, block: UnitBlock) -> _Layout:
        """Of some inputs of a batch under their mask."""
        batch, word = block.batch, block.batch.word
        frequent = torch.zeros_like(word) if batch.frequent is None else batch.frequent
        rare = word & ~frequent & ~batch.punctuation & (batch.frequent is not None)
        masks = (word,), batch.delimiters, (frequent, rare)
        words, special, marks = (torch.stack(own, -1)[:, None, batch.keys].float() for own in masks)
        classes = block.as_inputs(class_of_cells(batch))
        return cls(words.mT, special, marks, classes.where(classes >= 0, len(CLASSES)))

    def on_columns(self, rows: Tensor) -> Tensor:
        """Rows on all classes, and on marked words. Shape: [input, head, query, key] -> [..., query, column]."""
        axis = 0 if rows.shape[2] == 1 else 2  # that of the queries
        on = rows.new_zeros(*rows.shape[:3], len(CLASSES) + 1)
        parts = (own.split(_QUERIES, axis) for own in (on, self.classes[:, None], rows))
        for sums, classes, weights in zip(*parts, strict=True):
            sums.scatter_add_(3, classes.long().expand_as(weights), weights)
        return torch.cat([on[..., :-1], rows @ self.marks], -1)


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    def __init__(self, units: Units, *, special: bool) -> None:
        """With `special`, special tokens are keys; without, each word's weights on words are renormalised.

        Scorers of the same batch may share their `units`.
        """
        self._units, self._special, self._sums = units, special, SumsOfBatch(units)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        for of_units in self._units.blocks(block):
            self._take(of_units)

    def _take(self, block: UnitBlock) -> None:
        """Sum some inputs of one length."""
        takes, kind = block.takes, exact(block.weights.device)
        layout = block.once("classes", lambda: _Layout.of(block))
        rows, eligible = self._rows(block.weights, takes, layout)
        even, on_even, even_special = block.once(f"even {self._special}", lambda: self._on_even(block.even, layout))
        if block.even_carried is not None:
            _, on_even, even_special = self._on_even(block.even_carried, layout)
        on = layout.on_columns(rows).sum(2, dtype=kind)
        # With C the sum of n words' rows, min(a, (C - a) / (n - 1)) is (n min(a, C / n) - a) / (n - 1)
        of_input = (0, 2) if self._units.by_query else 2
        count = eligible.sum(of_input, keepdim=True)
        common = torch.minimum(rows, rows.sum(of_input, keepdim=True) / count.clip(1)[..., None])
        like_others = (common.sum(-1).to(kind) * count - rows.sum(-1)) / (count - 1).clip(1) * eligible
        like_even = torch.minimum(rows, even, out=common).sum(-1).to(kind)
        alike = torch.stack([like_even, like_others], -1).sum(2)
        sums = {
            "on": torch.cat([on, alike], -1),
            "even": torch.cat([(on_even * eligible[..., None]).sum(2, dtype=kind), torch.zeros_like(alike)], -1),
            "n": eligible.sum(-1, keepdim=True),
            "special": (takes[:, :, None].to(rows) @ block.weights @ layout.special)[:, :, 0],
            "even_special": (even_special * takes[..., None]).sum(2, dtype=kind),
            "all_words": takes.sum(-1, keepdim=True),
        }
        self._sums.put(block, sums)

    def _rows(self, weights: Tensor, takes: Tensor, layout: _Layout) -> tuple[Tensor, Tensor]:
        """Rows by the reading, zero but for words that have one; and which these are.

        Shape: [input, head, query, key] and [input, head, query].
        """
        if self._special:
            return weights * takes[..., None], takes
        rows = weights * layout.words
        left = rows.sum(-1)
        eligible = takes & (left >= LEAST_LEFT)
        rows *= (eligible / left.clip(LEAST_LEFT))[..., None]
        return rows, eligible

    def _on_even(self, even: Tensor, layout: _Layout) -> tuple[Tensor, Tensor, Tensor]:
        """Even rows by the reading, what they have on all columns, and what special tokens have of all attention.

        Shape: [input, head, query, key] -> the same, [input, head, query, column], [input, head, query, 3].
        """
        rows, _ = self._rows(even, torch.ones_like(even[..., 0], dtype=torch.bool), layout)
        return rows, layout.on_columns(rows), even @ layout.special

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1]; of all attention `special` and
        `even_special` [pair, layer, head, 3], `all_words` [pair, layer, head, 1].
        """
        words = slice(1 if self._units.by_query else 0, None)  # before words, all other queries
        return {name: values[words] for name, values in self._sums.arrays().items()}
