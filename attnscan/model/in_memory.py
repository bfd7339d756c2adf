"""A model that a program holds in memory, read in place.

While it is read, it is in evaluation mode; its weights, its hooks and its modules are its own.
"""

import copy
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch

from attnscan.errors import DeviceError, ModelError
from attnscan.model.architecture import BLOCK_SPARSE, bare_encoder, no_encoder_decoder, writes_text
from attnscan.model.languages import set_languages
from attnscan.model.loading import LoadedModel
from attnscan.model.sources import Source
from attnscan.model.task_heads import has_own_head
from attnscan.results.grid import AttentionName
from attnscan.results.signature import IN_MEMORY

_in_use: WeakKeyDictionary[torch.nn.Module, Any] = WeakKeyDictionary()
"""Held by whoever runs a caller's model, which is in one mode and has one attention at a time."""


def adopt(
    model: Any,
    tokenizer: Any,
    attention: AttentionName = "encoder",
    languages: tuple[str | None, str | None] = (None, None),
) -> LoadedModel:
    """A caller's model and a copy of its tokenizer, to be run in place.

    It runs on the model's device and in its number format. Of an encoder-decoder, the encoder is
    taken, or for another `attention` the whole.
    Raises: ModelError if they are no model and tokenizer of transformers; DeviceError if the model
    is not on one device.
    """
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    _check_class("model", model, PreTrainedModel)
    _check_class("tokenizer", tokenizer, PreTrainedTokenizerBase)
    tokenizer = copy.deepcopy(tokenizer)
    name = model.config._name_or_path or type(model).__name__
    set_languages(tokenizer, name, *languages, writes=attention != "encoder")
    return wrap(model, tokenizer, attention)


def _check_class(argument: str, value: object, expected: type) -> None:
    """Raises: ModelError if an argument is not of a class of transformers."""
    if argument == "tokenizer" and value is None:
        raise ModelError("a model in memory comes without its tokenizer", "give tokenizer=, too")
    if not isinstance(value, expected):
        raise ModelError(
            f"{argument} is of the class {type(value).__name__}, which is not a {argument} "
            "of transformers",
            "give what a wrapper holds (model.module, _orig_mod), and "
            "tokenizer=AutoTokenizer.from_pretrained(...)",
        )


def wrap(model: Any, tokenizer: Any, attention: AttentionName = "encoder") -> LoadedModel:
    """A caller's model as it is now: it may have been trained or changed since it was adopted.

    Raises: as `adopt`.
    """
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    name = f"{model.config._name_or_path or type(model).__name__}{IN_MEMORY}"
    if attention != "encoder" and not writes_text(model):
        raise no_encoder_decoder(name, attention)
    _check_modules(model)
    encoder = bare_encoder(model, name) if attention == "encoder" else model
    has_masked_lm = attention == "encoder" and has_own_head(model, MODEL_FOR_MASKED_LM_MAPPING)
    return LoadedModel(
        source=Source(name, ""),
        model=encoder,
        masked_lm=model if has_masked_lm else None,
        tokenizer=tokenizer,
        device=_only_device(encoder),
        scored=encoder,
        original=model,
        in_use=_in_use.setdefault(model, RLock()),
    )


def _check_modules(model: Any) -> None:
    """Raises: ModelError if a model has modules whose attention cannot be read."""
    for module in model.modules():
        if type(module).__module__.startswith("torch.ao."):
            raise ModelError(
                "the model is quantized, and rounds an input by those beside it in a batch",
                "give the model as from_pretrained() returns it",
            )
        if getattr(module, "attention_type", "") == BLOCK_SPARSE:
            raise ModelError(
                "the model's attention is of blocks (block_sparse), where no row is whole",
                "turn to full attention: set_attention_type('original_full')",
            )


def _only_device(model: Any) -> torch.device:
    """The device that all weights are on. Raises: DeviceError if there are several, or none."""
    devices = {weights.device for weights in model.parameters()}
    if len(devices) != 1 or devices == {torch.device("meta")}:
        places = ", ".join(sorted(map(str, devices))) or "nowhere"
        raise DeviceError(
            f"the model's weights are not on one device, but on {places}",
            "move them: model.to('cpu')",
        )
    device: torch.device = devices.pop()
    return device
