"""A model that is loaded: from its source or from a program's memory, on a device, ready to run; languages; task heads.

Weights are read as safetensors alone, and no code of the model's is run. While a caller's model is read, it is in
evaluation mode; its weights, its hooks and its modules are its own.
"""

import copy
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from attnscan.errors import (
    AttnscanError,
    DeviceError,
    InputError,
    MemoryFullError,
    ModelError,
    nearest,
    out_of_memory,
)
from attnscan.inputs.encode import encode_pairs
from attnscan.inputs.sentence import EncodedInput, Pair, Unit
from attnscan.inputs.vocabulary import WholeWords, whole_words
from attnscan.model.forward import first_line, named_arguments, quiet_transformers
from attnscan.model.relatedness import Relatedness
from attnscan.model.sources import Device, Dtype, Source, fingerprint
from attnscan.model.writing import writes_text
from attnscan.results.grid import AttentionName
from attnscan.results.signature import IN_MEMORY
from attnscan.text import counted, plain

BLOCK_SPARSE = "block_sparse"
"""What Big Bird calls its own attention; in its first run on a short input it turns to full attention for good."""
_in_use: WeakKeyDictionary[torch.nn.Module, Any] = WeakKeyDictionary()
"""Held by whoever runs a caller's model, which is in one mode and has one attention at a time."""
TaskHead = Literal["masked-lm", "next-sentence", "classifier"]
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
NO_LIMIT = 1_000_000  # tokenizers without a limit say 10**30
_TOKENS = {"cpu": 1024, "mps": 4096, "cuda": 32_768}
"""In a batch: what stays in a CPU's last cache beside the weights, or keeps another device busy."""


