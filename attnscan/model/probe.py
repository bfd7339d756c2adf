"""How a model computes its attention: which calls are of which kind and layer, learnt from a run.

The run is on a source of 5 tokens and a target of 3: the shapes of the calls say their kind, where
`is_decoder` and `is_causal` are wrong in several families. A layer's number is that of its module:
in Jamba or Qwen3-Next only some layers have attention.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import CaptureError
from attnscan.model.attention_functions import (
    ATTENTION,
    attend_by,
    fused_attention,
    use_attention,
)
from attnscan.model.forward import accepted_inputs, model_failure
from attnscan.model.watch import AttentionCall, SoftmaxWatch
from attnscan.results.grid import AttentionKind, Grid

_TOKEN = 5
"""Of which the probe is: of any vocabulary, and padding in none."""
_SOURCE_LENGTH = 5
_TARGET_LENGTH = 3
_SHAPES = {
    AttentionKind.ONLY: (_SOURCE_LENGTH, _SOURCE_LENGTH),
    AttentionKind.ENCODER: (_SOURCE_LENGTH, _SOURCE_LENGTH),
    AttentionKind.DECODER: (_TARGET_LENGTH, _TARGET_LENGTH),
    AttentionKind.CROSS: (_TARGET_LENGTH, _SOURCE_LENGTH),
}
"""How many queries and keys each kind of attention has in the probe."""
_MODIFIERS = ("s_aux", "sinks", "softcap")
"""What eager attention can add to the logits, and the tap does not."""
_ROUNDING = {2: 2e-2}
"""How far from 1 a row's sum may be rounded, by the bytes of a number."""
_DEFAULT_ROUNDING = 1e-3


@dataclass(frozen=True)
class ModelCalls:
    """The calls of attention in one run of a model."""

    layers: dict[int, int]
    """By the number of a call, where its layer stands in the grid; those of other kinds are not
    read."""
    count: int
    """How many calls there are, of all kinds."""
    grid: Grid
    """The heads of the kind that is read."""
    uses_tap: bool
    """Whether the model calls the registered attention function; else it is watched."""


@dataclass(frozen=True)
class ProbedCall:
    """One call in a probe run."""

    layer: int
    """The number in the name of the module that it is in; -1 if there is none."""
    heads: int
    shape: tuple[int, int]
    """How many queries and keys it has."""
    is_plain: bool
    """Whether it is a softmax over the keys, to which nothing else was added."""


def find_calls(model: Any, kind: AttentionKind) -> ModelCalls:
    """Find out how a kind of a model's attention is read.

    It is read by the tap, if that shows as many layers as there are; else by the watch.
    Raises: CaptureError if it has none that can be read.
    """
    ids = torch.full((1, _SOURCE_LENGTH), _TOKEN, device=next(model.parameters()).device)
    both_texts = {"input_ids": ids, "decoder_input_ids": ids[:, :_TARGET_LENGTH]}
    inputs = accepted_inputs(model, both_texts)
    expected_layers = None
    if kind is AttentionKind.ONLY:
        inputs.pop("decoder_input_ids", None)
        expected_layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    by_tap = _arrange(_run_with_tap(model, inputs), kind, by_tap=True)
    if isinstance(by_tap, ModelCalls) and by_tap.grid.shape[0] == expected_layers:
        return by_tap
    by_watch = _arrange(_run_with_watch(model, inputs), kind, by_tap=False)
    if isinstance(by_watch, str):
        raise unreadable(model, by_watch)
    if isinstance(by_tap, ModelCalls) and by_tap.grid.shape[0] == by_watch.grid.shape[0]:
        return by_tap
    return by_watch


def unreadable(model: Any, reason: str) -> CaptureError:
    """The error for a model whose architecture is not to be read."""
    return CaptureError(
        f"the architecture {type(model).__name__} {reason}",
        "use a model with softmax attention, such as BERT, RoBERTa, DistilBERT, ALBERT or "
        "ModernBERT",
    )


def _run_with_tap(model: Any, inputs: dict[str, Any]) -> list[ProbedCall]:
    """The calls of our attention function in a run."""
    calls: list[ProbedCall] = []

    def attend(
        module: Any, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor | None, **options: Any
    ) -> Tensor:
        call = ProbedCall(
            layer=entered[-1],
            heads=query.shape[1],
            shape=(query.shape[2], key.shape[2]),
            is_plain=all(options.get(name) is None for name in _MODIFIERS),
        )
        calls.append(call)
        return fused_attention(module, query, key, value, *mask, **options)

    with _note_layers(model) as entered, attend_by(attend):
        _run(model, inputs, ATTENTION)
    return calls


