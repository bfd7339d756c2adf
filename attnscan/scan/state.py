"""A scan's state in a file, so that a run that was stopped or killed can be gone on with.

The file is JSON: sums as the bytes of their numbers, in base64, the position, a fingerprint of the options, and a
hash of all that. It is replaced whole, so that a kill at any moment leaves the last state or the one before; and it is
not trusted, since a damaged sum would go on into every later one.
"""

from __future__ import annotations

import base64
import json
import math
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from attnscan.errors import StateError
from attnscan.inputs.pairs import Pair, Place
from attnscan.results.files import descriptor, write_file
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.signature import hashed
from attnscan.results.terms import Scored
from attnscan.scan.local import ScanState, ScanSums
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import Drawn, Seen
from attnscan.scoring.label_sums import LabelSums
from attnscan.scoring.patterns import Pattern
from attnscan.scoring.profile import profiled
from attnscan.scoring.profile_sums import ProfileSums
from attnscan.scoring.sums import KINDS, HeadProducts, ScoreSums, Sums

_DIGITS = 12  # of a hash that is shown
_FORMAT = 8
_OF_MODEL = {"weights": "weights differ", "config": "config differs", "tokenizer": "tokenizer differs"}
_SCORES = ("told", "ranked", "carried")
_LABELS = ("labels", "carried_labels")
_OF_ROWS = ("entropy", "words")
_OPTIONS = (
    "norm",
    "related",
    "on_long",
    "predictive_pairs",
    "predictive_words",
    "seed",
    "split",
    "profile",
    "labelled",
)
_MAX_BYTES = 512 << 20  # 384 heads x 7 patterns take 67 MiB, nearly all for the products of heads; split, twice that


def save_state(path: Path, state: ScanState, scanner: Scanner) -> None:
    """Write a state, whole or not at all."""
    sample = [[key, *astuple(place), *pair.sentences] for key, place, pair in state.seen.sample]
    data = {
        "fingerprint": _fingerprint(scanner),
        "seen": {**asdict(state.seen), "sample": sample},
        "sums": {name: _dumped(getattr(state.sums, name)) for name in _SCORES},
        "labels": {name: _dumped_labels(getattr(state.sums, name)) for name in _LABELS},
        "profile": None if state.sums.profile is None else [_text(each) for each in state.sums.profile.fields],
    }
    write_file(path, json.dumps({"format": _FORMAT, "sha256": _hash(data), **data}).encode())


def load_state(path: Path, scanner: Scanner) -> ScanState:
    """Read a state that was written by the same model with the same options.

    Raises: StateError if it was not, or is damaged.
    """
    grid = scanner.grid()
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise StateError(f"{path} is too large for a state file", "give the file that an earlier --state wrote")
        data = json.loads(path.read_bytes())
        if data.pop("format") != _FORMAT:
            raise StateError(f"{path} was written by another version of attnscan", "remove it to start anew")
        if data.pop("sha256") != _hash(data):
            raise ValueError("changed since it was written")
        _check_fingerprint(path, data["fingerprint"], _fingerprint(scanner))
        scored = tuple(pattern.scored for pattern in scanner.options.patterns)
        told, ranked, carried = (_loaded(data["sums"][name], scored, grid) for name in _SCORES)
        labels, carried_labels = (_loaded_labels(data["labels"][name], scored, grid) for name in _LABELS)
        profile = _loaded_profile(data["profile"], scanner, grid)
        sums = ScanSums(told, ranked, profile, labels, carried, carried_labels)
        state = ScanState(_seen(**data["seen"]), sums)
    except StateError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    except Exception:  # whatever a damaged file makes of itself
        raise StateError(f"{path} is not a sound state file", "remove it to start anew") from None
    return state


def _hash(data: Mapping[str, Any]) -> str:
    return hashed(json.dumps(data).encode())


def _fingerprint(scanner: Scanner) -> dict[str, Any]:
    """What must be equal for sums to be added to: of the model its files, whatever its name and place."""
    options, signature = scanner.options, asdict(scanner.signature(Seen()))
    about = {name: signature[name] for name in ("attnscan", "dtype", "unit", "pattern_set")}
    about |= asdict(scanner.loaded.fingerprint)
    for name in _OPTIONS:
        about[name] = getattr(options, name)
    if options.profile:
        about["predictive_part"] = options.predictive_part
    about["threshold"] = options.threshold if options.labelled else None  # which no other sums hang on
    return {**about, "predictive": scanner.measure, "patterns": list(map(_told, options.patterns))}


def _told(pattern: Pattern) -> str:
    """A pattern's name and, of one from a user's file, what that file hashes to."""
    return f"{pattern.id} ({pattern.code[:_DIGITS]})" if pattern.code else pattern.id


