"""Which calls of a model's attention are of which kind and layer, and how it can be read: learnt from a probe run.

The probe is a source of 5 tokens and, of an encoder-decoder, a target of 3: the shapes of queries and keys say what a
call is, where `is_decoder` and `is_causal` are wrong in several families. Calls come in the same order in every later
run. A layer's number is that of its module: in Jamba or Qwen3-Next only some layers have attention.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from attnscan.model.running import (
    ATTENTION,
    MODIFIERS,
    accepted,
    attended_by,
    attention_of,
    failed,
    forward,
    fused,
    refused,
)
from attnscan.model.watch import Call, Watch
from attnscan.results.grid import AttentionKind, Grid

_SOURCE, _TARGET = 5, 3  # tokens
_TOKEN = 5  # of any vocabulary, and padding in none
_SHAPES = {
    AttentionKind.ONLY: (_SOURCE, _SOURCE),
    AttentionKind.ENCODER: (_SOURCE, _SOURCE),
    AttentionKind.DECODER: (_TARGET, _TARGET),
    AttentionKind.CROSS: (_TARGET, _SOURCE),
}
"""How many queries and keys each kind of attention has in the probe."""
_GROWING = ("dynamic", "longrope")  # rotary frequencies that change with the longest input so far
_ROW_TOLERANCE, _HALF_ROW_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits


@dataclass(frozen=True)
class Calls:
    """The calls of attention in one run of a model."""

    places: tuple[int | None, ...]
    """Of each call, where its layer stands in the grid; None if it is not read: another kind, or a layer's second."""
    grid: Grid
    """The heads of the kind that is read."""
    tapped: bool
    """Whether the model calls the registered attention function; else it is watched."""
    whole: bool = True
    """Whether one call makes all that a head puts out."""

    @property
    def last(self) -> int:
        """The number of the last call that is read."""
        return self.places.index(self.grid.shape[0] - 1)


@dataclass(frozen=True)
class _Call:
    """One call in a probe run."""

    layer: int
    """The number in the name of the module that it is in; -1 if there is none."""
    heads: int
    shape: tuple[int, ...]
    """How many queries and keys it has."""
    modified: bool = False
    """Whether something that the tap does not know is added to its logits."""
    weights: Tensor | None = None
    """Where it is watched. Shape: [batch, head, query, key]."""


def calls_of(model: Any, kind: AttentionKind) -> Calls:
    """Find out how a kind of a model's attention is read: by the tap, if it shows as many layers as there are.

    Raises: CaptureError if the model fails, or computes no such softmax attention.
    """
    inputs = probe(model, kind)
    tapped = _tapped(_probed(model, inputs, watched=False), kind)
    if tapped is not None and tapped.grid.shape[0] == _layers(model, kind):
        return tapped
    watched = _watched(model, kind, _probed(model, inputs, watched=True))
    return watched if tapped is None or tapped.grid.shape[0] != watched.grid.shape[0] else tapped


def _layers(model: Any, kind: AttentionKind) -> int | None:
    """How many layers a model's config says it has; None of an encoder-decoder."""
    return getattr(model.config.get_text_config(), "num_hidden_layers", None) if kind is AttentionKind.ONLY else None


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


def _probed(model: Any, inputs: dict[str, Any], *, watched: bool) -> list[_Call]:
    """The calls of attention in a run: of our function, or of eager attention as the watch sees them."""
    calls, layer, numbered = list[_Call](), [-1], re.compile(r"(?:^|\.)(\d+)(?=\.|$)")

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any) -> Tensor:
        modified = any(rest.get(name) is not None for name in MODIFIERS)
        calls.append(_Call(layer[0], query.shape[1], (query.shape[2], key.shape[2]), modified))
        return fused(module, query, key, value, mask, **rest)

    def note(call: Call) -> None:
        shape = tuple(call.weights.shape[-2:])
        calls.append(_Call(layer[0], call.weights.shape[1], shape, weights=call.weights))

    def enter(number: int, *_: Any) -> None:
        layer[0] = number

    modules = [(module, numbered.search(name)) for name, module in model.named_modules()]
    hooks = [module.register_forward_pre_hook(partial(enter, int(number[1]))) for module, number in modules if number]
    try:
        with (
            attention_of(model, "eager" if watched else ATTENTION) as took,
            torch.inference_mode(),
            attended_by(attend),
        ):
            if took or not watched:
                with Watch(note, 1) if watched else nullcontext():
                    model(**inputs)
    except Exception as error:
        raise failed(model, error) from error
    finally:
        for hook in hooks:
            hook.remove()
    if watched and not took:
        before = model.config._attn_implementation
        raise refused(model, f"cannot be turned from {before} to eager attention once it is loaded")
    return calls


