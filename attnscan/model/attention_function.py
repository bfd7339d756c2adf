"""Our attention function in place of a model's, for as long as it is wanted; the masks given to it; what heads carry.

A head's output for query i is Σ_j α_ij f(x_j), where f(x_j) = v_j W_O is the key's value, its bias included, through
the head's own slice of the layer's output projection. What it carries from j is α_ij ‖f(x_j)‖, here as a share of its
row; Kobayashi et al., "Attention is Not Only a Weight" (2020). Heads often look at a delimiter whose value is next to
nothing: by its weight such a head follows `delimiter`, and by what it carries it rests.

A projection's weight is not multiplied with every value: of the head's slice W, [value, hidden], a triangle R with
RᵀR = W Wᵀ has the same norms, ‖vW‖ = ‖v Rᵀ‖, and is no larger than a head is wide.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnscan.errors import CaptureError
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.kinds import calls_of
from attnscan.model.running import accepted, check_finite, failed, quiet_transformers, refused
from attnscan.results.grid import AttentionKind

_MODIFIERS = ("s_aux", "softcap")
"""What eager attention can add to the logits, and a function of ours does not."""

OnOutput = Callable[[int, Tensor], None]
"""Given a layer's number and its heads' outputs [batch, token, head, dimension], which it may change in place."""

_names = (f"attnscan_tap_{number}" for number in itertools.count())
_KEPT = 1 << 22  # cells of one mask's ranges: windows of 8,192 tokens fit
_HIDDEN = -9e3  # what less than this is added to is not to be seen: older models hide with -10,000, others with more

_NOTHING = -1e30  # the logarithm of a norm of 0: a masked key's logit, 3.4e38 below zero, stays finite with it
_ROUNDED, _HALF_ROUNDED = 1e-5, 2e-2  # how far a projection may be from its weight, of its largest output


class AttentionFunction:
    """Stands in for a model's own attention function, under a name that transformers knows while this is open.

    Raises: CaptureError if the model does not say by its config how many layers its text part has, and no caller does.
    """

    def __init__(self, model: Any, layers: int | None = None) -> None:
        self.model, self.name = model, next(_names)
        try:
            self.layers = int(model.config.get_text_config().num_hidden_layers) if layers is None else layers
        except (AttributeError, TypeError, ValueError):
            raise refused(model, "does not say how many layers of attention it has") from None

    def _attend(self, *arguments: Any, **rest: Any) -> tuple[Tensor, None]:
        """What transformers calls in place of the model's own attention, once a layer: calls count layers."""
        raise NotImplementedError

    def _mask(self, **arguments: Any) -> Tensor | None:
        """What transformers calls for a mask: by default the additive one that eager attention takes."""
        from transformers.masking_utils import eager_mask

        return cast(Tensor | None, eager_mask(**arguments))

    def __enter__(self) -> Self:
        # Without a mask function of the same name transformers passes no mask at all, and padding
        # soaks up attention: https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/masking_utils.py
        self._quiet = quiet_transformers()  # no advice, from tokenizers either, which may run in a thread beside
        self._quiet.__enter__()
        from transformers import AttentionInterface, AttentionMaskInterface  # whoever has a model has paid for it

        AttentionInterface.register(self.name, self._attend)
        AttentionMaskInterface.register(self.name, self._mask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        from transformers import AttentionInterface, AttentionMaskInterface

        AttentionInterface._global_mapping.pop(self.name)  # `register` has no public opposite
        AttentionMaskInterface._global_mapping.pop(self.name)
        self._quiet.__exit__(None, None, None)


@contextmanager
def attention_of(model: Any, name: str) -> Iterator[bool]:
    """Run the model with the attention of that name, and put its own back; whether it took it."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield model.config._attn_implementation == name
    finally:
        model.set_attn_implementation(before)


def plain_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rest: dict[str, Any]
) -> Tensor:
    """What torch's fused kernel makes of a call, whatever the module says of being causal: the mask alone decides."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward  # what runs has paid for it

    output: Tensor = sdpa_attention_forward(module, query, key, value, mask, **{**rest, "is_causal": False})[0]
    return output


def not_switchable(model: Any) -> CaptureError:
    """The error for a model whose heads' outputs are not to be had."""
    return CaptureError(
        f"heads of the architecture {type(model).__name__} cannot be switched off: "
        "its attention does not pass through the tap",
        "use a model such as BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA or ModernBERT",
    )


def is_answerable(module: Any, layer: int, arguments: Mapping[str, Any]) -> bool:
    """Whether a function of ours can stand in for a module's attention, whose call is that of this layer by order.

    Not where something unknown is added to the logits, or the module says that it is another layer's: DiffLlama's call
    for each half of their values. Modules that say nothing, such as ALBERT's single one, are known by the order of
    calls.
    """
    return not is_modified(arguments) and getattr(module, "layer_idx", None) in (None, layer)


def is_modified(arguments: Mapping[str, Any]) -> bool:
    """Whether something unknown is added to the logits of a call."""
    return any(arguments.get(name) is not None for name in _MODIFIERS)


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
    def of(
        cls, mask: Tensor | None, shape: tuple[int, int, int], device: torch.device, lengths: Sequence[tuple[int, int]]
    ) -> Mask:
        """Read a mask of `shape` [batch, query, key], given how many queries and keys of each input are no padding.

        Shape: `mask` is additive or bool, [batch or 1, head or 1, query or 1, key].
        Raises: Untappable if it is of another number of queries or keys.
        """
        _, queries, keys = shape
        if mask is None:
            visible = torch.ones(1, 1, 1, dtype=torch.bool, device=device).expand(shape)
            return cls(None, None, visible, [True] * len(lengths))
        if mask.shape[-1] != keys or mask.shape[-2] not in (1, queries):
            raise Untappable
        bias = mask
        if mask.dtype == torch.bool:
            bias = torch.zeros(mask.shape, device=device).masked_fill_(~mask, torch.finfo(torch.float32).min)
        visible = (bias > _HIDDEN).any(1).expand(shape)
        bias = bias.float().clip(torch.finfo(torch.float32).min).expand(shape[0], -1, queries, -1)
        empty = [not bool(bias[i, :, :rows, :columns].any()) for i, (rows, columns) in enumerate(lengths)]
        return cls(mask, bias, visible, empty)

    def of_keys(self, keys: slice) -> Mask:
        """The same of some keys."""
        assert self.bias is not None
        return replace(self, given=None, bias=self.bias[..., keys].clone(), visible=self.visible[..., keys].clone())

    def add_to(self, logits: Tensor, inputs: slice, heads: slice, queries: slice, keys: slice) -> None:
        """Add the mask to the logits of a range of queries, in place."""
        if self.bias is not None and not all(self.empty[inputs]):
            some_heads = heads if self.bias.shape[1] > 1 else slice(None)
            logits += self.bias[inputs, some_heads, queries, keys]


def asked_rows(arguments: Mapping[str, Any], queries: slice) -> Tensor:
    """A range of rows of the mask that transformers asks for. Shape: [batch, 1, query, key], bool."""
    from transformers.masking_utils import sdpa_mask

    places = arguments.get("cache_position")  # of all queries, as transformers 5.0 asks; later, how many and from where
    of_rows = {"q_length": queries.stop - queries.start, "q_offset": arguments.get("q_offset", 0) + queries.start}
    of_rows = of_rows if places is None else {"cache_position": places[queries]}
    whole = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}  # no None in place of a mask
    rows: Tensor = sdpa_mask(**{**arguments, **of_rows, **whole})
    return rows