def _check_fingerprint(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    for name in (name for name, value in ours.items() if theirs.get(name) != value):
        if name in _OF_MODEL:
            raise StateError(
                f"{path} was begun with another model: its {_OF_MODEL[name]}",
                "name the model that it was begun with, or another --state file",
            )
        raise StateError(
            f"{path} belongs to another run: its {name} is {theirs.get(name)}, and here it is {ours[name]}",
            "give the same options, or another --state file",
        )


def _dumped(sums: ScoreSums | None) -> dict[str, Any] | None:
    if sums is None:
        return None
    dumped: dict[str, Any] = {name: _text(getattr(sums, name)) for name in _OF_ROWS}
    dumped |= {kind: {f.name: _text(getattr(getattr(sums, kind), f.name)) for f in fields(Sums)} for kind in KINDS}
    if sums.products is not None:
        dumped["products"] = {
            kind: {f.name: _text(getattr(products, f.name)) for f in fields(HeadProducts)}
            for kind, products in sums.products.items()
        }
    return dumped


def _seen(*, read: int, truncated: int, skipped: int, digest: str, sample: list[list[Any]]) -> Seen:
    if not all(type(each) is int and each >= 0 for each in (read, truncated, skipped)) or type(digest) is not str:
        raise ValueError("counts of another type")
    return Seen(read, truncated, skipped, digest, tuple(_drawn(*each) for each in sample))


def _drawn(key: str, file: str, row: int, name: str | None, *sentences: str) -> Drawn:
    if not (type(key) is type(file) is str and type(row) is int and isinstance(name, str | None)):
        raise ValueError("a place of another type")
    return key, Place(file, row, name), Pair(*sentences)


def _loaded(data: Mapping[str, Any] | None, scored: tuple[Scored, ...], grid: tuple[int, int]) -> ScoreSums | None:
    if data is None:
        return None
    shape, heads = (*grid, len(scored)), grid[0] * grid[1]
    of_heads = (len(scored), heads, heads)
    every_key, words_only = (Sums(**_arrays(data[kind], Sums, shape)) for kind in KINDS)
    products = None
    if "products" in data:
        products = {kind: HeadProducts(**_arrays(data["products"][kind], HeadProducts, of_heads)) for kind in KINDS}
    of_rows = {name: _array(data[name], grid) for name in _OF_ROWS}
    return ScoreSums(scored, every_key, words_only, **of_rows, products=products)


def _dumped_labels(sums: LabelSums | None) -> dict[str, Any] | None:
    if sums is None:
        return None
    groups = {
        str(key): {name: [values.shape, _text(values)] for name, values in group.items()}
        for key, group in sums.groups.items()
    }
    return {"bits": sums.bits, "votes": _text(sums.votes), "groups": groups}


def _loaded_labels(
    data: Mapping[str, Any] | None, scored: tuple[Scored, ...], grid: tuple[int, int]
) -> LabelSums | None:
    if data is None:
        return None
    groups = {
        int(key): {name: _array(text, tuple(shape)) for name, (shape, text) in group.items()}
        for key, group in data["groups"].items()
    }
    votes = _array(data["votes"], (len(KINDS), *grid, len(scored) + 1)).astype(np.int64)
    sums = LabelSums(scored, groups, votes, int(data["bits"]))
    sums.check()
    return sums


def _loaded_profile(data: list[str] | None, scanner: Scanner, grid: tuple[int, int]) -> ProfileSums | None:
    if data is None:
        return None
    parts = profiled(
        scanner.options.patterns, predictive=scanner.measure is not None and scanner.options.predictive_part
    )
    like = ProfileSums.zero(*grid, len(parts)).fields
    return ProfileSums(*(_array(text, each.shape) for text, each in zip(data, like, strict=True)))


def _arrays(data: Mapping[str, Any], kind: Any, shape: tuple[int, ...]) -> dict[str, FloatArray]:
    return {f.name: _array(data[f.name], shape) for f in fields(kind)}


def _text(values: FloatArray | IntArray) -> str:
    """Numbers as text that gives them back to the last bit, and takes no longer to write than to copy."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


def _array(text: str, shape: tuple[int, ...]) -> FloatArray:
    array = np.frombuffer(base64.b64decode(text, validate=True), "<f8").astype(np.float64)
    if array.size != math.prod(shape) or not np.isfinite(array).all():
        raise ValueError("sums of another shape")
    return array.reshape(shape)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other runs off a state file, until this one ends or is killed.

    The lock is the system's, on a file beside: the state file itself is replaced whenever a state is saved.
    Raises: StateError if another run holds it, or the path is no regular file.
    """
    from filelock import FileLock, Timeout

    target = path.resolve()  # through a link: both names mean one file
    try:
        if descriptor(path) is not None or (target.exists() and not stat.S_ISREG(target.stat().st_mode)):
            raise StateError(f"{path} is not a regular file, and so cannot hold a state", "name another --state file")
        beside = target.with_name(f".{target.name}.lock")
        lock = FileLock(beside)
        lock.acquire(timeout=0)
    except Timeout:
        raise StateError(
            f"another run holds the state file {path}", "wait until it ends, or name another --state file"
        ) from None
    except (OSError, ValueError) as error:
        raise StateError(
            f"cannot lock {path}: {getattr(error, 'strerror', None) or error}", "put the --state file elsewhere"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not let go of an open file
            beside.unlink()  # before its release, so that whoever opened it meanwhile finds it gone
        lock.release()
