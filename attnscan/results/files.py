"""Files written whole or not at all; a pipe, a device or `/dev/stdout` is written to as it stands."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnscan.errors import OutputError
from attnscan.inputs.files import path_of, scheme_of, shown

_DESCRIPTORS = re.compile(r"/dev/(stdout|stderr|fd/\d+)")


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. Raises: OutputError if it cannot be written."""
    check_writable(path)
    with explained(path):
        if is_stream(path):
            with path.open("ab") as stream:
                stream.write(content)
            return
        beside = begun(path)
        try:
            beside.write_bytes(content)
            settle(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device or an open descriptor such as `/dev/stdout`: what no file may replace."""
    with explained(path):
        is_special = path.exists() and not path.is_file() and not path.is_dir()
        return is_special or _DESCRIPTORS.fullmatch(str(path)) is not None


def begun(path: Path) -> Path:
    """A new file beside `path`, to be written, and then to be settled there or removed. Raises: OSError."""
    target = path.resolve()  # through a link, to the file that it means
    beside = target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}")
    beside.touch(exist_ok=False)
    return beside


def settle(beside: Path, path: Path) -> None:
    """Give a file that is written the name of `path`: a crash leaves the older file or the whole new one."""
    target = path.resolve()
    with beside.open("rb+") as file:
        os.fsync(file.fileno())  # a name must not reach the disk before what it names
    if target.exists():
        beside.chmod(target.stat().st_mode)
    beside.replace(target)


def check_suffix(path: Path, suffix: str, option: str) -> None:
    """Raises: OutputError for a file by another suffix, likely one that was meant to be read; a stream needs none."""
    if path.suffix.lower() != suffix and not is_stream(path):
        raise OutputError(f"{option} writes a {suffix} file, and {path} is not one", f"name it {path.stem}{suffix}")


def local_path(name: str) -> Path:
    """The file on this machine that a path or a `file://` stands for. Raises: OutputError for any other address."""
    scheme = scheme_of(name)
    if scheme not in ("", "file"):
        raise OutputError(f"cannot write {shown(name)}: it is not on this machine", "name a file on this machine")
    return Path(path_of(name) if scheme else name)


def check_writable(path: Path) -> None:
    """Find out before a long run whether its result could be written. Raises: OutputError."""
    with explained(path):
        parent = path.resolve().parent
        if path.is_dir():
            raise OutputError(f"{path} is a directory", "name a file in it", path)
        if not is_stream(path) and not parent.is_dir():
            raise OutputError(f"cannot write {path}: there is no directory {parent}", "make it, or name another", path)
        if not os.access(path if path.exists() else parent, os.W_OK):
            raise OutputError(f"cannot write {path}: no permission to write there", "choose another place", path)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the system refuses becomes an OutputError, but a pipe whose reader has what it wanted."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, RuntimeError) as error:  # the latter of a loop of links before Python 3.13
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot write {path}: {why}", "choose another place", path) from None