class MaskRows:
    """The mask of long inputs, worked out for one range of queries after the other: whole, 8,192 tokens take 268 MB.

    Of a range, what is worked out are the keys from the first to the last that any query sees.
    """

    def __init__(
        self, rows: Callable[[slice], Tensor], shape: tuple[int, int, int], device: torch.device, lengths: Sequence[int]
    ) -> None:
        """`rows` gives the model's own mask of a range of queries, as `Mask.of` reads it."""
        self._rows, self._shape, self._device, self._lengths = rows, shape, device, lengths
        self._kept: dict[tuple[int, int], tuple[slice, Mask]] = {}
        self._room = _KEPT

    @property
    def visible(self) -> MaskRows:
        """Itself, by what it says when it is indexed."""
        return self

    def _of(self, queries: slice) -> tuple[slice, Mask]:
        """The keys that a range of queries sees, and its mask by these."""
        start, stop, _ = queries.indices(self._shape[1])
        if (start, stop) not in self._kept:
            shape = (self._shape[0], stop - start, self._shape[2])
            lengths = [(max(0, min(stop, length) - start), length) for length in self._lengths]
            mask = Mask.of(self._rows(slice(start, stop)), shape, self._device, lengths)
            keys = slice(0, shape[2])
            if bool(mask.visible.all()):
                mask = Mask.of(None, shape, self._device, lengths)
            elif bool(mask.visible.any(-1).all()):
                places = mask.visible.any(1).any(0).nonzero()
                keys = slice(int(places[0]), int(places[-1]) + 1)
                mask = mask.of_keys(keys)
            if self._room < 0:
                self._kept.popitem()  # the one before; of the first, which are kept, there are as many as fit
            self._kept[start, stop] = keys, mask
            self._room -= 0 if mask.bias is None else mask.visible.numel()
        return self._kept[start, stop]

    def __getitem__(self, cells: tuple[slice, slice, slice]) -> Tensor:
        """Which keys some queries of some inputs may see. Shape: [batch, query, key], bool."""
        inputs, queries, keys = cells
        seen, mask = self._of(queries)
        start, first, last, stop = _common(keys, seen, self._shape[2])
        visible = mask.visible[inputs, :, first - seen.start : last - seen.start]
        return visible if (start, stop) == (first, last) else pad(visible, (first - start, stop - last))

    def add_to(self, logits: Tensor, inputs: slice, heads: slice, queries: slice, keys: slice) -> None:
        """Add the mask to the logits of a range of queries, in place."""
        seen, mask = self._of(queries)
        start, first, last, _ = _common(keys, seen, self._shape[2])
        own = slice(first - seen.start, last - seen.start)
        mask.add_to(logits[..., first - start : last - start], inputs, heads, slice(None), own)
        for hidden in (logits[..., : first - start], logits[..., last - start :]):
            hidden += torch.finfo(torch.float32).min

    def seen(self, number: int, queries: slice, length: int) -> slice:
        """The keys of an input that any of some queries may see, and those between; all if a query sees none."""
        keys, mask = self._of(queries)
        visible = mask.visible[number, :, : length - keys.start]
        if mask.bias is None or not bool(visible.any(-1).all()):
            return slice(0, length)
        places = visible.any(0).nonzero() + keys.start
        return slice(int(places[0]), int(places[-1]) + 1)

    def width(self, number: int, rows: int, length: int) -> int:
        """How many keys a range of so many queries of an input sees, the first, in the middle or the last."""
        starts = {0, (length - rows) // 2, length - rows}
        seen = [self.seen(number, slice(max(0, start), start + rows), length) for start in starts]
        return max(int(keys.stop - keys.start) for keys in seen)


def _common(keys: slice, seen: slice, length: int) -> tuple[int, int, int, int]:
    """Where some keys start, where those of them that are seen start and stop, and where they all stop."""
    start, stop, _ = keys.indices(length)
    first = min(max(start, seen.start), stop)
    return start, first, max(first, min(stop, seen.stop)), stop


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
