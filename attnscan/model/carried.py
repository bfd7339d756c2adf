"""What a head carries: weight times how much there is to take from each key, in place of the weight alone.

A head's output for query i is Σ_j α_ij f(x_j), where f(x_j) = v_j W_O is the key's value, its bias included, through
the head's own slice of the layer's output projection. What it carries from j is α_ij ‖f(x_j)‖, here as a share of its
row; Kobayashi et al., "Attention is Not Only a Weight" (2020). Heads often look at a delimiter whose value is next to
nothing: by its weight such a head follows `delimiter`, and by what it carries it rests.

A projection's weight is not multiplied with every value: of the head's slice W, [value, hidden], a triangle R with
RᵀR = W Wᵀ has the same norms, ‖vW‖ = ‖v Rᵀ‖, and is no larger than a head is wide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock

_NOTHING = -1e30  # the logarithm of a norm of 0: a masked key's logit, 3.4e38 below zero, stays finite with it


@dataclass(frozen=True)
class OutputProjections:
    """How every layer projects what its heads put out into the model's hidden states."""

    triangles: tuple[Tensor, ...]
    """Of each layer, Rᵀ of each head's slice. Shape: [head, value, value], float32; fewer columns where the
    hidden state is narrower than a head."""

    def norms(self, layer: int, heads: slice, values: Tensor) -> Tensor:
        """How long some heads' vectors are behind the projection, without its bias.

        Shape: `values` [batch, head, token, value] -> [batch, head, token], float32.
        """
        projected = values.float() @ self.triangles[layer][heads]
        norms: Tensor = torch.linalg.vector_norm(projected, dim=-1)
        return norms

    def outputs(self, block: AttentionBlock) -> Tensor:
        """How much each head puts out for each query, ‖Σ_j α_ij f(x_j)‖. Shape: [batch, head, query], float32."""
        assert block.value is not None
        return self.norms(block.layer, block.heads, block.weights @ block.value.float())

    def carried(self, block: AttentionBlock) -> AttentionBlock:
        """The same block with what heads carry in place of weights, each row a share of its sum.

        A row that carries nothing at all is zero throughout, and `idle` tells which are.
        """
        assert block.value is not None and block.logits is not None
        norms = self.norms(block.layer, block.heads, block.value)
        logits = block.logits + norms.log().clip(_NOTHING)[:, :, None]
        weights = torch.softmax(logits, dim=-1)
        zero = norms == 0
        idle = None
        if bool(zero.any()):
            idle = ~((block.weights > 0) & ~zero[:, :, None]).any(-1)
            weights = weights.masked_fill(idle[..., None], 0.0)
        return replace(block, weights=weights, logits=logits, idle=idle)
