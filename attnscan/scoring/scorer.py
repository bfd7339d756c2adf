"""Weights x targets: a consumer of attention that measures every head of a batch against its targets.

Targets have few cells in a row. The keys that any of them uses are picked once, for all targets and for both measures:
over every key, and over words alone with rows renormalised. An even spread is measured over whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock
from attnscan.model.running import not_finite
from attnscan.results.scores import FloatArray
from attnscan.results.terms import RESTING
from attnscan.scoring.blocks import KINDS, PAIR_SUMS
from attnscan.scoring.targets import Targets
from attnscan.scoring.units import SumsOfBatch, UnitBlock, exact

LEAST_SHARE = 1e-6  # A query with less weight than this on words has no row among words


@dataclass(frozen=True)
class _Layout:
    """The targets of some inputs under one mask: the columns that weights are measured on."""

    words: Tensor  # 0 or 1: which keys are. Shape: [batch, 1, 1, key]
    cells: Tensor  # places in [query, key] that targets use; filled up with the first. Shape: [input, cell]
    queries: Tensor  # of which query each is. Shape: [input, cell]
    on_words: Tensor  # 0 or 1: whether its key is a word. Shape: [input, 1, cell]
    values: Tensor  # what each cell is to every column. Shape: [input, cell, column]
    even: Mapping[int, tuple[Tensor, Tensor]]
    """The columns of even spreads, over every key and over words: what a key gets beyond its share does not count."""
    counted: Tensor
    """Which queries are eligible, 0 or 1, by pattern; then their weight on target under even attention.

    Shape: [2, input, query, 2 x pattern]."""

    @classmethod
    def of(cls, columns: Sequence[Tensor], even: Sequence[int], words: Tensor, counted: Tensor) -> _Layout:
        """Pick the cells of some columns. Shape: each [input, query, key]; `words` [batch, 1, key], bool."""
        (inputs, _, keys), device = columns[0].shape, words.device
        used = torch.zeros(columns[0].shape, dtype=torch.bool, device=device)
        for p, column in enumerate(columns):
            if p not in even:
                used |= column != 0
        number, place = used.flatten(1).nonzero().T
        count = torch.bincount(number, minlength=inputs)
        at = torch.arange(len(place), device=device) - (count.cumsum(0) - count)[number]
        most = int(count.max())
        cells = torch.zeros(inputs, most, dtype=torch.int64, device=device)
        cells[number, at] = place
        values = torch.zeros(inputs, most, len(columns), dtype=exact(device), device=device)
        for p, column in enumerate(columns):
            values[number, at, p] = column.flatten(1)[number, place].to(values)
        is_word = words[:, 0].expand(inputs, -1).gather(1, cells % keys)[:, None].to(values)
        spreads = {p: (columns[p].float(), columns[p] * words.float()) for p in even}
        return cls(words[:, None].float(), cells, cells // keys, is_word, values, spreads, counted)

    def measure(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Weight on each column, over every key and over words alone; and what rows are multiplied with among words.

        Shape: `weights` [input, head, query, key] -> [2, input, head, column] and [input, head, query].
        """
        left = (weights * self.words).sum(-1)
        share = (left >= LEAST_SHARE) / left.clip(LEAST_SHARE)
        cells, queries = (index[:, None].expand(-1, weights.shape[1], -1) for index in (self.cells, self.queries))
        picked = weights.flatten(2).gather(2, cells).to(self.values)
        among_words = picked * share.gather(2, queries) * self.on_words
        measured = torch.stack([picked @ self.values, among_words @ self.values])
        if self.even:
            rows = torch.empty_like(weights)  # one for all: what is made anew falls out of the processor's cache
        for p, (every_key, words) in self.even.items():
            measured[0, ..., p] = torch.minimum(weights, every_key[:, None], out=rows).sum((-1, -2))
            torch.mul(weights, share[..., None], out=rows)
            measured[1, ..., p] = torch.minimum(rows, words[:, None], out=rows).sum((-1, -2))
        return measured, share


