"""Which calls of a model's attention are of which kind and layer, and how it can be read: learnt from a probe run.

The probe is a source of 5 tokens and, of an encoder-decoder, a target of 3: the shapes of queries and keys say what a
call is, where `is_decoder` and `is_causal` are wrong in several families. Calls come in the same order in every later
run. A layer's number is that of its module: in Jamba or Qwen3-Next only some layers have attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from attnscan.errors import AttnscanError, CaptureError
from attnscan.model.running import accepted, attention_of, failed, forward, refused
from attnscan.model.watch import Call, Watch
from attnscan.results.grid import AttentionKind, Grid

_SOURCE, _TARGET = 5, 3  # tokens
_TOKEN = 5  # of any vocabulary, and padding in none
_KINDS = {
    (_SOURCE, _SOURCE): AttentionKind.ENCODER,
    (_TARGET, _TARGET): AttentionKind.DECODER,
    (_TARGET, _SOURCE): AttentionKind.CROSS,
}
MODIFIERS = ("s_aux", "softcap")
"""What eager attention can add to the logits, and the tap does not."""
_GROWING = ("dynamic", "longrope")  # rotary frequencies that change with the longest input so far
_ROW_TOLERANCE, _HALF_ROW_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits

Place = tuple[AttentionKind, int]
"""The kind of a call, and its layer, counted among those that have attention of the kind."""


@dataclass(frozen=True)
class Calls:
    """The calls of attention in one run of a model."""

    places: tuple[Place | None, ...]
    """Of each call; None for one that is not read, such as a second stream of the same layer."""
    grid: Grid
    """The heads of the kind that is read."""
    tapped: bool
    """Whether the model calls the registered attention function; else it is watched."""
    whole: bool = True
    """Whether one call makes all that a head puts out."""
    exact: bool = True
    """Whether the weights are the softmax of the logits, nothing done to them since."""

    @property
    def last(self) -> int:
        """The number of the last call that is read."""
        return self.places.index((self.grid.kind, self.grid.shape[0] - 1))


@dataclass(frozen=True)
class TappedCall:
    """What a probe notes of one call of the registered attention function."""

    module: nn.Module
    queries: int
    keys: int
    heads: int
    modified: bool

    @classmethod
    def of(cls, module: nn.Module, query: Tensor, key: Tensor, rest: dict[str, Any]) -> TappedCall:
        """Note a call, and whether anything unknown is added to its logits."""
        modified = any(rest.get(name) is not None for name in MODIFIERS)
        return cls(module, query.shape[2], key.shape[2], query.shape[1], modified)


def calls_of(model: Any, kind: AttentionKind, tapped: Callable[[dict[str, Any]], list[TappedCall]]) -> Calls:
    """Find out how a kind of a model's attention is read; `tapped` runs the model under the tap, and notes its calls.

    Raises: CaptureError if the model fails, or computes no such softmax attention.
    """
    inputs = probe(model, kind)
    try:
        noted = tapped(inputs)
    except AttnscanError:
        raise
    except Exception as error:
        raise failed(model, error) from error
    known = _layers_by_config(model) if kind is AttentionKind.ONLY else None
    calls = _tapped(model, kind, noted)
    if calls is None or calls.grid.shape[0] != known:
        watched = _watched(model, kind, inputs)
        if calls is None or calls.grid.shape[0] != watched.grid.shape[0]:
            calls = watched
    return calls


def probe(model: Any, kind: AttentionKind) -> dict[str, Any]:
    """A model's inputs for a source of 5 tokens and, of an encoder-decoder that is read whole, a target of 3."""
    device = next(model.parameters()).device
    token = _TOKEN
    with suppress(AttributeError, NotImplementedError):  # CANINE has no such table
        token = min(token, len(model.get_input_embeddings().weight) - 1)
    inputs = {"input_ids": torch.full((1, _SOURCE), token, device=device)}
    if kind is not AttentionKind.ONLY:
        inputs["decoder_input_ids"] = torch.full((1, _TARGET), token, device=device)
    return accepted(model, inputs)


def _layers_by_config(model: Any) -> int | None:
    try:
        return int(model.config.get_text_config().num_hidden_layers)
    except (AttributeError, TypeError, ValueError):
        return None


