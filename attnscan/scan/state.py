"""A scan's state in a file, so that a run that was stopped or killed can be gone on with.

The file (stored.py) holds sums, the position and a fingerprint of the options.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnscan.errors import StateError
from attnscan.results.files import descriptor
from attnscan.results.stored_file import StoredFile
from attnscan.scan.local import ScanState
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import Seen
from attnscan.scan.stored import read_checked, seen_dumped, seen_loaded, sums_loaded, write_checked

_FORMAT = 13
_OF_MODEL = {
    "weights": "weights differ",
    "config": "config differs",
    "modules": "modules differ, or those of another version of transformers",
    "tokenizer": "tokenizer differs",
}


def save_state(path: Path | StoredFile, state: ScanState, scanner: Scanner) -> None:
    """Write a state, whole or not at all."""
    about = {"fingerprint": _fingerprint(scanner), "seen": seen_dumped(state.seen)}
    write_checked(path, _FORMAT, about, state.sums)


def load_state(path: Path | StoredFile, scanner: Scanner) -> ScanState:
    """Read a state that was written by the same model with the same options.

    Raises: StateError if it was not, or is damaged.
    """
    grid = scanner.grid()
    with read_checked(path, _FORMAT) as (about, arrays):
        _check_fingerprint(path, about["fingerprint"], _fingerprint(scanner))
        sums = sums_loaded(arrays, scanner.options, grid, predictive=scanner.measure is not None)
        return ScanState(seen_loaded(**about["seen"]), sums)


def _fingerprint(scanner: Scanner) -> dict[str, Any]:
    """What must be equal for sums to be added to: of the model its files, whatever its name and place."""
    options, signature = scanner.options, asdict(scanner.signature(Seen()))
    about = {name: signature[name] for name in ("attnscan", "dtype", "pattern_set")}
    about |= asdict(scanner.loaded.fingerprint) | options.deciding | {"predictive": scanner.measure}
    kept = {"threshold": options.labelled, "predictive_part": options.profile}  # which no other sums hang on
    of_some = {name: about.pop(name) if counts else None for name, counts in kept.items()}
    return {name: value for name, value in about.items() if name not in kept} | of_some


def _check_fingerprint(path: Path | StoredFile, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
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


@contextmanager
def held(path: Path | StoredFile) -> Iterator[None]:
    """Keep other runs off a state file, until this one ends or is killed.

    The lock is the system's, on a file beside: the state file itself is replaced whenever a state is saved. In a store
    there is none.
    Raises: StateError if another run holds it, or the path is no regular file.
    """
    if isinstance(path, StoredFile):
        yield
        return
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
