"""What callers give by name, checked and made ready: options of a scan, patterns, texts, models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from attnscan.errors import OptionError, nearest
from attnscan.inputs.option import check_known
from attnscan.inputs.read import FileReading
from attnscan.results.grid import attention_named
from attnscan.results.terms import AttentionName, counted
from attnscan.scan.options import OnProgress, ScanOptions, note, progress_of, warn
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.cross import patterns_of as patterns_of_attention
from attnscan.scoring.patterns import CAUSAL_PATTERNS, Pattern, PatternLike, with_own

if TYPE_CHECKING:
    from attnscan.inputs.batch import EncodedInput
    from attnscan.model.in_memory import Model, Tokenizer
    from attnscan.scan.scanner import Scanner

Patterns = PatternLike | Iterable[PatternLike]
KINDS: tuple[AttentionName, ...] = get_args(AttentionName)
READING = (*(field.name for field in fields(FileReading) if field.name not in ("id", "labelled")), "skip_bad")
"""Options that say how files of pairs are read."""
_ASKED = ("predictive", "predictive_words", "predictive_pairs")
_RUN = ("device", "dtype", "batch_tokens")
_EVERY = (
    *("unit", "words", "by", "special", "related", "threshold", "on_long", "seed"),
    *("attention", "query", "max_target_tokens", "source_language", "target_language"),
    *(*_ASKED, *_RUN),
)
_ENGINE = ("engine", "ray_address", "ray_workers")


def _without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in _EVERY if name not in names)


SCAN: dict[str, tuple[str, ...]] = {
    "classify": _without("predictive_pairs"),
    "heads": (*_EVERY, "split", *_ENGINE),
    "head": _EVERY,
    "profile": (*_without(*_ASKED, "threshold"), *_ENGINE),
    "show": _without("unit", "words", "predictive_words", "predictive_pairs"),
    "explain": _without("unit", "words", "by", "special", "threshold", "predictive_words", "predictive_pairs"),
    "predictive": ("unit", "words", "predictive", "predictive_words", "on_long", "source_language", *_RUN),
    "report": _EVERY,
    "plot": _EVERY,
    "ablate": _without("predictive_words", "predictive_pairs"),
    "similar": _without("unit", "words", *_ASKED),
    "syntax": ("by", "special", "on_long", "seed", "source_language", *_RUN, *_ENGINE),
    "compare": _without(*_ASKED),
    "shard": (*_EVERY, "split"),
    "serve": _EVERY,
    "models": ("device", "source_language"),
    "load": ("device", "dtype", "source_language", "target_language"),
}
"""The options of `ScanOptions` that a function takes, and so its command."""


def reading_of(call: str, options: dict[str, Any]) -> dict[str, Any]:
    """Take the options out that say how files are read.

    Raises: TypeError, as Python does, for an option that the function does not take.
    """
    reading = {name: options.pop(name) for name in READING if name in options}
    for name in options:
        if name not in SCAN[call]:
            known = (*SCAN[call], *READING)
            hint = nearest(name, known, f"its options are {', '.join(known)}")
            raise TypeError(f"{call}() got an unexpected keyword argument '{name}': {hint}")
    return reading


def scan_options(
    model: Model,
    options: Mapping[str, Any],
    pattern: Patterns = (),
    *,
    many: bool,
    heads: str | None = None,
    alignments: object = None,
    **more: Any,
) -> tuple[list[str], ScanOptions]:
    """The names of the patterns that are asked for; and what is computed, by the model that is named, if one is.

    `many` pairs are cut where they are too long, and a single input is refused. The attention that is read is the one
    asked for, else that of the letters of `heads`; `alignments` are gold links.
    Raises: OptionError for a value that there is not; SelectionError for heads of another attention.
    """
    asked = {
        name: value for name, value in options.items() if value is not None or name not in ("attention", "on_long")
    }
    if "attention" in asked:
        check_known("attention", asked["attention"], KINDS)
    asked["attention"] = read = attention_named(heads or "", asked.get("attention"))
    if alignments is not None and read != "cross":
        raise OptionError("--alignments is for cross attention", "add --attention cross, or leave it out")
    asked.setdefault("on_long", "truncate" if many else "error")
    if asked["on_long"] == "skip" and not many:
        raise OptionError("--on-long skip is for many pairs", "give truncate or error")
    names, every = patterns_of(pattern, read, aligned=alignments is not None)
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else None
    return names, ScanOptions(**{"patterns": every, **asked, "model": name, **more})


def of_kind(kind: AttentionName, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options where all attention of an encoder-decoder is read, for one kind of it."""
    away = {"encoder": ("query", "max_target_tokens"), "decoder": ("query",), "cross": ()}[kind]
    return {name: value for name, value in options.items() if name not in away} | {"attention": kind}


def patterns_of(
    pattern: Patterns, attention: AttentionName | None = "encoder", *, aligned: bool = False
) -> tuple[list[str], tuple[Pattern, ...]]:
    """The names of the patterns that are asked for, and ours with those of one's own that are among them.

    Ours are those of an attention, where gold links are known or not; None for those of all.
    Raises: OptionError for what is no pattern of it.
    """
    alone = isinstance(pattern, str | Pattern) or not isinstance(pattern, Iterable)
    asked: list[Any] = [pattern] if alone else list(pattern)  # type: ignore[arg-type]
    ours = ALL_PATTERNS if attention is None else patterns_of_attention(attention, asked, aligned=aligned)
    return with_own(asked, ours, () if attention in (None, "cross") else CAUSAL_PATTERNS)