def remembers_runs(model: Any) -> bool:
    """Whether modules keep something of a run, as ESM does, so that two runs at a time would disturb each other."""
    before, kind = _held(model), AttentionKind.CROSS if model.config.is_encoder_decoder else AttentionKind.ONLY
    forward(model, probe(model, kind))
    growing = any(getattr(module, "rope_type", None) in _GROWING for module in model.modules())
    return growing or before != _held(model)


def _held(model: Any) -> list[list[float]]:
    """What modules hold besides weights: numbers, and tensors by identity. Who leaves it as it was remembers no run."""
    return [
        [id(value) if isinstance(value, Tensor) else value for value in held if isinstance(value, Tensor | int | float)]
        for held in ((*vars(module).values(), *module._buffers.values()) for module in model.modules())
    ]


def _kind_of(shape: tuple[int, int], kind: AttentionKind) -> AttentionKind | None:
    known = _KINDS.get(shape)
    return AttentionKind.ONLY if kind is AttentionKind.ONLY and known is AttentionKind.ENCODER else known


def _tapped(model: Any, kind: AttentionKind, noted: Sequence[TappedCall]) -> Calls | None:
    """The calls of the tap; None if it does not do for this model."""
    names = {module: name for name, module in model.named_modules()}
    kinds = [_kind_of((call.queries, call.keys), kind) for call in noted]
    if any(call.modified for call in noted) or None in kinds:
        return None
    own = [call for call, of_call in zip(noted, kinds, strict=True) if of_call is kind]
    if len({call.heads for call in own}) != 1:
        return None
    layers = _layers([names.get(call.module, "") for call in own])
    if layers is None:
        twice = (call for call, after in pairwise(own) if call.module is after.module)
        if any(getattr(call.module, "layer_idx", None) is not None for call in twice):
            return None  # DiffLlama's, of one half of its values each; ALBERT's one module is no layer's
        layers = tuple(range(len(own)))
    places = _places(kinds, kind)
    return Calls(places, _grid(kind, layers, own[0].heads), tapped=True)


def _places(kinds: Sequence[AttentionKind | None], kind: AttentionKind) -> tuple[Place | None, ...]:
    count = dict.fromkeys(AttentionKind, 0)
    places: list[Place | None] = []
    for of_call in kinds:
        places.append(None if of_call is None else (of_call, count[of_call]))
        if of_call is not None:
            count[of_call] += 1
    return tuple(place if place is not None and place[0] is kind else None for place in places)


def _grid(kind: AttentionKind, layers: tuple[int, ...], heads: int) -> Grid:
    """The heads of some layers; layers of encoder-decoders all have attention, and are counted by kind."""
    return Grid((len(layers), heads), kind, layers if kind is AttentionKind.ONLY else ())


def _layers(names: Sequence[str]) -> tuple[int, ...] | None:
    """The numbers of layers by their modules' names; None if they do not rise, as where layers share one module."""
    numbers = [next((int(part) for part in name.split(".") if part.isdecimal()), -1) for name in names]
    return tuple(numbers) if numbers == sorted(set(numbers)) and min(numbers, default=-1) >= 0 else None


def _watched(model: Any, kind: AttentionKind, inputs: dict[str, Any]) -> Calls:
    """The calls as the watch sees them. Raises: CaptureError if there are none, or no softmax over all tokens."""
    seen = _seen(model, inputs)
    kinds = [_kind_of((call.weights.shape[-2], call.weights.shape[-1]), kind) for call, _ in seen]
    own = [number for number, of_call in enumerate(kinds) if of_call is kind]
    if not own or (kind is AttentionKind.ONLY and None in kinds):
        raise _not_read(model, [call for call, _ in seen], kind)
    whole, layers = True, _layers([seen[number][1] for number in own])
    if layers is None:  # a layer has several calls, or all layers are one module
        shown = _shown(model, inputs, kind)
        chosen, whole = _chosen([seen[number][0].weights for number in own], shown)
        own = [own[number] for number in chosen]
        layers = _layers([seen[number][1] for number in own]) or tuple(range(len(own)))
    calls = [seen[number][0] for number in own]
    for layer, call in enumerate(calls):
        _check_rows(model, call.weights, layer)
    heads = {call.weights.shape[1] for call in calls}
    if len(heads) != 1:
        raise refused(model, "has more heads in some layers than in others")
    places: list[Place | None] = [None] * len(seen)
    for layer, number in enumerate(own):
        places[number] = kind, layer
    exact = all(
        call.logits.shape == call.weights.shape
        and torch.allclose(call.logits.float().softmax(-1), call.weights.float(), atol=1e-6)
        for call in calls
    )
    grid = _grid(kind, layers, heads.pop())
    return Calls(tuple(places), grid, tapped=False, whole=whole, exact=exact)


