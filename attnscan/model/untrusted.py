"""A checkpoint that nobody vouches for: no pickle, no more memory than its weights explain, no weight left over.

Transformers reads weights as safetensors if it is told to, but a config or an index inside the checkpoint can still
name a pickle; and it builds whatever model a config describes before it looks at the weights.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from attnscan.errors import ModelError
from attnscan.inputs.weights import MAX_HEADS
from attnscan.model.sources import snapshots
from attnscan.results.terms import counted

MAX_LABELS = 1 << 20
"""Transformers writes a name for each label that a config counts."""

# A saved encoder may be loaded with a decoder and heads beside it, and eight weights be packed into one number.
_TIMES_HELD = 16
_WEIGHTS_MORE, _TENSORS_MORE = 1 << 26, 1 << 12
_BUFFERS = ("position_ids", "token_type_ids", "masked_bias", "inv_freq", ".attn.bias", ".attention.bias", ".version")
"""How names end that older versions of transformers saved, and that are no weights."""


def check_config(config: Mapping[str, Any]) -> None:
    """Raises: ValueError if a config counts what no model has, before anything is built to its measure."""
    if isinstance(labels := config.get("num_labels"), int) and labels > MAX_LABELS:
        raise ValueError(f"its config.json asks for {labels} labels")
    layers, heads = config.get("num_hidden_layers"), config.get("num_attention_heads")
    if isinstance(layers, int) and isinstance(heads, int) and layers * heads > MAX_HEADS:
        raise ValueError(f"its config.json asks for {layers} layers of {heads} heads")
    for inner in config.values():
        if isinstance(inner, Mapping):
            check_config(inner)


@contextmanager
def guarded(location: str, commit: str | None = None) -> Iterator[None]:
    """While a checkpoint is loaded, refuse pickles, and models far larger than the weights it holds.

    Both are refused by a ValueError from inside the loading.
    """
    budget = _Budget(location, commit)
    hooks = (
        torch_module.register_module_parameter_registration_hook(budget.take),
        torch_module.register_module_buffer_registration_hook(budget.take),
    )
    load, torch.load = torch.load, _no_pickle
    try:
        yield
    finally:
        torch.load = load
        for hook in hooks:
            hook.remove()


def _no_pickle(*_: object, **__: object) -> None:
    raise ValueError("it names weights that are not safetensors, in a format that can run code when it is read")


class _Budget:
    """Counts what a model is built of, as it is built: its tensors have sizes long before they take memory."""

    def __init__(self, location: str, commit: str | None) -> None:
        self._location, self._commit = location, commit
        self._weights = 0
        self._seen: set[tuple[int, str]] = set()

    def take(self, module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        """Count one tensor of one module, once."""
        if tensor is None or (id(module), name) in self._seen:
            return
        self._seen.add((id(module), name))
        self._weights += tensor.numel()
        tensors, weights = self._held
        if self._weights > _TIMES_HELD * weights + _WEIGHTS_MORE or len(self._seen) > 2 * tensors + _TENSORS_MORE:
            raise ValueError(
                f"its config.json asks for {self._weights} weights in {len(self._seen)} tensors or more, "
                f"and the checkpoint holds {weights} in {tensors}"
            )

    @cached_property
    def _held(self) -> tuple[int, int]:
        """Of the checkpoint: how many tensors, and how many numbers they have together."""
        here = Path(self._location)
        directories = [here] if here.is_dir() else snapshots(self._location, self._commit)
        sizes = [[size for path in own.glob("*.safetensors") for size in _sizes(path)] for own in directories]
        return max(((len(own), sum(own)) for own in sizes), default=(0, 0))


def _sizes(path: Path) -> list[int]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return [math.prod(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
    except (OSError, SafetensorError):
        return []  # the loading itself will say what is wrong with it


def check_weights(whole: Any, missing: Iterable[str], unused: Iterable[str], name: str) -> str:
    """What to tell of weights that the model has no place for, or nothing if they were to be expected.

    `missing` are names in the model, `unused` those in the checkpoint.
    Raises: ModelError if either are weights that attention depends on.
    """
    if lacking := [weight for weight in missing if _is_encoders(weight, whole)]:
        raise ModelError(
            f"the checkpoint {name} lacks {len(lacking)} of the model's weights, among them {lacking[0]}",
            "its config.json and its weights do not belong together: save the model again",
        )
    buffers = {buffer for buffer, _ in whole.base_model.named_buffers()}
    prefix = f"{whole.base_model_prefix}."
    left = [
        weight
        for weight in unused
        if "pooler" not in weight and not weight.endswith(_BUFFERS) and weight.removeprefix(prefix) not in buffers
    ]
    if dropped := [weight for weight in left if _is_encoders(weight, whole)]:
        raise ModelError(
            f"the checkpoint {name} holds {counted(len(dropped), 'weight')} of its encoder that nothing would use: "
            f"{dropped[0]}{' and others' if dropped[1:] else ''}",
            "see that config.json belongs to the weights; if transformers knows them no more, use an older one",
        )
    heads = {weight.split(".")[0] for weight in left} - _usual_heads(whole) if left else set()
    if not heads:
        return ""
    return f"no attention depends on what the checkpoint {name} holds besides its encoder: {', '.join(sorted(heads))}"


def has_decoder_beside(whole: Any) -> bool:
    """Whether a model is an encoder and a decoder. A saved T5EncoderModel says no, and is loaded with a decoder."""
    parts = {name for name, _ in whole.base_model.named_children()}
    return bool(whole.config.is_encoder_decoder) or {"encoder", "decoder"} <= parts


def _is_encoders(name: str, whole: Any) -> bool:
    """Whether a weight is one that attention depends on, not a task head's or a decoder's beside an encoder."""
    inside = name.removeprefix(f"{whole.base_model_prefix}.")
    part, _, rest = inside.partition(".")
    if part == "decoder" and has_decoder_beside(whole):
        return False
    parts = {own for own, _ in (whole.base_model.named_children() if rest else whole.base_model.named_parameters())}
    return inside != name or part in parts


def _usual_heads(whole: Any) -> set[str]:
    """The task heads that a family is pretrained with, of which there is nothing to tell."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_PRETRAINING_MAPPING

    config = copy.deepcopy(whole.config)
    config.num_hidden_layers = 1
    heads: set[str] = set()
    for mapping in (MODEL_FOR_PRETRAINING_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING):
        if type(config) in mapping:
            with torch.device("meta"):
                model = mapping[type(config)](config)
            heads |= {name.split(".")[0] for name in (*model.state_dict(), *dict(model.named_buffers()))}
    return heads