@dataclass(frozen=True)
class LoadedModel:
    """A model and its tokenizer, ready to run."""

    source: Source  # what was found by its name
    model: Any  # the encoder (or decoder) without task heads, a transformers PreTrainedModel in evaluation mode
    masked_lm: (
        Any | None
    )  # a model of this encoder with a trained masked-LM head; None if the checkpoint has none
    tokenizer: Any  # of transformers
    device: torch.device
    scored: Any
    """The model by which heads are scored: `model`, or on a CPU a copy in the half precision that was asked for."""
    original: Any | None = None
    """The caller's own model that this was made of; None if it was loaded by its name."""
    note: str = ""  # a line for the user on how it was loaded
    in_use: RLock = field(default_factory=RLock, repr=False, compare=False)
    """Held by whoever runs it: its attention is read by changing it."""

    @cached_property
    def relatedness(self) -> Relatedness:
        """Which words are related by its embeddings."""
        return Relatedness(self.embedding, self.vocabulary)

    @cached_property
    def vocabulary(self) -> WholeWords:
        """The whole words that its tokenizer knows, and which of them are frequent."""
        return whole_words(self.tokenizer)

    @property
    def with_task_head(self) -> Any:
        """The model with its task head, if it has one."""
        return self.model if self.masked_lm is None else self.masked_lm

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What model this is, whatever its name and place; taken when it is first asked for."""
        return fingerprint(self.with_task_head, self.tokenizer)

    @property
    def embedding(self) -> Tensor:
        """The input embeddings. Shape: [vocabulary, dimension].

        Raises: ModelError if the model has no table of them.
        """
        try:
            return torch.detach(self.model.get_input_embeddings().weight)
        except (AttributeError, NotImplementedError):
            raise ModelError(
                f"the architecture {type(self.model).__name__} has no table of token embeddings",
                "use a model that reads tokens, such as BERT or RoBERTa",
            ) from None

    @property
    def pad_id(self) -> int:
        """What fills up shorter inputs; masked, so any token will do where the tokenizer names none."""
        return int(self.tokenizer.pad_token_id or 0)

    @property
    def limit(self) -> int:
        """The most tokens that an input may have, special ones included."""
        of_config = (
            getattr(self.model.config, name, None)
            for name in ("max_position_embeddings", "max_seq_len")
        )
        limits = [self.tokenizer.model_max_length, *of_config]  # MPT's is the second
        tables = (
            module
            for name, module in self.model.named_modules()
            if name.endswith("position_embeddings")
        )
        table = next((module for module in tables if isinstance(module, torch.nn.Embedding)), None)
        if table is not None:  # RoBERTa counts positions from behind the padding token's
            limits.append(
                table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
            )
        return int(
            min(
                [most for most in limits if isinstance(most, int | float) and most >= 1]
                + [NO_LIMIT]
            )
        )

    def room(self, batch_tokens: int | None) -> int:
        """How many tokens a batch may hold: as many as are asked for, or as the device runs fastest."""
        return batch_tokens or _TOKENS[self.device.type]

    def encode_all(
        self, pairs: Sequence[Pair], unit: Unit, *, truncate: bool
    ) -> Iterator[EncodedInput | InputError]:
        """Tokenize some pairs; the error in the place of one that the model cannot read.

        Raises: ModelError if it can read none.
        """
        for encoded in encode_pairs(self.tokenizer, pairs, unit, self.limit, truncate):
            if isinstance(encoded, EncodedInput):
                self.check_ids(encoded.model_inputs["input_ids"])
            yield encoded

    def check_ids(self, ids: list[int]) -> None:
        """Raises: ModelError if the tokenizer gives numbers that the model has no embedding for."""
        rows = len(self.embedding)
        if max(ids) >= rows:
            raise ModelError(
                f"the tokenizer of {self.source.name} gives token {max(ids)}, and the model knows {rows}",
                "the two do not belong together: save the tokenizer that the model was trained with",
            )


def load(
    source: Source,
    device: Device = "auto",
    dtype: Dtype = "auto",
    attention: AttentionName = "encoder",
    languages: tuple[str | None, str | None] = (None, None),
) -> LoadedModel:
    """Load a model and its tokenizer. Weights are read as safetensors, and no code of the model's is run.

    Of an encoder-decoder the encoder is taken, or for another `attention` the whole. `languages` are those of its
    sources and targets. On a CPU the model is one of float32, with a copy in half precision if `dtype` says so.
    Raises: ModelError if that fails or weights are missing; DeviceError if the machine has no such device or memory.
    """
    place, note = chosen_device(device), ""
    asked_for = (
        torch.float32 if dtype == "auto" else getattr(torch, dtype)
    )  # whatever the checkpoint is stored in
    number = torch.float32 if place.type == "cpu" else asked_for
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with quiet_transformers(), warnings.catch_warnings(action="ignore"), _explained(source):
        from huggingface_hub import snapshot_download
        from transformers import AutoConfig, AutoTokenizer

        if (
            source.revision is None and not Path(source.location).is_dir()
        ):  # so that all files are of one commit
            snapshot = snapshot_download(source.location, allow_patterns="config.json")
            source = replace(source, revision=Path(snapshot).name)
        config = AutoConfig.from_pretrained(**source.arguments)
        if getattr(config, "attention_type", "") == BLOCK_SPARSE:
            config.attention_type = "original_full"
            note = f"{source.name}: attention is computed in full; the model's own is of blocks, where no row is whole"
        tokenizer = AutoTokenizer.from_pretrained(**source.arguments)
        set_languages(tokenizer, source.name, *languages, writes=attention != "encoder")
        whole, has_trained_head = _load_weights(source, config, number, attention)
    whole = whole.to(place).eval()
    encoder = encoder_of(whole, source.name) if attention == "encoder" else whole
    return LoadedModel(
        source=source,
        model=encoder,
        masked_lm=whole
        if attention == "encoder" and has_trained_head and whole.base_model is not whole
        else None,
        tokenizer=tokenizer,
        device=place,
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
        if not (
            isinstance(error, Exception) or type(error).__module__ == "pyo3_runtime"
        ):  # a panic of Rust
            raise
        if out_of_memory(error):
            raise MemoryFullError(
                f"the model {source.name} does not fit into memory", "use a smaller one"
            ) from error
        raise ModelError(
            f"cannot load the model {source.name}: {plain(first_line(error))[:300]}",
            "check its name and the network; of a directory, that config, tokenizer and weights belong together",
        ) from error


def _load_weights(
    source: Source, config: Any, dtype: torch.dtype, attention: AttentionName
) -> tuple[Any, bool]:
    """The model with its masked-LM head where the family has one, and whether that was trained, not made up."""
    import transformers as t

    kind, writes = (
        t.AutoModel,
        config.is_encoder_decoder and type(config) in t.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    )
    if attention != "encoder" and not writes:
        raise no_encoder_decoder(source.name, attention)
    if writes and (attention != "encoder" or type(config) not in t.MODEL_MAPPING):
        kind = t.AutoModelForSeq2SeqLM
    elif type(config) in t.MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder:
        kind = t.AutoModelForMaskedLM
    file_name = str(getattr(config, "transformers_weights", None) or "model.safetensors")
    if not file_name.endswith(
        (".safetensors", ".safetensors.index.json")
    ):  # which `use_safetensors` lets pass
        raise ValueError(f"it names the weights {file_name}, and only safetensors are read")
    model, info = from_checkpoint(kind, source, config=config, dtype=dtype)
    for name, saved, expected in sorted(info["mismatched_keys"]):
        if "pooler" not in name:
            raise ValueError(
                f"{name} has shape {list(saved)}, and its config asks for {list(expected)}"
            )
    if source.adapter:
        _merge_adapter(model, source)
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    unused = sorted(
        name
        for name in info["unexpected_keys"]
        if not name.endswith(_BUFFERS) and "pooler" not in name
    )
    for verb, names in (("lacks", missing), ("holds, without a place in the model,", unused)):
        if needed := _needed(names, model, attention):
            raise ModelError(
                f"the checkpoint {source.name} {verb} {counted(len(needed), 'weight')}: {', '.join(needed[:2])}",
                "see that its config.json belongs to its weights, and that these were saved without a wrapper, whose "
                "names begin with 'module.' or the like: model.module.save_pretrained(DIR)",
            )
    return model, not missing


def from_checkpoint(kind: Any, source: Source, **options: Any) -> Any:
    """A model of a class, and what transformers tells of its weights: safetensors alone, and no code of the model's."""
    return kind.from_pretrained(
        **source.arguments,
        use_safetensors=True,
        ignore_mismatched_sizes=True,  # transformers itself names them in its log only
        output_loading_info=True,
        attn_implementation="eager",  # to which Falcon cannot be turned later
        **options,
    )


