"""Names of files, globs, directories and URIs -> files, opened and unpacked; fsspec opens what is elsewhere.

`*`, `?` and `[...]` stop at a slash; `**`, alone between two slashes, does not. A directory means every file below it
whose suffix is known and whose path has no part that begins with a dot. No directory is entered by a link.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import translate
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote

from attnscan.errors import PairsError, out_of_memory
from attnscan.inputs.places.names import (
    ARROW,
    PARQUET,
    SHEETS,
    STDIN,
    open_file,
    packing_in,
    scheme_of,
    shown,
    suffix_in,
    without_query,
)

_WILD = re.compile(r"[*?\[]")
_STORES = ("s3", "gs", "gcs", "http", "https")  # whose packages the extra `stores` installs
_CALLED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}  # as fsspec does
_FROM_THE_END = (*PARQUET, *ARROW, *SHEETS)
_BUFFER = 1 << 20  # bytes of a file that are asked for at a time: stores answer slowly


def files_named(names: Sequence[str], *, pipes: bool = True) -> list[str]:
    """Every file that is named, in the names' order; those of a glob or a directory are sorted.

    With `pipes`, `-` is standard input, and pipes and devices may be named.

    Raises: PairsError if a name stands for no file, or a suffix for no format.
    """
    if list(names).count(STDIN) > 1:
        raise PairsError("standard input is named twice", "it can be read only once")
    files: list[str] = []
    for name in names:
        if not pipes and name == STDIN:
            raise PairsError("a cluster cannot read standard input", "give files that all of its machines can read")
        files += [name] if name == STDIN else _files(name, pipes)
    for file in files:
        _ = format_of(file) if pipes else suffix_in(file)
    return files


def format_of(file: str) -> str:
    """The suffix that says the format of a file; empty for standard input and other pipes.

    Raises: PairsError if it is not known.
    """
    if file == STDIN:
        return ""
    bare = file[: -len(packing_in(file)) or None]
    if not scheme_of(file) and not Path(bare).suffix and (not os.path.isfile(file) or open_file(Path(file))):  # noqa: PTH113
        return ""  # what a shell's <(command) is, and /dev/stdin
    return suffix_in(file)


@contextmanager
def opened(file: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes.

    Raises: PairsError if it cannot be opened or read; this replaces what a format's library raises then.
    """
    try:
        with _stream(file) as stream:
            yield stream
    except OSError as error:
        raise PairsError(f"cannot read {called(file)}: {error.strerror or error}", "check the file") from None


@contextmanager
def unpacked(file: IO[bytes], name: str, suffix: str) -> Iterator[IO[bytes]]:
    """A file's content, decompressed as its name says; held in memory if its format is read from the end.

    Raises: PairsError if it is compressed in another way, or not whole.
    """
    packing = packing_in(name)
    try:
        stream = _decompressed(file, name, packing) if packing else file
        if suffix in _FROM_THE_END and (packing or not file.seekable()):
            stream = io.BytesIO(stream.read())
        yield stream
    except Exception as error:  # each library raises its own kinds; what the system says has a number
        if not packing or isinstance(error, PairsError) or out_of_memory(error) or getattr(error, "errno", None):
            raise
        what = f"{name} is not a whole {_CALLED[packing]} file: {error}"
        raise PairsError(what, "copy or compress it again") from None


def called(file: str) -> str:
    """The name of a file for messages and results, without secrets."""
    return "standard input" if file == STDIN else shown(file)


def local_files(names: Sequence[str]) -> list[str] | None:
    """The files that are named, if all are on this machine and can be read repeatedly; else None.

    Raises: PairsError as `files_named` does.
    """
    if any(name == STDIN or scheme_of(name) not in ("", "file") for name in names):
        return None
    files = files_named(names)
    return files if all(map(os.path.isfile, files)) else None


def _files(name: str, pipes: bool) -> list[str]:
    scheme = scheme_of(name)
    if scheme in ("", "file"):
        return _local(path_of(name) if scheme else name, pipes)
    if _WILD.search(without_query(name)):
        raise PairsError(f"{shown(name)} is not one file", "name each file in full")
    return [name]


