"""One run at a time on a state file: two would each overwrite what the other has counted."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnscan.errors import StateError


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
