"""Files of pairs wherever pyarrow reads them: this machine, S3, GCS, HDFS; one by one, by glob, by directory.

A name is a path or a URI such as `s3://bucket/pairs/*.parquet`. `*`, `?` and `[...]` stop at a slash; `**`,
alone between two slashes, does not. A directory means every file in it, below it too, whose suffix is known.
Does not handle: standard input and other pipes.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from attnscan.errors import PairsError
from attnscan.inputs.names import STDIN, suffix_in

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_BUFFER = 1 << 20  # bytes of a file that are asked for at a time: remote stores answer slowly
_WILD = re.compile(r"[*?\[]")


def files_named(names: Sequence[str]) -> list[str]:
    """Every file that the names stand for, in their order, those of a glob or a directory sorted.

    Raises: PairsError if there is none by a name, or its suffix tells no format.
    """
    found: list[str] = []
    for name in names:
        if name == STDIN:
            raise PairsError("a cluster cannot read standard input", "give files that all of its machines can read")
        found += _files(name)
    for file in found:
        suffix_in(file)
    return found


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """A file, open to be read as bytes.

    Raises: PairsError if it cannot be.
    """
    filesystem, path, _ = _located(name)
    try:
        file = filesystem.open_input_file(path)
    except OSError as error:
        raise _unreadable(name, error) from None
    with file, io.BufferedReader(file, _BUFFER) as buffered:
        yield cast(IO[bytes], buffered)


def _files(name: str) -> list[str]:
    from pyarrow import fs

    wild = _WILD.search(name)
    if wild and not _URI.match(name) and os.path.isfile(name):  # noqa: PTH113 (a name too long is no file either)
        wild = None
    # Above the first wildcard is what has to be listed; without one, all of the name
    slash = name.rfind("/", 0, wild.start() if wild else None)
    head = name if wild is None else name[: max(slash, 0)] or ("/" if name[:1] == "/" else ".")
    filesystem, base, shown = _located(head)
    try:
        info = filesystem.get_file_info(base)
        if wild is None and info.type == fs.FileType.File:
            return [name]
        if info.type != fs.FileType.Directory:
            raise PairsError(f"there is no file {name}", "check the path")
        root = base.rstrip("/")
        if wild is None:
            within = filesystem.get_file_info(fs.FileSelector(base, recursive=True))
            files = [entry.path for entry in within if entry.type == fs.FileType.File]
            chosen = [path for path in files if _is_known(path) and "/." not in path[len(root) :]]
        else:
            from fsspec.implementations.arrow import ArrowFSWrapper

            wrapped = ArrowFSWrapper(filesystem, skip_instance_cache=True)
            # Unless it is to raise, fsspec leaves out what cannot be listed
            matches = wrapped.glob(f"{root}/{name[slash + 1 :]}", detail=True, on_error="raise")
            chosen = [path for path, info in matches.items() if info["type"] == "file"]
    except (OSError, ValueError) as error:  # the second of a glob that means nothing
        raise _unreadable(name, error) from None
    if not chosen:
        raise PairsError(f"there is no file of pairs by the name of {name}", "check the path")
    return [shown(path) for path in sorted(chosen)]


def _located(name: str) -> tuple[Any, str, Any]:
    """The filesystem that a name is on, its path there, and how to name other paths there."""
    from pyarrow import fs

    if not _URI.match(name):
        return fs.LocalFileSystem(), name, str
    try:
        filesystem, path = fs.FileSystem.from_uri(name)
    except Exception as error:  # each store raises its own kinds
        raise _unreadable(name, error) from None
    # What stands before the path (scheme, host) and behind it (?region=...) is the same for its neighbours
    before, _, behind = name.rstrip("/").partition(path.rstrip("/"))
    return filesystem, path, lambda other: f"{before}{other}{behind}"


def _is_known(path: str) -> bool:
    try:
        suffix_in(path)
    except PairsError:
        return False
    return True


def _unreadable(name: str, error: Exception) -> PairsError:
    why = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0][:200]
    return PairsError(f"cannot read {name}: {why}", "check the path, and that every machine can read it")
