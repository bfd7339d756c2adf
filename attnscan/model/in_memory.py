"""A model and tokenizer that a program holds in memory already, run in place and put back as they were.

While it is read, the caller's model is in evaluation mode; its weights, its hooks and its modules are its own.
"""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import torch

from attnscan.errors import DeviceError, ModelError
from attnscan.model.languages import set_languages
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import encoder_of, no_encoder_decoder
from attnscan.model.running import READ_IN_FULL, block_sparse_part, quiet_transformers
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
_in_use: WeakKeyDictionary[torch.nn.Module, Any] = WeakKeyDictionary()
"""Held by whoever runs a caller's model, which is in one mode and has one attention at a time."""
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
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    if not isinstance(model, PreTrainedModel):
        inside = next((name for name in _INSIDE if hasattr(model, name.removesuffix("()"))), None)
        remedy = f"give the model that it wraps, which may be model.{inside}"
        if inside is None:
            remedy = "give a name, a directory, or a model such as AutoModel.from_pretrained() returns"
        raise ModelError(f"model is of the class {type(model).__name__}, which is not a model of transformers", remedy)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        what = f"tokenizer is of the class {type(tokenizer).__name__}, which is not a tokenizer of transformers"
        if tokenizer is None:
            what = "the model is given without its tokenizer"
        raise ModelError(what, "give what belongs to the model: tokenizer=AutoTokenizer.from_pretrained(...)")
    tokenizer = copy.deepcopy(tokenizer)
    name = model.config._name_or_path or type(model).__name__
    set_languages(tokenizer, name, *languages, writes=attention != "encoder")
    return _in_place(model, tokenizer, attention)


def renewed(loaded: LoadedModel, attention: AttentionName = "encoder") -> LoadedModel:
    """One that was adopted, by what the caller's model is now: it may have been trained or changed since.

    Raises: as `adopted`.
    """
    now = _in_place(loaded.given, loaded.tokenizer, attention)
    return replace(now, _related=loaded._related)


def _in_place(model: Any, tokenizer: Any, attention: AttentionName) -> LoadedModel:
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    source = Source(f"{model.config._name_or_path or type(model).__name__}{IN_MEMORY}", "")
    if attention != "encoder" and not writes_text(model):
        raise no_encoder_decoder(source.name, attention)
    if any(type(module).__module__.startswith("torch.ao.") for module in model.modules()):
        what = "the model is quantized, and rounds an input by those beside it in a batch"
        raise ModelError(what, "give the model as from_pretrained() returns it")
    encoder = encoder_of(model, source.name) if attention == "encoder" else model
    devices: set[torch.device] = {weights.device for weights in encoder.parameters()}
    if len(devices) != 1 or devices == {torch.device("meta")}:
        where = ", ".join(sorted(map(str, devices))) or "nowhere"
        raise DeviceError(f"the model's weights are not on one device, but on {where}", "move them: model.to('cpu')")
    note = f"{source.name}: {READ_IN_FULL}" if block_sparse_part(model) is not None else ""
    given = {"given": model, "note": note, "in_use": _in_use.setdefault(model, RLock())}
    loaded = LoadedModel(source, encoder, None, tokenizer, devices.pop(), encoder.dtype, None, **given)
    config = encoder.config
    if attention != "encoder" or config.is_encoder_decoder or type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        return loaded
    return replace(loaded, masked_lm=with_head(loaded, MODEL_FOR_MASKED_LM_MAPPING[type(config)]))


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
