"""A scan's state in a file, so that a run that was stopped or killed can be gone on with.

The file is an .npz with one array for each sum, to the last bit, and JSON in `about` for all that is no sum. It is
replaced whole, so that a kill at any moment leaves the last one or the one before; and it is not trusted, since a
damaged sum would go on into every later one: zip keeps a CRC of every array.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from attnscan.errors import StateError
from attnscan.inputs.option import words_of
from attnscan.results.files import write_file
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.results.terms import Scored
from attnscan.scan.local import with_signature
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, ScanSums, Seen
from attnscan.scoring.alignment import AlignmentSums
from attnscan.scoring.labels import LabelSums
from attnscan.scoring.relation_sums import RelationSums
from attnscan.scoring.resampling import BlockSums
from attnscan.scoring.sums import KINDS, HeadProducts, ScoreSums, Sums

_FORMAT = 16
_MAX_BYTES = 512 << 20  # 384 heads x 7 patterns take 50 MiB, nearly all for the products of heads; split, twice that
_MAX_TEXT = 1 << 16
_ABOUT = "about"
_OF_MODEL = {
    "weights": "weights differ",
    "config": "config differs",
    "modules": "modules differ, or those of another version of transformers",
    "tokenizer": "tokenizer differs",
}
_OF_ATTENTION = ("attention", "query")  # told first: with them, patterns and the model's parts differ, too


def save_state(path: Path, state: ScanState, scanner: Scanner) -> None:
    """Write what `load_state` reads, whole or not at all. Raises: OutputError."""
    state = with_signature(scanner, state)
    assert state.signature is not None and state.sums.any is not None
    told = {
        "format": _FORMAT,
        "scan": _about(scanner),
        "signature": asdict(state.signature),
        "grid": state.sums.any.shape,
        "seen": state.seen.dumped(),
    }
    file = BytesIO()
    np.savez(file, allow_pickle=False, **{_ABOUT: np.array(json.dumps(told))}, **arrays_of(state.sums))
    write_file(path, file.getvalue())


def load_state(path: Path, scanner: Scanner) -> ScanState:
    """Read a state that was written by the same model with the same options.

    Raises: StateError if it was not, is of another format, or is damaged.
    """
    options = scanner.options
    try:
        arrays = _arrays_in(path)
        told = json.loads(str(arrays.pop(_ABOUT)))
        if told["format"] != _FORMAT:
            raise _of_another_version(path)
        _check_about(path, told["scan"], _about(scanner))
        signature = _signature_read(told["signature"])
        layers, heads = told["grid"]
        sums = _Arrays(arrays, tuple(pattern.scored for pattern in options.patterns), (layers, heads)).sums()
        return ScanState(options, Seen.loaded(**told["seen"]), sums, signature)
    except StateError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    except Exception:  # parsing a damaged file fails in any way
        raise StateError(f"{path} is not a valid state file", "remove it to start anew") from None


def _about(scanner: Scanner) -> dict[str, Any]:
    """What must be equal for sums to be added to: of the model its files, whatever its name and place."""
    signature = asdict(scanner.signature(Seen()))
    about = {name: signature[name] for name in ("attnscan", "dtype", "pattern_set")}
    return about | asdict(scanner.loaded.fingerprint) | scanner.options.deciding | {"predictive": scanner.measure}


def _check_about(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raises: StateError for what is not equal."""
    unlike = (name for name, value in ours.items() if theirs.get(name) != value)
    for name in sorted(unlike, key=lambda name: name not in _OF_ATTENTION):
        if name in _OF_MODEL:
            raise StateError(
                f"{path} was begun with another model: its {_OF_MODEL[name]}",
                "name the model that it was begun with, or another --state file",
            )
        if name == "files":
            raise StateError(
                f"{path} was begun with other files, or with these before they changed",
                "give the same files in the same order, or another --state file",
            )
        raise StateError(
            f"{path} belongs to another run: its {name} is {theirs.get(name)}, and here it is {ours[name]}",
            "give the same options, or another --state file",
        )


def _arrays_in(path: Path) -> dict[str, Any]:
    """What is in a file, by name. Raises: StateError; whatever a damaged file makes of it."""
    if path.stat().st_size > _MAX_BYTES:
        raise StateError(f"{path} is too large for a state file", "give the file that an earlier --state wrote")
    content = path.read_bytes()
    if content.startswith(b'{"format"'):  # as earlier versions wrote states
        raise _of_another_version(path)
    with np.load(BytesIO(content), allow_pickle=False) as file:
        if sum(member.file_size for member in file.zip.infolist()) > len(content):
            raise ValueError("compressed, as no state is")
        return dict(file)


