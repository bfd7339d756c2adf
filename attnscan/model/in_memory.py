"""A model and tokenizer that a program holds in memory already, run in place and put back as they were.

While it is read, the caller's model is in evaluation mode; its weights, its hooks and its modules are its own.
"""

from __future__ import annotations

import copy
import os
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import torch

from attnscan.errors import DeviceError, ModelError
from attnscan.model.languages import set_languages
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import BLOCK_SPARSE, encoder_of, no_encoder_decoder
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
        remedy = "give a name, a directory, or a model as from_pretrained() returns it, not wrapped: model.module"
        raise ModelError(f"model is of the class {type(model).__name__}, which is not a model of transformers", remedy)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        what = f"tokenizer is of the class {type(tokenizer).__name__}, which is not a tokenizer of transformers"
        remedy = "give what belongs to the model: tokenizer=AutoTokenizer.from_pretrained(...)"
        raise ModelError("the model is given without its tokenizer" if tokenizer is None else what, remedy)
    tokenizer = copy.deepcopy(tokenizer)
    name = model.config._name_or_path or type(model).__name__
    set_languages(tokenizer, name, *languages, writes=attention != "encoder")
    return in_place(model, tokenizer, attention)


def in_place(model: Any, tokenizer: Any, attention: AttentionName = "encoder") -> LoadedModel:
    """A caller's model as it is now: it may have been trained or changed since it was adopted. Raises: as `adopted`."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    name = f"{model.config._name_or_path or type(model).__name__}{IN_MEMORY}"
    if attention != "encoder" and not writes_text(model):
        raise no_encoder_decoder(name, attention)
    if any(type(module).__module__.startswith("torch.ao.") for module in model.modules()):
        what = "the model is quantized, and rounds an input by those beside it in a batch"
        raise ModelError(what, "give the model as from_pretrained() returns it")
    if any(getattr(module, "attention_type", "") == BLOCK_SPARSE for module in model.modules()):
        what = "the model's attention is of blocks (block_sparse), where no row is whole"
        raise ModelError(what, "turn to full attention: set_attention_type('original_full')")
    encoder = encoder_of(model, name) if attention == "encoder" else model
    devices = {weights.device for weights in encoder.parameters()}
    if len(devices) != 1 or devices == {torch.device("meta")}:
        where = ", ".join(sorted(map(str, devices))) or "nowhere"
        raise DeviceError(f"the model's weights are not on one device, but on {where}", "move them: model.to('cpu')")
    has_head = attention == "encoder" and has_own_head(model, MODEL_FOR_MASKED_LM_MAPPING)
    return LoadedModel(
        source=Source(name, ""),
        model=encoder,
        masked_lm=model if has_head else None,
        tokenizer=tokenizer,
        device=devices.pop(),
        dtype=encoder.dtype,
        revision=None,
        scored=encoder,
        given=model,
        in_use=_in_use.setdefault(model, RLock()),
    )


def has_own_head(model: Any, mapping: Any) -> bool:
    """Whether a caller's model is transformers' own of a kind; nobody knows what the head of another class makes."""
    config = model.config
    known = type(config) in mapping and not config.is_encoder_decoder and isinstance(model, mapping[type(config)])
    return known and type(model).forward.__module__.startswith("transformers.")
