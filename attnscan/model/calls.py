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
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import CaptureError
from attnscan.model.running import ATTENTION, accepted, attended_by, attention_of, failed, fused, refused
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
_MODIFIERS = ("s_aux", "softcap")  # what eager attention can add to the logits, and the tap does not
_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits


@dataclass(frozen=True)
class Calls:
    """The calls of attention in one run of a model."""

    layers: dict[int, int]
    """By the number of a call, where its layer stands in the grid; those of other kinds are not read."""
    count: int
    """How many there are, of all kinds."""
    grid: Grid
    """The heads of the kind that is read."""
    tapped: bool
    """Whether the model calls the registered attention function; else it is watched."""


@dataclass(frozen=True)
class _Call:
    """One call in a probe run."""

    layer: int
    """The number in the name of the module that it is in; -1 if there is none."""
    heads: int
    shape: tuple[int, ...]
    """How many queries and keys it has."""
    is_plain: bool
    """Whether it is a softmax over the keys, to which nothing else was added."""


def calls_of(model: Any, kind: AttentionKind) -> Calls:
    """Find out how a kind of a model's attention is read: by the tap, if it shows as many layers as there are.

    Raises: CaptureError if the model fails, or computes no such softmax attention.
    """
    inputs, layers = probe(model, kind), None
    if kind is AttentionKind.ONLY:
        layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    tapped = _arranged(_probed(model, inputs, watched=False), kind, tapped=True)
    if isinstance(tapped, Calls) and tapped.grid.shape[0] == layers:
        return tapped
    watched = _arranged(_probed(model, inputs, watched=True), kind, tapped=False)
    if isinstance(watched, str):
        raise refused(model, watched)
    return tapped if isinstance(tapped, Calls) and tapped.grid.shape[0] == watched.grid.shape[0] else watched


def probe(model: Any, kind: AttentionKind) -> dict[str, Any]:
    """A model's inputs for a source of 5 tokens and, of an encoder-decoder that is read whole, a target of 3."""
    device, token = next(model.parameters()).device, _TOKEN
    with suppress(AttributeError, NotImplementedError):  # CANINE has no such table
        token = min(token, len(model.get_input_embeddings().weight) - 1)
    inputs = {"input_ids": torch.full((1, _SOURCE), token, device=device)}
    if kind is not AttentionKind.ONLY:
        inputs["decoder_input_ids"] = torch.full((1, _TARGET), token, device=device)
    return accepted(model, inputs)


def _probed(model: Any, inputs: dict[str, Any], *, watched: bool) -> list[_Call]:
    """The calls of attention in a run: of our function, or of eager attention as the watch sees them."""
    calls, layer = list[_Call](), [-1]

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any) -> Tensor:
        is_plain = all(rest.get(name) is None for name in _MODIFIERS)
        calls.append(_Call(layer[0], query.shape[1], (query.shape[2], key.shape[2]), is_plain))
        return fused(module, query, key, value, mask, **rest)

    def note(call: Call) -> None:
        (_, heads, *shape), weights = call.weights.shape, call.weights.float()
        off, tolerance = (weights.sum(-1) - 1).abs().max(), _TOLERANCE[call.weights.itemsize == 2]
        is_plain = not weights.isfinite().all() or (weights.min() >= 0 and off <= tolerance)
        calls.append(_Call(layer[0], heads, tuple(shape), bool(is_plain)))

    def enter(number: int, *_: Any) -> None:
        layer[0] = number

    numbered = ((module, re.search(r"(?:^|\.)(\d+)(?=\.|$)", name)) for name, module in model.named_modules())
    hooks = [module.register_forward_pre_hook(partial(enter, int(number[1]))) for module, number in numbered if number]
    watch = Watch(note, 1) if watched else nullcontext()
    try:
        with attention_of(model, "eager" if watched else ATTENTION) as took, attended_by(attend):
            if watched and not took:
                raise refused(model, "cannot be turned to eager attention once it is loaded")
            with torch.inference_mode(), watch:
                model(**inputs)
    except CaptureError:
        raise
    except Exception as error:
        raise failed(model, error) from error
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def _arranged(calls: Sequence[_Call], kind: AttentionKind, *, tapped: bool) -> Calls | str:
    """The calls of one kind, or why a model's attention is none that is read."""
    shape, is_only = _SHAPES[kind], kind is AttentionKind.ONLY
    own = [number for number, call in enumerate(calls) if call.shape == shape]
    others = [call.shape for call in calls if call.shape not in ([shape] if is_only else _SHAPES.values())]
    if others and (tapped or is_only or not own):
        if own[:1] == [0]:
            return "pools its tokens: not all layers have as many as the input"
        return f"computes weights of shape {list(others[0])}, where each of {_SOURCE} tokens should look at each"
    if not own:
        return f"computes no softmax attention{'' if is_only else f' of its {kind.word} kind'} over all tokens"
    heads, layers = {calls[number].heads for number in own}, tuple(calls[number].layer for number in own)
    if strange := [layer for layer, number in enumerate(own) if not calls[number].is_plain]:
        return f"computes numbers in layer {strange[0]} that are not a softmax over the tokens"
    if len(heads) != 1:
        return "has more heads in some layers than in others"
    rising = layers == tuple(sorted(set(layers))) and layers[0] >= 0
    if not (tapped or rising) and len(set(layers) - {-1}) > 1 and len(own) > len(set(layers)):
        return "computes several attentions in a layer"
    # Layers of encoder-decoders all have attention, and are counted; so are those that share a module, as ALBERT's.
    grid = Grid((len(own), *heads), kind, layers if is_only and rising else ())
    return Calls({number: layer for layer, number in enumerate(own)}, len(calls), grid, tapped)