def _run_with_watch(model: Any, inputs: dict[str, Any]) -> list[ProbedCall]:
    """The calls of eager attention in a run, as the watch sees them."""
    calls: list[ProbedCall] = []

    def note(call: AttentionCall) -> None:
        _, heads, queries, keys = call.weights.shape
        probed = ProbedCall(
            layer=entered[-1],
            heads=heads,
            shape=(queries, keys),
            is_plain=_may_be_softmax(call.weights),
        )
        calls.append(probed)

    with _note_layers(model) as entered:
        took = _run(model, inputs, "eager", SoftmaxWatch(note, 1))
    if not took:
        raise unreadable(model, "cannot be turned to eager attention once it is loaded")
    return calls


def _run(model: Any, inputs: dict[str, Any], name: str, watch: SoftmaxWatch | None = None) -> bool:
    """Run a model with the attention of that name. Returns whether the model took it."""
    try:
        with ExitStack() as stack:
            took = stack.enter_context(use_attention(model, name))
            stack.enter_context(torch.inference_mode())
            if watch is not None:
                stack.enter_context(watch)
            model(**inputs)
    except Exception as error:
        raise model_failure(model, error) from error
    return took


@contextmanager
def _note_layers(model: Any) -> Iterator[list[int]]:
    """Note which layers a model enters, by the last number in a module's name; -1 before any."""
    entered = [-1]
    hooks = []
    for name, module in model.named_modules():
        number = re.search(r"(?:^|\.)(\d+)(?=\.|$)", name)
        if number:
            layer = int(number[1])
            hook = module.register_forward_pre_hook(lambda *_, layer=layer: entered.append(layer))
            hooks.append(hook)
    try:
        yield entered
    finally:
        for hook in hooks:
            hook.remove()


def _may_be_softmax(weights: Tensor) -> bool:
    """Whether rows sum to 1 as a softmax's do; also where they are not finite, which is told later.

    Shape: [batch, head, query, key].
    """
    values = weights.float()
    if not values.isfinite().all():
        return True
    error = (values.sum(-1) - 1).abs().max()
    return bool(values.min() >= 0 and error <= _ROUNDING.get(weights.itemsize, _DEFAULT_ROUNDING))


def _arrange(calls: Sequence[ProbedCall], kind: AttentionKind, *, by_tap: bool) -> ModelCalls | str:
    """The calls of one kind, or why a model's attention is none that is read."""
    is_only = kind is AttentionKind.ONLY
    numbers = [number for number, call in enumerate(calls) if call.shape == _SHAPES[kind]]
    fault = _fault_of_shapes(calls, numbers, kind, by_tap=by_tap)
    if fault is not None:
        return fault
    chosen = [calls[number] for number in numbers]
    for layer, call in enumerate(chosen):
        if not call.is_plain:
            return f"computes numbers in layer {layer} that are not a softmax over the tokens"
    if len({call.heads for call in chosen}) != 1:
        return "has more heads in some layers than in others"
    layers = tuple(call.layer for call in chosen)
    distinct = set(layers)
    rises = layers == tuple(sorted(distinct)) and layers[0] >= 0
    in_several_layers = len(distinct - {-1}) > 1
    if not (by_tap or rises) and in_several_layers and len(chosen) > len(distinct):
        return "computes several attentions in a layer"
    # Layers of encoder-decoders all have attention, and are counted; so are those that share a
    # module, as ALBERT's.
    own_numbers = layers if is_only and rises else ()
    return ModelCalls(
        layers={number: layer for layer, number in enumerate(numbers)},
        count=len(calls),
        grid=Grid((len(chosen), chosen[0].heads), kind, own_numbers),
        uses_tap=by_tap,
    )


def _fault_of_shapes(
    calls: Sequence[ProbedCall], numbers: Sequence[int], kind: AttentionKind, *, by_tap: bool
) -> str | None:
    """Why a kind of attention, with calls of these numbers, is not to be read; None if it is."""
    is_only = kind is AttentionKind.ONLY
    known_shapes = [_SHAPES[kind]] if is_only else list(_SHAPES.values())
    other_shapes = [call.shape for call in calls if call.shape not in known_shapes]
    if other_shapes and (by_tap or is_only or not numbers):
        if 0 in numbers:
            return "pools its tokens: not all layers have as many as the input"
        return (
            f"computes weights of shape {list(other_shapes[0])}, "
            f"where each of {_SOURCE_LENGTH} tokens should look at each"
        )
    if not numbers:
        which = "" if is_only else f" of its {kind.word} kind"
        return f"computes no softmax attention{which} over all tokens"
    return None
