"""What callers give by name, checked: options of a scan, patterns, texts, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attnscan.errors import OptionError, nearest
from attnscan.inputs.option import check_known
from attnscan.inputs.read import FileReading
from attnscan.results.grid import attention_named
from attnscan.results.terms import AttentionName
from attnscan.scan.options import ScanOptions
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.cross import patterns_of as ours_of
from attnscan.scoring.patterns import Pattern, PatternLike, with_own

if TYPE_CHECKING:
    from attnscan.model.in_memory import Model

Patterns = PatternLike | Iterable[PatternLike]
KINDS: tuple[AttentionName, ...] = get_args(AttentionName)
READING = (*(field.name for field in fields(FileReading) if field.name not in ("id", "labelled")), "skip_bad")
"""Options that say how files of pairs are read."""
_ASKED = ("predictive", "predictive_words", "predictive_pairs")
_CROSS = ("attention", "query", "max_target_tokens", "source_language", "target_language")
_GENERAL = (
    "unit",
    "words",
    "by",
    "special",
    "related",
    "threshold",
    "on_long",
    "seed",
    "device",
    "dtype",
    "batch_tokens",
)
_EVERY = (*_GENERAL, *_ASKED, *_CROSS)


def _without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in _EVERY if name not in names)


SCAN: dict[str, tuple[str, ...]] = {
    "classify": _without("predictive_pairs"),
    "heads": (*_EVERY, "split"),
    "head": _EVERY,
    "profile": _without(*_ASKED, "threshold"),
    "show": _without("unit", "words", "predictive_words", "predictive_pairs"),
    "explain": _without("unit", "words", "by", "special", "threshold", "predictive_words", "predictive_pairs"),
    "predictive": (
        *("unit", "words", "predictive", "predictive_words", "on_long", "source_language"),
        *("device", "dtype", "batch_tokens"),
    ),
    "report": _EVERY,
    "plot": _EVERY,
    "ablate": _without("predictive_words", "predictive_pairs"),
    "similar": _without("unit", "words", *_ASKED),
    "syntax": ("by", "special", "on_long", "seed", "source_language", "device", "dtype", "batch_tokens"),
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
        name: options[name] for name in options if options[name] is not None or name not in ("attention", "on_long")
    }
    attention = asked.get("attention")
    if attention is not None:
        check_known("attention", attention, KINDS)
    asked["attention"] = read = (attention or "encoder") if heads is None else attention_named(heads, attention)
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
    own = {**options, "attention": kind}
    if kind != "cross":
        own.pop("query", None)
    if kind == "encoder":
        own.pop("max_target_tokens", None)
    return own


def patterns_of(
    pattern: Patterns, attention: AttentionName | None = "encoder", *, aligned: bool = False
) -> tuple[list[str], tuple[Pattern, ...]]:
    """The names of the patterns that are asked for, and ours with those of one's own that are among them.

    Ours are those of an attention, where gold links are known or not; None for those of all.
    Raises: OptionError for what is no pattern of it.
    """
    alone = isinstance(pattern, str | Pattern) or not isinstance(pattern, Iterable)
    asked: list[Any] = [pattern] if alone else list(pattern)  # type: ignore[arg-type]
    return with_own(asked, ALL_PATTERNS if attention is None else ours_of(attention, asked, aligned=aligned))


def check_kind(what: str, value: object, *kinds: type) -> None:
    """Raises: OptionError for a value of another class."""
    if not isinstance(value, kinds):
        names = " or a ".join(kind.__name__ for kind in kinds)
        raise OptionError(f"{what} is of the class {type(value).__name__}", f"give a {names}")


def check_callable(**functions: object) -> None:
    """Raises: OptionError for what cannot be called."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise OptionError(f"{name} is not a function", f"give one that takes {_TAKE[name]}")


_TAKE = {
    "on_bad": "an InputError",
    "progress": "what runs, how much is done or None, and how much there is or None",
    "on_pairs": "a data frame",
}


def file_of(what: str, path: object) -> Path | None:
    """A file's name as a path; None for none. Raises: OptionError for what is no name."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not isinstance(name := os.fspath(path), str):
        raise OptionError(f"{what} is of the class {type(path).__name__}", "give the path of a file")
    return Path(name)


def text_of(what: str, text: object) -> str | None:
    """A text; None for none. Raises: OptionError for anything else."""
    if text is not None and not isinstance(text, str):
        raise OptionError(f"{what} is of the class {type(text).__name__}", "give a text")
    return text


def listed(what: str, values: str | Iterable[str]) -> list[str]:
    """Several texts, or one that stands alone. Raises: OptionError for anything else."""
    several = [values] if isinstance(values, str) else values
    if not isinstance(several, Iterable) or isinstance(several, bytes | Mapping):
        raise OptionError(f"{what} is of the class {type(values).__name__}", "give a list of texts")
    several = list(several)
    if others := [value for value in several if not isinstance(value, str)]:
        raise OptionError(f"{what} has a {type(others[0]).__name__} in it", "give a list of texts")
    return several


def columns_of(what: str, columns: Any) -> tuple[str, ...] | None:
    """Names or numbers of columns, or one that stands alone. Raises: OptionError for anything else."""
    if columns is None:
        return None
    several: Any = [columns] if isinstance(columns, int) else columns
    if isinstance(several, Iterable) and not isinstance(several, str | bytes | Mapping):
        several = [str(column) if type(column) is int else column for column in several]
    return tuple(listed(what, several))


def window_of(window: Sequence[int] | None) -> tuple[int, int] | None:
    """The first and the last index, if they are given. Raises: OptionError for what is no window."""
    match window:
        case None:
            return None
        case (int(first), int(last)) if 0 <= first <= last:
            return first, last
    raise OptionError(f"window is {window!r:.60}", "give the first and the last index, as (10, 40)")