def _merge_adapter(model: Any, source: Source) -> None:
    """Merge an adapter's weights into a model's own. Raises: ModelError without peft, or if it is of another model."""
    try:
        from peft import PeftConfig, PeftModel, get_peft_model_state_dict
    except ImportError:
        raise ModelError(
            f"{source.name} holds an adapter (LoRA or the like), and the package peft is not installed",
            "pip install peft; or merge it once: peft's merge_and_unload(), then save_pretrained(DIR)",
        ) from None
    from safetensors.torch import load_file

    names, changed = (
        set(load_file(Path(source.adapter) / "adapter_model.safetensors")),
        model.base_model,
    )
    if any(
        name.startswith(f"base_model.model.{model.base_model_prefix}.") for name in names
    ):  # inside a task head's
        changed = torch.nn.ModuleDict({model.base_model_prefix: model.base_model})
        changed.config = model.config
    config = PeftConfig.from_pretrained(source.adapter)
    config.task_type = None  # no task head is wrapped
    adapted = PeftModel.from_pretrained(changed, source.adapter, config=config)
    if unknown := {name for name in names if "lora_" in name} - set(
        get_peft_model_state_dict(adapted)
    ):
        raise ModelError(
            f"the adapter {source.name} has weights without a place in {source.location}: {min(unknown)}",
            "see that its adapter_config.json names the model that it was made for",
        )
    adapted.merge_and_unload()  # in place


