"""Two consumers of attention: every head of a batch against its targets, and class by class of keys.

Targets have few cells in a row. The keys that any of them uses are picked once, for all targets and for both measures:
over every key, and over words alone with rows renormalised. An even spread is measured over whole rows.

A class is a set of (query, key) pairs, such as the next word or punctuation, and every key of a word falls into the
first that fits (`results/scores.py` lists them). Habits are made of these sums, and of what each row has in common
with an even row and with the mean row of the input's other words.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.forward import not_finite
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.results.label_rules import RESTING
from attnscan.results.scores import CLASSES, FloatArray
from attnscan.results.signature import AttentionView
from attnscan.scoring.blocks import KEY_SETS, PAIR_SUMS
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.units import EPSILON, BatchSums, Targets, UnitBlock, Units, accumulation_dtype


class _Layout(NamedTuple):
    """The targets of some inputs under one mask: the columns that weights are measured on.

    Behind the targets stand the wider target of each part, on the part's own queries, and what patterns of others have
    on the word itself.
    """

    words: Tensor  # 1 for keys that are words, else 0. Shape: [input, 1, key, 1]
    cells: Tensor  # places in [query, key] that targets use; filled up with the first. Shape: [input, 1, cell]
    queries: Tensor  # the query of each cell. Shape: [input, 1, cell]
    on_words: Tensor  # 1 for cells whose key is a word, else 0. Shape: [input, 1, cell]
    values: Tensor  # each cell's target value in every column, 0 for padding. Shape: [input, cell, column]
    spreads: dict[int, tuple[Tensor, Tensor]]
    """Of even patterns, which keys share the weight, and the share of each. Shape: [input, 1, query, key or 1]."""
    eligible: Tensor  # 0 or 1, over every key and over words. Shape: [input, 2, query, pattern]
    chance: Tensor  # weight on target under even attention. Shape: [input, 2, query, pattern]


class Scorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets) -> None:
        self._targets, self._sums = targets, BatchSums(targets.units)
        patterns = targets.patterns
        names, self._is_ours = (
            [pattern.id for pattern in patterns],
            set(patterns) <= set(ALL_PATTERNS),
        )
        self._even = [p for p, pattern in enumerate(patterns) if pattern.even]
        self._resting = [p for p, name in enumerate(names) if name in RESTING]
        self._parts = {
            p: names.index(part.part_of) for p, part in enumerate(patterns) if part.part_of in names
        }
        self._excluding_self = [p for p, pattern in enumerate(patterns) if pattern.excludes_self]

    def __call__(self, block: AttentionBlock) -> None:
        """Add one block; a user's own patterns see all of its queries at once."""
        for parts in self._targets.units.blocks(block, all_queries=not self._is_ours):
            for part in parts:
                self._sums.put(part, self._sums_of(part))

    def _layout(self, block: UnitBlock) -> _Layout:
        """The targets of some inputs under their mask."""
        batch, even = block.batch, block.even[:, 0]
        words, targets = batch.key_word[:, None, batch.keys], self._targets.of(batch)
        among_words = even * words
        among_words = among_words / among_words.sum(-1, keepdim=True).clip(MIN_ON_WORDS)
        eligible, chance = [], []
        for p, matrix in enumerate(targets):
            for rows, target in ((even, matrix), (among_words, matrix * words)):
                on = torch.minimum(rows, target) if p in self._even else rows * target
                eligible.append((target != 0).any(-1))
                chance.append(on.sum(-1, dtype=accumulation_dtype(on.device)))
        counted = (
            torch.stack([torch.stack(by_kind[k::2], -1) for k in (0, 1)], 1)
            for by_kind in (eligible, chance)
        )
        wider = [
            targets[wide] * (targets[p] != 0).any(-1, keepdim=True)
            for p, wide in self._parts.items()
        ]
        columns = [
            *targets,
            *wider,
            *(targets[p] * (batch.offset == 0) for p in self._excluding_self),
        ]
        used = torch.stack(
            [column != 0 for p, column in enumerate(columns) if p not in self._even]
        ).any(0)
        cells = pad_sequence([mask.nonzero()[:, 0] for mask in used.flatten(1)], batch_first=True)
        filled = torch.arange(cells.shape[1], device=cells.device) < used.sum((1, 2))[:, None]
        values = torch.stack(
            [column.flatten(1).gather(1, cells) * filled for column in columns], -1
        ).to(chance[0])
        queries, keys = cells[:, None] // used.shape[2], cells[:, None] % used.shape[2]
        on_words = words.expand(len(cells), -1, -1).gather(2, keys).to(values)
        spreads = {
            p: ((targets[p] != 0)[:, None], targets[p].amax(-1)[:, None, :, None])
            for p in self._even
        }
        return _Layout(
            words[..., None].float(), cells[:, None], queries, on_words, values, spreads, *counted
        )

    def _measure(self, layout: _Layout, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Weight on each column, over every key and over words alone; and the factor that renormalises rows to words.

        Shape: `weights` [input, head, query, key] -> [input, 2, head, query, column] and [input, head, query]. Unless
        sums are by query, the first has a single query: their sum.
        """
        left = (weights @ layout.words)[..., 0]
        share = (left >= MIN_ON_WORDS) / left.clip(MIN_ON_WORDS)
        cells, queries = (
            places.expand(-1, weights.shape[1], -1) for places in (layout.cells, layout.queries)
        )
        picked = weights.flatten(2).gather(2, cells).to(layout.values)
        on_cells = torch.stack([picked, picked * share.gather(2, queries) * layout.on_words], 1)
        if self._targets.by_query:
            measured = on_cells.new_zeros(
                *on_cells.shape[:3], weights.shape[2], layout.values.shape[-1]
            )
            measured.index_add_(
                3, layout.queries[0, 0], on_cells[..., None] * layout.values[:, None, None]
            )
        else:
            measured = (on_cells.flatten(1, 2) @ layout.values).reshape(*on_cells.shape[:3], 1, -1)
        rows = (
            torch.empty_like(weights) if layout.spreads else weights
        )  # one: what is new falls out of the cache
        for p, (keys, height) in layout.spreads.items():
            spread = keys * height
            on = [torch.minimum(weights, spread, out=rows).sum(-1)]
            torch.mul(weights, share[..., None], out=rows)
            on.append(torch.minimum(rows, spread * layout.words.mT, out=rows).sum(-1))
            measured[..., p] = torch.stack(on, 1).to(measured).sum_to_size(measured.shape[:-1])
        return measured, share

    def _sums_of(self, block: UnitBlock) -> dict[str, Tensor]:
        """Score some inputs, over every key, and over words alone with rows renormalised."""
        layout, by_query = (
            block.cached("scores", partial(self._layout, block)),
            self._targets.by_query,
        )
        patterns = len(self._targets.patterns)
        measured, share = self._measure(layout, block.weights)
        rows = torch.stack([block.has_row, share > 0], 1).to(measured)
        n, chance = (
            rows[..., None] * values[:, :, None] if by_query else (rows @ values)[..., None, :]
            for values in (layout.eligible.to(measured), layout.chance)
        )
        if (
            even := block.even_carried
        ) is not None:  # by what heads carry, chance is what even attention would carry
            chance = self._measure(layout, even)[0][..., :patterns]
        weight, wider, on_itself = measured.tensor_split(
            [patterns, patterns + len(self._parts)], -1
        )
        whole, itself = weight.clone(), torch.zeros_like(weight)
        whole[..., list(self._parts)], itself[..., self._excluding_self] = wider, on_itself
        sums = dict[str, Tensor]()
        for name, values in zip(PAIR_SUMS, (weight, n, chance, whole, itself), strict=True):
            values[:, 1, ..., self._resting] = values[
                :, 0, ..., self._resting
            ]  # of all attention by both measures
            sums |= {f"{kind}.{name}": values[:, k] for k, kind in enumerate(KEY_SETS)}
        logs = block.weights.clip(
            torch.finfo(torch.float32).tiny
        ).log_()  # four times as fast as torch.special.entr
        entropy = -logs.mul_(block.weights).sum(-1).where(block.takes, 0.0)
        return sums | {"entropy": entropy[..., None], "rows": block.takes[..., None]}

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums, once every block has come: by `KEY_SETS` those of `PAIR_SUMS`, by pattern.

        Beside them `every_key.pairs` and `words_only.pairs`: 1 where a pair has an eligible query; and how much
        `entropy` all words' `rows` have, in nats.

        Shape: [pair, layer, head, pattern], the last two [pair, layer, head, 1].
        Raises: CaptureError if the model's attention is not finite.
        """
        sums = self._sums.of_units()
        if self._targets.by_query:
            sums = {name: values.sum(0, keepdims=True) for name, values in sums.items()}
        if not np.isfinite(sums["entropy"]).all():
            layer = int(np.argwhere(~np.isfinite(sums["entropy"]))[:, 1].min())
            raise not_finite("the attention weights", f" from layer {layer} on")
        return sums | {f"{kind}.pairs": (sums[f"{kind}.n"] > 0).astype(float) for kind in KEY_SETS}

    def word_sums(self) -> dict[str, FloatArray]:
        """Each word's own sums, or each block's of neighbouring words. Shape: each [word, layer, head, ...]."""
        return self._sums.of_units()


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
    """The class of each query and key by its place in `CLASSES`; their number for none. Shape: as targets, int8."""
    queries, keys = batch.word[:, batch.queries, None], batch.word[:, None, batch.keys]
    offset, words, alike = batch.offset, queries & keys, batch.alike
    inside = words & (batch.sentence[:, batch.queries, None] == batch.sentence[:, None, batch.keys])
    cells = {
        name: inside & (offset >= least) & (offset <= most)
        for name, (least, most) in _DISTANCES.items()
    }
    of_keys = (*zip(CLASSES, batch.delimiters, strict=False), ("punctuation", batch.punctuation))
    cells |= {name: queries & mask[:, None, batch.keys] for name, mask in of_keys}
    cells |= {
        "identical": alike & inside,
        "cross-sentence": alike & ~inside,
        "elsewhere": words & ~inside,
    }
    classes = torch.full(words.shape, len(CLASSES), dtype=torch.int8, device=words.device)
    for number, name in reversed(list(enumerate(CLASSES))):
        classes.masked_fill_(cells[name], number)
    return classes


class _Rows(NamedTuple):
    """The rows of some queries by the reading. Shape: [input, head, query, ...] each."""

    eligible: Tensor  # which queries are words that have a row
    scale: Tensor  # the factor for weights on keys that count; 0 for queries without a row
    total: Tensor  # the sum of each row after scaling
    special: Tensor  # weight on special tokens at the start, in the middle, at the end
    marked: Tensor  # the scaled row's weight on frequent words and on rare ones


class ClassScorer:
    """A consumer of attention blocks that sums one batch's attention class by class."""

    def __init__(self, units: Units, *, special: bool) -> None:
        """With `special`, special tokens are keys; without, each word's weights on words are renormalised.

        Scorers of the same batch may share their `units`.
        """
        self._units, self._special, self._sums = units, special, BatchSums(units)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        for parts in self._units.blocks(block):
            rows = [self._rows(part, part.weights, part.takes) for part in parts]
            count = torch.stack(
                [part_rows.eligible.sum(2, keepdim=True) for part_rows in rows]
            ).sum(0)
            scaled = [
                part_rows.scale.mT @ part.weights
                for part, part_rows in zip(parts, rows, strict=True)
            ]
            mean = torch.stack(scaled).sum(0) / count.clip(1)
            for part, part_rows in zip(parts, rows, strict=True):
                self._sums.put(part, self._sums_of(part, part_rows, mean, count))

    def _layout(self, block: UnitBlock) -> tuple[Tensor, Tensor]:
        """Which keys count, which are special tokens at each of three places, frequent words, rare ones; and classes.

        Shape: [input, 1, key, 6], 0 or 1; [input, 1, query, key], int8.
        """
        batch, word = block.batch, block.batch.word
        frequent = torch.zeros_like(word) if batch.frequent is None else batch.frequent
        rare = word & ~frequent & ~batch.punctuation & (batch.frequent is not None)
        marks = torch.stack([word | self._special, *batch.delimiters, frequent, rare], -1)[
            :, None, batch.keys
        ]
        return marks.float(), class_of_cells(batch)[:, None]

    def _rows(self, block: UnitBlock, weights: Tensor, takes: Tensor) -> _Rows:
        """The rows of queries that take part. Shape: `takes` [input, head, query], bool."""
        marks, _ = block.cached(f"classes {self._special}", lambda: self._layout(block))
        left, special, marked = (weights @ marks).tensor_split([1, 4], -1)
        eligible = takes[..., None] & (left >= EPSILON)
        scale = eligible.float() if self._special else eligible / left.clip(EPSILON)
        return _Rows(eligible, scale, left * scale, special, marked * scale)

    def _on_columns(self, block: UnitBlock, weights: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
        """The rows by key, and what they have on all classes and marked words. Shape: [input, head, query, ...]."""
        marks, classes = block.cached(f"classes {self._special}", lambda: self._layout(block))
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
        return (
            by_key if block.batch.unit is not None else by_key.amax(-1, keepdim=True),
            on,
            rows.special,
        )

    def _sums_of(
        self, block: UnitBlock, rows: _Rows, mean: Tensor, count: Tensor
    ) -> dict[str, Tensor]:
        """The sums of some queries, whose inputs have so many words and this mean row.

        Shape: `mean` [input, head, 1, key], `count` [input, head, 1, 1].
        """
        most, on_even, even_special = block.cached(
            f"even {self._special}", lambda: self._on_even(block, block.even)
        )
        if (even := block.even_carried) is not None:
            _, on_even, even_special = self._on_even(block, even)
        by_key, on = self._on_columns(block, block.weights, rows)
        takes = block.takes[..., None]
        # The mean m of n rows has (n m - a) / (n - 1) of the others; min(a, that) is (n min(a, m) - a) / (n - 1)
        common = torch.minimum(by_key, mean)
        like_others = (
            common.sum(-1, keepdim=True) * count.to(accumulation_dtype(count.device)) - rows.total
        ) / (count - 1).clip(1)
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


def pair_sums(
    targets: Targets,
    labelled: AttentionView | None,
    run: Callable[[Consumer], object],
    observers: Sequence[Consumer] = (),
) -> dict[str, FloatArray]:
    """Each pair's sums for scores and, if `labelled` by a reading, for habits; `observers` see the run, too."""
    scorers: list[Scorer | ClassScorer] = [Scorer(targets)]
    if labelled is not None:
        scorers.append(ClassScorer(targets.units, special=not labelled.words_only))
    consumers = *scorers, *observers

    def show(block: AttentionBlock) -> None:
        for consumer in consumers:
            consumer(block)

    run(show)
    return {name: sums for scorer in scorers for name, sums in scorer.sums().items()}
