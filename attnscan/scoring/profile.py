"""A consumer of attention that sums what profiles are fitted from: heads' weights, and the parts they may be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, add_range
from attnscan.model.running import not_finite
from attnscan.results.dependencies import Help
from attnscan.results.grid import Grid
from attnscan.results.profile import BLOCKS, parts_of
from attnscan.results.scores import FloatArray
from attnscan.scoring.block_sums import BlockSums, squeezed
from attnscan.scoring.cross import ALIGNED, ALL_PATTERNS
from attnscan.scoring.merging import LEAST_LEFT, Units, exact
from attnscan.scoring.parts import AllRows, Parts
from attnscan.scoring.pattern import Pattern
from attnscan.scoring.targets import Targets


def profiled(patterns: Sequence[Pattern], *, predictive: bool) -> tuple[str, ...]:
    """The parts of a profile: ours, and the patterns of one's own."""
    return parts_of([pattern.id for pattern in _others(patterns, predictive=predictive)])


def _others(patterns: Sequence[Pattern], *, predictive: bool) -> list[Pattern]:
    """The patterns that are parts by their targets: `predictive` if it was asked for, links, and those of one's own."""
    ours = [
        pattern for pattern in ALL_PATTERNS if pattern is not ALIGNED and not (pattern.target is None and predictive)
    ]
    return [pattern for pattern in patterns if pattern not in ours]


class Profiler:
    """A consumer of attention blocks that sums one batch for profiles."""

    def __init__(
        self,
        batch: EncodedBatch,
        patterns: Sequence[Pattern],
        helps: Sequence[Help] = (),
        *,
        special: bool = True,
        units: Units | None = None,
    ) -> None:
        """With `helps`, those of every input, the words that help to predict are a part.

        With `special`, special tokens are keys; without, each word's weights on words are renormalised.
        Profilers of the same batch and patterns may share their `units`.
        """
        others = _others(patterns, predictive=bool(helps))
        self._batch, self._targets, self._special = batch, Targets(batch, others, helps), special
        self.parts = parts_of([pattern.id for pattern in others])
        """By name."""
        self._units = Units(batch) if units is None else units
        self._all_rows: AllRows | None = None
        """Of the ranges so far of some inputs and heads."""
        self._grid: Grid | None = None

    def _start(self, grid: Grid) -> None:
        """Make room for every layer and head."""
        self._grid, parts, word = grid, len(self.parts), self._batch.word
        inputs, (layers, heads) = len(self._batch), grid.shape

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(inputs, *shape, dtype=exact(word.device), device=word.device)

        self._sums = {
            "gram": zeros(layers, parts - 1, parts - 1),
            "mass": zeros(layers, parts),
            "even": zeros(layers),
            "products": zeros(layers, heads, parts),
            "on_part": zeros(layers, heads, parts),
            "same_keys": zeros(layers, heads),
            "squares": zeros(layers, heads),
            "on_even": zeros(layers, heads),
        }

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        if block.preview:
            return
        if block.grid != self._grid:
            self._start(block.grid)
        for of_tokens, of_units in self._units.blocks(block):
            self._take(of_tokens, of_units)

    def _take(self, of_tokens: AttentionBlock, block: AttentionBlock) -> None:
        """Sum some queries of some inputs of one length; the last of them bring what `same-keys` needs of all rows."""
        parts = self._units.layouts.of(f"profile {self._special}", block, lambda: self._of(of_tokens, block))
        sums, weights, words = self._sums, block.weights, self._batch.query_word[block.inputs].sum(1, keepdim=True)
        layer, place = (block.inputs, block.layer), (block.inputs, block.layer, block.heads)
        if not self._special and not block.is_whole:
            weights, _ = self._units.among_words(block)
        elif not self._special:
            weights = weights * self._batch.word[block.inputs, None, None, block.columns]
            weights = weights / weights.sum(-1, keepdim=True).clip(LEAST_LEFT)
        lengths = torch.linalg.vector_norm(weights, dim=-1) * parts.word[:, None]
        on_even, even = parts.on_even(weights)
        add_range(sums["squares"], place, lengths.to(sums["squares"]).square().sum(-1), block)
        add_range(sums["on_even"], place, on_even, block)
        add_range(sums["even"], layer, even[:, 0], block)
        add_range(sums["on_part"], (*place, slice(-1)), parts.read(weights), block)
        add_range(sums["gram"], layer, parts.gram, block)
        add_range(sums["mass"], (*layer, slice(-1)), parts.mass, block)
        whole = parts.all_rows(weights, block.columns.stop if block.is_whole else self._batch.word.shape[1])
        if block.is_first or self._all_rows is None:
            self._all_rows = whole
        else:
            self._all_rows += whole
        if not of_tokens.is_last:
            return
        words = words.to(sums["mass"])
        same = self._all_rows.same_keys(words, sums["on_part"][*place, :-1], sums["squares"][place])
        sums["on_part"][*place, -1] = same.on_part
        sums["products"][place], sums["same_keys"][place] = same.products, same.mass
        sums["mass"][*layer, -1] = (words * (words > 1))[:, 0]

    def _of(self, of_tokens: AttentionBlock, block: AttentionBlock) -> Parts:
        """The parts of some inputs' queries, under their mask."""
        rows = self._targets.of_rows(of_tokens, block)
        return Parts(rows.view, block, [target.matrix for target in rows.targets], special=self._special)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums, once every block has come, as `fitted` takes them.

        Shape: [pair, ...] each, then as `sums_shapes` says.
        Raises: CaptureError if the model's attention is not finite.
        """
        sums = {**self._sums, "words": self._batch.query_word.sum(1)}
        arrays = {name: values.cpu().numpy().astype(np.float64) for name, values in sums.items()}
        if not np.isfinite(arrays["squares"]).all():
            raise not_finite("the attention weights")
        return arrays


def profile_sums(pairs: Mapping[str, FloatArray], keys: Sequence[str]) -> BlockSums:
    """The sums of some pairs, by the `Pair.key` of each; what all layers have in common is kept once."""
    alike = {name: squeezed(pairs[name], [1]) for name in ("gram", "mass", "even")}
    return BlockSums.of(keys, {**pairs, **alike}, BLOCKS)
