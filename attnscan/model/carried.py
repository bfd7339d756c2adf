"""What heads carry: weights times the length of what each key has to give.

A head's output for query i is Σ_j α_ij f(x_j), where f(x_j) = v_j W_O is the key's value, its bias
included, through the head's own slice of the layer's output projection. What it carries from j is
α_ij ‖f(x_j)‖, here as a share of its row; Kobayashi et al., "Attention is Not Only a Weight"
(2020). Heads often look at a delimiter whose value is next to nothing: by its weight such a head
follows `delimiter`, and by what it carries it rests.

A projection's weight is not multiplied with every value: of the head's slice W, [value, hidden], a
triangle R with RᵀR = W Wᵀ has the same norms, ‖vW‖ = ‖v Rᵀ‖, and is no larger than a head is wide.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnscan.errors import CaptureError
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.forward import check_finite
from attnscan.model.tap import AttentionTap


@dataclass(frozen=True)
class OutputProjections:
    """How every layer projects what its heads put out into the model's hidden states."""

    triangles: tuple[Tensor, ...]
    """Of each layer, Rᵀ of each head's slice. Shape: [head, value, value], float32; fewer columns
    where the hidden state is narrower than a head."""

    def norms(self, block: AttentionBlock, values: Tensor | None) -> Tensor:
        """How long a block's vectors are behind the projection.

        Shape: [batch, head, token, value] -> [batch, head, token].
        """
        assert values is not None
        projected = values.float() @ self.triangles[block.layer][block.heads]
        norms: Tensor = torch.linalg.vector_norm(projected, dim=-1)
        return norms

    def value_norms(self, block: AttentionBlock) -> Tensor:
        """How long the vectors are that all keys have to give, ‖f(x_j)‖.

        Shape: [batch, head, key], float32.
        """
        return self.norms(block, block.value)

    def output_norms(self, block: AttentionBlock) -> Tensor:
        """How much each head puts out for each query, ‖Σ_j α_ij f(x_j)‖.

        Shape: [batch, head, query], float32.
        """
        assert block.value is not None
        output = block.output
        if output is None:
            output = block.weights @ block.value.float()
        return self.norms(block, output)

    def to_carried(self, block: AttentionBlock) -> AttentionBlock:
        """A block with what heads carry in place of weights."""
        return to_carried(block, self.value_norms(block))


def to_carried(block: AttentionBlock, value_norms: Tensor) -> AttentionBlock:
    """A block with what heads carry in place of weights, and what even attention would carry.

    Even attention carries from each key seen ‖f(x_j)‖, here as a share of its row, too. Rows that
    carry nothing are zero, and so is even attention beside them.
    Shape: `value_norms`, the lengths ‖f(x_j)‖, [batch, head, key].
    """
    inputs, heads, queries, keys = block.weights.shape
    norms = value_norms[:, :, None]
    both = block.weights.new_empty(inputs, 2 * heads, queries, keys)
    torch.mul(block.weights, norms, out=both[:, :heads])
    torch.mul(block.seen, norms, out=both[:, heads:])
    total = both.sum(-1, keepdim=True)
    carries_nothing = total[:, None, :heads] == 0
    total.view(inputs, 2, heads, queries, 1).masked_fill_(carries_nothing, torch.inf)
    both /= total
    return replace(block, weights=both[:, :heads], weights_and_even=both)


def output_projections(tap: AttentionTap, inputs: dict[str, Tensor]) -> OutputProjections:
    """Find the output projection of every layer, by running the model on a short input.

    Each layer's heads put out random numbers; the one product with a weight that takes these, all
    heads of a token side by side, is the projection, whatever module it is in.
    Shape: `inputs` are the model's, each [batch, token].
    Raises: CaptureError if a layer has none that its heads pass through and nothing else does.
    """
    triangles: dict[int, Tensor] = {}  # by parameter: ALBERT has one projection for all layers
    with _Finder() as finder:
        tap.output(inputs, finder.fill)
    triangle_of_layers = []
    for layer, (output, weights) in enumerate(zip(finder.outputs, finder.weights, strict=True)):
        if len(weights) != 1:
            raise CaptureError(
                f"what heads of the architecture {type(tap.model).__name__} carry cannot be "
                f"computed: in layer {layer} the output of heads passes through another module "
                "first",
                "use ``by=weight``, or a model such as BERT, RoBERTa, DistilBERT, ALBERT or "
                "ModernBERT",
            )
        parameter, weight = weights[0]
        if id(parameter) not in triangles:
            triangles[id(parameter)] = _triangle(weight, heads=output.shape[2])
        triangle_of_layers.append(triangles[id(parameter)])
    return OutputProjections(tuple(triangle_of_layers))


def _triangle(weight: Tensor, heads: int) -> Tensor:
    """Rᵀ of each head's slice of a projection. Shape: [head and value, hidden] -> [head, ...]."""
    check_finite(weight, "the output projection's weights")
    slices = weight.detach().reshape(heads, -1, weight.shape[1])
    triangle = torch.linalg.qr(slices.double().cpu().mT, mode="r").R.mT
    moved: Tensor = triangle.to(weight.device, torch.float32)
    return moved


class _Finder(TorchFunctionMode):
    """Sees which products with weights take what a layer's heads put out."""

    def __init__(self) -> None:
        super().__init__()
        self._random = torch.Generator().manual_seed(0)
        self.outputs: list[Tensor] = []
        """Of each layer. Shape: [batch, token, head, dimension]."""
        self.weights: list[list[tuple[Tensor, Tensor]]] = []
        """Of each layer the parameters in such products, and each as [head and dimension,
        hidden]."""

    def fill(self, _layer: int, output: Tensor) -> None:
        """Let a layer's heads put out random numbers."""
        output.copy_(torch.randn(output.shape, generator=self._random))
        self.outputs.append(output.clone())
        self.weights.append([])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of torch, and look at its arguments."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        arguments = [*args, *kwargs.values()]
        if name == "linear":
            self._look(arguments[0], arguments[1], arguments[1].mT)
        elif name == "addmm":  # GPT-2's Conv1D
            self._look(arguments[1], arguments[2], arguments[2])
        elif name == "einsum" and arguments[0] == "ibnd,hnd->ibh":  # XLNet's
            self._look(arguments[1].transpose(0, 1), arguments[2], arguments[2].flatten(1).mT)
        elif name in ("matmul", "__matmul__") and arguments[1].ndim == 2:  # Falcon's
            self._look(arguments[0], arguments[1], arguments[1])
        return func(*args, **kwargs)

    def _look(self, values: Tensor, parameter: Tensor, weight: Tensor) -> None:
        """Note a weight, made of a parameter, if the values are ours.

        Shape: `weight` [head and dimension, hidden].
        """
        if not self.outputs:
            return
        output = self.outputs[-1]
        is_alike = values.dtype == output.dtype and values.numel() == output.numel()
        if is_alike and torch.equal(values.reshape(-1), output.reshape(-1)):
            self.weights[-1].append((parameter, weight))
