"""What heads carry: weights times the length of what each key has to give.

A head's output for query i is Σ_j α_ij f(x_j), where f(x_j) = v_j W_O is the key's value, its bias included, through
the head's own slice of the layer's output projection. What it carries from j is α_ij ‖f(x_j)‖, here as a share of its
row; Kobayashi et al., "Attention is Not Only a Weight" (2020). Heads often look at a delimiter whose value is next to
nothing: by its weight such a head follows `delimiter`, and by what it carries it rests.

A projection's weight is not multiplied with every value: of the head's slice W, [value, hidden], a triangle R with
RᵀR = W Wᵀ has the same norms, ‖vW‖ = ‖v Rᵀ‖, and is no larger than a head is wide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnscan.errors import CaptureError
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.running import check_finite
from attnscan.model.tap import Tap

_LEAST = torch.finfo(torch.float32).min
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

    def of_values(self, block: AttentionBlock) -> Tensor:
        """How long the vectors are that all keys have to give, ‖f(x_j)‖. Shape: [batch, head, key], float32."""
        assert block.value is not None
        if (norms := block.shared.get("norms")) is None:
            norms = block.shared["norms"] = self.norms(block.layer, block.heads, block.value)
        return norms

    def outputs(self, block: AttentionBlock) -> Tensor:
        """How much each head puts out for each query, ‖Σ_j α_ij f(x_j)‖. Shape: [batch, head, query], float32."""
        assert block.value is not None
        given = block.output if block.output is not None else block.weights @ block.value[:, :, block.columns].float()
        return self.norms(block.layer, block.heads, given)

    def carried(self, block: AttentionBlock) -> AttentionBlock:
        """A block with what heads carry in place of weights, each row a share of its sum.

        A row that carries nothing at all is zero throughout, and `idle` tells which are.
        """
        norms = self.of_values(block)[..., block.columns]
        given = block.weights.log().clip(_LEAST) if block.logits is None else block.logits
        logits = given + norms.log().clip(_NOTHING)[:, :, None]
        weights = torch.softmax(logits, dim=-1)
        zero = norms == 0
        idle = None
        if bool(zero.any()):
            idle = ~((block.weights > 0) & ~zero[:, :, None]).any(-1)
            weights = weights.masked_fill(idle[..., None], 0.0)
        return replace(block, weights=weights, logits=logits, idle=idle, value_norms=norms)


def output_projections(tap: Tap, inputs: dict[str, Tensor]) -> OutputProjections:
    """Find the output projection of every layer, by running the model on a short input.

    Each layer's heads put out random numbers; the one product with a weight that is given these, all heads of a token
    side by side, is the projection, whatever module it is in.
    Shape: `inputs` are the model's, each [batch, token].
    Raises: CaptureError if a layer has none that its heads pass through and nothing else does.
    """
    random, finder = torch.Generator().manual_seed(0), _Finder()

    def fill(_layer: int, output: Tensor) -> None:
        output.copy_(torch.randn(output.shape, generator=random))
        finder.given.append(output.clone())
        finder.weights.append([])

    if not tap.calls.whole:
        raise _not_computed(tap.model, "what a head puts out is computed in several parts")
    with finder:
        tap.output(inputs, fill)
    triangles: dict[int, Tensor] = {}  # ALBERT has one projection for all layers
    for layer, weights in enumerate(finder.weights):
        if len(weights) != 1:
            why = f"in layer {layer} the output of heads passes through another module first"
            raise _not_computed(tap.model, why)
        if id(weights[0]) not in triangles:
            check_finite(weights[0], "the output projection's weights")
            slices = weights[0].detach().reshape(finder.given[layer].shape[2], -1, weights[0].shape[1])
            triangle = torch.linalg.qr(slices.double().cpu().mT, mode="r").R.mT
            triangles[id(weights[0])] = triangle.to(weights[0].device, torch.float32)
    return OutputProjections(tuple(triangles[id(weights[0])] for weights in finder.weights))


def _not_computed(model: Any, why: str) -> CaptureError:
    return CaptureError(
        f"what heads of the architecture {type(model).__name__} carry cannot be computed: {why}",
        "use --by weight, or a model such as BERT, RoBERTa, DistilBERT, ALBERT or ModernBERT",
    )


class _Finder(TorchFunctionMode):
    """Sees which products with weights are given what a layer's heads put out."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Tensor] = []
        """Of each layer. Shape: [batch, token, head, dimension]."""
        self.weights: list[list[Tensor]] = []
        """Of each layer the weights of such products. Shape: each [head and dimension, hidden]."""
        self._made: dict[int, Tensor] = {}
        """The weights, by the id of the parameter: ALBERT's layers share one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of torch, and look at what it was given."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self.given:
            if name == "linear":
                values = args[0] if args else kwargs["input"]
                weight = args[1] if len(args) > 1 else kwargs["weight"]
                self._look(values, weight, weight.mT)
            elif name == "addmm":  # GPT-2's Conv1D
                self._look(args[1], args[2], args[2])
            elif name in ("matmul", "__matmul__") and args[1].ndim == 2:  # Falcon's
                self._look(args[0], args[1], args[1])
            elif name == "einsum" and args[0] == "ibnd,hnd->ibh":  # XLNet's
                self._look(args[1].transpose(0, 1), args[2], args[2].flatten(1).mT)
        return func(*args, **kwargs)

    def _look(self, values: Tensor, parameter: Tensor, weight: Tensor) -> None:
        """Shape: `weight` [head and dimension, hidden], made of a parameter of the model."""
        given = self.given[-1]
        if values.dtype != given.dtype or values.numel() != given.numel():
            return
        if torch.equal(values.reshape(-1), given.reshape(-1)):
            self.weights[-1].append(self._made.setdefault(id(parameter), weight))
