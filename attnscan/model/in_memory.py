"""A model and tokenizer that a program holds in memory already, run without leaving a trace on them.

What runs is a copy of the model's modules around the model's own weights, which are not copied. So the caller's
modules stay in the mode that they are in, keep their attention implementation, and their hooks are neither removed nor
run. The tokenizer, whose calls change it, is copied whole.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from attnscan.errors import DeviceError, ModelError, out_of_memory
from attnscan.inputs.encode import check_reads_sentences
from attnscan.model.attention_function import attention_of
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import encoder_of
from attnscan.model.running import first_line, quiet_transformers, refused
from attnscan.model.sources import Source

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


def adopted(model: Any, tokenizer: Any) -> LoadedModel:
    """A caller's model and tokenizer, ready to run on the device and in the number format that the model has.

    The model is an encoder, or has a task head around it; of an encoder-decoder, the encoder is taken.
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
    source = Source(f"{model.config._name_or_path or type(model).__name__} (in memory)", "")
    original = encoder_of(model, source.name)
    device = _device_of(original)
    with quiet_transformers():
        encoder = _without_hooks(original)
        _use_default_attention(encoder)
    loaded = LoadedModel(source, encoder, None, tokenizer, device, original.dtype, revision=None, given=model)
    return replace(loaded, masked_lm=_masked_lm(loaded))


def _masked_lm(loaded: LoadedModel) -> Any | None:
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    config = loaded.model.config
    has_head = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder
    return with_head(loaded, MODEL_FOR_MASKED_LM_MAPPING[type(config)]) if has_head else None


def with_head(loaded: LoadedModel, kind: Any) -> Any | None:
    """A model of that class around the encoder, its head's weights the caller's; None if the caller's lacks some."""
    assert loaded.given is not None
    theirs: Mapping[str, Tensor] = loaded.given.state_dict()
    with quiet_transformers(), torch.device("meta"):
        whole = kind(loaded.model.config)
    if any(name not in theirs or theirs[name].shape != own.shape for name, own in whole.state_dict().items()):
        return None
    setattr(whole, whole.base_model_prefix, loaded.model)
    of_head = {name: theirs[name] for name in whole.state_dict() if not name.startswith(f"{whole.base_model_prefix}.")}
    whole.load_state_dict(of_head, strict=False, assign=True)
    whole.tie_weights()
    if any(each.is_meta for each in itertools.chain(whole.parameters(), whole.buffers())):
        return None
    return whole.eval()


def _check_kinds(model: Any, tokenizer: Any) -> None:
    """Raises: ModelError unless they are a model and a tokenizer of transformers."""
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    if not isinstance(model, PreTrainedModel):
        inside = next((name for name in ("module", "_orig_mod", "base_model") if hasattr(model, name)), None)
        raise ModelError(
            f"model is of the class {type(model).__name__}, which is no model of transformers",
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
            f"tokenizer is of the class {type(tokenizer).__name__}, which is no tokenizer of transformers",
            "with a model in memory, give what AutoTokenizer.from_pretrained() returns",
        )


def _device_of(model: Any) -> torch.device:
    devices: set[torch.device] = {weights.device for weights in model.parameters()}
    if len(devices) != 1 or devices == {torch.device("meta")}:
        where = ", ".join(sorted(map(str, devices))) or "nowhere"
        raise DeviceError(f"the model's weights are not on one device, but on {where}", "move them: model.to('cpu')")
    return devices.pop()


def _without_hooks(model: Any) -> Any:
    """A copy of the modules in evaluation mode, with the same weights, buffers of their own, and no hooks.

    Raises: ModelError if something in them cannot be copied.
    """
    memo: dict[int, Any] = {id(weights): weights for weights in model.parameters()}
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):  # something noted in passing, perhaps with its gradients' graph
                memo[id(value)] = value
            elif "ward_hooks" in name or "ward_pre_hooks" in name:
                memo[id(value)] = type(value)()
    copied = _copied(model, memo)
    for module in copied.modules():
        vars(module).pop(_CAPTURED, None)
    return copied.eval()


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
