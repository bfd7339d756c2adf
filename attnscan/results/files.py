"""Files written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnscan.errors import OutputError


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside its place first, then renamed.

    Raises: OutputError if that cannot be done; an older file of that name is then as it was.
    """
    check_writable(path)
    with explained(path):
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_bytes(content)  # a pipe or a device: renaming over it would replace it
            return
        beside = begun(path)
        try:
            beside.write_bytes(content)
            settle(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def begun(path: Path) -> Path:
    """A new file beside `path`, to be written, and then to be settled there or removed. Raises: OSError."""
    import tempfile  # and with it much that most commands do without

    target = path.resolve()  # through a link, to the file that it means
    handle, beside = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
    os.close(handle)
    return Path(beside)


def settle(beside: Path, path: Path) -> None:
    """Give a file that is written the name of `path`. A crash leaves the older file or the whole new one.

    Raises: OSError.
    """
    target = path.resolve()
    with beside.open("rb+") as file:
        os.fsync(file.fileno())  # a name must not reach the disk before what it names
    beside.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
    beside.replace(target)


def check_writable(path: Path) -> None:
    """Find out before a long run whether its result could be written.

    Raises: OutputError.
    """
    with explained(path):
        parent = path.resolve().parent
        if path.is_dir():
            raise OutputError(f"{path} is a directory", "name a file in it")
        if not parent.is_dir():
            raise OutputError(f"cannot write {path}: there is no directory {parent}", "make it, or choose another")
        if not path.exists() and not os.access(parent, os.W_OK | os.X_OK):
            raise OutputError(f"cannot write {path}: no permission to write in {parent}", "choose another place")
        if path.exists() and not os.access(path, os.W_OK):
            raise OutputError(f"cannot write {path}: it is write-protected", "choose another name")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the system refuses becomes an OutputError; a loop of links is a RuntimeError before Python 3.13."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot write {path}: {why}", "choose another place with -o") from None


def _umask() -> int:
    mask = os.umask(0)  # there is no other way to read it
    os.umask(mask)
    return mask
