"""A model and tokenizer that a program holds in memory already, run without leaving a trace on them.

What runs is a copy of the modules around the model's own weights, so the caller's keep their mode, attention
implementation and hooks. Hooks that compute weights (torch's
pruning, its older spectral and weight normalization) are run once, and their weights kept. Hooks that only watch are
left out. Any other is refused, as is what else a copy of the modules could not compute as they do.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import replace
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from attnscan.errors import DeviceError, ModelError, out_of_memory
from attnscan.inputs.encode import check_reads_sentences
from attnscan.model.attention_function import attention_of
from attnscan.model.fingerprint import of_config
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import encoder_of, no_encoder_decoder
from attnscan.model.running import first_line, quiet_transformers, refused
from attnscan.model.sources import Source
from attnscan.model.writing import writes_text
from attnscan.results.signature import IN_MEMORY
from attnscan.results.terms import AttentionName

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Model: TypeAlias = "str | os.PathLike[str] | LoadedModel | PreTrainedModel | None"
"""What callers give: a hub id, a directory, `bundled`, None for the default, what `load` returns, or a model that is in
memory."""
Tokenizer: TypeAlias = "PreTrainedTokenizerBase | None"
"""Of a model that is in memory."""
_CAPTURED = (
    "_output_capturing_hooks_installed"  # transformers' own mark that its hooks, which are not copied, are there
)
_NOT_COPIED = "_compiled_call_impl"  # of a module that was compiled in place

_INSIDE = ("module", "_orig_mod", "merge_and_unload()", "base_model")
"""Where wrappers keep the model: of parallel runs, of torch.compile, of an adapter of peft, of others."""

_Hook = Callable[..., Any]


def adopted(model: Any, tokenizer: Any, attention: AttentionName = "encoder") -> LoadedModel:
    """A caller's model and tokenizer, ready to run on the device and in the number format that the model has.

    The model is an encoder, or has a task head around it; of an encoder-decoder, the encoder is taken, or for another
    `attention` the whole.
    Raises: ModelError if they are no model and tokenizer of transformers, or do not go together; DeviceError if the
    model is not on one device.
    """
    _check_kinds(model, tokenizer)
    tokenizer = _copied(tokenizer, {})
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ModelError(
            f"the tokenizer has the model_max_length {tokenizer.model_max_length!r}, not a number",
            "set it to how many tokens the model reads",
        )
    check_reads_sentences(tokenizer)
    return _as_it_is(model, tokenizer, attention)


def renewed(loaded: LoadedModel, attention: AttentionName = "encoder") -> LoadedModel:
    """One that was adopted, by what the caller's model is now: it may have been trained or changed since.

    Raises: as `adopted`.
    """
    now = _as_it_is(loaded.given, loaded.tokenizer, attention)
    return replace(now, in_use=loaded.in_use, _related=loaded._related)


def _as_it_is(model: Any, tokenizer: Any, attention: AttentionName) -> LoadedModel:
    source = Source(f"{model.config._name_or_path or type(model).__name__}{IN_MEMORY}", "")
    if attention != "encoder" and not writes_text(model):
        raise no_encoder_decoder(source.name, attention)
    original = encoder_of(model, source.name) if attention == "encoder" else model
    device = _device_of(original)
    _check_modules(model)
    with quiet_transformers():
        encoder = _copy_to_run(original)
        _share_config(encoder)
        _use_default_attention(encoder)
    loaded = LoadedModel(source, encoder, None, tokenizer, device, original.dtype, revision=None, given=model)
    return replace(loaded, masked_lm=_masked_lm(loaded) if attention == "encoder" else None)


def _masked_lm(loaded: LoadedModel) -> Any | None:
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    config = loaded.model.config
    has_head = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder
    return with_head(loaded, MODEL_FOR_MASKED_LM_MAPPING[type(config)]) if has_head else None


def with_head(loaded: LoadedModel, kind: Any) -> Any | None:
    """A model of that class around the encoder, its head a copy of the caller's; None if the caller's model has none.

    What the head of a class that is not transformers' own makes of an encoder nobody knows, so such a one has none.
    """
    given = loaded.given
    assert given is not None
    if not type(given).forward.__module__.startswith("transformers."):
        return None
    with quiet_transformers(), torch.device("meta"):
        whole = kind(loaded.model.config)
    made, theirs = (dict(model.named_children()) for model in (whole.base_model, loaded.model))
    if not made.keys() <= theirs.keys():  # as a classifier of tokens has no pooler
        return None
    setattr(whole, whole.base_model_prefix, loaded.model)
    if not _take(whole, given, loaded.model):
        return None
    return whole.eval()


def _take(ours: torch.nn.Module, theirs: torch.nn.Module, encoder: torch.nn.Module) -> bool:
    """Put copies of a caller's modules in the place of ours around an encoder; whether they are all there.

    A module of ours without others inside takes what stands in its place, such as an adapter around it.
    """
    for name, child in ours.named_children():
        other = getattr(theirs, name, None)
        if child is encoder:
            continue
        if not isinstance(other, torch.nn.Module):
            return False
        if type(other) is type(child) or not list(child.children()):
            own, other = dict(child.named_parameters()), _copy_to_run(other)
            if any(own[key].shape != values.shape for key, values in other.named_parameters() if key in own):
                return False
            setattr(ours, name, other)
        elif not _take(child, other, encoder):
            return False
    held: tuple[dict[str, Any], ...] = (ours._parameters, ours._buffers)
    for tensors in held:
        for name in tensors:
            value = getattr(theirs, name, None)
            if not isinstance(value, Tensor | None) or (value is None) != (tensors[name] is None):
                return False
            tensors[name] = value
    return True


def _check_kinds(model: Any, tokenizer: Any) -> None:
    """Raises: ModelError unless they are a model and a tokenizer of transformers."""
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    if not isinstance(model, PreTrainedModel):
        inside = next((name for name in _INSIDE if hasattr(model, name.removesuffix("()"))), None)
        raise ModelError(
            f"model is of the class {type(model).__name__}, which is not a model of transformers",
            "give a name, a directory, or a model such as AutoModel.from_pretrained() returns"
            if inside is None
            else f"give the model that it wraps, which may be model.{inside}",
        )
    if tokenizer is None:
        raise ModelError(
            "the model is given without its tokenizer", "give that too: tokenizer=AutoTokenizer.from_pretrained(...)"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(
            f"tokenizer is of the class {type(tokenizer).__name__}, which is not a tokenizer of transformers",
            "with a model in memory, give what AutoTokenizer.from_pretrained() returns",
        )


def _device_of(model: Any) -> torch.device:
    devices: set[torch.device] = {weights.device for weights in model.parameters()}
    if len(devices) != 1 or devices == {torch.device("meta")}:
        where = ", ".join(sorted(map(str, devices))) or "nowhere"
        raise DeviceError(f"the model's weights are not on one device, but on {where}", "move them: model.to('cpu')")
    return devices.pop()


def _copy_to_run(model: Any) -> Any:
    """A copy of the modules in evaluation mode, with the same weights, buffers of their own, and no hooks.

    Weights that a hook computes are the copy's own, computed now.
    Raises: ModelError if something in them cannot be copied.
    """
    memo: dict[int, Any] = {id(weights): weights for weights in model.parameters()}
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):  # something noted in passing, perhaps with its gradients' graph
                memo[id(value)] = value
            elif "ward_hooks" in name or "ward_pre_hooks" in name:
                memo[id(value)] = type(value)()
    copied = _copied(model, memo).eval()
    for module, original in zip(copied.modules(), model.modules(), strict=True):
        vars(module).pop(_CAPTURED, None)
        _settle(module, _forward_hooks(original))
    return copied


def _share_config(model: Any) -> None:
    """Let layers that a caller has made by copying others follow the model when its attention function is exchanged.

    Each holds a copy of the config, which keeps the function of its own time.
    """
    config = of_config(model.config)
    for module in model.modules():
        own = getattr(module, "config", None)
        if isinstance(own, type(model.config)) and own is not model.config and of_config(own) == config:
            module.config = model.config


def _copied(what: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(what, memo)
    except Exception as error:
        if out_of_memory(error):
            raise
        raise ModelError(
            f"the {type(what).__name__} holds something that cannot be copied: {first_line(error)[:200]}",
            "save it with save_pretrained(), and name the directory",
        ) from error


def _use_default_attention(model: Any) -> None:
    """Run as a model that is loaded by name does: by torch's attention, or by eager attention where there is no such.

    Raises: CaptureError if the model's classes do not let it be changed, and it is another one.
    """
    with attention_of(model, "eager") as took:
        pass
    if not took:
        raise refused(
            model, f"cannot be turned from {model.config._attn_implementation} to eager attention once it is loaded"
        )
    for name in ("sdpa", "eager"):
        try:
            model.set_attn_implementation(name)
        except (ValueError, ImportError):  # its classes know no such attention
            continue
        return


def _forward_hooks(module: torch.nn.Module) -> list[_Hook]:
    """What may change what a module computes: its hooks but those that only watch."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return [hook for hook in hooks if not _watches(hook)]