def _seen(model: Any, inputs: dict[str, Any]) -> list[tuple[Call, str]]:
    """The calls of attention in a run, each with the name of the module that it is in."""
    seen: list[tuple[Call, str]] = []
    try:
        with torch.inference_mode(), attention_of(model, "eager") as took, _running(model) as stack:
            if not took:
                before = model.config._attn_implementation
                raise refused(model, f"cannot be turned from {before} to eager attention once it is loaded")
            with Watch(lambda call: seen.append((call, stack[-1])), 1):
                model(**inputs)
    except AttnscanError:
        raise
    except Exception as error:
        raise failed(model, error) from error
    return seen


def _shown(model: Any, inputs: dict[str, Any], kind: AttentionKind) -> list[Tensor]:
    """The weights that a model shows itself, layer by layer."""
    names = ("attentions", "encoder_attentions") if kind is AttentionKind.ONLY else (f"{kind.name.lower()}_attentions",)
    try:
        with torch.inference_mode(), attention_of(model, "eager"):
            output = model(**inputs, output_attentions=True)
    except Exception as error:
        raise failed(model, error) from error
    return [w for w in next((output[name] for name in names if output.get(name)), ()) if isinstance(w, Tensor)]


def _chosen(weights: Sequence[Tensor], shown: Sequence[Tensor]) -> tuple[list[int], bool]:
    """Which calls are those whose weights the model shows itself, where a layer has several; and whether by one each.

    LiLT has a second stream for where words stand on a page; DiffLlama multiplies the same weights twice.
    """
    if not shown or len(weights) <= len(shown):
        return list(range(len(weights))), True
    equal = [[i for i, own in enumerate(weights) if own.shape == w.shape and torch.equal(own, w)] for w in shown]
    if not all(equal):
        return list(range(len(weights))), True
    return [some[0] for some in equal], all(len(some) == 1 for some in equal)


def _check_rows(model: Any, weights: Tensor, layer: int) -> None:
    rows = weights.float()
    tolerance = _ROW_TOLERANCE if weights.dtype.itemsize > 2 else _HALF_ROW_TOLERANCE
    if rows.isfinite().all() and (rows.min() < 0 or (rows.sum(-1) - 1).abs().max() > tolerance):
        raise refused(model, f"computes numbers in layer {layer} that are not a softmax over the tokens")


def _not_read(model: Any, calls: Sequence[Call], kind: AttentionKind) -> CaptureError:
    """Why a model's attention is none that is read."""
    if not calls:
        return refused(model, "computes no softmax attention over all tokens")
    shapes = [tuple(call.weights.shape[-2:]) for call in calls]
    if all(shape in _KINDS for shape in shapes) and kind is not AttentionKind.ONLY:
        return refused(model, f"computes no softmax attention of its {kind.name.lower()} kind over all tokens")
    if kind is AttentionKind.ONLY and shapes[0] == (_SOURCE, _SOURCE):
        return refused(model, "pools its tokens: not all layers have as many as the input")
    other = next(shape for shape in shapes if shape not in _KINDS or kind is AttentionKind.ONLY)
    return refused(
        model, f"computes weights of shape {list(other)}, where each of {_SOURCE} tokens should look at each"
    )


@contextmanager
def _running(model: Any) -> Iterator[list[str]]:
    """The names of the modules that are running, the innermost last."""
    stack = [""]

    def enters(name: str) -> Callable[..., None]:
        return lambda *_: stack.append(name)

    hooks = [module.register_forward_pre_hook(enters(name)) for name, module in model.named_modules()]
    hooks += [module.register_forward_hook(lambda *_: (stack.pop(), None)[1]) for module in model.modules()]
    try:
        yield stack
    finally:
        for hook in hooks:
            hook.remove()
