"""A consumer of attention: every head of a batch against the targets of patterns."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock
from attnscan.model.forward import not_finite
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.results.columns import MEAN_COLUMNS
from attnscan.results.label_rules import RESTING
from attnscan.results.scores import FloatArray
from attnscan.scoring.blocks import KEY_SETS, PAIR_SUMS
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.layout import Layout, Spread, lay_out
from attnscan.scoring.units import WORDS, BatchSums, Targets, UnitBlock, show_units


class _Measured(NamedTuple):
    """Weight on columns. Shape: [input, head, query or 1, column] each."""

    every_key: Tensor
    words_only: Tensor
    spreads: dict[str, Tensor]
    """Of even patterns, by key set and place. Shape: each [input, head, query, 1]."""
    has_words: Tensor
    """Which queries have a row among words. Shape: [input, head, query], bool."""


class PatternScorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._sums = BatchSums(targets.units)
        patterns = targets.patterns
        names = [pattern.id for pattern in patterns]
        # A user's own patterns see all queries of a block
        self.all_queries = not set(patterns) <= set(ALL_PATTERNS)
        self._resting = [place for place, name in enumerate(names) if name in RESTING]
        self._excluding_self = [
            place for place, pattern in enumerate(patterns) if pattern.excludes_self
        ]
        self._parts = {
            place: names.index(pattern.part_of)
            for place, pattern in enumerate(patterns)
            if pattern.part_of in names
        }

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        show_units(self._targets.units, [self], block)

    def take(self, parts: Sequence[UnitBlock]) -> None:
        """Add the sums of some inputs."""
        for part in parts:
            self._add(part)

    def _add(self, block: UnitBlock) -> None:
        """Score some inputs, over every key, and over words alone with rows renormalised."""
        layout = block.cached("scores", partial(self._layout, block))
        measured = self._measure(layout, block.weights, block.marked, block.words)
        dtype = layout.every_key.dtype
        if block.token_block.value_norms is None:
            # The same for all heads
            heads = block.weights.shape[1]
            every_key = block.cached("every key", lambda: self._count(layout, block.has_row[:, :1]))
            every_key = every_key.expand(-1, heads, -1, -1)
        else:
            every_key = self._count(layout, block.has_row)
        words_only = self._sums.weigh(measured.has_words[:, :, None].to(dtype), layout.words_only)
        sums = {
            "every_key": measured.every_key,
            "words_only": measured.words_only,
            "every_key.by_query": every_key,
            "words_only.by_query": words_only,
        }
        rows = {**measured.spreads, "minus_entropy": self._minus_entropy(block)[..., None]}
        if block.even_carried is not None:
            # By what heads carry, chance is what even attention would carry
            by_chance = self._measure(layout, block.even_carried, block.even_marked, block.words)
            sums["even.every_key"] = by_chance.every_key
            sums["even.words_only"] = by_chance.words_only
            for name, values in by_chance.spreads.items():
                rows[f"even.{name}"] = values
        self._sums.add(block, sums, rows)

    def _minus_entropy(self, block: UnitBlock) -> Tensor:
        """Σ w log w of each row that takes part. Shape: [input, head, query]."""
        # Four times as fast as torch.special.entr
        logs = self._targets.units.scratch(0, block.weights)
        torch.clamp(block.weights, min=torch.finfo(torch.float32).tiny, out=logs).log_()
        summed = logs.mul_(block.weights).sum(-1)
        # A number would be made anew on the device each time
        nothing = block.cached("nothing", lambda: summed.new_zeros(()))
        return torch.where(block.takes, summed, nothing)

    def _layout(self, block: UnitBlock) -> Layout:
        return lay_out(self._targets, block, self._parts, self._excluding_self)

    def _count(self, layout: Layout, has_row: Tensor) -> Tensor:
        """Count eligible queries that have a row. Shape: `has_row` [input, head, query]."""
        factors = has_row[:, :, None].to(layout.every_key.dtype)
        return self._sums.weigh(factors, layout.every_key)

    def _measure(self, layout: Layout, weights: Tensor, marked: Tensor, words: Tensor) -> _Measured:
        """Measure weight on each column, over every key and over words alone.

        Shape: `weights` [input, head, query, key], `marked` [input, head, query, mark], `words`
        [input, head, key, 1], 0 or 1.
        """
        heads = weights.shape[1]
        queries = weights.shape[2]
        left = marked[..., WORDS]
        has_words = left >= MIN_ON_WORDS
        share = has_words / left.clip(MIN_ON_WORDS)
        cells = layout.cells.expand(-1, heads, -1)
        query_of_cell = layout.queries.expand(-1, heads, -1)
        on_cells = weights.flatten(2).gather(2, cells).to(layout.values)
        among_words = on_cells * share.gather(2, query_of_cell)
        spreads = {}
        scratch = self._targets.units.scratch(0, weights)
        for place, spread in layout.spreads.items():
            on_keys, on_words = _measure_spread(weights, share, spread, words, scratch)
            spreads[f"every_key.{place}"] = on_keys[..., None]
            spreads[f"words_only.{place}"] = on_words[..., None]
        return _Measured(
            every_key=self._on_columns(layout, on_cells, layout.values, queries),
            words_only=self._on_columns(layout, among_words, layout.word_values, queries),
            spreads=spreads,
            has_words=has_words,
        )

    def _on_columns(self, layout: Layout, on_cells: Tensor, values: Tensor, queries: int) -> Tensor:
        """Weight on each column, of all queries together unless sums are by query.

        Shape: `on_cells` [input, head, cell], `values` [input, cell, column]
        -> [input, head, query or 1, column].
        """
        if not self._targets.by_query:
            return (on_cells @ values)[:, :, None]
        inputs, heads, _ = on_cells.shape
        measured = on_cells.new_zeros(inputs, heads, queries, values.shape[-1])
        on_columns = on_cells[..., None] * values[:, None]
        return measured.index_add_(2, layout.queries[0, 0], on_columns)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums, once every block has come: by `KEY_SETS` those of `PAIR_SUMS`.

        Beside them `every_key.pairs` and `words_only.pairs`: 1 where a pair has an eligible query;
        and the sums of `MEAN_COLUMNS` over all words' `rows`.

        Shape: [pair, layer, head, pattern], the last two [pair, layer, head, 1].
        Raises: CaptureError if the model's attention is not finite.
        """
        sums = self.word_sums()
        if self._targets.by_query:
            sums = {name: values.sum(0, keepdims=True) for name, values in sums.items()}
        is_finite = np.isfinite(sums["entropy"])  # which every weight is part of
        if not is_finite.all():
            layer = int(np.argwhere(~is_finite)[:, 1].min())
            raise not_finite("the attention weights", f" from layer {layer} on")
        for key_set in KEY_SETS:
            sums[f"{key_set}.pairs"] = (sums[f"{key_set}.n"] > 0).astype(float)
        return sums

    def word_sums(self) -> dict[str, FloatArray]:
        """Each word's own sums, or each block's of neighbouring words.

        Shape: each [word, layer, head, ...].
        """
        measured = self._sums.arrays()
        measured["entropy"] = 0.0 - measured.pop("minus_entropy")
        patterns = len(self._targets.patterns)
        sums = {column.name: measured[column.name] for column in MEAN_COLUMNS}
        sums["rows"] = measured["every_key.by_query"][..., -1:]
        for key_set in KEY_SETS:
            columns = self._with_spreads(measured, key_set)
            counts = measured[f"{key_set}.by_query"]
            weight, wider, self_mass = np.split(
                columns, [patterns, patterns + len(self._parts)], axis=-1
            )
            whole = weight.copy()
            whole[..., list(self._parts)] = wider
            itself = np.zeros_like(weight)
            itself[..., self._excluding_self] = self_mass
            chance = counts[..., patterns : 2 * patterns]
            if f"even.{key_set}" in measured:
                chance = self._with_spreads(measured, f"even.{key_set}")[..., :patterns]
            sums[f"{key_set}.weight"] = weight
            sums[f"{key_set}.n"] = counts[..., :patterns]
            sums[f"{key_set}.chance"] = chance
            sums[f"{key_set}.whole"] = whole
            sums[f"{key_set}.itself"] = itself
        self._take_resting_from_all_keys(sums)
        return sums

    def _with_spreads(self, measured: dict[str, FloatArray], name: str) -> FloatArray:
        """The columns of a name, with what was measured over whole rows. Shape: [..., column]."""
        columns = measured[name].copy()
        for place, pattern in enumerate(self._targets.patterns):
            if pattern.even:
                columns[..., place] = measured[f"{name}.{place}"][..., 0]
        return columns

    def _take_resting_from_all_keys(self, sums: dict[str, FloatArray]) -> None:
        """By both measures, resting patterns are scored on all attention."""
        for name in PAIR_SUMS:
            resting = sums[f"every_key.{name}"][..., self._resting]
            sums[f"words_only.{name}"][..., self._resting] = resting


def _measure_spread(
    weights: Tensor, share: Tensor, spread: Spread, words: Tensor, scratch: Tensor
) -> tuple[Tensor, Tensor]:
    """What an even spread and rows have in common, over every key and over words alone.

    Shape: `weights` and `scratch` [input, head, query, key], `share` [input, head, query], `words`
    [input, head, key, 1] -> [input, head, query] twice.
    """
    target = spread.target()
    on_keys = torch.minimum(weights, target, out=scratch).sum(-1)
    torch.mul(weights, share[..., None], out=scratch)
    torch.minimum(scratch, target, out=scratch)
    return on_keys, (scratch @ words)[..., 0]