class Scorer:
    """A consumer of attention blocks that scores one batch against its targets."""

    def __init__(self, targets: Targets) -> None:
        self._targets, self._sums = targets, SumsOfBatch(targets.units)
        patterns = targets.patterns
        names = [pattern.id for pattern in patterns]
        self._even = [p for p, pattern in enumerate(patterns) if pattern.even]
        self._resting = [p for p, name in enumerate(names) if name in RESTING]
        self._parts = {p: names.index(known.part_of) for p, known in enumerate(patterns) if known.part_of in names}
        self._of_others = [p for p, pattern in enumerate(patterns) if pattern.of_others]

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        for of_units in self._targets.units.blocks(block):
            self._take(of_units)

    def _take(self, block: UnitBlock) -> None:
        """Score some inputs of one length, over every key, and over words alone with rows renormalised."""
        layout, patterns = block.once("scores", lambda: self._layout(block)), len(self._targets.patterns)
        measured, share = layout.measure(block.weights)
        counts = torch.stack([block.has_row, share > 0]).to(measured)
        n, chance = (counts @ layout.counted).chunk(2, -1)
        if block.even_carried is not None:  # by what heads carry, chance is what even attention would carry
            chance = layout.measure(block.even_carried)[0][..., :patterns]
        weight, wider, on_itself = measured.tensor_split([patterns, patterns + len(self._parts)], -1)
        whole, itself = weight.clone(), torch.zeros_like(weight)
        whole[..., list(self._parts)], itself[..., self._of_others] = wider, on_itself
        sums = dict[str, Tensor]()
        for name, values in zip(PAIR_SUMS, (weight, n, chance, whole, itself), strict=True):
            values[1][..., self._resting] = values[0][..., self._resting]  # of all attention by both measures
            sums |= {f"{kind}.{name}": values[k] for k, kind in enumerate(KINDS)}
        entropy = torch.special.entr(block.weights).sum(-1).where(block.takes, 0.0)
        sums |= {"entropy": entropy.sum(-1, keepdim=True), "rows": block.takes.sum(-1, keepdim=True)}
        self._sums.put(block, sums)

    def _layout(self, block: UnitBlock) -> _Layout:
        """The targets of some inputs under their mask.

        Behind them stand the wider target of each part, on the part's own queries, and what patterns of others have on
        the word itself.
        """
        batch, every_key = block.batch, block.even[:, 0]
        words, itself = batch.key_word[:, None, batch.keys], block.as_inputs(batch.offset == 0)
        among_words = every_key * words
        among_words = among_words / among_words.sum(-1, keepdim=True).clip(LEAST_SHARE)
        targets = [block.as_inputs(matrix) for matrix in self._targets.of(batch)]
        on_words = (matrix * words for matrix in targets)
        counted = torch.stack([self._counted(targets, every_key), self._counted(on_words, among_words)])
        wider = [targets[whole] * (targets[p] != 0).any(-1, keepdim=True) for p, whole in self._parts.items()]
        columns = [*targets, *wider, *(targets[p] * itself for p in self._of_others)]
        return _Layout.of(columns, self._even, words, counted)

    def _counted(self, targets: Iterable[Tensor], even: Tensor) -> Tensor:
        """Which queries are eligible, 0 or 1, by pattern; then their weight on target under even attention.

        Shape: each [input, query, key] -> [input, query, 2 x pattern].
        """
        eligible, chance = [], []
        for p, matrix in enumerate(targets):
            on = torch.minimum(even, matrix) if p in self._even else even * matrix
            eligible.append((matrix != 0).any(-1))
            chance.append(on.sum(-1, dtype=exact(even.device)))
        return torch.cat([torch.stack(eligible, -1).to(chance[0]), torch.stack(chance, -1)], -1)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums, once every block has come: by `KINDS` those of `PAIR_SUMS`, by pattern.

        Beside them `every_key.pairs` and `words_only.pairs`: 1 where a pair has an eligible query; and how much
        `entropy` all words' `rows` have, in nats.

        Shape: [pair, layer, head, pattern], the last two [pair, layer, head, 1].
        Raises: CaptureError if the model's attention is not finite.
        """
        sums = self._sums.arrays()
        if self._targets.by_query:
            sums = {name: values.sum(0, keepdims=True) for name, values in sums.items()}
        if not np.isfinite(sums["entropy"]).all():
            layer = int(np.argwhere(~np.isfinite(sums["entropy"]))[:, 1].min())
            raise not_finite("the attention weights", f" from layer {layer} on")
        return sums | {f"{kind}.pairs": (sums[f"{kind}.n"] > 0).astype(float) for kind in KINDS}

    def word_sums(self) -> dict[str, FloatArray]:
        """Each word's own sums, or each block's of neighbouring words. Shape: each [word, layer, head, ...]."""
        return {name: values[1:] for name, values in self._sums.arrays().items()}
