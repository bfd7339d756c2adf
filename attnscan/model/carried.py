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
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import CaptureError
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.attention_function import (
    AttentionFunction,
    Untappable,
    attention_of,
    is_answerable,
    plain_attention,
)
from attnscan.model.kinds import calls_of
from attnscan.model.running import accepted, check_finite, failed
from attnscan.results.grid import AttentionKind

_NOTHING = -1e30  # the logarithm of a norm of 0: a masked key's logit, 3.4e38 below zero, stays finite with it
_ROUNDED, _HALF_ROUNDED = 1e-5, 2e-2  # how far a projection may be from its weight, of its largest output


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
        given = block.output if block.output is not None else block.weights @ block.value[:, :, block.columns].float()
        return self.norms(block.layer, block.heads, given)

    def carried(self, block: AttentionBlock) -> AttentionBlock:
        """The same block with what heads carry in place of weights, each row a share of its sum.

        A row that carries nothing at all is zero throughout, and `idle` tells which are. A preview keeps its weights,
        with `norms` beside them.
        """
        assert block.value is not None and block.logits is not None
        if (norms := block.shared.get("norms")) is None:
            norms = block.shared["norms"] = self.norms(block.layer, block.heads, block.value)
        norms = norms[..., block.columns]
        if block.preview:
            return replace(block, norms=norms)
        logits = block.logits + norms.log().clip(_NOTHING)[:, :, None]
        weights = torch.softmax(logits, dim=-1)
        zero = norms == 0
        idle = None
        if bool(zero.any()):
            idle = ~((block.weights > 0) & ~zero[:, :, None]).any(-1)
            weights = weights.masked_fill(idle[..., None], 0.0)
        return replace(block, weights=weights, logits=logits, idle=idle)


def output_projections(
    model: Any, inputs: dict[str, Tensor], kind: AttentionKind = AttentionKind.ONLY
) -> OutputProjections:
    """Find the output projection of every layer, by running the model on a short input.

    Of an encoder-decoder, those of a kind of attention.
    Shape: `inputs` are the model's, each [batch, token].
    Raises: CaptureError if a layer has none that its heads pass through and nothing else does.
    """
    with _Finder(model, kind, inputs["input_ids"].device) as finder:
        slices = finder.find(inputs)
    made: dict[int, Tensor] = {}  # ALBERT has one module for all layers
    for weight in slices:
        if id(weight) not in made:
            check_finite(weight, "the output projection's weights")
            made[id(weight)] = torch.linalg.qr(weight.double().cpu().mT, mode="r").R.mT.to(weight.device, torch.float32)
    return OutputProjections(tuple(made[id(weight)] for weight in slices))


class _Finder(AttentionFunction):
    """Gives out random numbers for attention, and sees which modules receive them."""

    def __init__(self, model: Any, kind: AttentionKind, device: torch.device) -> None:
        self._kind, self._calls, layers = kind, None, None
        if kind is not AttentionKind.ONLY:
            self._calls = calls_of(model, kind, device)
            layers = 0 if self._calls is None else self._calls.grid.shape[0]
        super().__init__(model, layers)

    def find(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        """Of each layer, the projection's weight. Shape: each [head, value, hidden]."""
        self._given: list[Tensor] = []
        self._called = 0
        self._receivers: list[dict[Any, Tensor]] = []
        self._random = torch.Generator().manual_seed(0)
        hooks = [
            module.register_forward_pre_hook(self._receive, with_kwargs=True)
            for module in self.model.modules()
            if getattr(getattr(module, "weight", None), "ndim", 0) == 2
        ]
        try:
            with torch.inference_mode(), attention_of(self.model, self.name) as took:
                if took:
                    self.model(**accepted(self.model, inputs))
        except Untappable:
            took = False
        except Exception as error:
            raise failed(self.model, error) from error
        finally:
            for hook in hooks:
                hook.remove()
        if not took or len(self._given) != self.layers:
            raise self._none("its attention does not pass through the tap")
        weights: dict[Any, Tensor] = {}
        with torch.inference_mode():
            for layer, receivers in enumerate(self._receivers):
                if len(receivers) != 1:
                    raise self._none(f"in layer {layer} the output of heads passes through another module first")
                ((module, received),) = receivers.items()
                if module not in weights:
                    weights[module] = self._slices(module, received, layer)
        return [weights[module] for receivers in self._receivers for module in receivers]

    def _attend(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **rest: Any,
    ) -> tuple[Tensor, None]:
        self._called += 1
        if self._calls is not None and self._calls.places[self._called - 1][0] is not self._kind:
            return plain_attention(module, query, key, value, attention_mask, rest), None
        if not is_answerable(module, len(self._given), rest):
            raise Untappable
        batch, heads, length, _ = query.shape
        given = torch.randn(batch, length, heads, value.shape[-1], generator=self._random).to(value)
        self._given.append(given.clone())
        self._receivers.append({})
        return given, None

    def _receive(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note a module that is given what the last attention gave out, all heads of a token side by side."""
        if not self._given:
            return
        given = self._given[-1]
        for argument in (*arguments, *named.values()):
            if isinstance(argument, Tensor) and argument.dtype == given.dtype and argument.numel() == given.numel():
                received = argument.reshape(-1, given.shape[2] * given.shape[3])
                if torch.equal(received, given.reshape(received.shape)):
                    self._receivers[-1][module] = received

    def _slices(self, module: Any, received: Tensor, layer: int) -> Tensor:
        """The weight of a linear module, whichever way it lies, proved by what the module makes of its input."""
        made = (module(received) - module(torch.zeros_like(received))).float()
        tolerance = (_ROUNDED if received.dtype.itemsize > 2 else _HALF_ROUNDED) * made.abs().max()
        for weight in (module.weight.mT, module.weight):  # as in torch's Linear, and in GPT-2's Conv1D
            if weight.shape == (received.shape[1], made.shape[1]):
                projected = received.float() @ weight.float()
                if (projected - made).abs().max() <= tolerance:
                    slices: Tensor = weight.detach().reshape(self._given[layer].shape[2], -1, weight.shape[1])
                    return slices
        raise self._none(f"the output projection of layer {layer} is not linear")

    def _none(self, why: str) -> CaptureError:
        return CaptureError(
            f"what heads of the architecture {type(self.model).__name__} carry cannot be computed: {why}",
            "use --by weight, or a model such as BERT, RoBERTa, DistilBERT, ALBERT or ModernBERT",
        )
