"""A model and tokenizer that a program holds in memory already, run without leaving a trace on them.

What runs is a copy of the modules around the model's own weights, so the caller's keep their mode, attention
implementation and hooks. Weights that a hook computes are computed once; any other hook is refused (`fingerprint.py`).
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from attnscan.errors import DeviceError, ModelError, out_of_memory
from attnscan.inputs.encode import check_reads_sentences
from attnscan.model.attention_function import attention_of
from attnscan.model.fingerprint import check_modules, forward_hooks, of_config, of_modules, settle
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

_INSIDE = ("module", "_orig_mod", "merge_and_unload()", "base_model")
"""Where wrappers keep the model: of parallel runs, of torch.compile, of an adapter of peft, of others."""


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
    check_modules(model)
    with quiet_transformers():
        encoder = _copy_to_run(original)
        _share_config(encoder)
        _use_default_attention(encoder)
    loaded = LoadedModel(source, encoder, None, tokenizer, device, original.dtype, revision=None, given=model)
    loaded = replace(loaded, masked_lm=_masked_lm(loaded) if attention == "encoder" else None)
    return replace(loaded, modules=of_modules(loaded.whole))


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
        settle(module, forward_hooks(original))
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