def _tapped(calls: Sequence[_Call], kind: AttentionKind) -> Calls | None:
    """The calls of the tap; None if it does not do for this model."""
    known = {_SHAPES[kind]} if kind is AttentionKind.ONLY else set(_SHAPES.values())
    own = [number for number, call in enumerate(calls) if call.shape == _SHAPES[kind]]
    if any(call.modified or call.shape not in known for call in calls) or len({calls[n].heads for n in own}) != 1:
        return None
    return _arranged(calls, own, kind, tapped=True)


def _watched(model: Any, kind: AttentionKind, calls: Sequence[_Call]) -> Calls:
    """The calls as the watch sees them. Raises: CaptureError if there are none, or no softmax over all tokens."""
    every = [number for number, call in enumerate(calls) if call.shape == _SHAPES[kind]]
    if not every or (kind is AttentionKind.ONLY and len(every) < len(calls)):
        raise refused(model, _why_not(calls, kind))
    weights = {number: call.weights for number, call in enumerate(calls) if call.weights is not None}
    # LiLT and DiffLlama multiply the same weights with each part of their values: the first call stands for the layer.
    own = every[:1] + [
        number
        for before, number in pairwise(every)
        if calls[before].layer != calls[number].layer or not torch.equal(weights[before], weights[number])
    ]
    arranged = _arranged(calls, own, kind, tapped=False, whole=own == every)
    if len({calls[number].heads for number in own}) != 1:
        raise refused(model, "has more heads in some layers than in others")
    if len({calls[number].layer for number in own} - {-1}) > 1 and len(own) > len({calls[n].layer for n in own}):
        raise refused(model, "computes several attentions in a layer")
    for number in own:
        rows, tolerance = weights[number].float(), _ROW_TOLERANCE
        if weights[number].dtype.itemsize == 2:
            tolerance = _HALF_ROW_TOLERANCE
        if rows.isfinite().all() and (rows.min() < 0 or (rows.sum(-1) - 1).abs().max() > tolerance):
            layer = arranged.places[number]
            raise refused(model, f"computes numbers in layer {layer} that are not a softmax over the tokens")
    return arranged


def _arranged(
    calls: Sequence[_Call], own: Sequence[int], kind: AttentionKind, *, tapped: bool, whole: bool = True
) -> Calls:
    """The calls of one kind, given their numbers. Layers of encoder-decoders all have attention, and are counted."""
    layers = tuple(calls[number].layer for number in own)
    if kind is not AttentionKind.ONLY or layers != tuple(sorted(set(layers))) or layers[0] < 0:
        layers = ()  # they do not rise where layers share one module, as ALBERT's
    grid = Grid((len(own), calls[own[0]].heads), kind, layers)
    place = {number: layer for layer, number in enumerate(own)}
    return Calls(tuple(map(place.get, range(len(calls)))), grid, tapped, whole)


def _why_not(calls: Sequence[_Call], kind: AttentionKind) -> str:
    """Why a model's attention is none that is read."""
    if not calls:
        return "computes no softmax attention over all tokens"
    if kind is not AttentionKind.ONLY and all(call.shape in _SHAPES.values() for call in calls):
        return f"computes no softmax attention of its {kind.name.lower()} kind over all tokens"
    if kind is AttentionKind.ONLY and calls[0].shape == _SHAPES[kind]:
        return "pools its tokens: not all layers have as many as the input"
    other = next(call.shape for call in calls if kind is AttentionKind.ONLY or call.shape not in _SHAPES.values())
    return f"computes weights of shape {list(other)}, where each of {_SOURCE} tokens should look at each"


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
