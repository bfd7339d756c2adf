"""A scan's state in a file, so that a run that was stopped or killed can be gone on with.

The file is an .npz with one array for each sum, to the last bit, and JSON in `about` for all that is no sum. It is
replaced whole, so that a kill at any moment leaves the last one or the one before; and it is not trusted, since a
damaged sum would go on into every later one: zip keeps a CRC of every array.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import StateError
from attnscan.inputs.option import words_of
from attnscan.results.files import write_file
from attnscan.results.signature import Signature
from attnscan.scan.local import with_signature
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, ScanSums, Seen
from attnscan.scoring.blocks import Blocks
from attnscan.scoring.relation_sums import RelationSums

_FORMAT = 17
_MAX_BYTES = 512 << 20  # the blocks of 384 heads x 7 patterns take 64 MiB; split, twice that
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
    assert state.signature is not None and state.sums.shape is not None
    told = {
        "format": _FORMAT,
        "scan": _about(scanner),
        "signature": asdict(state.signature),
        "seen": state.seen.dumped(),
    }
    file = BytesIO()
    np.savez(file, allow_pickle=False, **{_ABOUT: np.array(json.dumps(told))}, **dict(_arrays("sums", state.sums)))
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
        return ScanState(options, Seen.loaded(**told["seen"]), _sums(arrays), signature)
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


def _arrays(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of blocks, or of records of them, each by the names of the fields that it is in."""
    if isinstance(value, Blocks):
        yield f"{name}.keys", value.keys
        yield f"{name}.limits", np.array([value.most, value.bits])
        yield from ((f"{name}.sums.{key}", values) for key, values in value.sums.items())
    elif is_dataclass(value):
        for of in fields(value):
            yield from _arrays(f"{name}.{of.name}", getattr(value, of.name))


def _blocks(arrays: Mapping[str, Any], name: str) -> Blocks | None:
    """The blocks that a file has by a name. Raises: KeyError, ValueError if they are damaged."""
    if f"{name}.keys" not in arrays:
        return None
    start, (most, bits) = f"{name}.sums.", arrays[f"{name}.limits"].tolist()
    sums = {key.removeprefix(start): values for key, values in arrays.items() if key.startswith(start)}
    keys = arrays[f"{name}.keys"]
    for values in sums.values():
        if values.dtype != np.float64 or len(values) != len(keys) or not np.isfinite(values).all():
            raise ValueError(f"{name} is damaged")
    return Blocks(keys, sums, most, bits)


def _sums(arrays: Mapping[str, Any]) -> ScanSums:
    """What `_arrays` made arrays of."""
    whole, documents = (_blocks(arrays, f"sums.relations.{name}") for name in ("whole", "documents"))
    relations = None if whole is None or documents is None else RelationSums(whole, documents)
    return ScanSums(_blocks(arrays, "sums.told"), _blocks(arrays, "sums.ranked"), relations)
