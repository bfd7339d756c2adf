"""Weights x targets: a consumer of attention that measures every head of a batch against its targets.

Most targets have few cells in a row. The keys that any of them uses are picked once, for all targets and for both
measures: over every key, and over words alone. A target of a long input that has many cells is multiplied through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock
from attnscan.model.running import not_finite
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray
from attnscan.results.terms import RESTING
from attnscan.scoring.blocks import KINDS, PAIR_SUMS
from attnscan.scoring.targets import Targets
from attnscan.scoring.units import SumsOfBatch, UnitBlock, exact, input_by_input

_LONG, _DENSE = 1024, 1 / 8  # keys of a long input, and the share of them from which on a target is multiplied through
_LEAST_LEFT = 1e-6  # a query with less weight than this on words does nothing but park


@dataclass(frozen=True)
class _Readout:
    """Matrices of targets [input, query, key], ready to measure weights: over every key, then over words alone."""

    cells: Tensor
    """Those that targets use, by their place in the matrix; filled up with the first. Shape: [input, cell]."""
    queries: Tensor
    """Of which query each is. Shape: [input, cell]."""
    on_words: Tensor
    """Whether its key is a word, 0 or 1. Shape: [input, 1, cell]."""
    values: Tensor
    """What each is to every target. Shape: [input, cell, target]."""
    dense: Mapping[int, tuple[Tensor, Tensor]]
    """Targets that are multiplied through, over every key and over words alone."""
    even: Mapping[int, tuple[Tensor, Tensor]]
    """Likewise, those of which what a key gets beyond its share does not count."""

    @classmethod
    def of(cls, matrices: Sequence[Tensor], even: Sequence[int], words: Tensor, inputs: int) -> _Readout:
        """The queries of all matrices are shared out evenly to so many `inputs`.

        Shape: matrices [batch, query, key], `words` [batch, key], bool.
        """
        keys, dense, device = words.shape[1], list[int](), words.device
        union = torch.zeros(inputs, matrices[0][..., 0].numel() // inputs * keys, dtype=torch.bool, device=device)
        for p, matrix in enumerate(matrices):
            used = matrix != 0
            if p not in even and keys > _LONG and int(used.count_nonzero()) > _DENSE * used.numel():
                dense.append(p)
            elif p not in even:
                union |= used.reshape(inputs, -1)
        number, place = union.nonzero().T
        count = torch.bincount(number, minlength=inputs)
        at = torch.arange(len(place), device=device) - (count.cumsum(0) - count)[number]
        most = max(1, int(count.max()))
        cells = torch.zeros(inputs, most, dtype=torch.int64, device=device)
        cells[number, at] = place
        values = torch.zeros(inputs, most, len(matrices), dtype=exact(device), device=device)
        for p, matrix in enumerate(matrices):
            if p not in even and p not in dense:
                values[number, at, p] = matrix.reshape(inputs, -1)[number, place].to(values)
        on_words = words.repeat_interleave(max(1, inputs // len(words)), 0).gather(1, cells % keys)[:, None].to(values)

        def in_full(p: int) -> tuple[Tensor, Tensor]:
            every_key = matrices[p].float()
            return every_key.reshape(inputs, -1, keys), (every_key * words[:, None]).reshape(inputs, -1, keys)

        through, evens = ({p: in_full(p) for p in places} for places in (dense, even))
        return cls(cells, cells // keys, on_words, values, through, evens)

    def measure(self, weights: Tensor, share: Tensor) -> Tensor:
        """Weight on target, summed over queries.

        Shape: `weights` [input, head, query, key], and what these are multiplied with over words alone [input, head,
        query] -> [2, input, head, target].
        """
        cells, queries = (index[:, None].expand(-1, weights.shape[1], -1) for index in (self.cells, self.queries))
        picked = weights.flatten(2).gather(2, cells).to(self.values)
        picked_rows = picked * share.gather(2, queries) * self.on_words
        measured = torch.stack([picked @ self.values, picked_rows @ self.values])
        for p, (every_key, on_words) in self.dense.items():
            measured[0, ..., p] = (weights * every_key[:, None]).sum((-1, -2))
            measured[1, ..., p] = ((weights * on_words[:, None]).sum(-1) * share).sum(-1)
        if self.even:
            shared = torch.empty_like(weights)  # one for all: what is made anew falls out of the processor's cache
        for p, (every_key, on_words) in self.even.items():
            measured[0, ..., p] = torch.minimum(weights, every_key[:, None], out=shared).sum((-1, -2))
            torch.mul(weights, share[..., None], out=shared)
            measured[1, ..., p] = torch.minimum(shared, on_words[:, None], out=shared).sum((-1, -2))
        return measured


@dataclass(frozen=True)
class _Layout:
    """What some inputs are scored by under one mask. Shape: the last two [2, input, query, ...], for both measures."""

    words: Tensor
    """0 or 1: which keys are. Shape: [batch, 1, 1, key]."""
    readout: _Readout
    counted: Tensor
    """Which queries have a target, 0 or 1, by pattern; then their weight on it under even attention."""
    on_itself: Tensor
    """What each query is among its own targets, in [0, 1], by pattern."""


class Scorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets, *, by_query: bool = False) -> None:
        """With `by_query`, a batch of one input is measured word by word, or by blocks of neighbours if it has many."""
        self._targets, self._sums, self._by_query = targets, SumsOfBatch(targets.batch, by_query=by_query), by_query
        scored = targets.scored
        names = [known.id for known in scored]
        self._even = [p for p, pattern in enumerate(targets.patterns) if pattern.even]
        self._resting = [p for p, name in enumerate(names) if name in RESTING]
        self._parts = [(p, names.index(known.part_of)) for p, known in enumerate(scored) if known.part_of in names]

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        for of_units in self._targets.units.blocks(block):
            self._take(of_units)

    def _take(self, block: UnitBlock) -> None:
        """Score some inputs of one length, over every key, and over words alone with rows renormalised."""
        layout = block.part.once(f"scores {self._by_query}", lambda: self._layout(block))
        measured, share = self._measured(block.weights, layout)
        takes = torch.ones_like(share) if block.idle is None else ~block.idle
        n, chance = (self._of_inputs(measured, takes, share > 0) @ layout.counted).chunk(2, -1)
        patterns, parts = n.shape[-1], [part for part, _ in self._parts]
        if block.even_carried is not None:  # by what heads carry, chance is what even attention would carry
            chance = self._measured(block.even_carried, layout)[0][..., :patterns]
        weight = measured[..., :patterns]
        whole, itself = weight.clone(), torch.zeros_like(weight)
        if parts:
            of_every_key, of_words = measured[..., patterns:].chunk(2, -1)
            whole[0][..., parts], whole[1][..., parts] = of_every_key[0], of_words[1]
        if block.of_tokens.grid.kind is not AttentionKind.CROSS:  # where no query is among the keys
            own = block.weights.diagonal(dim1=-2, dim2=-1)
            both = self._of_inputs(measured, own, own * share)
            itself = both @ layout.on_itself
            for p in self._even:
                itself[..., p] = torch.minimum(both, layout.on_itself[:, :, None, :, p]).sum(-1)
        quantities = zip(PAIR_SUMS, (weight, n, chance, whole, itself), strict=True)
        sums = {f"{kind}.{name}": both[k] for name, both in quantities for k, kind in enumerate(KINDS)}
        entropy = _row_entropy(block.weights, block.logits).where(block.takes, 0.0)
        entropy, rows = self._of_inputs(measured, entropy, block.takes).sum(-1, keepdim=True)
        self._sums.put(block, sums | {"entropy": entropy, "rows": rows})

    def _measured(self, weights: Tensor, layout: _Layout) -> tuple[Tensor, Tensor]:
        """Weight on target, as a readout has it, and what each query's weights on words are multiplied with.

        Shape: `weights` [batch, head, query, key] -> [2, input, head, target] and [batch, head, query].
        """
        left = (weights * layout.words).sum(-1)
        share = (left >= _LEAST_LEFT) / left.clip(_LEAST_LEFT)
        own = (input_by_input(values, by_query=self._by_query) for values in (weights, share))
        return layout.readout.measure(*own), share

    def _of_inputs(self, like: Tensor, *values: Tensor) -> Tensor:
        """Values of heads' queries by input. Shape: each [batch, head, query] -> [value, input, head, query]."""
        return torch.stack([input_by_input(own, by_query=self._by_query).to(like) for own in values])

    def _layout(self, block: UnitBlock) -> _Layout:
        """The targets of some inputs under their mask."""
        batch, even = block.part.batch, block.part.even()
        words = batch.key_word[:, batch.keys]
        matrices = [target.matrix for target in self._targets.of(batch)]
        shape, patterns = matrices[0].shape, len(matrices)
        eligible = [[(m != 0).any(-1) for m in matrices], [((m != 0) & words[:, None]).any(-1) for m in matrices]]
        on_itself = torch.zeros(2, *shape[:2], patterns, dtype=exact(words.device), device=words.device)
        if block.of_tokens.grid.kind is not AttentionKind.CROSS:
            own = torch.stack([matrix.diagonal(dim1=-2, dim2=-1) for matrix in matrices], -1).to(on_itself)
            on_itself = torch.stack([own, own * words[..., None]])
        for of_kind in eligible:  # beside a part of a wider pattern, the wider target of its own queries
            matrices += [matrices[wider] * of_kind[part][..., None] for part, wider in self._parts]
        by_query = _Readout.of(matrices, self._even, words, shape[0] * shape[1])
        share = 1 / (even * words[:, None]).sum(-1).clip(_LEAST_LEFT)
        of_queries = (values.reshape(shape[0] * shape[1], 1, 1, *values.shape[2:]) for values in (even, share))
        chance = by_query.measure(*of_queries)[..., :patterns].reshape(2, *shape[:2], patterns)
        counted = torch.cat([torch.stack([torch.stack(of_kind, -1) for of_kind in eligible]).to(chance), chance], -1)
        is_word = words[:, None, None].float()
        if self._by_query:
            return _Layout(is_word, by_query, counted.transpose(1, 2), on_itself.transpose(1, 2))
        return _Layout(is_word, _Readout.of(matrices, self._even, words, shape[0]), counted, on_itself)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums, once every block has come: by `KINDS` those of `PAIR_SUMS`, by pattern.

        Beside them `every_key.pairs` and `words_only.pairs`: 1 where a pair has an eligible query; and how much
        `entropy` all words' `rows` have, in nats.

        Shape: [pair, layer, head, pattern], the last two [pair, layer, head, 1].
        Raises: CaptureError if the model's attention is not finite.
        """
        sums = self._named(0)
        if self._by_query:
            sums = {name: values.sum(0, keepdims=True) for name, values in sums.items()}
        if not np.isfinite(sums["entropy"]).all():
            layer = int(np.argwhere(~np.isfinite(sums["entropy"]))[:, 1].min())
            raise not_finite("the attention weights", f" from layer {layer} on")
        return sums | {f"{kind}.pairs": (sums[f"{kind}.n"] > 0).astype(float) for kind in KINDS}

    def word_sums(self) -> dict[str, FloatArray]:
        """Each word's own sums, or each block's of neighbouring words. Shape: each [word, layer, head, ...]."""
        return self._named(1)

    def _named(self, first: int) -> dict[str, FloatArray]:
        """The sums from the first pair or word on; patterns of resting heads are of all attention in both measures."""
        sums = {name: values[first:] for name, values in self._sums.arrays().items()}
        for name in PAIR_SUMS:
            every_key, words_only = (sums[f"{kind}.{name}"] for kind in KINDS)
            words_only[..., self._resting] = every_key[..., self._resting]
        return sums


def _row_entropy(weights: Tensor, logits: Tensor | None) -> Tensor:
    """Entropy of each row, in nats. Shape: [batch, head, query, key] -> [batch, head, query]."""
    if logits is None:
        precise = weights.to(exact(weights.device))
        return -(precise * precise.clip(torch.finfo(weights.dtype).tiny).log()).sum(-1)
    # Logarithms of all weights cost more than the softmax. One a row is enough: log w = log w_max - (l_max - l).
    below = logits.amax(-1, keepdim=True) - logits
    return (below.mul_(weights).sum(-1) - weights.amax(-1).log()).clip(0)
