"""A consumer of attention: every head of a batch, class by class of keys.

A class is a set of (query, key) pairs, such as the next word or punctuation, and every key of a
word falls into the first that fits (`results/scores.py` lists them). Habits are made of these sums,
and of what each row has in common with an even row and with the mean row of the input's other
words.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.results.habits import CLASSES, SPECIAL_CLASSES
from attnscan.results.scores import FloatArray
from attnscan.scoring.units import (
    ANY,
    MARKS,
    WORDS,
    BatchSums,
    UnitBlock,
    Units,
    accumulation_dtype,
    repeat_for_heads,
    show_units,
)

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
_MAX_KEYS = 1024
"""Up to so many keys classes are kept as the indices that are summed by: eight bytes, not one."""
_FACTORS = ("any", "words")
"""By what each query's values are multiplied before they are summed: whether it has weight on any
key, and on words."""
_SPECIAL = slice(MARKS.index("start"), MARKS.index("end") + 1)
_KINDS_OF_WORDS = slice(MARKS.index("frequent"), MARKS.index("rare") + 1)


def class_of_cells(batch: EncodedBatch) -> Tensor:
    """The class of each query and key by its place in `CLASSES`; their number for none.

    Shape: [batch, query, key], int8.
    """
    queries = batch.word[:, batch.queries, None]
    words = queries & batch.word[:, None, batch.keys]
    sentence_of_query = batch.sentence[:, batch.queries, None]
    inside = words & (sentence_of_query == batch.sentence[:, None, batch.keys])
    offset = batch.offset
    alike = batch.alike
    cells = {}
    for name, (least, most) in _DISTANCES.items():
        cells[name] = inside & (offset >= least) & (offset <= most)
    for name, mask in zip(SPECIAL_CLASSES, batch.delimiters, strict=True):
        cells[name] = queries & mask[:, None, batch.keys]
    cells["punctuation"] = queries & batch.punctuation[:, None, batch.keys]
    cells["identical"] = alike & inside
    cells["cross-sentence"] = alike & ~inside
    cells["elsewhere"] = words & ~inside
    classes = torch.full(words.shape, len(CLASSES), dtype=torch.int8, device=words.device)
    for number, name in reversed(list(enumerate(CLASSES))):
        classes.masked_fill_(cells[name], number)
    return classes


_ROW_COLUMNS = {"on": len(CLASSES), "counted": 1, "kinds": 2, "special": 3}
"""What is summed of rows, and how many columns each has: what they have, scaled, on classes, on all
keys that count, and on two kinds of words; and, as it is, on special tokens."""
_COLUMNS = {
    **_ROW_COLUMNS,
    "like_mean": 1,
    "like_even": 1,
    "one": 1,
    **{f"even_{name}": columns for name, columns in _ROW_COLUMNS.items()},
}
"""Beside these what rows have in common with the mean row and with an even one; 1; and what is
summed of rows of even attention."""


class _Keys(NamedTuple):
    """Which keys count, and the classes of those that do."""

    counts: Tensor
    """0 or 1. Shape: [input, head, key, 1], float32."""
    classes: Tensor
    """Behind those of `CLASSES`, one of keys that do not count. Shape: [input, 1, query, key]."""


class _Even(NamedTuple):
    """Even attention by the reading."""

    rows: Tensor
    """Scaled, the most that a key gets in place of rows. Shape: [input, 1, query, key or 1]."""
    columns: Tensor
    """What they have on `_ROW_COLUMNS`. Shape: [input, 1, query, column]."""


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    all_queries = False

    def __init__(self, units: Units, *, special: bool) -> None:
        """With `special`, special tokens are keys; without, weights on words are renormalised.

        Scorers of the same batch may share their `units`.
        """
        self._units = units
        self._special = special
        self._counted = ANY if special else WORDS  # of `MARKS`, and of `_FACTORS`
        self._sums = BatchSums(units)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        show_units(self._units, [self], block)

    def take(self, parts: Sequence[UnitBlock]) -> None:
        """Add the sums of some inputs."""
        factors = [part.row_factors * part.query_word[:, :, None] for part in parts]
        means = self._mean_row(parts, factors)
        for part, part_factors, mean in zip(parts, factors, means, strict=True):
            self._add(part, part_factors, mean)

    def _mean_row(self, parts: Sequence[UnitBlock], factors: Sequence[Tensor]) -> list[Tensor]:
        """The mean scaled row of all words, on the keys of each part.

        Shape: each [input, head, 1, key].
        """
        heads = parts[0].heads
        counts = []
        summed = []
        for part, part_factors in zip(parts, factors, strict=True):
            eligible = part_factors[:, :, self._counted]
            counts.append(eligible.sum(-1, dtype=torch.float32)[..., None, None])
            on_keys = self._scale_of_words(part)[:, :, None] @ part.weights_and_even
            summed.append(on_keys[:, :heads])
        count = reduce(torch.add, counts).clip(1)
        if len(parts) == 1:
            return [summed[0] / count]
        units = self._units.batch.word.shape[1]
        total = summed[0].new_zeros(*summed[0].shape[:-1], units)
        for part, on_keys in zip(parts, summed, strict=True):
            total[..., part.batch.keys] += on_keys
        mean = total / count
        return [mean[..., part.batch.keys] for part in parts]

    def _scale_of_words(self, block: UnitBlock) -> Tensor:
        """The factor for `UnitBlock.weights_and_even`; 0 for queries that are no words.

        Shape: [input, head or twice as many, query].
        """
        if self._special:
            return block.query_word.expand(block.weights_and_even.shape[:3]).float()
        return block.word_scale * block.query_word

    def _keys(self, block: UnitBlock) -> _Keys:
        """Which keys of a block count, and their classes."""
        batch = block.batch
        counts = batch.word | self._special
        classes = class_of_cells(batch)
        if not self._special:
            is_special = batch.special[:, None, batch.keys]
            classes = classes.masked_fill(is_special, len(CLASSES))
        if classes.shape[-1] <= _MAX_KEYS:
            classes = classes.long()
        counts = repeat_for_heads(counts[:, batch.keys, None], block.heads)
        return _Keys(counts, classes[:, None])

    def _on_classes(self, keys: _Keys, rows: Tensor) -> Tensor:
        """What rows have on each class. Shape: [input, head, query, key] -> [..., class]."""
        on_classes = rows.new_zeros(*rows.shape[:3], len(CLASSES) + 1)
        on_classes.scatter_add_(3, keys.classes.long().expand_as(rows), rows)
        return on_classes[..., :-1]

    def _add(self, block: UnitBlock, factors: Tensor, mean: Tensor) -> None:
        """Add the sums of some queries.

        Shape: `factors` of words that have a row, by `_FACTORS`, [input, head, factor, query];
        `mean` [input, head, 1, key], that of the scaled rows of all words.
        """
        heads = block.heads
        name = f"keys {self._special} of {heads} heads"
        keys = block.cached(name, partial(self._keys, block))
        even = block.cached(f"even {self._special}", partial(self._even, block, keys))
        if self._special:
            scaled = block.weights_and_even
            scaled_marked = block.marked
        else:
            scaled = self._units.among_words(block)
            scaled_marked = block.marked * block.word_scale[..., None]
        on_classes = self._on_classes(keys, scaled)
        columns = [
            *self._row_columns(
                on_classes[:, :heads], scaled_marked[:, :heads], block.marked[:, :heads]
            ),
            self._in_common(keys, scaled[:, :heads], mean),
            self._in_common(keys, scaled[:, :heads], even.rows),
            block.cached("one", lambda: mean.new_ones(())).expand(*block.weights.shape[:3], 1),
        ]
        if block.is_carried:
            columns += self._row_columns(
                on_classes[:, heads:], scaled_marked[:, heads:], block.marked[:, heads:]
            )
        values = torch.cat(columns, -1).to(factors.dtype)
        sums = {"rows": self._sums.weigh(factors, values)}
        if not block.is_carried:
            sums["even"] = self._sums.weigh(factors, even.columns)
        self._sums.add(block, sums)

    def _row_columns(
        self, on_classes: Tensor, scaled_marked: Tensor, marked: Tensor
    ) -> list[Tensor]:
        """What rows have on `_ROW_COLUMNS`. Shape: [input, head, query, class or mark] each."""
        counted = scaled_marked[..., self._counted : self._counted + 1]
        return [on_classes, counted, scaled_marked[..., _KINDS_OF_WORDS], marked[..., _SPECIAL]]

    def _in_common(self, keys: _Keys, scaled: Tensor, other: Tensor) -> Tensor:
        """What rows have in common with another row, on keys that count.

        Shape: `scaled` [input, head, query, key] -> [input, head, query, 1].
        """
        common = self._units.scratch(0, *scaled.shape)
        return torch.minimum(scaled, other, out=common) @ keys.counts

    def _even(self, block: UnitBlock, keys: _Keys) -> _Even:
        """Even attention by the same reading."""
        weights = block.even
        marked = block.on_marks(weights)
        left = marked[..., self._counted, None]
        scale = (left >= MIN_ON_WORDS) / (1 if self._special else left.clip(MIN_ON_WORDS))
        rows = weights * scale
        columns = self._row_columns(self._on_classes(keys, rows), marked * scale, marked)
        # Keys that are tokens all get the same: one number a row is enough
        most = rows if block.batch.unit is not None else rows.amax(-1, keepdim=True)
        return _Even(most, torch.cat(columns, -1).to(accumulation_dtype(most.device)))

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1]; of all
        attention `special` and `even_special` [pair, layer, head, 3], `all_words`
        [pair, layer, head, 1].
        """
        sums = self._sums.arrays()
        by_factor = np.split(sums["rows"], len(_FACTORS), axis=-1)
        if "even" in sums:
            even = np.split(sums["even"], len(_FACTORS), axis=-1)
            by_factor = [np.concatenate(parts, -1) for parts in zip(by_factor, even, strict=True)]
        by_column = [_by_column(values) for values in by_factor]
        taking = by_column[ANY]
        eligible = by_column[self._counted]
        n = eligible["one"]
        # The mean m of n rows has (n m - a) / (n - 1) of the others; min(a, that) is
        # (n min(a, m) - a) / (n - 1)
        words = n.sum(0, keepdims=True) if self._units.by_query else n
        like_others = (eligible["like_mean"] * words - eligible["counted"]) / np.maximum(
            words - 1, 1
        )
        columns = [eligible["on"], eligible["kinds"], eligible["like_even"], like_others]
        no_columns = [np.zeros_like(n), np.zeros_like(n)]
        return {
            "on": np.concatenate(columns, -1),
            "even": np.concatenate([eligible["even_on"], eligible["even_kinds"], *no_columns], -1),
            "n": n,
            "special": taking["special"],
            "even_special": taking["even_special"],
            "all_words": taking["one"],
        }


def _by_column(sums: FloatArray) -> dict[str, FloatArray]:
    """Sums by their names in `_COLUMNS`. Shape: [..., column] -> each [..., some columns]."""
    ends = np.cumsum(list(_COLUMNS.values()))
    return dict(zip(_COLUMNS, np.split(sums, ends[:-1], axis=-1), strict=True))
