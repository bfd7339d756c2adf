"""Weights x targets: a consumer of attention that measures every head of a batch against its targets.

Targets have few cells in a row. The keys that any of them uses are picked once, for all targets and for both measures:
over every key, and over words alone with rows renormalised. An even spread is measured over whole rows.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnscan.model.attention_block import AttentionBlock
from attnscan.model.running import not_finite
from attnscan.results.scores import FloatArray
from attnscan.results.terms import LEAST_ON_WORDS, RESTING
from attnscan.scoring.blocks import KINDS, PAIR_SUMS
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.targets import Targets
from attnscan.scoring.units import SumsOfBatch, UnitBlock, exact


class _Layout(NamedTuple):
    """The targets of some inputs under one mask: the columns that weights are measured on.

    Behind the targets stand the wider target of each part, on the part's own queries, and what patterns of others have
    on the word itself.
    """

    words: Tensor  # 0 or 1: which keys are. Shape: [input, 1, key, 1]
    cells: Tensor  # places in [query, key] that targets use; filled up with the first. Shape: [input, 1, cell]
    queries: Tensor  # of which query each is. Shape: [input, 1, cell]
    on_words: Tensor  # 0 or 1: whether its key is a word. Shape: [input, 1, cell]
    values: Tensor  # what each cell is to every column, 0 where it only fills up. Shape: [input, cell, column]
    spreads: dict[int, tuple[Tensor, Tensor]]
    """Of even patterns, which keys share the weight, and the share of each. Shape: [input, 1, query, key or 1]."""
    eligible: Tensor  # 0 or 1, over every key and over words. Shape: [input, 2, query, pattern]
    chance: Tensor  # weight on target under even attention. Shape: [input, 2, query, pattern]


class Scorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets) -> None:
        self._targets, self._sums = targets, SumsOfBatch(targets.units)
        patterns = targets.patterns
        names, self._is_ours = [pattern.id for pattern in patterns], set(patterns) <= set(ALL_PATTERNS)
        self._even = [p for p, pattern in enumerate(patterns) if pattern.even]
        self._resting = [p for p, name in enumerate(names) if name in RESTING]
        self._parts = {p: names.index(known.part_of) for p, known in enumerate(patterns) if known.part_of in names}
        self._of_others = [p for p, pattern in enumerate(patterns) if pattern.of_others]

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; whole, where functions of one's own are shown all queries."""
        for parts in self._targets.units.blocks(block, whole=not self._is_ours):
            for part in parts:
                self._sums.put(part, self._sums_of(part))

    def _layout(self, block: UnitBlock) -> _Layout:
        """The targets of some inputs under their mask."""
        batch, even = block.batch, block.even[:, 0]
        words, targets = batch.key_word[:, None, batch.keys], self._targets.of(batch)
        among_words = even * words
        among_words = among_words / among_words.sum(-1, keepdim=True).clip(LEAST_ON_WORDS)
        eligible, chance = [], []
        for p, matrix in enumerate(targets):
            for rows, own in ((even, matrix), (among_words, matrix * words)):
                on = torch.minimum(rows, own) if p in self._even else rows * own
                eligible.append((own != 0).any(-1))
                chance.append(on.sum(-1, dtype=exact(on.device)))
        counted = (torch.stack([torch.stack(own[k::2], -1) for k in (0, 1)], 1) for own in (eligible, chance))
        wider = [targets[whole] * (targets[p] != 0).any(-1, keepdim=True) for p, whole in self._parts.items()]
        columns = [*targets, *wider, *(targets[p] * (batch.offset == 0) for p in self._of_others)]
        used = torch.stack([own != 0 for p, own in enumerate(columns) if p not in self._even]).any(0)
        cells = pad_sequence([own.nonzero()[:, 0] for own in used.flatten(1)], batch_first=True)
        filled = torch.arange(cells.shape[1], device=cells.device) < used.sum((1, 2))[:, None]
        values = torch.stack([own.flatten(1).gather(1, cells) * filled for own in columns], -1).to(chance[0])
        queries, keys = cells[:, None] // used.shape[2], cells[:, None] % used.shape[2]
        on_words = words.expand(len(cells), -1, -1).gather(2, keys).to(values)
        spreads = {p: ((targets[p] != 0)[:, None], targets[p].amax(-1)[:, None, :, None]) for p in self._even}
        return _Layout(words[..., None].float(), cells[:, None], queries, on_words, values, spreads, *counted)

    def _measure(self, layout: _Layout, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Weight on each column, over every key and over words alone; and what rows are multiplied with among words.

        Shape: `weights` [input, head, query, key] -> [input, 2, head, query, column] and [input, head, query]. Not by
        query, there is one for all.
        """
        left = (weights @ layout.words)[..., 0]
        share = (left >= LEAST_ON_WORDS) / left.clip(LEAST_ON_WORDS)
        cells, queries = (places.expand(-1, weights.shape[1], -1) for places in (layout.cells, layout.queries))
        picked = weights.flatten(2).gather(2, cells).to(layout.values)
        both = torch.stack([picked, picked * share.gather(2, queries) * layout.on_words], 1)
        if self._targets.by_query:
            measured = both.new_zeros(*both.shape[:3], weights.shape[2], layout.values.shape[-1])
            measured.index_add_(3, layout.queries[0, 0], both[..., None] * layout.values[:, None, None])
        else:
            measured = (both.flatten(1, 2) @ layout.values).reshape(*both.shape[:3], 1, -1)
        rows = torch.empty_like(weights) if layout.spreads else weights  # one: what is new falls out of the cache
        for p, (keys, height) in layout.spreads.items():
            spread = keys * height
            on = [torch.minimum(weights, spread, out=rows).sum(-1)]
            torch.mul(weights, share[..., None], out=rows)
            on.append(torch.minimum(rows, spread * layout.words.mT, out=rows).sum(-1))
            measured[..., p] = torch.stack(on, 1).to(measured).sum_to_size(measured.shape[:-1])
        return measured, share

    def _sums_of(self, block: UnitBlock) -> dict[str, Tensor]:
        """Score some inputs, over every key, and over words alone with rows renormalised."""
        layout, by_query = block.once("scores", partial(self._layout, block)), self._targets.by_query
        patterns = len(self._targets.patterns)
        measured, share = self._measure(layout, block.weights)
        rows = torch.stack([block.has_row, share > 0], 1).to(measured)
        n, chance = (
            rows[..., None] * own[:, :, None] if by_query else (rows @ own)[..., None, :]
            for own in (layout.eligible.to(measured), layout.chance)
        )
        if (even := block.even_carried) is not None:  # by what heads carry, chance is what even attention would carry
            chance = self._measure(layout, even)[0][..., :patterns]
        weight, wider, on_itself = measured.tensor_split([patterns, patterns + len(self._parts)], -1)
        whole, itself = weight.clone(), torch.zeros_like(weight)
        whole[..., list(self._parts)], itself[..., self._of_others] = wider, on_itself
        sums = dict[str, Tensor]()
        for name, values in zip(PAIR_SUMS, (weight, n, chance, whole, itself), strict=True):
            values[:, 1, ..., self._resting] = values[:, 0, ..., self._resting]  # of all attention by both measures
            sums |= {f"{kind}.{name}": values[:, k] for k, kind in enumerate(KINDS)}
        logs = block.weights.clip(torch.finfo(torch.float32).tiny).log_()  # four times as fast as torch.special.entr
        entropy = -logs.mul_(block.weights).sum(-1).where(block.takes, 0.0)
        return sums | {"entropy": entropy[..., None], "rows": block.takes[..., None]}

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums, once every block has come: by `KINDS` those of `PAIR_SUMS`, by pattern.

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
        return sums | {f"{kind}.pairs": (sums[f"{kind}.n"] > 0).astype(float) for kind in KINDS}

    def word_sums(self) -> dict[str, FloatArray]:
        """Each word's own sums, or each block's of neighbouring words. Shape: each [word, layer, head, ...]."""
        return self._sums.of_units()