def _watches(hook: _Hook) -> bool:
    """Whether a library has put it there, to collect outputs or to let gradients reach the embeddings."""
    name = f"{getattr(hook, '__module__', '')}.{getattr(hook, '__qualname__', '')}"
    return name.startswith("transformers.utils.output_capturing.") or (
        name.startswith(("transformers.", "peft.")) and ".make_inputs_require_grad" in name
    )


@torch.no_grad()
def _settle(module: torch.nn.Module, hooks: list[_Hook]) -> None:
    """Run the hooks that compute weights of a module, which is in evaluation mode, and let it keep what they compute.

    A module notes such a weight as a plain attribute, which is that of its last run.
    """
    for hook in hooks:
        name = _computed_weight(hook)
        assert name is not None
        hook(module, ())
        weight = vars(module).pop(name)
        module.register_parameter(name, torch.nn.Parameter(weight.detach(), requires_grad=False))


def _computed_weight(hook: _Hook) -> str | None:
    """The name of the weight that a hook computes; None if it does anything else."""
    if isinstance(hook, BasePruningMethod):
        return str(hook._tensor_name)
    return str(hook.name) if isinstance(hook, SpectralNorm | WeightNorm) else None


def _check_modules(model: torch.nn.Module) -> None:
    """Raises: ModelError if a module has a hook of the caller's own, is quantized, or is tied to the original."""
    for place, module in model.named_modules():
        name = f"the model's {place}" if place else f"the {type(module).__name__}"
        for hook in _forward_hooks(module):
            if _computed_weight(hook) is None:  # what it does in batches, threads and runs that end early nobody knows
                called = getattr(hook, "__qualname__", type(hook).__qualname__)
                raise ModelError(
                    f"{name} has the forward hook {called}, and attnscan runs no hooks",
                    "remove it before, with remove() of what registering it returned",
                )
        if type(module).__module__.startswith("torch.ao."):
            raise ModelError(  # with a scale for all numbers of a batch: scores would hang on which inputs meet in one
                f"{name} is quantized, and rounds an input by those beside it in a batch",
                "give the model as it was before it was quantized",
            )
        for key, values in (*module._parameters.items(), *module._buffers.items()):
            if isinstance(values, Tensor) and not _is_plain(values):
                raise ModelError(
                    f"{name} holds its {key} as a {type(values).__name__} ({values.layout}), not as plain numbers",
                    "give the model with plain weights, as from_pretrained() returns it",
                )
        functions = ((key, value) for key, value in vars(module).items() if key != _NOT_COPIED)
        if key := next((key for key, value in functions if _refers_to_modules(value)), None):
            raise ModelError(
                f"the {key} of {name} is compiled, or a function that refers to modules, and a copy would run these",
                "give the model without it; of a module that torch.compile() returned, its _orig_mod",
            )


def _is_plain(values: Tensor) -> bool:
    strided = values.layout == torch.strided and not values.is_quantized
    return strided and not is_traceable_wrapper_subclass(values) and not torch.nn.parameter.is_lazy(values)


def _refers_to_modules(value: object) -> bool:
    """Whether a function holds modules, or methods of them: to copy a function copies nothing of what it holds."""
    cells = (value.__closure__ or ()) if isinstance(value, FunctionType) else ()
    held = [cell.cell_contents for cell in cells if cell != CellType()]  # an empty one has no contents
    return any(
        isinstance(getattr(content, "__self__", content), torch.nn.Module) or _refers_to_modules(content)
        for content in held
    )
