"""Weights x targets: a consumer of attention that measures every head of a batch against its targets."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock, add_range
from attnscan.model.running import not_finite
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.scores import FloatArray
from attnscan.scoring.merging import blocks_of_words, exact
from attnscan.scoring.readout import Columns, Readout
from attnscan.scoring.sums import KINDS, PAIR_SUMS, ScoreSums
from attnscan.scoring.targets import Targets

_LEAST_LEFT = 1e-6  # a query with less weight than this on words does nothing but park


@dataclass(frozen=True)
class _Part:
    """What some inputs of one length are scored by, under one mask."""

    is_word: Tensor
    """Which queries are words. Shape: [batch, 1, query], bool."""
    readout: Readout
    every_key: Tensor
    """Which queries are eligible, their weight on target by chance, and of parts that on the wider target.

    Shape: [batch, query, 2 x pattern + part]."""
    on_words: Tensor
    """The same over words alone, of queries that have weight left there."""


class Scorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets, *, by_query: bool = False) -> None:
        """With `by_query`, a batch of one input is measured word by word, or by blocks of neighbours if it has many."""
        batch = targets.batch
        assert not by_query or len(batch) == 1
        self._targets, self._units = targets, targets.units
        self._word_block = blocks_of_words(batch.query_word[0]) if by_query else None
        self._columns = Columns.of(targets.scored)
        self._words, self._keys = (is_word.float() for is_word in targets.is_word)
        self._grid: Grid | None = None

    def fresh(self) -> Scorer:
        """Another scorer of the same batch, which has seen nothing yet."""
        other = copy(self)
        other._grid = None
        return other

    def _start(self, grid: Grid) -> None:
        """Make room for every layer and head."""
        self._grid = grid
        dtype = exact(self._words.device)
        self._entropy = self._words.new_full((len(self._words), *grid.shape), torch.nan, dtype=dtype)
        self._rows = self._words.sum(1, dtype=dtype)[:, None, None].expand_as(self._entropy).clone()
        """Whose entropy that is."""
        measured = len(self._words) if self._word_block is None else int(self._word_block.max()) + 1
        shape = (len(KINDS), measured, *grid.shape)
        self._weight = self._words.new_zeros(*shape, len(self._columns), dtype=dtype)
        """On targets, in the columns of the readout."""
        self._counted = self._words.new_zeros(*shape, 2 * self._columns.targets + len(self._columns.parts), dtype=dtype)
        """Eligible queries, chance, and of parts chance on the wider target."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        if block.preview:
            return
        if block.grid != self._grid:
            self._start(block.grid)
        for of_tokens, of_units in self._units.blocks(block):
            self._take(of_tokens, of_units)

    def _take(self, of_tokens: AttentionBlock, block: AttentionBlock) -> None:
        """Score some inputs of one length, given by units: over every key, and over words alone, rows renormalised.

        A row that is `idle` counts for nothing.
        """
        weights, idle = block.weights, block.idle
        part = self._units.layouts.of("scores", block, lambda: self._part(of_tokens, block))
        place = (block.inputs, block.layer, block.heads)
        among_words, left = self._units.among_words(block) if block.is_range else (None, part.readout.left(weights))
        counts = left >= _LEAST_LEFT
        share = counts / left.clip(_LEAST_LEFT)
        entropy = _row_entropy(weights, block.logits).where(part.is_word, 0.0)
        if idle is not None:
            entropy = entropy.where(~idle, 0.0)
            if block.is_first:
                self._rows[place] = self._words[block.inputs].sum(1, dtype=self._rows.dtype)[:, None]
            self._rows[place] -= (part.is_word & idle).sum(-1)
        add_range(self._entropy, place, entropy.sum(-1, dtype=self._entropy.dtype), block)
        if self._word_block is not None:
            self._add_words(
                block, self._word_block[block.rows], part, part.readout.rows(weights, share, among_words), counts[0].T
            )
            return
        add_range(self._weight, (slice(None), *place), part.readout(weights, share, among_words), block)
        counted = part.every_key.sum(1, keepdim=True) if idle is None else (~idle).to(part.every_key) @ part.every_key
        add_range(self._counted[0], place, counted, block)
        add_range(self._counted[1], place, counts.to(part.on_words) @ part.on_words, block)

    def _add_words(self, block: AttentionBlock, into: Tensor, part: _Part, measured: Tensor, counts: Tensor) -> None:
        """Add the rows of a range of queries to the words, or blocks of words, that they are of.

        Shape: `into` [query], `measured` [2, query, head, column], `counts` [query, head].
        """
        own = (slice(None), slice(None), block.layer, block.heads)
        every_key = part.every_key[0, :, None].expand(-1, counts.shape[1], -1)
        if block.idle is not None:
            every_key = ~block.idle[0].T[..., None] * every_key
        counted = torch.stack([every_key, counts[..., None] * part.on_words[0, :, None]])
        for total, values in ((self._weight[own], measured), (self._counted[own], counted)):
            if block.is_first:
                total.zero_()
            total.index_add_(1, into, values)

    def _part(self, of_tokens: AttentionBlock, block: AttentionBlock) -> _Part:
        """The targets of a range of some inputs' queries, under their mask."""
        inputs, rows, columns = block.inputs, block.rows, block.columns
        of_rows = self._targets.of_rows(of_tokens, block)
        targets = [replace(target, matrix=target.matrix.contiguous()) for target in of_rows.targets]
        itself = None if block.kind is AttentionKind.CROSS else rows.start - columns.start
        near, far = of_rows.view.keys.start - columns.start, of_rows.view.cells
        far = far - far.new_tensor([[rows.start], [columns.start]])
        readout = Readout(targets, self._keys[inputs, columns], itself, near, far)
        even = self._units.even(of_tokens, inputs)
        on_words = even * self._keys[inputs, None, columns]
        on_words = on_words / on_words.sum(-1, keepdim=True).clip(_LEAST_LEFT)
        return _Part(
            self._words[inputs, None, rows] > 0,
            readout,
            self._by_chance(readout.eligible, readout.by_query(even)),
            self._by_chance(readout.eligible_on_words, readout.by_query(on_words)),
        )

    def _by_chance(self, eligible: Tensor, on_target: Tensor) -> Tensor:
        """What every head has alike. Shape: [batch, query, pattern] twice -> as in `_Part`."""
        wider = (on_target[..., whole] * eligible[..., part] for part, whole in self._columns.parts)
        return torch.cat([eligible, on_target, *(values[..., None] for values in wider)], -1)

    def sums(self, *, products: bool = False) -> ScoreSums:
        """The batch's sums, once every block has come; with `products`, those of every two heads, too.

        Raises: CaptureError if the model's attention is not finite.
        """
        entropy = self._entropy.cpu().numpy().astype(np.float64)
        if not np.isfinite(entropy).all():
            layer = int(np.argwhere(~np.isfinite(entropy))[:, 1].min())
            raise not_finite("the attention weights", f" from layer {layer} on")
        return ScoreSums.of(
            self.pair_sums(),
            scored=self._targets.scored,
            entropy=entropy.sum(0),
            words=self._rows.cpu().numpy().astype(np.float64).sum(0),
            products=products,
        )

    def pair_sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums, named as in `Sums`, such as `every_key.weight` and `words_only.whole_chance`.

        Shape: each [pair, layer, head, pattern].
        """
        sums = self._named()
        return sums if self._word_block is None else {name: v.sum(0, keepdims=True) for name, v in sums.items()}

    def word_sums(self) -> dict[str, FloatArray]:
        """Each word's own sums, or each block's of neighbouring words. Shape: each [word, layer, head, pattern]."""
        assert self._word_block is not None
        return {name: values[1:] for name, values in self._named().items()}

    def _named(self) -> dict[str, FloatArray]:
        """The sums by their names, of pairs or of words; before the words, those of all other queries."""
        weight, whole, itself = self._columns.split(self._weight.cpu().numpy().astype(np.float64, copy=False))
        counted, targets = self._counted.cpu().numpy().astype(np.float64, copy=False), self._columns.targets
        n, chance, wider = np.split(counted, [targets, 2 * targets], axis=-1)
        whole_chance = chance.copy()
        whole_chance[..., [part for part, _ in self._columns.parts]] = wider
        sums = dict(zip(PAIR_SUMS, (weight, n, chance, whole, itself, whole_chance), strict=True))
        return {f"{kind}.{name}": values[k] for k, kind in enumerate(KINDS) for name, values in sums.items()}


def _row_entropy(weights: Tensor, logits: Tensor | None) -> Tensor:
    """Entropy of each row, in nats. Shape: [batch, head, query, key] -> [batch, head, query]."""
    if logits is None:
        precise = weights.to(exact(weights.device))
        return -(precise * precise.clip(torch.finfo(weights.dtype).tiny).log()).sum(-1)
    # Logarithms of all weights cost more than the softmax. One a row is enough: log w = log w_max - (l_max - l).
    below = logits.amax(-1, keepdim=True) - logits
    return (below.mul_(weights).sum(-1) - weights.amax(-1).log()).clip(0)
