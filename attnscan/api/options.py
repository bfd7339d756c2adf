"""The options of a call: checked, and made what a scan takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from attnscan.api.option_groups import File, Patterns
from attnscan.api.signatures import options_of
from attnscan.errors import OptionError, check_known
from attnscan.inputs.option import declared
from attnscan.results.files import check_writable, local_path
from attnscan.results.grid import AttentionName, attention_named
from attnscan.scan.options import ScanOptions
from attnscan.scoring.cross import cross_patterns
from attnscan.scoring.patterns import CAUSAL_PATTERNS, PATTERNS, Pattern, pattern_list, with_own
from attnscan.views.palette import check_no_habits

KINDS: tuple[AttentionName, ...] = get_args(AttentionName)
_SCAN_NAMES = frozenset(declared(ScanOptions)) - {"model"}


def scan_options(
    function: str,
    options: Mapping[str, Any],
    *,
    many: bool,
    heads: str | None = None,
    pattern: Patterns = (),
    **decided: Any,
) -> tuple[list[str], ScanOptions]:
    """Check the options of a scan; return the names of patterns that were asked for with them.

    The attention that is read is the one asked for, else that of the letters of `heads`. `many`
    inputs are cut where they are too long, and a single one is refused. `decided` are options that
    callers do not give.

    Raises: OptionError for an unknown value; SelectionError for heads of another attention.
    """
    taken = options_of(function)
    chosen = dict(taken.defaults)
    for name in _SCAN_NAMES & options.keys():
        if options[name] is not None:
            chosen[name] = options[name]
    check_known("attention", chosen.get("attention", "encoder"), KINDS)
    attention = attention_named(heads or "", chosen.get("attention"))
    chosen["attention"] = attention
    alignments = options.get("alignments")
    if alignments is not None and attention != "cross":
        raise OptionError(
            "``alignments`` is for cross attention", "add ``attention=cross``, or leave it out"
        )
    chosen.setdefault("on_long", "truncate" if many else "error")
    if chosen["on_long"] == "skip" and not many:
        raise OptionError("``on_long=skip`` is for many pairs", "give truncate or error")
    model = options.get("model")
    names, patterns = _patterns(pattern, attention, aligned=alignments is not None)
    chosen = {"patterns": patterns, **chosen, "model": model_name(model), **decided}
    return names, ScanOptions(**chosen)


def _patterns(
    pattern: Patterns, attention: AttentionName, *, aligned: bool
) -> tuple[list[str], tuple[Pattern, ...]]:
    """The names of patterns that were asked for, and all patterns to score."""
    wanted = pattern_list(pattern)
    check_no_habits(wanted)
    if attention == "cross":
        return with_own(wanted, cross_patterns(wanted, aligned=aligned), ())
    return with_own(wanted, PATTERNS, CAUSAL_PATTERNS)


def model_name(model: Any) -> str | None:
    """What names a model, if it is not in memory."""
    return os.fspath(model) if isinstance(model, str | os.PathLike) else None


def split_kinds(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make options for each kind of attention if all are read, else return these alone."""
    if options.get("attention") != "all":
        return [dict(options)]
    not_for = {
        "encoder": ("query", "alignments", "max_target_tokens"),
        "decoder": ("query", "alignments"),
        "cross": (),
    }
    kinds = []
    for kind in KINDS:
        kind_options = {name: options[name] for name in options if name not in not_for[kind]}
        kinds.append(kind_options | {"attention": kind})
    return kinds


def file_to_write(path: File | None) -> Path | None:
    """A file that the call writes in the end. Raises: OutputError if it cannot be written."""
    if path is None:
        return None
    place = local_path(os.fspath(path))
    check_writable(place)
    return place


def parse_window(window: Sequence[int] | str | None) -> tuple[int, int] | None:
    """The first and the last index, if they are given. Raises: OptionError for another text."""
    if window is None:
        return None
    ends: list[Any] = list(window.split("-") if isinstance(window, str) else window)
    if len(ends) == 2 and all(str(end).isdecimal() for end in ends):
        first, last = map(int, ends)
        if first <= last:
            return first, last
    raise OptionError(
        f"{window!r:.60} is not a window", "give the first and the last index, as 10-40 or (10, 40)"
    )
