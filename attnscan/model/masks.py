"""Which keys a query may see: read off a layer's mask, or told by the weights where there is no mask to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_HIDDEN = -9e3  # what less than this is added to is not to be seen: older models hide with -10,000, others with more


class Untappable(Exception):
    """The model adds something to its attention that the tap does not know."""


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
    def of(cls, mask: Tensor | None, shape: Sequence[int], device: torch.device, lengths: list[int]) -> Mask:
        """Shape: `mask` is additive or bool, [batch or 1, head or 1, query or 1, key]; `shape` is the queries'."""
        batch, _, length, _ = shape
        if mask is None:
            visible = torch.ones(1, 1, 1, dtype=torch.bool, device=device).expand(batch, length, length)
            return cls(None, None, visible, [True] * len(lengths))
        if mask.shape[-1] != length or mask.shape[-2] not in (1, length):
            raise Untappable  # keys from elsewhere than the input
        bias = mask
        if mask.dtype == torch.bool:
            bias = torch.zeros(mask.shape, device=device).masked_fill_(~mask, torch.finfo(torch.float32).min)
        visible = (bias > _HIDDEN).any(1).expand(batch, length, length)
        bias = bias.float().clip(torch.finfo(torch.float32).min).expand(batch, -1, length, -1)
        empty = [not bool(bias[i, :, :own, :own].any()) for i, own in enumerate(lengths)]
        return cls(mask, bias, visible, empty)

    def add_to(self, logits: Tensor, inputs: slice, heads: slice) -> None:
        """Add the mask to a block's logits, in place."""
        if self.bias is not None and not all(self.empty[inputs]):
            own = slice(logits.shape[-1])
            logits += self.bias[inputs, heads if self.bias.shape[1] > 1 else slice(None), own, own]


def visible_keys(weights: Tensor, present: Tensor | None) -> Tensor:
    """Which keys each query may see, judged by the weights: without the tap there is no mask to read.

    Hidden are padding, and keys at a distance that no head of the layer ever attends to.

    Shape: `weights` [batch, head, query, key], `present` [batch, key] -> [batch, query, key], bool.
    """
    batch, _, length, keys = weights.shape
    place = torch.arange(length, device=weights.device)[:, None] - torch.arange(keys, device=weights.device)[None]
    used = (weights != 0).any(1)
    if present is not None:
        used &= present.bool()[:, :, None]  # a query of padding sees nothing, which softmax spreads evenly
    offsets = torch.zeros(length + keys, dtype=torch.bool, device=weights.device)
    offsets[(place[None].expand(batch, -1, -1) + keys)[used]] = True
    visible = offsets[place + keys].expand(batch, length, keys)
    return visible if present is None else visible & present.bool()[:, None, :]


def same_or(before: Tensor, now: Tensor) -> Tensor:
    """The mask of the layer before, if this layer's is equal: what follows from an object is worked out once."""
    return before if torch.equal(before, now) else now
