"""A scan's state in a file, so that a run that was stopped or killed can be gone on with.

The file is JSON: sums as numbers that read back to the last bit, the position, a fingerprint of the options, and a
hash of all that. It is replaced whole, so that a kill at any moment leaves the last state or the one before; and it is
not trusted, since a damaged sum would go on into every later one.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attnscan.errors import StateError
from attnscan.inputs.pairs import Pair
from attnscan.results.files import write_file
from attnscan.results.signature import hashed
from attnscan.scan.local import ScanState
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import Seen
from attnscan.scoring.sums import ScoreSums, Sums

_FORMAT = 2
_SUMS = {
    "weight": "total",
    "weight2": "squares",
    "weight_n": "products",
    "n": "n",
    "n2": "n_squares",
    "pairs": "pairs",
    "chance": "chance",
    "whole": "whole",
}
"""What the file calls each sum, and what `Sums` does."""
_MAX_BYTES = 256 << 20  # 384 heads x 7 patterns take less than 1 MiB


def save_state(path: Path, state: ScanState, scanner: Scanner) -> None:
    """Write a state, whole or not at all."""
    sums = state.sums
    sample = [[key, number, *pair.sentences] for key, number, pair in state.seen.sample]
    data = {
        "fingerprint": _fingerprint(scanner),
        "seen": {**asdict(state.seen), "sample": sample},
        "sums": None if sums is None else _dumped(sums),
    }
    write_file(path, json.dumps({"format": _FORMAT, "sha256": _hash(data), **data}).encode())


def load_state(path: Path, scanner: Scanner) -> ScanState:
    """Read a state that was written by the same model with the same options.

    Raises: StateError if it was not, or is damaged.
    """
    grid, patterns = scanner.grid(), tuple(pattern.id for pattern in scanner.options.patterns)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise StateError(f"{path} is too large for a state file", "give the file that an earlier --state wrote")
        data = json.loads(path.read_bytes())
        if data.pop("format") != _FORMAT:
            raise StateError(f"{path} was written by another version of attnscan", "remove it to start anew")
        if data.pop("sha256") != _hash(data):
            raise ValueError("changed since it was written")
        _check_fingerprint(path, data["fingerprint"], _fingerprint(scanner))
        sums = None if data["sums"] is None else _loaded(data["sums"], (*grid, len(patterns)))
        if sums is not None and sums.patterns != patterns:
            raise ValueError("sums of other patterns")
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
    """What must be equal for sums to be added to."""
    options, signature = scanner.options, asdict(scanner.signature(Seen()))
    about = {name: signature[name] for name in ("model", "revision", "attnscan", "dtype", "unit", "pattern_set")}
    for name in ("related", "on_long", "predictive_pairs", "predictive_words", "seed"):
        about[name] = getattr(options, name)
    return {**about, "predictive": scanner.measure, "patterns": [pattern.id for pattern in options.patterns]}


def _check_fingerprint(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise StateError(
                f"{path} belongs to another run: its {name} is {theirs.get(name)}, and here it is {value}",
                "give the same options, or another --state file",
            )


def _dumped(sums: ScoreSums) -> dict[str, Any]:
    return {
        "patterns": sums.patterns,
        "part_of": sums.part_of,
        "every_key": {name: getattr(sums.every_key, field).tolist() for name, field in _SUMS.items()},
        "words_only": {name: getattr(sums.words_only, field).tolist() for name, field in _SUMS.items()},
        "entropy": sums.entropy.tolist(),
        "words": sums.words,
    }


def _seen(*, read: int, truncated: int, skipped: int, digest: str, sample: list[list[Any]]) -> Seen:
    if not all(type(each) is int and each >= 0 for each in (read, truncated, skipped)) or type(digest) is not str:
        raise ValueError("counts of another type")
    return Seen(
        read, truncated, skipped, digest, tuple((key, number, Pair(*sentences)) for key, number, *sentences in sample)
    )


def _loaded(data: Mapping[str, Any], shape: tuple[int, int, int]) -> ScoreSums:
    entropy = _array(data["entropy"], shape[:2])
    every_key, words_only = (
        Sums(**{field: _array(data[kind][name], shape) for name, field in _SUMS.items()})
        for kind in ("every_key", "words_only")
    )
    return ScoreSums(
        tuple(data["patterns"]), tuple(data["part_of"]), every_key, words_only, entropy, float(data["words"])
    )


def _array(values: Any, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError("sums of another shape")
    return array


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other runs off a state file, until this one ends or is killed.

    The lock is the system's, on a file beside: the state file itself is replaced whenever a state is saved.
    Raises: StateError if another run holds it, or the path is no regular file.
    """
    from filelock import FileLock, Timeout

    target = path.resolve()  # through a link: both names mean one file
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
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
