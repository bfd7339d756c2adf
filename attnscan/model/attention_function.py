"""An attention function of our own in place of a model's, for as long as it is wanted; and the masks given to it."""

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
from attnscan.model.running import quiet_transformers, refused

MODIFIERS = ("s_aux", "softcap")
"""What eager attention can add to the logits, and a function of ours does not."""

OnOutput = Callable[[int, Tensor], None]
"""Given a layer's number and its heads' outputs [batch, token, head, dimension], which it may change in place."""

_names = (f"attnscan_tap_{number}" for number in itertools.count())
_KEPT = 1 << 22  # cells of one mask's ranges: windows of 8,192 tokens fit
_HIDDEN = -9e3  # what less than this is added to is not to be seen: older models hide with -10,000, others with more


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
    return any(arguments.get(name) is not None for name in MODIFIERS)


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
        """Cut the mask to a range of keys."""
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
