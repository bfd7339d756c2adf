"""From a model's source to the model itself, on a device, ready to run.

Weights are read as safetensors alone, and no code of the model's is run.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from attnscan.errors import AttnscanError, MemoryFullError, ModelError, out_of_memory
from attnscan.model.languages import set_languages
from attnscan.model.loaded import LoadedModel, chosen_device
from attnscan.model.running import first_line, named_arguments, quiet_transformers
from attnscan.model.sources import Device, Dtype, Source, has_tokenizer, pinned
from attnscan.results.terms import AttentionName, counted
from attnscan.safe_text import plain

BLOCK_SPARSE = "block_sparse"
"""What Big Bird calls its own attention; in its first run on a short input it turns to full attention for good."""
_BUFFERS = ("position_ids", "token_type_ids", "masked_bias", "inv_freq", ".attn.bias", ".attention.bias", ".version")
"""How names end that older versions of transformers saved, and that are no weights."""


def load(
    source: Source,
    device: Device = "auto",
    dtype: Dtype = "auto",
    attention: AttentionName = "encoder",
    languages: tuple[str | None, str | None] = (None, None),
) -> LoadedModel:
    """Load a model and its tokenizer. Weights are read as safetensors, and no code of the model's is run.

    Of an encoder-decoder the encoder is taken, or for another `attention` the whole. `languages` are those of its
    sources and targets. On a CPU the model is one of float32, with a copy in bfloat16 beside it if `dtype` says so.
    Raises: ModelError if that fails or weights are missing; DeviceError if the machine has no such device, is no
    faster by that number format, or has too little memory.
    """
    place, note = chosen_device(device, dtype), ""
    asked_for = torch.float32 if dtype == "auto" else getattr(torch, dtype)  # whatever the checkpoint is stored in
    number = torch.float32 if place.type == "cpu" else asked_for
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with quiet_transformers(), warnings.catch_warnings(action="ignore"), _explained(source):
        from transformers import AutoConfig

        source = pinned(source)
        config = AutoConfig.from_pretrained(source.location, revision=source.asked_for, trust_remote_code=False)
        if getattr(config, "attention_type", "") == BLOCK_SPARSE:
            config.attention_type = "original_full"
            note = f"{source.name}: attention is computed in full; the model's own is of blocks, where no row is whole"
        tokenizer = _load_tokenizer(source)
        set_languages(tokenizer, source.name, *languages, writes=attention != "encoder")
        whole, has_trained_head = _load_weights(source, config, number, attention)
    whole = whole.to(place).eval()
    encoder = encoder_of(whole, source.name) if attention == "encoder" else whole
    has_head = attention == "encoder" and has_trained_head and whole.base_model is not whole
    return LoadedModel(
        source=source,
        model=encoder,
        masked_lm=whole if has_head else None,
        tokenizer=tokenizer,
        device=place,
        dtype=number,
        revision=source.revision or getattr(whole.config, "_commit_hash", None),
        scored=encoder if asked_for == number else copy.deepcopy(encoder).to(asked_for),
        note=note,
    )


@contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Raises: MemoryFullError where memory ran out; ModelError for whatever else loading raises, by its many parts."""
    try:
        yield
    except AttnscanError:
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or type(error).__module__ == "pyo3_runtime"):  # a panic of Rust
            raise
        name, remedy = source.name, "check its name and the network, or pass a directory"
        if out_of_memory(error):
            raise MemoryFullError(f"the model {name} does not fit into memory", "use a smaller model") from error
        if Path(source.location).is_dir():
            remedy = "see that config.json, the tokenizer and model.safetensors belong together"
        elif source.revision is not None:
            name = f"{name} at commit {source.revision[:12]}"
        raise ModelError(f"cannot load the model {name}: {plain(first_line(error))[:300]}", remedy) from error


def _load_tokenizer(source: Source) -> Any:
    from transformers import AutoTokenizer

    location, revision = source.location, source.asked_for
    if source.adapter and has_tokenizer(Path(source.adapter)):
        location, revision = source.adapter, "main"
    tokenizer = AutoTokenizer.from_pretrained(location, revision=revision, trust_remote_code=False)
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ValueError(f"its tokenizer has the model_max_length {tokenizer.model_max_length!r}, not a number")
    return tokenizer


