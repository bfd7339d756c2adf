"""A model and tokenizer that a program holds in memory already, run in place and put back as they were.

While it is read, the caller's model is in evaluation mode; its weights, its hooks and its modules are its own.
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from attnscan.errors import DeviceError, ModelError, out_of_memory
from attnscan.inputs.encode import check_reads_sentences
from attnscan.model.languages import set_languages
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import encoder_of, no_encoder_decoder
from attnscan.model.running import READ_IN_FULL, block_sparse_part, first_line, quiet_transformers
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
_INSIDE = ("module", "_orig_mod", "merge_and_unload()", "base_model")
"""Where wrappers keep the model: of parallel runs, of torch.compile, of an adapter of peft, of others."""


def adopted(
    model: Any,
    tokenizer: Any,
    attention: AttentionName = "encoder",
    languages: tuple[str | None, str | None] = (None, None),
) -> LoadedModel:
    """A caller's model and tokenizer, to be run in place on the device and in the number format that the model has.

    The model is an encoder, or has a task head around it; of an encoder-decoder, the encoder is taken, or for another
    `attention` the whole. Of the tokenizer a copy is used, since to tokenize changes it.
    Raises: ModelError if they are no model and tokenizer of transformers, or do not go together; DeviceError if the
    model is not on one device.
    """
    _check_kinds(model, tokenizer)
    tokenizer = _copied(tokenizer)
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ModelError(
            f"the tokenizer has the model_max_length {tokenizer.model_max_length!r}, not a number",
            "set it to how many tokens the model reads",
        )
    name = model.config._name_or_path or type(model).__name__
    set_languages(tokenizer, name, *languages, writes=attention != "encoder")
    check_reads_sentences(tokenizer)
    return _in_place(model, tokenizer, attention)


def renewed(loaded: LoadedModel, attention: AttentionName = "encoder") -> LoadedModel:
    """One that was adopted, by what the caller's model is now: it may have been trained or changed since.

    Raises: as `adopted`.
    """
    now = _in_place(loaded.given, loaded.tokenizer, attention)
    return replace(now, in_use=loaded.in_use, _related=loaded._related)


def _in_place(model: Any, tokenizer: Any, attention: AttentionName) -> LoadedModel:
    source = Source(f"{model.config._name_or_path or type(model).__name__}{IN_MEMORY}", "")
    if attention != "encoder" and not writes_text(model):
        raise no_encoder_decoder(source.name, attention)
    encoder = encoder_of(model, source.name) if attention == "encoder" else model
    device = _device_of(encoder)
    _check_modules(model)
    note = f"{source.name}: {READ_IN_FULL}" if block_sparse_part(model) is not None else ""
    loaded = LoadedModel(source, encoder, None, tokenizer, device, encoder.dtype, None, given=model, note=note)
    return replace(loaded, masked_lm=_masked_lm(loaded) if attention == "encoder" else None)


def _masked_lm(loaded: LoadedModel) -> Any | None:
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    config = loaded.model.config
    has_head = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder
    return with_head(loaded, MODEL_FOR_MASKED_LM_MAPPING[type(config)]) if has_head else None


def with_head(loaded: LoadedModel, kind: Any) -> Any | None:
    """The caller's model if it is of that class, else one around its weights; None if it has no such head.

    What the head of a class that is not transformers' own makes of an encoder nobody knows, so such a one has none.
    """
    given = loaded.given
    assert given is not None
    if not type(given).forward.__module__.startswith("transformers."):
        return None
    if isinstance(given, kind):
        return given
    with quiet_transformers(), torch.device("meta"):
        whole = kind(loaded.model.config).eval()
    made, theirs = (dict(model.named_children()) for model in (whole.base_model, loaded.model))
    if not made.keys() <= theirs.keys():  # as a classifier of tokens has no pooler
        return None
    setattr(whole, whole.base_model_prefix, loaded.model)
    inside = f"{whole.base_model_prefix}."
    heads = {name: values for name, values in given.state_dict().items() if not name.startswith(inside)}
    try:
        missing = whole.load_state_dict(heads, strict=False, assign=True).missing_keys
    except RuntimeError:  # another size
        return None
    return whole if all(name.startswith(inside) for name in missing) else None


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


def _check_modules(model: torch.nn.Module) -> None:
    """Raises: ModelError if a module is quantized, which rounds an input by those beside it in a batch."""
    for place, module in model.named_modules():
        own = (*module._parameters.values(), *module._buffers.values())
        plain = all(values is None or _is_plain(values) for values in own)
        if not plain or type(module).__module__.startswith("torch.ao."):
            raise ModelError(
                f"the model's {place or type(module).__name__} is quantized, or not of plain weights",
                "give the model as from_pretrained() returns it",
            )


def _is_plain(values: Tensor) -> bool:
    return values.layout == torch.strided and not values.is_quantized and not is_traceable_wrapper_subclass(values)


def _copied(tokenizer: Any) -> Any:
    try:
        return copy.deepcopy(tokenizer)
    except Exception as error:
        if out_of_memory(error):
            raise
        raise ModelError(
            f"the {type(tokenizer).__name__} holds something that cannot be copied: {first_line(error)[:200]}",
            "save it with save_pretrained(), and name the directory",
        ) from error