def _needed(names: list[str], whole: Any, attention: AttentionName) -> list[str]:
    """Those weights that the attention depends on, not a task head's or a decoder's beside an encoder."""
    import transformers

    prefix, base = f"{whole.base_model_prefix}.", whole.base_model
    # Weights that the class which saved the checkpoint computes anew: only Marian's class with a task head says so
    classes = [
        type(whole),
        *(getattr(transformers, name, None) for name in whole.config.architectures or ()),
    ]
    computed = {
        name for kind in classes for name in getattr(kind, "_keys_to_ignore_on_save", None) or ()
    }
    computed = {name.removeprefix(prefix) for name in computed} | {
        name for name, _ in base.named_buffers()
    }
    parts = {name for name, _ in (*base.named_children(), *base.named_parameters())}
    parts -= {"decoder"} if attention == "encoder" and _has_decoder_beside(whole) else set()
    inside = {name: name.removeprefix(prefix) for name in names}
    return [
        name
        for name, inner in inside.items()
        if inner.split(".")[0] in parts and inner not in computed
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
        "leave out --attention and letters of heads, or name a model such as T5, BART or Marian",
    )


def set_languages(
    tokenizer: Any, name: str, source: str | None, target: str | None, *, writes: bool
) -> None:
    """Set the languages of sources and, if the decoder is read too, targets. Raises: ModelError; none is guessed."""
    if not hasattr(type(tokenizer), "src_lang"):
        if source or target:
            raise ModelError(
                f"the tokenizer of {name} has no languages",
                "leave --source-language and the like out",
            )
        return
    tables = (
        getattr(tokenizer, table, None) for table in ("lang_code_to_token", "lang_code_to_id")
    )
    codes = (
        next(filter(None, tables), None) or tokenizer.extra_special_tokens
    )  # M2M100's and mBART's, else NLLB's
    languages = sorted(str(code).strip("_") for code in codes)  # PLBart's code of java is __java__
    knows = f"it knows {', '.join(languages[:5])} and {max(0, len(languages) - 5)} others"
    for option, language in (("source", source), ("target", target)):
        if language is not None and language.strip("_") not in languages:
            raise ModelError(
                f"the tokenizer of {name} has no language {language!r} for --{option}-language",
                nearest(language, languages, knows),
            )
    saved = getattr(tokenizer, "init_kwargs", {})
    if saved.get("src_lang") and saved.get(
        "tgt_lang"
    ):  # a source alone may be a default that was written
        source, target = source or tokenizer.src_lang, target or tokenizer.tgt_lang
    needed = (
        {"--source-language": source, "--target-language": target}
        if writes
        else {"--source-language": source}
    )
    if missing := [option for option, language in needed.items() if language is None]:
        raise ModelError(
            f"the tokenizer of {name} writes texts of several languages, and it is not said which these are",
            f"give {' and '.join(missing)}; {knows}",
        )
    tokenizer.src_lang = source
    if target is not None:
        tokenizer.tgt_lang = target