def _of_another_version(path: Path) -> StateError:
    return StateError(f"{path} was written by another version of attnscan", "remove it to start anew")


def _signature_read(said: Any) -> Signature:
    """A signature whose fields are all there, each of its type. Raises: ValueError."""
    types = get_type_hints(Signature)
    if not isinstance(said, dict) or not set(said) <= set(types):
        raise ValueError("a signature of another version")
    layers = said.get("layers", [])
    if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
        raise ValueError("a signature with layers of another type")
    said = {**said, "layers": tuple(layers)}
    for field in fields(Signature):
        if field.name not in said:
            if field.default is MISSING:
                raise ValueError(f"a signature without {field.name}")
            continue
        value, kind = said[field.name], types[field.name]
        if field.name == "layers":
            continue
        if words := words_of(kind):
            right = value in words
        else:
            right = type(value) is int and 0 <= value < 1 << 63 if kind is int else isinstance(value, kind)
        if not right or len(str(value)) > _MAX_TEXT:
            raise ValueError(f"a signature with {field.name} of another type")
    return Signature(**said)


def arrays_of(sums: ScanSums) -> dict[str, Any]:
    """All arrays of sums, each by the names of the fields that it is in."""
    return dict(_arrays("sums", sums))


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray):
        yield name, value
        return
    if isinstance(value, BlockSums | RelationSums):
        value = value.packed()
    elif is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    for key, part in value.items() if isinstance(value, Mapping) else ():
        yield from _arrays(f"{name}.{key}", part)


class _Arrays:
    """The arrays of a file, each of which has to be of the shape that is expected."""

    def __init__(self, arrays: Mapping[str, Any], scored: tuple[Scored, ...], shape: tuple[int, int]) -> None:
        self._arrays, self._scored, self._shape = arrays, scored, shape

    def sums(self) -> ScanSums:
        shape = self._shape
        return ScanSums(
            told=self._scores("sums.told"),
            ranked=self._scores("sums.ranked"),
            labels=self._labels("sums.labels"),
            alignment=self._record(AlignmentSums, "sums.alignment", (2, *shape))
            if self._has("sums.alignment")
            else None,
            relations=self._relations("sums.relations"),
        )

    def _has(self, name: str) -> bool:
        return any(key.startswith(f"{name}.") for key in self._arrays)

    def _array(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        values: FloatArray = self._arrays[name]
        if values.shape != shape or values.dtype != np.float64 or not np.isfinite(values).all():
            raise ValueError(f"{name} of another shape")
        return values

    def _record(self, kind: Any, name: str, shape: tuple[int, ...]) -> Any:
        return kind(*(self._array(f"{name}.{f.name}", shape) for f in fields(kind)))

    def _scores(self, name: str) -> ScoreSums | None:
        if not self._has(name):
            return None
        shape, patterns, heads = self._shape, len(self._scored), math.prod(self._shape)
        every_key, words_only = (self._record(Sums, f"{name}.{kind}", (*shape, patterns)) for kind in KINDS)
        entropy, words = (self._array(f"{name}.{of_rows}", shape) for of_rows in ("entropy", "words"))
        products, of_heads = None, (patterns, heads, heads)
        if self._has(f"{name}.products"):
            products = {kind: self._record(HeadProducts, f"{name}.products.{kind}", of_heads) for kind in KINDS}
        return ScoreSums(self._scored, every_key, words_only, entropy, words, products)

    def _labels(self, name: str) -> LabelSums | None:
        if not self._has(name):
            return None
        return LabelSums(self._scored, self._unpacked(f"{name}.blocks")).checked(self._shape)

    def _blocks(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> BlockSums | None:
        return self._unpacked(name).checked(shapes) if self._has(name) else None

    def _relations(self, name: str) -> RelationSums | None:
        return RelationSums.unpacked(self._below(name), self._shape) if self._has(name) else None

    def _unpacked(self, name: str) -> BlockSums:
        return BlockSums.unpacked(self._below(name))

    def _below(self, name: str) -> dict[str, Any]:
        start = f"{name}."
        return {key.removeprefix(start): values for key, values in self._arrays.items() if key.startswith(start)}
