"""A consumer of attention that sums what profiles are fitted from: heads' weights, and the parts they may be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, Ranges
from attnscan.model.running import not_finite
from attnscan.results.dependencies import Help
from attnscan.results.grid import Grid
from attnscan.results.profile import BLOCKS, parts_of
from attnscan.results.scores import FloatArray
from attnscan.scoring.block_sums import BlockSums, squeezed
from attnscan.scoring.merging import Merge
from attnscan.scoring.parts import Parts
from attnscan.scoring.pattern import Pattern
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.readout import LEAST_LEFT, exact
from attnscan.scoring.targets import Targets


def profiled(patterns: Sequence[Pattern], *, predictive: bool) -> tuple[str, ...]:
    """The parts of a profile: ours, and the patterns of one's own."""
    return parts_of([pattern.id for pattern in _others(patterns, predictive=predictive)])


def _others(patterns: Sequence[Pattern], *, predictive: bool) -> list[Pattern]:
    """The patterns that are parts by their targets: `predictive` if it was asked for, and those of one's own."""
    return [pattern for pattern in patterns if pattern not in PATTERNS or (pattern.target is None and predictive)]


class Profiler:
    """A consumer of attention blocks that sums one batch for profiles."""

    def __init__(
        self, batch: EncodedBatch, patterns: Sequence[Pattern], helps: Sequence[Help] = (), *, special: bool = True
    ) -> None:
        """With `helps`, those of every input, the words that help to predict are a part.

        With `special`, special tokens are keys; without, each word's weights on words are renormalised.
        """
        others = _others(patterns, predictive=bool(helps))
        self._batch, self._targets, self._special = batch, Targets(batch, others, helps), special
        self.parts = parts_of([pattern.id for pattern in others])
        """By name."""
        self._merge = None if batch.unit is None else Merge(batch.unit)
        self._ranges = Ranges()
        self._laid_out: dict[tuple[int, int, int, int], tuple[Tensor, Parts]] = {}
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
        """Take one block; a block that comes again replaces what it said before.

        Of several ranges of queries, the last brings the sums: the part `same-keys` needs the mean of all rows.
        """
        if (joined := self._ranges.joined(block)) is None:
            return
        block = joined
        if block.grid != self._grid:
            self._start(block.grid)
        start, stop, _ = block.inputs.indices(len(self._batch))
        if self._merge is None:
            self._take(block, slice(start, stop), block.weights)
            return
        for row, number in enumerate(range(start, stop)):  # words are of any number, whatever that of tokens
            merged = self._merge.block(block, row, number)
            self._take(block, merged.inputs, merged.weights)

    def _take(self, block: AttentionBlock, inputs: slice, weights: Tensor) -> None:
        """Sum some inputs of one length."""
        parts = self._of(block.visible, inputs, weights.shape[-1])
        sums, layer, place = self._sums, (inputs, block.layer), (inputs, block.layer, block.heads)
        if not self._special:
            weights = weights * parts.word[:, None, None]
            weights = weights / weights.sum(-1, keepdim=True).clip(LEAST_LEFT)
        lengths = torch.linalg.vector_norm(weights, dim=-1) * parts.word[:, None]
        squares = lengths.to(sums["squares"]).square().sum(-1)
        on_part = parts.read(weights)
        same = parts.same_keys(weights, on_part, squares)
        on_even, even = parts.on_even(weights)
        sums["squares"][place], sums["on_even"][place], sums["even"][layer] = squares, on_even, even[:, 0]
        sums["on_part"][place] = torch.cat([on_part, same.on_part[..., None]], -1)
        sums["products"][place], sums["same_keys"][place] = same.products, same.mass
        sums["gram"][layer], sums["mass"][layer] = parts.gram, torch.cat([parts.mass, parts.with_others], 1)

    def _of(self, visible: Tensor, inputs: slice, length: int) -> Parts:
        """The parts of some inputs, laid out once for all layers that have a mask."""
        key = (inputs.start, inputs.stop, length, id(visible))
        if key not in self._laid_out:
            batch = self._batch.under(visible[: len(self._batch)])
            if not self._special:
                assert batch.visible is not None
                batch = replace(batch, visible=batch.visible & batch.word[:, None])
            others = [target.matrix for target in self._targets.under(visible)]
            self._laid_out[key] = visible, Parts(batch, inputs, length, others)  # kept, so that its id stays its own
        return self._laid_out[key][1]

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's sums, once every block has come, as `fitted` takes them.

        Shape: [pair, ...] each, then as `sums_shapes` says.
        Raises: CaptureError if the model's attention is not finite.
        """
        sums = {**self._sums, "words": self._batch.word.sum(1)}
        arrays = {name: values.cpu().numpy().astype(np.float64) for name, values in sums.items()}
        if not np.isfinite(arrays["squares"]).all():
            raise not_finite("the attention weights")
        return arrays


def profile_sums(pairs: Mapping[str, FloatArray], keys: Sequence[str]) -> BlockSums:
    """The sums of some pairs, by the `Pair.key` of each; what all layers have in common is kept once."""
    alike = {name: squeezed(pairs[name], [1]) for name in ("gram", "mass", "even")}
    return BlockSums.of(keys, {**pairs, **alike}, BLOCKS)
