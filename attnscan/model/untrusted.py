"""A checkpoint that nobody vouches for: no pickle, no more memory than its weights explain, no text made much longer.

Transformers reads weights as safetensors if it is told to, but a config or an index inside the checkpoint can still
name a pickle; and it builds whatever model a config describes before it looks at the weights.

A `tokenizer.json` is a program: nine replacements of one letter by ten in a row make a gigabyte of a word. So how many
times longer its rules may make a text is told without a run. Each step's growth is a straight line, `times` the length
and `more` characters; steps in a row multiply. Growth on some letters is counted as if it were on all; but a text can
be decomposed only once, so what a rule inserts counts at its length after that. Does not handle: time. Regular
expressions and long words may take long on short texts.
"""

from __future__ import annotations

import base64
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as torch_module

from attnscan.errors import ModelError
from attnscan.inputs.weights import MAX_HEADS
from attnscan.model.sources import snapshots

MAX_LABELS = 1 << 20
"""Transformers writes a name for each label that a config counts."""

# A saved encoder may be loaded with a decoder and heads beside it, and eight weights be packed into one number.
_TIMES_HELD = 16
_WEIGHTS_MORE, _TENSORS_MORE = 1 << 26, 1 << 12

MOST_TIMES, MOST_MORE = 256, 1 << 14
"""The longest that rules may make a text. Those of families in use make it 8 times as long, or 144 times with a map."""
MAX_BYTES = 64 << 20
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


def check_config(config: Mapping[str, Any]) -> None:
    """Raises: ValueError if a config counts what no model has, before anything is built to its measure."""
    if isinstance(labels := config.get("num_labels"), int) and labels > MAX_LABELS:
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
        sizes = [[size for path in own.glob("*.safetensors") for size in _sizes(path)] for own in directories]
        return max(((len(own), sum(own)) for own in sizes), default=(0, 0))


def _sizes(path: Path) -> list[int]:
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


def _refused(what: str) -> ModelError:
    return ModelError(f"the checkpoint is not to be trusted: {what}", "use one with a valid tokenizer.json")


def check_files(directory: Path) -> None:
    """Check the rules that are applied while a tokenizer is loaded already: to the words that were added to it.

    Raises: ModelError if they may lengthen a text too much, or a file is too large to be one.
    """
    for path in sorted(directory.glob("tokenizer*.json")):
        if path.stat().st_size > MAX_BYTES:
            raise _refused(f"its {path.name} is of {path.stat().st_size} bytes")
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
        if growth.times > MOST_TIMES or growth.more > MOST_MORE:
            by = f"{growth.times:.3g} times" if growth.times > MOST_TIMES else f"{growth.more:.3g} tokens"
            raise _refused(f"the rules of its tokenizer may make {what} {by} longer")


def _growth(step: Any, held: str) -> Growth:
    growth = Growth()
    for rule in _flat(step, held):
        growth = growth.then(_of(rule))
    return growth


def _flat(step: Any, held: str) -> Iterator[Mapping[str, Any]]:
    """A step's rules one by one, out of all sequences of them."""
    if not isinstance(step, Mapping):
        return  # none, or nothing that the tokenizers library reads
    if isinstance(inner := step.get(held), list):
        for rule in inner:
            yield from _flat(rule, held)
    else:
        yield step


def _of(rule: Mapping[str, Any]) -> Growth:
    """One rule's growth; a rule that is not named here makes no text longer."""
    kind = rule.get("type")
    if kind == "Replace":
        return _of_replacement(rule.get("pattern"), _length(rule.get("content")))
    if kind == "Prepend":
        return Growth(1, _length(rule.get("prepend")))
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


def _length(inserted: Any) -> int:
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
        raise _refused("its tokenizer's map of letters is damaged") from None
    size = int.from_bytes(content[:4], "little")
    if not size or size % 4 or len(content) < 4 + size:
        raise _refused(f"its tokenizer's map of letters is of {len(content)} bytes, and says {size}")
    return max([1, *(_length(text.decode(errors="replace")) for text in content[4 + size :].split(b"\0"))])
