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
from attnscan.scoring.units import LEAST_LEFT, Part, SumsOfBatch, UnitBlock, Units, exact, input_by_input

_SPECIAL = 3  # the first classes are those of special tokens
_MOST_CELLS = 1 << 21  # whose classes are laid out side by side


def class_of_cells(batch: EncodedBatch) -> Tensor:
    """The class of every word-query and key, by its place in `CLASSES`; -1 for a query or a key that is in none.

    Shape: [batch, query, key], int8.
    """
    offset, sentence, columns = batch.offset, batch.sentence, batch.keys
    words = batch.word[:, batch.queries, None] & batch.word[:, None, columns]
    own = words & (sentence[:, batch.queries, None] == sentence[:, None, columns])

    def keys(mask: Tensor) -> Tensor:
        return batch.word[:, batch.queries, None] & mask[:, None, columns]

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


@dataclass(frozen=True)
class _Layout:
    """What some inputs are summed by, under one mask. An input may be a query."""

    words: Tensor
    """0 or 1: which keys are. Shape: [batch, 1, 1, key]."""
    special: Tensor
    """0 or 1: which keys are special tokens at the start, in the middle, at the end. Shape: [batch, key, 3]."""
    marks: Tensor
    """0 or 1: which keys are frequent words, which rare ones. Shape: [batch, key, 2]."""
    classes: Tensor
    """Of cells without one, the number behind the last. Shape: [batch, query, key], int8."""
    cells: Tensor | None
    """0 or 1: the classes of words, then `marks`; None of long inputs. Shape: [input, query, key, column]."""
    even: Tensor
    """Even attention, by the reading. Shape: [batch, 1, query, key]."""
    on_even: Tensor
    """What that has on the classes of words and on `marks`. Shape: [input, query, column]."""
    on_special: Tensor
    """What even attention over all keys has on special tokens. Shape: [input, query, 3]."""


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    def __init__(
        self, batch: EncodedBatch, *, special: bool, by_query: bool = False, units: Units | None = None
    ) -> None:
        """With `special`, special tokens are keys; without, each word's weights on words are renormalised.

        With `by_query`, a batch of one input is summed word by word, or by blocks of neighbours if it has many.
        Scorers of the same batch may share their `units`.
        """
        self._special, self._by_query = special, by_query
        self._units = Units(batch) if units is None else units
        self._sums = SumsOfBatch(batch, by_query=by_query)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        for of_units in self._units.blocks(block):
            self._take(of_units)

    def _take(self, block: UnitBlock) -> None:
        """Sum some inputs of one length."""
        layout = block.part.once(f"classes {self._special} {self._by_query}", lambda: self._layout(block.part))
        rows, eligible = self._rows(block.weights, layout.words, block.takes)
        on, special = self._on_classes(rows, layout), self._on_special(block.weights, layout, block.takes)
        counted, takes = (self._by_input(own).to(special) for own in (eligible, block.takes))
        on_even, even_special = counted @ layout.on_even, takes @ layout.on_special
        if block.even_carried is not None:
            even, _ = self._rows(block.even_carried, layout.words, eligible)
            on_even = self._on_classes(even, layout)
            even_special = self._on_special(block.even_carried, layout, block.takes)
        # With C the sum of n words' rows, min(a, (C - a) / (n - 1)) is (n min(a, C / n) - a) / (n - 1)
        count = eligible.sum(-1)[..., None]
        common = torch.minimum(rows, (rows.sum(2) / count.clip(1))[:, :, None])
        like_others = (common.sum(-1).to(special) * count - rows.sum(-1)) / (count - 1).clip(1) * eligible
        like_even = torch.minimum(rows, layout.even, out=common).sum(-1).to(special)
        alike = self._by_input(torch.stack([like_even, like_others], -1)).sum(2)
        among = 0 if not self._special else 1
        sums = {
            "on": torch.cat([special * among, on, alike], -1),
            "even": torch.cat([even_special * among, on_even, torch.zeros_like(alike)], -1),
            "n": counted.sum(-1, keepdim=True),
            "special": special,
            "even_special": even_special,
            "all_words": takes.sum(-1, keepdim=True),
        }
        self._sums.put(block, sums)

    def _by_input(self, values: Tensor) -> Tensor:
        return input_by_input(values, by_query=self._by_query)

    def _rows(self, weights: Tensor, words: Tensor, takes: Tensor) -> tuple[Tensor, Tensor]:
        """Rows by the reading, zero but for words that have one; and which these are.

        Shape: [batch, head, query, key] and [batch, head, query].
        """
        if self._special:
            return weights * takes[..., None], takes
        rows = weights * words
        left = rows.sum(-1)
        eligible = takes & (left >= LEAST_LEFT)
        rows *= (eligible / left.clip(LEAST_LEFT))[..., None]
        return rows, eligible

    def _on_special(self, weights: Tensor, layout: _Layout, takes: Tensor) -> Tensor:
        """All attention of words on special tokens. Shape: [batch, head, query, key] -> [input, head, 3]."""
        given = torch.stack([own @ keys for own, keys in zip(weights, layout.special, strict=True)])
        return self._by_input(given * takes[..., None]).sum(2, dtype=exact(weights.device))

    def _on_classes(self, rows: Tensor, layout: _Layout) -> Tensor:
        """Rows on the classes of words and on marked ones. Shape: [batch, head, query, key] -> [input, head, column].

        Input by input, since the rounding of a product of several depends on how many there are.
        """
        if layout.cells is None:
            return self._by_input(_by_query(rows, layout.classes, layout.marks)).sum(2, dtype=exact(rows.device))
        inputs = zip(self._by_input(rows), layout.cells, strict=True)
        return torch.stack([own.flatten(1) @ cells.flatten(0, 1) for own, cells in inputs]).to(exact(rows.device))

    def _layout(self, part: Part) -> _Layout:
        """The classes of some inputs under their mask."""
        batch, even = part.batch, part.even()[:, None]
        classes, word = class_of_cells(batch), batch.word[:, batch.keys]
        classes = classes.where(classes >= 0, len(CLASSES))
        frequent = torch.zeros_like(word) if batch.frequent is None else batch.frequent[:, batch.keys]
        rare = word & ~frequent & ~batch.punctuation[:, batch.keys] & (batch.frequent is not None)
        marks = torch.stack([frequent, rare], -1).float()
        cells = None
        if classes[0].numel() <= _MOST_CELLS:
            cells = (classes[..., None] == torch.arange(_SPECIAL, len(CLASSES), device=word.device)).float()
            cells = torch.cat([cells, marks[:, None].expand(-1, classes.shape[1], -1, -1)], -1)
        special = torch.stack(batch.delimiters, -1)[:, batch.keys].float()
        words, takes = word[:, None, None].float(), torch.ones_like(even[..., 0], dtype=torch.bool)
        on_special = (even[:, 0] @ special).to(exact(word.device))
        even, _ = self._rows(even, words, takes)
        on_even = _by_query(even, classes, marks)[:, 0].to(on_special)
        if self._by_query:
            on_special, on_even = on_special.transpose(0, 1), on_even.transpose(0, 1)
            cells = None if cells is None else cells.transpose(0, 1)
        return _Layout(words, special, marks, classes, cells, even, on_even, on_special)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1]; of all attention `special` and
        `even_special` [pair, layer, head, 3], `all_words` [pair, layer, head, 1].
        """
        units = slice(1 if self._by_query else 0, None)  # before words, all other queries
        return {name: values[units] for name, values in self._sums.arrays().items()}


def _by_query(rows: Tensor, classes: Tensor, marks: Tensor) -> Tensor:
    """Rows on the classes of words and on marked ones. Shape: [batch, head, query, key] -> [..., query, column]."""
    index = classes[:, None].long().expand(-1, rows.shape[1], -1, -1)
    on = rows.new_zeros(*rows.shape[:3], len(CLASSES) + 1).scatter_add_(3, index, rows)
    return torch.cat([on[..., _SPECIAL:-1], rows @ marks[:, None]], -1)