def task_head(loaded: LoadedModel, kind: TaskHead) -> Any | str:
    """The model with that head, its encoder's weights shared with `loaded`; or why the checkpoint has none."""
    import transformers as t

    if kind == "masked-lm" and loaded.masked_lm is None:
        return "the checkpoint has no trained masked-LM head"
    if kind == "masked-lm":
        return (
            loaded.masked_lm
            if loaded.tokenizer.mask_token_id is not None
            else "it has no mask token"
        )
    mapping, auto = {
        "next-sentence": (
            t.MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING,
            t.AutoModelForNextSentencePrediction,
        ),
        "classifier": (
            t.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
            t.AutoModelForSequenceClassification,
        ),
    }[kind]
    config = loaded.model.config
    if type(config) not in mapping or config.is_encoder_decoder:
        return f"a {config.model_type} model has no {kind} head"
    problem = getattr(config, "problem_type", None)
    if kind == "classifier" and (
        config.num_labels < 2 or problem not in (None, "single_label_classification")
    ):
        return "its classifier head does not tell one of several classes"
    if loaded.original is not None:
        return (
            loaded.original
            if has_own_head(loaded.original, mapping)
            else f"the model has no {kind} head"
        )
    with quiet_transformers():
        whole, info = from_checkpoint(
            auto, loaded.source, config=copy.deepcopy(config), dtype=loaded.model.dtype
        )
    if info["missing_keys"] or info["mismatched_keys"]:
        return f"the checkpoint has no trained {kind} head"  # it was filled with random numbers
    whole = whole.to(loaded.device).eval()
    whole.base_model.load_state_dict(loaded.model.state_dict(), strict=False, assign=True)
    return whole


def has_own_head(model: Any, mapping: Any) -> bool:
    """Whether a caller's model is transformers' own of a kind; what the head of another class computes is unknown."""
    config = model.config
    is_known = (
        type(config) in mapping
        and not config.is_encoder_decoder
        and isinstance(model, mapping[type(config)])
    )
    return is_known and type(model).forward.__module__.startswith("transformers.")


def adopt(
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

    for argument, value, kind in (
        ("model", model, PreTrainedModel),
        ("tokenizer", tokenizer, PreTrainedTokenizerBase),
    ):
        if not isinstance(value, kind):
            raise ModelError(
                f"{argument} is of the class {type(value).__name__}, which is not a {argument} of transformers",
                "give what a wrapper holds (model.module, _orig_mod), and tokenizer=AutoTokenizer.from_pretrained(...)",
            )
    tokenizer = copy.deepcopy(tokenizer)
    name = model.config._name_or_path or type(model).__name__
    set_languages(tokenizer, name, *languages, writes=attention != "encoder")
    return wrap(model, tokenizer, attention)


def wrap(model: Any, tokenizer: Any, attention: AttentionName = "encoder") -> LoadedModel:
    """A caller's model as it is now: it may have been trained or changed since it was adopted. Raises: as `adopt`."""
    from transformers import MODEL_FOR_MASKED_LM_MAPPING

    name = f"{model.config._name_or_path or type(model).__name__}{IN_MEMORY}"
    if attention != "encoder" and not writes_text(model):
        raise no_encoder_decoder(name, attention)
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
    encoder = encoder_of(model, name) if attention == "encoder" else model
    devices = {weights.device for weights in encoder.parameters()}
    if len(devices) != 1 or devices == {torch.device("meta")}:
        places = ", ".join(sorted(map(str, devices))) or "nowhere"
        raise DeviceError(
            f"the model's weights are not on one device, but on {places}",
            "move them: model.to('cpu')",
        )
    return LoadedModel(
        source=Source(name, ""),
        model=encoder,
        masked_lm=model
        if attention == "encoder" and has_own_head(model, MODEL_FOR_MASKED_LM_MAPPING)
        else None,
        tokenizer=tokenizer,
        device=devices.pop(),
        scored=encoder,
        original=model,
        in_use=_in_use.setdefault(model, RLock()),
    )


def chosen_device(name: Device) -> torch.device:
    """The device of a name, or the fastest that is here. Raises: DeviceError if there is none."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    kind = next(kind for kind, is_here in available.items() if is_here) if name == "auto" else name
    if not available[kind]:
        built = (
            ""
            if name != "cuda" or torch.version.cuda
            else f": the installed torch {torch.__version__} has no CUDA"
        )
        raise DeviceError(
            f"--device {name}: this machine has none{built}", "use --device auto, or leave it out"
        )
    return torch.device(kind)
