"""A consumer of attention: every head of a batch against the targets of patterns."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock
from attnscan.model.forward import not_finite
from attnscan.results.columns import MEAN_COLUMNS
from attnscan.results.label_rules import RESTING
from attnscan.results.scores import FloatArray
from attnscan.scoring.blocks import KEY_SETS, PAIR_SUMS
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.layout import AddedColumns, Cells, Layout, Spread, cells_of_batch, lay_out
from attnscan.scoring.patterns import INDUCTION
from attnscan.scoring.units import (
    BatchSums,
    Targets,
    UnitBlock,
    repeat_for_heads,
    show_units,
)


class _Measured(NamedTuple):
    """What rows have on columns, by `KEY_SETS`."""

    columns: Tensor
    """Shape: [key set, input, head or twice as many, query or 1, column]."""
    spreads: dict[int, list[Tensor]]
    """Of even patterns, by their place. Shape: each [input, head or twice as many, query, 1]."""


class PatternScorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._sums = BatchSums(targets.units)
        patterns = targets.patterns
        names = [pattern.id for pattern in patterns]
        # A user's own patterns see all queries of a block
        self.all_queries = not set(patterns) <= set(ALL_PATTERNS)
        # The last earlier word that is seen may be another under each mask
        self._may_share_cells = not self.all_queries and INDUCTION not in patterns
        self._n_layouts = 0
        self._resting = [place for place, name in enumerate(names) if name in RESTING]
        parts = {
            place: names.index(pattern.part_of)
            for place, pattern in enumerate(patterns)
            if pattern.part_of in names
        }
        excluding_self = [place for place, pattern in enumerate(patterns) if pattern.excludes_self]
        self._added_columns = AddedColumns(parts, excluding_self)

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
        measured = self._measure(layout, block)
        sums, rows = self._by_name(measured, slice(0, block.heads), "")
        if block.is_carried:
            # By what heads carry, chance is what even attention would carry
            even_sums, even_rows = self._by_name(measured, slice(block.heads, None), "even.")
            sums |= even_sums
            rows |= even_rows
        sums["by_query"] = self._sums.weigh(block.row_factors, layout.by_query)
        rows["minus_entropy"] = self._minus_entropy(block)[..., None]
        self._sums.add(block, sums, rows)

    def _by_name(
        self, measured: _Measured, heads: slice, prefix: str
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What some of the heads have on columns, and each of their rows on even patterns."""
        sums = {}
        rows = {}
        for number, key_set in enumerate(KEY_SETS):
            sums[f"{prefix}{key_set}"] = measured.columns[number, :, heads]
            for place, spread in measured.spreads.items():
                rows[f"{prefix}{key_set}.{place}"] = spread[number][:, heads]
        return sums, rows

    def _minus_entropy(self, block: UnitBlock) -> Tensor:
        """Σ w log w of each row of a word. Shape: [input, head, query]."""
        weights = block.weights
        least = block.cached("least weights", partial(_least_weights, block))
        # Four times as fast as torch.xlogy and torch.special.entr
        logs = self._targets.units.scratch(0, *weights.shape)
        torch.maximum(weights, least, out=logs).log_()
        return logs.mul_(weights).sum(-1)

    def _layout(self, block: UnitBlock) -> Layout:
        """Lay out the targets of a block.

        The host waits for another device to count the cells of the first mask. Where there are
        more masks, of layers or of inputs of other lengths, it does so once for all of them.
        """
        on_cpu = block.weights.device.type == "cpu"
        is_whole = block.rows == block.token_block.rows
        self._n_layouts += 1
        known = None
        if self._n_layouts > 1 and self._may_share_cells and is_whole and not on_cpu:
            known = self._cells_of_batch
        return lay_out(self._targets, block, self._added_columns, known)

    @cached_property
    def _cells_of_batch(self) -> Cells:
        return cells_of_batch(self._targets, self._added_columns)

    def _measure(self, layout: Layout, block: UnitBlock) -> _Measured:
        """Measure rows on each column, over every key and over words alone."""
        rows = block.weights_and_even
        heads = rows.shape[1]
        on_cells = rows.flatten(2).gather(2, layout.cells.expand(-1, heads, -1))
        scale_of_cells = block.word_scale.gather(2, layout.queries.expand(-1, heads, -1))
        by_key_set = layout.values.new_empty(len(KEY_SETS), *on_cells.shape)
        by_key_set[0] = on_cells
        torch.mul(on_cells, scale_of_cells, out=by_key_set[1])
        spreads = {
            place: self._on_spread(layout, block, spread)
            for place, spread in layout.spreads.items()
        }
        return _Measured(self._on_columns(layout, by_key_set, rows.shape[2]), spreads)

    def _on_spread(self, layout: Layout, block: UnitBlock, spread: Spread) -> list[Tensor]:
        """What rows have in common with an even spread, over every key and over words alone."""
        rows = block.weights_and_even
        heads = rows.shape[1]
        # A product for each head: one of all heads adds up by other sizes of batches otherwise
        words = block.cached(
            f"words of {heads} heads", partial(repeat_for_heads, layout.words, heads)
        )
        target = spread.target()
        units = self._targets.units
        common = units.scratch(0, *rows.shape)
        on_keys = torch.minimum(rows, target, out=common).sum(-1, keepdim=True)
        on_words = torch.minimum(units.among_words(block), target, out=common) @ words
        return [on_keys, on_words]

    def _on_columns(self, layout: Layout, on_cells: Tensor, queries: int) -> Tensor:
        """What rows have on each column, all queries together unless sums are by query.

        Shape: `on_cells` [key set, input, head, cell]
        -> [key set, input, head, query or 1, column].
        """
        if not self._targets.by_query:
            return (on_cells @ layout.values)[:, :, :, None]
        on_columns = on_cells[..., None] * layout.values[:, :, None]
        measured = on_columns.new_zeros(*on_cells.shape[:3], queries, on_columns.shape[-1])
        return measured.index_add_(3, layout.queries[0, 0], on_columns)

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
        parts = self._added_columns.parts
        # Rows with any weight count over every key, those with some on words among words
        by_query = measured["by_query"]
        counts = by_query.reshape(*by_query.shape[:-1], 2, len(KEY_SETS), -1)
        counts_by_key_set = {
            key_set: counts[..., number, number, :] for number, key_set in enumerate(KEY_SETS)
        }
        sums = {column.name: measured[column.name] for column in MEAN_COLUMNS}
        sums["rows"] = counts_by_key_set["every_key"][..., -1:]
        for key_set in KEY_SETS:
            columns = self._with_spreads(measured, key_set)
            weight, wider, self_mass = np.split(columns, [patterns, patterns + len(parts)], axis=-1)
            whole = weight.copy()
            whole[..., list(parts)] = wider
            itself = np.zeros_like(weight)
            itself[..., self._added_columns.excluding_self] = self_mass
            chance = counts_by_key_set[key_set][..., patterns : 2 * patterns]
            if f"even.{key_set}" in measured:
                chance = self._with_spreads(measured, f"even.{key_set}")[..., :patterns]
            sums[f"{key_set}.weight"] = weight
            sums[f"{key_set}.n"] = counts_by_key_set[key_set][..., :patterns]
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


def _least_weights(block: UnitBlock) -> Tensor:
    """The least weights whose logarithms are taken: above 0 and, of queries that are no words, 1.

    The logarithm of 1 is 0, so that these have no part in the entropy.
    Shape: [input, 1, query, 1], float32.
    """
    is_no_word = (~block.query_word).float()
    return is_no_word.clip(torch.finfo(torch.float32).tiny)[..., None]
