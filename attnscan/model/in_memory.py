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
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import BLOCK_SPARSE, encoder_of, has_own_head, no_encoder_decoder, set_languages
from attnscan.model.sources import Source
from attnscan.model.writing import writes_text
from attnscan.results.signature import IN_MEMORY
from attnscan.results.terms import AttentionName

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Model: TypeAlias = "str | os.PathLike[str] | LoadedModel | PreTrainedModel | None"
"""A hub id, a directory, `bundled`, None for the default, what `load` returns, or a model that is in memory."""
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
    """A caller's model and a copy of its tokenizer, to be run in place, on the model's device and in its number format.

    Of an encoder-decoder, the encoder is taken, or for another `attention` the whole.
    Raises: ModelError if they are no model and tokenizer of transformers; DeviceError if it is not on one device.
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    kinds = ("model", model, PreTrainedModel), ("tokenizer", tokenizer, PreTrainedTokenizerBase)
    for what, given, kind in kinds:
        if not isinstance(given, kind):
            raise ModelError(
                f"{what} is of the class {type(given).__name__}, which is not a {what} of transformers",
                "give a model, not wrapped (model.module), and tokenizer=AutoTokenizer.from_pretrained(...)",
            )
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
    for module in model.modules():
        if type(module).__module__.startswith("torch.ao."):
            what = "the model is quantized, and rounds an input by those beside it in a batch"
            raise ModelError(what, "give the model as from_pretrained() returns it")
        if getattr(module, "attention_type", "") == BLOCK_SPARSE:
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
        scored=encoder,
        given=model,
        in_use=_in_use.setdefault(model, RLock()),
    )
