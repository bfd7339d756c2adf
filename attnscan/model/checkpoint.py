"""A checkpoint's weights, as a model of transformers: safetensors alone, and no code of its own."""

from typing import Any

import torch

from attnscan.errors import ModelError
from attnscan.model.adapters import merge_adapter
from attnscan.model.architecture import has_decoder_beside, no_encoder_decoder
from attnscan.model.sources import Source
from attnscan.results.grid import AttentionName
from attnscan.text import counted

_BUFFERS = (
    "position_ids",
    "token_type_ids",
    "masked_bias",
    "inv_freq",
    ".attn.bias",
    ".attention.bias",
    ".version",
)
"""How names end that older versions of transformers saved, and that are no weights."""


def load_checkpoint(
    source: Source, config: Any, dtype: torch.dtype, attention: AttentionName
) -> tuple[Any, bool]:
    """The model with its masked-LM head where the family has one, and whether that was trained.

    Raises: ModelError if weights that the attention depends on are missing or have no place.
    """
    model_class = _model_class(source, config, attention)
    file_name = str(getattr(config, "transformers_weights", None) or "model.safetensors")
    # `use_safetensors` lets others pass
    if not file_name.endswith((".safetensors", ".safetensors.index.json")):
        raise ValueError(f"it names the weights {file_name}, and only safetensors are read")
    model, info = from_checkpoint(model_class, source, config=config, dtype=dtype)
    for name, saved, expected in sorted(info["mismatched_keys"]):
        if "pooler" not in name:
            raise ValueError(
                f"{name} has shape {list(saved)}, and its config asks for {list(expected)}"
            )
    if source.adapter:
        _check_adapter(merge_adapter(model, source), source, model, attention)
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    unused = sorted(
        name
        for name in info["unexpected_keys"]
        if not name.endswith(_BUFFERS) and "pooler" not in name
    )
    _check_needed("lacks", missing, source, model, attention)
    _check_needed("holds, without a place in the model,", unused, source, model, attention)
    return model, not missing


def _model_class(source: Source, config: Any, attention: AttentionName) -> Any:
    """Which of transformers' classes is made of a checkpoint."""
    import transformers as t

    writes = config.is_encoder_decoder and type(config) in t.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    if attention != "encoder" and not writes:
        raise no_encoder_decoder(source.name, attention)
    if writes and (attention != "encoder" or type(config) not in t.MODEL_MAPPING):
        return t.AutoModelForSeq2SeqLM
    if type(config) in t.MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder:
        return t.AutoModelForMaskedLM
    return t.AutoModel


def from_checkpoint(model_class: Any, source: Source, **options: Any) -> Any:
    """A model of a class, and what transformers tells of its weights."""
    return model_class.from_pretrained(
        **source.arguments,
        use_safetensors=True,
        ignore_mismatched_sizes=True,  # transformers itself names them in its log only
        output_loading_info=True,
        attn_implementation="eager",  # to which Falcon cannot be turned later
        **options,
    )


def _check_needed(
    verb: str, names: list[str], source: Source, model: Any, attention: AttentionName
) -> None:
    """Raises: ModelError if the attention depends on any of these weights."""
    needed = _needed(names, model, attention)
    if needed:
        raise ModelError(
            f"the checkpoint {source.name} {verb} {counted(len(needed), 'weight')}: "
            f"{', '.join(needed[:2])}",
            "see that its config.json belongs to its weights, and that these were saved without a "
            "wrapper, whose names begin with 'module.' or the like: "
            "model.module.save_pretrained(DIR)",
        )


def _check_adapter(names: list[str], source: Source, model: Any, attention: AttentionName) -> None:
    """Raises: ModelError if the attention depends on weights of an adapter without a place."""
    needed = _needed(names, model, attention)
    if needed:
        raise ModelError(
            f"the adapter {source.name} has weights without a place in {source.location}: "
            f"{needed[0]}",
            "see that its adapter_config.json names the model that it was made for",
        )


def _needed(names: list[str], model: Any, attention: AttentionName) -> list[str]:
    """Those weights that the attention depends on.

    These are not a task head's, nor a decoder's beside an encoder that is read.
    """
    prefix = f"{model.base_model_prefix}."
    parts = {name for name, _ in model.base_model.named_children()}
    parts |= {name for name, _ in model.base_model.named_parameters()}
    if attention == "encoder" and has_decoder_beside(model):
        parts.discard("decoder")
    computed = _computed_weights(model)
    needed = []
    for name in names:
        name_inside = name.removeprefix(prefix)
        part = name_inside.split(".")[0]
        if part in parts and name_inside not in computed:
            needed.append(name)
    return needed


def _computed_weights(model: Any) -> set[str]:
    """Names of weights that a model computes anew, as they are in its base model.

    Which ones the class that saved the checkpoint did not save: only Marian's class with a task
    head says so.
    """
    import transformers

    names = {name for name, _ in model.base_model.named_buffers()}
    architectures = model.config.architectures or ()
    saved_by = [getattr(transformers, class_name, None) for class_name in architectures]
    for model_class in (type(model), *saved_by):
        ignored = getattr(model_class, "_keys_to_ignore_on_save", None) or ()
        names |= {name.removeprefix(f"{model.base_model_prefix}.") for name in ignored}
    return names
