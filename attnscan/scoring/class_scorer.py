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
_FACTORS = ("takes", "eligible", "scale")
"""By what each query's values are multiplied before they are summed."""
_WORDS = slice(WORDS, WORDS + 1)
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


class _Keys(NamedTuple):
    """Which keys count, and the classes of those that do."""

    counts: Tensor
    """0 or 1. Shape: [input, head, key, 1]."""
    classes: Tensor
    """Behind those of `CLASSES`, one of keys that do not count. Shape: [input, 1, query, key]."""


class _Rows(NamedTuple):
    """The rows of some queries by the reading."""

    eligible: Tensor
    """Which queries are words that have a row. Shape: [input, head, query], bool."""
    scale: Tensor
    """The factor for `UnitBlock.weights_and_even`; 0 for queries without a row.
    Shape: [input, head or twice as many, query]."""
    factors: Tensor
    """Those of `_FACTORS`. Shape: [input, head, factor, query]."""


class _Even(NamedTuple):
    """Even attention by the reading."""

    rows: Tensor
    """Scaled, the most that a key gets in place of rows. Shape: [input, 1, query, key or 1]."""
    columns: Tensor
    """What they have on the columns of `ClassScorer._columns`. Shape: [input, 1, query, column]."""


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    all_queries = False

    def __init__(self, units: Units, *, special: bool) -> None:
        """With `special`, special tokens are keys; without, weights on words are renormalised.

        Scorers of the same batch may share their `units`.
        """
        self._units = units
        self._special = special
        self._sums = BatchSums(units)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        show_units(self._units, [self], block)

    def take(self, parts: Sequence[UnitBlock]) -> None:
        """Add the sums of some inputs."""
        rows = [self._rows(part) for part in parts]
        words = []
        summed = []
        for part, part_rows in zip(parts, rows, strict=True):
            words.append(part_rows.eligible.sum(2)[..., None, None])
            summed.append(part_rows.scale[:, :, None] @ part.weights_and_even)
        heads = parts[0].heads
        mean = reduce(torch.add, summed)[:, :heads] / reduce(torch.add, words).clip(1)
        for part, part_rows in zip(parts, rows, strict=True):
            self._add(part, part_rows, mean)

    def _rows(self, block: UnitBlock) -> _Rows:
        """The rows of queries that take part."""
        heads = block.heads
        if self._special:
            eligible = block.takes & (self._counted(block.marked[:, :heads]) >= MIN_ON_WORDS)
            scale = eligible.float().repeat(1, block.weights_and_even.shape[1] // heads, 1)
        else:
            eligible = block.takes & block.has_words[:, :heads]
            of_both = block.word_scale.unflatten(1, (-1, heads))
            scale = (of_both * eligible[:, None]).flatten(1, 2)
        factors = torch.stack([block.takes, eligible, scale[:, :heads]], 2)
        return _Rows(eligible, scale, factors.to(accumulation_dtype(scale.device)))

    def _counted(self, marked: Tensor) -> Tensor:
        """What rows have on keys that count. Shape: [..., mark] -> [...]."""
        return marked[..., : _SPECIAL.stop].sum(-1) if self._special else marked[..., WORDS]

    def _keys(self, block: UnitBlock, heads: int) -> _Keys:
        """Which keys of a block count, and their classes."""
        batch = block.batch
        counts = batch.word | self._special
        classes = class_of_cells(batch)
        if not self._special:
            is_special = batch.special[:, None, batch.keys]
            classes = classes.masked_fill(is_special, len(CLASSES))
        if classes.shape[-1] <= _MAX_KEYS:
            classes = classes.long()
        return _Keys(repeat_for_heads(counts[:, batch.keys, None], heads), classes[:, None])

    def _on_classes(self, keys: _Keys, scaled: Tensor) -> Tensor:
        """What rows have on each class. Shape: [input, head, query, key] -> [..., class]."""
        on_classes = scaled.new_zeros(*scaled.shape[:3], len(CLASSES) + 1)
        on_classes.scatter_add_(3, keys.classes.long().expand_as(scaled), scaled)
        return on_classes[..., :-1]

    def _add(self, block: UnitBlock, rows: _Rows, mean: Tensor) -> None:
        """Add the sums of some queries.

        Shape: `mean` [input, head, 1, key], that of the scaled rows of all words.
        """
        heads = block.heads
        name = f"keys {self._special} of {heads} heads"
        keys = block.cached(name, partial(self._keys, block, heads))
        even = block.cached(f"even {self._special}", partial(self._even, block, keys))
        scaled = self._units.scratch("scaled", block.weights_and_even.shape)
        torch.mul(block.weights_and_even, rows.scale[..., None], out=scaled)
        on_classes = self._on_classes(keys, scaled)
        even_columns = even.columns
        if block.token_block.value_norms is not None:
            even_columns = self._columns(
                on_classes[:, heads:], block.marked[:, heads:], rows.scale[:, heads:, :, None]
            )
        scaled = scaled[:, :heads]
        common = self._units.scratch("in common", scaled.shape)
        like_mean = _on_keys(torch.minimum(scaled, mean, out=common), keys)
        like_even = _on_keys(torch.minimum(scaled, even.rows, out=common), keys)
        marked = block.marked[:, :heads].to(rows.factors.dtype)
        sums = {
            "marked": self._sums.weigh(rows.factors, marked),
            "even": self._sums.weigh(rows.factors, even_columns),
        }
        self._sums.add(
            block,
            sums,
            {"on": on_classes[:, :heads], "like_even": like_even, "like_mean": like_mean},
        )

    def _even(self, block: UnitBlock, keys: _Keys) -> _Even:
        """Even attention by the same reading."""
        weights = block.even
        marked = block.on_marks(weights)
        left = self._counted(marked)[..., None]
        scale = (left >= MIN_ON_WORDS) / (1 if self._special else left.clip(MIN_ON_WORDS))
        rows = weights * scale
        columns = self._columns(self._on_classes(keys, rows), marked, scale)
        # Keys that are tokens all get the same: one number a row is enough
        most = rows if block.batch.unit is not None else rows.amax(-1, keepdim=True)
        return _Even(most, columns)

    def _columns(self, on_classes: Tensor, marked: Tensor, scale: Tensor) -> Tensor:
        """What rows of even attention have on all classes and on two kinds of words, scaled; on
        special tokens; and 1.

        Shape: `on_classes` [input, head or 1, query, class], `marked` [..., mark], `scale` [..., 1]
        -> [input, head or 1, query, column].
        """
        columns = torch.cat(
            [
                on_classes,
                marked[..., _KINDS_OF_WORDS] * scale,
                marked[..., _SPECIAL],
                torch.ones_like(scale),
            ],
            -1,
        )
        return columns.to(accumulation_dtype(columns.device))

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums or, by query, each word's or block of words', once every block has come.

        Shape: `on` and `even` [pair, layer, head, column], `n` [pair, layer, head, 1]; of all
        attention `special` and `even_special` [pair, layer, head, 3], `all_words`
        [pair, layer, head, 1].
        """
        sums = self._sums.arrays()
        marked = _by_factor(sums["marked"])
        even = _by_factor(sums["even"])
        n = even["eligible"][..., -1:]
        on_counted = marked["scale"][..., _WORDS]
        if self._special:
            on_special = marked["scale"][..., _SPECIAL].sum(-1, keepdims=True)
            on_counted = on_counted + on_special
        # The mean m of n rows has (n m - a) / (n - 1) of the others; min(a, that) is
        # (n min(a, m) - a) / (n - 1)
        words = n.sum(0, keepdims=True) if self._units.by_query else n
        like_others = (sums["like_mean"] * words - on_counted) / np.maximum(words - 1, 1)
        kinds_of_words = marked["scale"][..., _KINDS_OF_WORDS]
        columns = [sums["on"], kinds_of_words, sums["like_even"], like_others]
        scaled_even = even["eligible"][..., : len(CLASSES) + kinds_of_words.shape[-1]]
        return {
            "on": np.concatenate(columns, -1),
            "even": np.concatenate([scaled_even, np.zeros_like(n), np.zeros_like(n)], -1),
            "n": n,
            "special": marked["takes"][..., _SPECIAL],
            "even_special": even["takes"][..., -1 - len(SPECIAL_CLASSES) : -1],
            "all_words": even["takes"][..., -1:],
        }


def _on_keys(values: Tensor, keys: _Keys) -> Tensor:
    """Sum over the keys that count. Shape: [input, head, query, key] -> [input, head, query, 1]."""
    return values @ keys.counts


def _by_factor(sums: FloatArray) -> dict[str, FloatArray]:
    """Weighed sums by their factor. Shape: [..., factor and column] -> each [..., column]."""
    return dict(zip(_FACTORS, np.split(sums, len(_FACTORS), axis=-1), strict=True))