def _local(name: str, pipes: bool) -> list[str]:
    """Raises: PairsError if there is no file."""
    try:
        try:
            mode = Path(name).stat().st_mode if name else 0
        except (FileNotFoundError, NotADirectoryError):
            if not _WILD.search(name):
                raise
            mode = 0
        if stat.S_ISDIR(mode):
            start = name.rstrip("/") or "/"
            files = [path for path in _below(start) if _is_known(path) and "/." not in path[len(start) :]]
        elif mode:
            if not pipes and not stat.S_ISREG(mode):
                raise PairsError(f"{name} is not a file", "give files that all machines of the cluster can read")
            return [name]
        else:
            files = sorted(_matches(name)) if name else []
    except FileNotFoundError:
        raise PairsError(f"there is no file {name}", "check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise PairsError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}", "check the path") from None
    if not files:
        raise _nothing(name)
    return sorted(files)


def path_of(name: str) -> str:
    """The path of a `file://`. Raises: PairsError if it is on another machine."""
    host, slash, path = name.partition("://")[2].partition("/")
    if host not in ("", "localhost"):
        raise PairsError(f"cannot read {shown(name)}: its file is on another machine", "write file:/// and the path")
    return unquote(f"{slash}{path}")


def _below(start: str) -> Iterator[str]:
    def stop(error: OSError) -> None:
        raise error

    for directory, _, names in os.walk(start, onerror=stop):
        yield from filter(os.path.isfile, (os.path.join(directory, name) for name in names))  # noqa: PTH118


def _matches(pattern: str) -> set[str]:
    """The files that match a pattern. Raises: OSError for a directory that cannot be listed; ValueError."""
    wild = _WILD.search(pattern)
    slash = pattern.rfind("/", 0, wild.start() if wild else None) + 1
    parts = pattern[slash:].split("/")
    if any("**" in part and part != "**" for part in parts):
        raise ValueError("** has to stand alone between two slashes")
    return set(_matching(pattern[:slash], parts))


def _matching(start: str, parts: Sequence[str]) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _matching(start, rest or ["*"])
    fits = re.compile(translate("*" if part == "**" else part)).match
    with os.scandir(start or ".") as entries:
        for entry in filter(lambda entry: fits(entry.name), entries):
            path = f"{start}{entry.name}"
            if part == "**":
                if entry.is_dir(follow_symlinks=False):
                    yield from _matching(f"{path}/", parts)
            elif entry.is_dir() if rest else entry.is_file():
                yield from _matching(f"{path}/", rest) if rest else [path]


def _is_known(path: str) -> bool:
    try:
        return bool(suffix_in(path))
    except PairsError:
        return False


def _nothing(name: str) -> PairsError:
    return PairsError(f"there is no file of pairs by the name of {shown(name)}", "check the path")


def _stream(file: str) -> AbstractContextManager[IO[bytes]]:
    if scheme_of(file):
        return _elsewhere(file)
    if file != STDIN:
        return Path(file).open("rb")
    if sys.stdin is None or sys.stdin.closed:  # the shell's `<&-`
        raise PairsError("standard input is closed", "pipe pairs into it, or name a file")
    return nullcontext(sys.stdin.buffer)


@contextmanager
def _elsewhere(file: str) -> Iterator[IO[bytes]]:
    """Open a file on the web or in a store.

    Raises: PairsError if it cannot be opened or read.
    """
    import fsspec

    try:
        with fsspec.open(file, "rb") as stream:
            yield cast(IO[bytes], io.BufferedReader(stream, _BUFFER))
    except PairsError:
        raise
    except Exception as error:  # each store raises its own kinds
        if out_of_memory(error):
            raise
        missing = isinstance(error, ImportError) and scheme_of(file) in _STORES
        remedy = "run: pip install 'attnscan[stores]'" if missing else "check the address, and that you may read it"
        raise PairsError(f"cannot read {shown(file)}: {_without_secrets(error)}", remedy) from None


def _without_secrets(error: Exception) -> str:
    """What an error says in its first line, its addresses without passwords and signatures."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return re.sub(r"\w+://[^\s'\"]+", lambda uri: shown(uri[0]), line)[:200]


def _decompressed(file: IO[bytes], name: str, packing: str) -> IO[bytes]:
    from fsspec.compression import compr

    if (kind := _CALLED[packing]) not in compr:
        what = f"reading {name} needs backports.zstd, which is not installed"
        raise PairsError(what, "run: pip install 'attnscan[zstd]'")
    return cast(IO[bytes], compr[kind](file, mode="rb"))
