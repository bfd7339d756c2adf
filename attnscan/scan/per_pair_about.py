"""What a file of every pair's scores says of itself, in its metadata; it is not trusted when it is read.

A small file can name a huge model: the sizes are bounded here, before anything is laid out to their measure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, get_type_hints

from attnscan.inputs.option import words_of
from attnscan.inputs.weights import MAX_HEADS
from attnscan.results.grid import Grid
from attnscan.results.signature import Signature

KEY = "attnscan"
"""Of the metadata."""
MAX_SCORES = 1 << 20
"""Layers x heads x patterns: two and a half times those of the largest model and our patterns."""
_MAX_PATTERNS = 127  # their numbers in the file have eight bits
_MAX_TEXT = 1 << 16


class Unsound(ValueError):
    """What is wrong with such a file, in a few words."""


@dataclass(frozen=True)
class About:
    """What such a file says of itself."""

    signature: Signature
    patterns: tuple[str, ...]
    grid: Grid
    """The model's heads."""
    parts: tuple[str, ...] | None = None
    """The files of a directory, by name and in order, without `.parquet`; None for a file."""

    def metadata(self) -> dict[str, str]:
        """The metadata that says it."""
        about = {"signature": asdict(self.signature), "patterns": list(self.patterns), "grid": list(self.grid.shape)}
        return {KEY: json.dumps(about if self.parts is None else {**about, "parts": list(self.parts)})}

    @classmethod
    def read(cls, metadata: Mapping[bytes, bytes] | None) -> About:
        """What metadata says, every type and size of it checked.

        Raises: Unsound, which says what is wrong.
        """
        if metadata is None or KEY.encode() not in metadata:
            raise Unsound("it says nothing of itself")
        about = json.loads(metadata[KEY.encode()])
        _check(isinstance(about, dict) and {"signature", "patterns", "grid"} <= set(about), "it lacks what it must say")
        _check(set(about) <= {field.name for field in fields(cls)}, "it says more than it can")
        shape, patterns = about["grid"], _names(about["patterns"], "patterns")
        _check(isinstance(shape, list) and len(shape) == 2 and all(map(_is_count, shape)), "its grid is none")
        grid = Grid.square(*shape)
        _check(0 < len(patterns) <= _MAX_PATTERNS, f"it has {len(patterns)} patterns")
        _check(0 < math.prod(shape) <= MAX_HEADS, f"it is of {shape[0]} layers of {shape[1]} heads")
        _check(len(grid) * len(patterns) <= MAX_SCORES, "it is of more heads and patterns than any model has")
        parts = about.get("parts")
        return cls(
            signature_read(about["signature"]),
            patterns,
            grid,
            None if parts is None else _names(parts, "parts"),
        )


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise Unsound(what)


def signature_read(said: Any) -> Signature:
    """A signature whose fields are all there, each of its type. Raises: Unsound."""
    _check(isinstance(said, dict), "its signature is none")
    types = get_type_hints(Signature)
    _check(set(said) <= set(types), "its signature has fields of another version")
    for field in fields(Signature):
        if field.name not in said:
            _check(field.default is not MISSING, f"its signature has no {field.name}")
            continue
        value, kind = said[field.name], types[field.name]
        if words := words_of(kind):
            right = value in words
        else:
            right = _is_count(value) if kind is int else isinstance(value, kind)
        _check(right and len(str(value)) <= _MAX_TEXT, f"its {field.name} is of another type")
    return Signature(**said)


def _names(said: Any, what: str) -> tuple[str, ...]:
    """Names, each there once."""
    _check(isinstance(said, Sequence) and not isinstance(said, str), f"its {what} are no list")
    _check(all(isinstance(name, str) and 0 < len(name) <= _MAX_TEXT for name in said), f"its {what} are no names")
    _check(len(set(said)) == len(said), f"one of its {what} is there twice")
    return tuple(said)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63
