"""What a model adds to the logits of its attention to hide keys, and what that leaves visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

HIDDEN = -9e3
"""A key to which less than this is added is not to be seen: older models add -10,000, others more."""


@dataclass(frozen=True)
class Mask:
    """What a layer's mask adds to the logits, and what it leaves visible."""

    given: Tensor | None
    """As transformers made it; kept alive, so that its id stays its own."""
    bias: Tensor | None
    """Shape: [batch, head or 1, query, key], float32."""
    visible: Tensor
    """Shape: [batch, query, key], bool."""
    empty: list[bool]
    """Of each input: whether nothing is added to it, but to its padding."""

    @classmethod
    def of(
        cls, mask: Tensor | None, shape: tuple[int, int, int], device: torch.device, lengths: Sequence[tuple[int, int]]
    ) -> Mask:
        """Read a mask of `shape` [batch, query, key], given how many queries and keys of each input are no padding.

        Shape: `mask` is additive or bool, [batch or 1, head or 1, query or 1, key].
        """
        if mask is None:
            return cls(None, None, all_visible(shape, device), [True] * len(lengths))
        bias = mask
        if mask.dtype == torch.bool:
            bias = torch.zeros(mask.shape, device=device).masked_fill_(~mask, torch.finfo(torch.float32).min)
        visible = (bias > HIDDEN).any(1).expand(shape)
        bias = bias.float().clip(torch.finfo(torch.float32).min).expand(shape[0], -1, shape[1], -1)
        empty = [not bool(bias[i, :, :rows, :columns].any()) for i, (rows, columns) in enumerate(lengths)]
        return cls(mask, bias, visible, empty)

    def add_to(self, logits: Tensor, inputs: slice, heads: slice) -> None:
        """Add the mask to the logits of some inputs and heads, in place."""
        if self.bias is not None and not all(self.empty[inputs]):
            rows, columns = logits.shape[2:]
            logits += self.bias[inputs, heads if self.bias.shape[1] > 1 else slice(None), :rows, :columns]


def all_visible(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Every query sees every key, in no memory."""
    return torch.ones(1, dtype=torch.bool, device=device).expand(shape)


class Behind:
    """Which source keys the queries of a target see, where the target's tokens are counted behind the source's.

    So both texts have one count of places, and what is said of tokens has the same places as rows and columns.
    """

    def __init__(self, visible: Tensor, sizes: Sequence[tuple[int, int]]) -> None:
        """`sizes` says how many tokens the target and the source of each input have.

        Shape: `visible` [batch, target token, source token], bool.
        """
        self._visible, self._sizes, self._width = visible, sizes, max(map(sum, sizes))

    def __getitem__(self, cells: tuple[slice, slice, slice]) -> Tensor:
        """Of some inputs, queries and keys. Shape: [batch, query, key], bool."""
        inputs, queries, keys = cells
        numbers = range(len(self._sizes))[inputs]
        whole = self._visible.new_zeros(len(numbers), self._width, self._width)
        for row, number in enumerate(numbers):
            target, source = self._sizes[number]
            whole[row, source : source + target, :source] = self._visible[number, :target, :source]
        return whole[:, queries, keys]


def visible_keys(weights: Tensor, present: Tensor) -> Tensor:
    """Which keys each query may see, judged by saved weights, with which there is no mask to read.

    Hidden are padding, and keys at a distance that no head of the layer ever attends to.

    Shape: `weights` [batch, head, query, key], `present` [batch, key] -> [batch, query, key], bool.
    """
    batch, _, length, keys = weights.shape
    place = torch.arange(length, device=weights.device)[:, None] - torch.arange(keys, device=weights.device)[None]
    used = (weights != 0).any(1) & present.bool()[:, :, None]  # a query of padding spreads evenly over all
    offsets = torch.zeros(length + keys, dtype=torch.bool, device=weights.device)
    offsets[(place[None].expand(batch, -1, -1) + keys)[used]] = True
    return offsets[place + keys].expand(batch, length, keys) & present.bool()[:, None, :]


def same_or(before: Tensor, now: Tensor) -> Tensor:
    """The mask of the layer before, if this layer's is equal: what follows from an object is worked out once."""
    return before if torch.equal(before, now) else now