def _load_weights(source: Source, config: Any, dtype: torch.dtype, attention: AttentionName) -> tuple[Any, bool]:
    """The model with its masked-LM head where the family has one, and whether that head was trained.

    A head that the checkpoint lacks is filled with random numbers; so is a pooler, which is never run here.
    Raises: ModelError, ValueError if weights that attention depends on are missing or left over.
    """
    import transformers as t

    kind, writes = t.AutoModel, config.is_encoder_decoder and type(config) in t.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    if attention != "encoder" and not writes:
        raise no_encoder_decoder(source.name, attention)
    if writes and (attention != "encoder" or type(config) not in t.MODEL_MAPPING):
        kind = t.AutoModelForSeq2SeqLM
    elif type(config) in t.MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder:
        kind = t.AutoModelForMaskedLM
    named = str(getattr(config, "transformers_weights", None) or "model.safetensors")
    if not named.endswith((".safetensors", ".safetensors.index.json")):  # which `use_safetensors` lets pass
        raise ValueError(f"it names the weights {named}, and only safetensors are read")
    model, info = from_checkpoint(kind, source, config=config, dtype=dtype)
    if getattr(model, "_hf_peft_config_loaded", False):
        raise ValueError("it holds an adapter, which changes another model's weights")
    for name, saved, expected in sorted(info["mismatched_keys"]):
        if "pooler" not in name:
            raise ValueError(f"{name} has shape {list(saved)}, and its config asks for {list(expected)}")
    if source.adapter:
        _merge_adapter(model, source)
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    unused = sorted(name for name in info["unexpected_keys"] if not name.endswith(_BUFFERS) and "pooler" not in name)
    for what, names in (("lacks", missing), ("holds, without a place in the model,", unused)):
        if of_attention := _needed(names, model, attention):
            raise ModelError(
                f"the checkpoint {source.name} {what} {counted(len(of_attention), 'weight')}: {of_attention[0]}"
                f"{' and others' if of_attention[1:] else ''}",
                "see that its config.json belongs to its weights, and that these were saved without a wrapper, whose "
                "names begin with 'module.' or the like: model.module.save_pretrained(DIR)",
            )
    return model, not missing


def from_checkpoint(kind: Any, source: Source, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A model of a class, and what transformers tells of its weights: safetensors alone, and no code of the model's."""
    model, info = kind.from_pretrained(
        source.location,
        revision=source.asked_for,
        use_safetensors=True,
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # transformers itself names them in its log only
        output_loading_info=True,
        attn_implementation="eager",  # to which Falcon cannot be turned later
        **options,
    )
    return model, info


def _merge_adapter(model: Any, source: Source) -> None:
    """Merge an adapter's weights into a model's own.

    Raises: ModelError if peft is not installed, or the adapter is of another model.
    """
    try:
        from peft import PeftConfig, PeftModel, get_peft_model_state_dict
    except ImportError:
        raise ModelError(
            f"{source.name} holds an adapter (LoRA or the like), and the package peft is not installed",
            "pip install peft; or merge it once: peft's merge_and_unload(), then save_pretrained(DIR)",
        ) from None
    from safetensors.torch import load_file

    names, base = set(load_file(Path(source.adapter) / "adapter_model.safetensors")), model.base_model_prefix
    changed = model.base_model
    if any(name.startswith(f"base_model.model.{base}.") for name in names):  # a task head's model holds this one
        changed = torch.nn.Module()
        changed.config = model.config
        changed.add_module(base, model.base_model)
    config = PeftConfig.from_pretrained(source.adapter)
    config.task_type = None  # no task head is wrapped
    adapted = PeftModel.from_pretrained(changed, source.adapter, config=config)
    if unknown := {name for name in names if "lora_" in name} - set(get_peft_model_state_dict(adapted)):
        raise ModelError(
            f"the adapter {source.name} has {counted(len(unknown), 'weight')} without a place in {source.location}: "
            f"{min(unknown)}",
            "see that its adapter_config.json names the model that it was made for",
        )
    adapted.merge_and_unload()  # in place


def _needed(names: list[str], whole: Any, attention: AttentionName) -> list[str]:
    """Those weights that the attention depends on, not a task head's or a decoder's beside an encoder."""
    import transformers

    prefix, base = f"{whole.base_model_prefix}.", whole.base_model
    # Weights that the class which saved the checkpoint computes anew: only Marian's class with a task head says so
    classes = [type(whole), *(getattr(transformers, name, None) for name in whole.config.architectures or ())]
    computed = {name for kind in classes for name in getattr(kind, "_keys_to_ignore_on_save", None) or ()}
    computed = {name.removeprefix(prefix) for name in computed} | {name for name, _ in base.named_buffers()}
    parts = {name for name, _ in (*base.named_children(), *base.named_parameters())}
    without = "decoder" if attention == "encoder" and _has_decoder_beside(whole) else ""
    inside = {name: name.removeprefix(prefix) for name in names}
    return [
        name
        for name, own in inside.items()
        if own not in computed and own.split(".")[0] != without and (own != name or own.split(".")[0] in parts)
    ]


def _has_decoder_beside(whole: Any) -> bool:
    """Whether a model is an encoder and a decoder. A saved T5EncoderModel says no, and is loaded with a decoder."""
    parts = {name for name, _ in whole.base_model.named_children()}
    return bool(whole.config.is_encoder_decoder) or {"encoder", "decoder"} <= parts


def encoder_of(whole: Any, name: str) -> Any:
    """The encoder (or decoder) of a model without task heads. Raises: ModelError if it cannot be run by itself."""
    encoder = whole.get_encoder() if _has_decoder_beside(whole) else whole.base_model
    if not hasattr(encoder, "config") or "input_ids" not in named_arguments(encoder):
        raise ModelError(
            f"the architecture {type(encoder).__name__} of {name} is not a model of text that can be run by itself",
            "use a model such as BERT, BART or T5; its forward names its inputs: input_ids, attention_mask, ...",
        )
    return encoder


def no_encoder_decoder(name: str, attention: AttentionName) -> ModelError:
    """The error for a model that does not have an attention."""
    return ModelError(
        f"{name} is no encoder-decoder that writes text, and has no {attention} attention beside an encoder's",
        "leave out --attention, or name a model such as T5, BART or Marian",
    )