def listed(what: str, values: str | Iterable[str]) -> list[str]:
    """Several texts, or one that stands alone. Raises: OptionError for anything else."""
    several = [values] if isinstance(values, str) else list(values) if isinstance(values, Iterable) else [values]
    if others := [value for value in several if not isinstance(value, str)]:
        raise OptionError(f"{what} has a {type(others[0]).__name__} in it", "give a list of texts")
    return several


def window_of(window: Sequence[int] | None) -> tuple[int, int] | None:
    """The first and the last index, if they are given. Raises: OptionError for what is no window."""
    match window:
        case None:
            return None
        case (int(first), int(last)) if 0 <= first <= last:
            return first, last
    raise OptionError(f"window is {window!r:.60}", "give the first and the last index, as (10, 40)")


@contextmanager
def opened(
    options: ScanOptions, model: Model = None, tokenizer: Tokenizer = None, progress: OnProgress | None = None
) -> Iterator[Scanner]:
    """A model made ready while a block runs: by name, as `load` returned it, or a program's own.

    Raises: as `opened_all`.
    """
    with opened_all([options], [model], [tokenizer], progress) as (scanner,):
        yield scanner


@contextmanager
def opened_all(
    choices: Sequence[ScanOptions],
    models: Sequence[Model],
    tokenizers: Sequence[Tokenizer],
    progress: OnProgress | None = None,
) -> Iterator[list[Scanner]]:
    """Several models made ready, all found before the first is loaded and torch is imported.

    Raises: ModelError, DeviceError if a model cannot be had on the device; OptionError for what is no model.
    """
    from attnscan.model.sources import choose

    step, scanners, chosen = progress_of(progress), list[Any](), list[Any]()
    for options, model, tokenizer in zip(choices, models, tokenizers, strict=True):
        if not is_name(model):
            _check_in_memory(model, tokenizer, options)
        elif tokenizer is not None:
            remedy = "leave it out: a named model has its own"
            raise OptionError("a tokenizer goes with a model in memory alone", remedy)
        else:
            step("looking for a model", None, None)
        chosen.append(choose(options.model) if is_name(model) else model)
    for source, model in zip(chosen, models, strict=True):
        note(source.note if is_name(model) else "")
    with ExitStack() as stack:
        for options, source, model, tokenizer in zip(choices, chosen, models, tokenizers, strict=True):
            if is_name(model):
                step(f"loading {source.name}", None, None)
            else:
                source = _in_memory(model, tokenizer, options)
                stack.enter_context(source.in_use)
            import torch

            from attnscan.scan.scanner import Scanner

            scanners.append(stack.enter_context(Scanner(options, source, step)))
            warn("" if source is model else scanners[-1].loaded.note)  # a loaded one's was told by `load`
            # in the format of the model's weights, whatever the caller's autocast asks of its own runs
            stack.enter_context(torch.autocast(scanners[-1].device, enabled=False))
        yield scanners


def is_name(model: Model) -> bool:
    """Whether a model is named, by text or by path, or is the default."""
    return model is None or isinstance(model, str | os.PathLike)


def _in_memory(model: Model, tokenizer: Tokenizer, options: ScanOptions) -> Any:
    """A model that a program holds, or `load` returned, as it is now."""
    from attnscan.model.in_memory import adopted, in_place
    from attnscan.model.loaded import LoadedModel

    if not isinstance(model, LoadedModel):
        return adopted(model, tokenizer, options.attention, (options.source_language, options.target_language))
    return model if model.given is None else in_place(model.given, model.tokenizer, options.attention)


def _check_in_memory(model: Model, tokenizer: Tokenizer, options: ScanOptions) -> None:
    """Raises: OptionError for what a model in memory, or one that `load` returned, has already."""
    from attnscan.model.loaded import LoadedModel

    is_loaded = isinstance(model, LoadedModel)
    if is_loaded and tokenizer is not None:
        raise OptionError("a tokenizer goes with a model in memory alone", "leave it out: a loaded model has its own")
    for name in ("device", "dtype"):
        if getattr(options, name) != "auto":
            remedy = "give it to load()" if is_loaded else f"leave {name} out, and use model.to(...) before"
            raise OptionError(f"a model that is in memory keeps its own {name}", remedy)
    if is_loaded and (options.source_language or options.target_language):
        raise OptionError("a loaded model keeps its own languages", "give them to load()")


_NAMED = 5  # unknown words, at most


def note_words(scanner: Scanner, inputs: Sequence[EncodedInput], *, single: bool = False) -> None:
    """Say how some inputs were read: special tokens that were typed, and words that no space divides.

    Of a `single` one also which words the model cannot see for what they are.
    """
    from attnscan.inputs.encode import notes_of, unknown_words

    for line in notes_of(scanner.loaded.tokenizer, inputs):
        note(line)
    if single and (words := unknown_words(scanner.loaded.tokenizer, inputs[0])):
        named, unknown = [*dict.fromkeys(words)], scanner.loaded.tokenizer.unk_token
        more = f" and {counted(len(named) - _NAMED, 'other')}" if len(named) > _NAMED else ""
        how = f"{counted(len(words), 'word')} of the input {'is' if len(words) == 1 else 'are'} unknown to the model"
        note(f"{how}, which reads {unknown} instead: {', '.join(named[:_NAMED])}{more}")
