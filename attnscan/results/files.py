"""Files written whole or not at all; what the shell has already opened is written to as it stands."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from attnscan.errors import OutputError
from attnscan.inputs.read import path_of, scheme_of, shown

_MAX_LINKS = 40  # as many as the system itself follows
_OPEN_FILES = re.compile(r"/proc/\d+(/task/\d+)?/fd")


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside its place first, then renamed.

    Bytes for `/dev/stdout` and its like go to the open descriptor: the file behind it may hold more than ours.
    Raises: OutputError if that cannot be done; an older file of that name is then as it was. BrokenPipeError if a
    descriptor's reader has gone.
    """
    check_writable(path)
    number = descriptor(path)
    with explained(path):
        if number is not None:
            _write_open(number, content)
            return
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_bytes(content)  # a pipe or a device: renaming over it would replace it
            return
        beside = begun(path)
        try:
            beside.write_bytes(content)
            settle(beside, path)
        finally:
            beside.unlink(missing_ok=True)


@dataclass
class Growing:
    """A file or stream that is written piece by piece."""

    write: Callable[[bytes], None]


@contextmanager
def written_by_and_by(path: Path) -> Iterator[Growing]:
    """What writes a file piece by piece; it gets its name in the end, unless an error comes first.

    Raises: OutputError; an older file of that name is then as it was.
    """
    check_writable(path)
    if _is_stream(path):
        with explained(path):
            number = descriptor(path)
            file = open(path if number is None else number, "wb", closefd=number is None)  # noqa: SIM115
        with file:
            yield Growing(partial(_write_to, file, path))
        return
    with explained(path):
        beside = begun(path)
    try:
        with beside.open("wb") as file:
            yield Growing(partial(_write_to, file, path))
        with explained(path):
            settle(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _write_to(file: IO[bytes], path: Path, content: bytes) -> None:
    with explained(path):
        file.write(content)
        file.flush()


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


def descriptor(path: Path) -> int | None:
    """The number of the open descriptor that a path stands for, such as 1 for `/dev/stdout`; None for all others.

    Whoever follows `/dev/fd/7` to its file and renames another over it loses what `>>` was to keep.
    Raises: OutputError if it is a descriptor of another process, or cannot be looked at.
    """
    with explained(path):
        place = _open_file(path)
    if place is None:
        return None
    own = (os.path.realpath(folder) for folder in ("/proc/self", "/dev/fd"))
    if not any(place.is_relative_to(folder) for folder in own):
        raise OutputError(f"{path} is a file that another process has open", "name the file itself", path)
    return int(place.name)


def _open_file(path: Path) -> Path | None:
    """The entry among a process's open files that a path stands for, such as `/proc/12/fd/0`; None for all others.

    `/dev/fd/7` is a link to the file that descriptor 7 was opened on, and so does not stand for itself.
    Raises: OSError, RuntimeError if it cannot be looked at.
    """
    for _ in range(_MAX_LINKS):
        parent = os.path.realpath(path.parent)
        is_listed = _OPEN_FILES.fullmatch(parent) or parent == os.path.realpath("/dev/fd")  # the second without /proc
        if is_listed and path.name.isdecimal():
            return Path(parent, path.name)
        if not path.is_symlink():
            return None
        path = Path(parent, path.readlink())
    return None


def check_suffix(path: Path, suffix: str, option: str) -> None:
    """Hold a file that an option writes to the suffix of its format; a pipe, a device or a descriptor needs none.

    Raises: OutputError: a file by another suffix is likely one that was meant to be read.
    """
    if path.suffix.lower() != suffix and not _is_stream(path):
        raise OutputError(f"{option} writes a {suffix} file, and {path} is not one", f"name it {path.stem}{suffix}")


def _is_stream(path: Path) -> bool:
    with explained(path):
        return descriptor(path) is not None or (path.exists() and not stat.S_ISREG(path.stat().st_mode))


def _write_open(number: int, content: bytes) -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what was said before comes before
    with open(number, "wb", closefd=False) as file:
        file.write(content)


def _check_open(path: Path, number: int) -> None:
    import fcntl  # wherever there are descriptors with names

    try:
        mode = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except (OSError, OverflowError):
        raise OutputError(f"cannot write {path}: it is not open", "open it, or name a file", path) from None
    if mode == os.O_RDONLY:
        raise OutputError(f"cannot write {path}: it is open for reading only", "name a file", path)


def local_path(name: str) -> Path:
    """The file on this machine that a path or a `file://` stands for.

    Raises: OutputError for an address of anything else, or a name that no file can have.
    """
    scheme = scheme_of(name)
    if scheme == "file":
        return Path(path_of(name))
    if scheme:
        raise OutputError(f"cannot write {shown(name)}: it is not on this machine", "name a file on this machine")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # half of a surrogate pair
        raise OutputError(f"cannot write {shown(name)}: no file can have this name", "choose another") from None
    return Path(name)


def check_writable(path: Path) -> None:
    """Find out before a long run whether its result could be written. Raises: OutputError."""
    if (number := descriptor(path)) is not None:
        _check_open(path, number)
        return
    with explained(path):
        parent = path.resolve().parent
        if path.is_dir():
            raise OutputError(f"{path} is a directory", "name a file in it", path)
        if not parent.is_dir():
            raise OutputError(f"cannot write {path}: there is no directory {parent}", "make it, or name another", path)
        if not path.exists() and not os.access(parent, os.W_OK | os.X_OK):
            raise OutputError(f"cannot write {path}: no permission to write in {parent}", "choose another place", path)
        if path.exists() and not os.access(path, os.W_OK):
            raise OutputError(f"cannot write {path}: it is write-protected", "name another file", path)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the system refuses becomes an OutputError; a loop of links is a RuntimeError before Python 3.13."""
    try:
        yield
    except BrokenPipeError:  # its reader has what it wanted
        raise
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot write {path}: {why}", "choose another place", path) from None


def _umask() -> int:
    mask = os.umask(0)  # there is no other way to read it
    os.umask(mask)
    return mask
