"""Names (paths, globs, directories, `-`, addresses that fsspec opens) -> files of pairs, opened and unpacked."""

import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote

from attnscan.errors import PairsError

STDIN = "-"
TABLES = (".parquet", ".pq", ".arrow", ".feather", ".xlsx")
FORMATS = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", *TABLES, ".conllu")
"""The formats, by the suffixes of their files."""
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}
"""How a file is compressed, by a suffix that may follow these."""
_HIDDEN = (".", "~$")  # the latter Excel keeps beside an open workbook
_BUFFER = 1 << 20  # bytes that are asked for at a time: stores answer slowly


def scheme_of(name: str) -> str:
    """The scheme of an address, such as `s3`, in lower case; empty for a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", name)
    return match[1].lower() if match else ""


def shown(name: str) -> str:
    """A name for messages and results: an address without passwords, nor what follows `?`, which may be a signature."""
    if name == STDIN or not scheme_of(name):
        return "standard input" if name == STDIN else name
    user = (
        "[^/@]*" if scheme_of(name).startswith("http") else "[^/@:]*:[^/@]*"
    )  # else it may be a container
    return re.sub(f"(?<=://){user}@", "", re.split("[?#]", name, maxsplit=1)[0])


def _suffixes(name: str) -> tuple[str, str]:
    """The suffixes that say format and packing, in lower case; the latter is empty if it is none of `PACKED`."""
    path = PurePosixPath(shown(name).lower())
    return (
        (path.with_suffix("").suffix, path.suffix) if path.suffix in PACKED else (path.suffix, "")
    )


def format_of(name: str) -> str:
    """The suffix that says the format of a file; empty for standard input and pipes. Raises: PairsError for others."""
    suffix, _ = _suffixes(name)
    if suffix in FORMATS or (not suffix and not scheme_of(name)):
        return suffix
    raise PairsError(
        f"cannot tell the format of {shown(name)} from its suffix",
        f"use one of {' '.join(FORMATS)}, with {' '.join(PACKED)} behind it or without",
    )


def path_of(name: str) -> str:
    """The path that a name is, or that a `file://` names."""
    return unquote(name.partition("://")[2].removeprefix("localhost")) if scheme_of(name) else name


def files_named(names: Sequence[str]) -> list[str]:
    """Every file that is named, in order, those of a glob or a directory sorted. Raises: PairsError for none."""
    if list(names).count(STDIN) > 1:
        raise PairsError("standard input is named twice", "it can be read only once")
    files: list[str] = []
    for name in names:
        is_local = name != STDIN and scheme_of(name) in ("", "file")
        files += _local_files(path_of(name)) if is_local else [name]
    for file in files:
        format_of(file)
    return files


def _local_files(name: str) -> list[str]:
    path = Path(name)
    try:
        if (
            not name
        ):  # such as a shell's variable that is not set; a path without a name is this directory
            raise ValueError("its name is empty")
        if path.is_dir():
            files = [str(file) for file in _files_below(path) if _suffixes(file.name)[0] in FORMATS]
        elif re.search(r"[*?\[]", name) and not path.exists():
            files = [
                str(file) for file in Path(path.anchor).glob(name.lstrip("/")) if file.is_file()
            ]
        else:
            path.stat()
            return [name]
    except (OSError, ValueError) as error:  # such as a NUL in the name
        unread = getattr(error, "filename", None) or name
        raise PairsError(
            f"cannot read {str(unread)!r}: {_reason(error)}", "check the path"
        ) from None
    if not files:
        raise PairsError(f"there is no file of pairs by the name of {name}", "check the path")
    return sorted(files)


def _files_below(directory: Path) -> Iterator[Path]:
    """Every file below a directory but hidden ones. Raises: OSError for a directory in it that cannot be read."""
    for path in (path for path in directory.iterdir() if not path.name.startswith(_HIDDEN)):
        if path.is_dir() and not path.is_symlink():  # a link may lead in a circle
            yield from _files_below(path)
        elif path.is_file():
            yield path


def local_files(names: Sequence[str]) -> list[str] | None:
    """The files that are named, if all are on this machine and can be read repeatedly; else None."""
    files = files_named(names) if STDIN not in names else []
    return files if files and all(Path(file).is_file() for file in files) else None


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, unpacked as its name says. Raises: PairsError for what goes wrong meanwhile."""
    packing, is_table, is_open = (
        PACKED.get(_suffixes(name)[1], ""),
        format_of(name) in TABLES,
        False,
    )
    try:
        with _open(name, packing) as stream:
            is_open = True
            yield (
                io.BytesIO(stream.read())
                if is_table and (packing or not stream.seekable())
                else stream
            )
    except PairsError as error:
        if shown(name) in error.what:
            raise
        raise PairsError(f"{shown(name)}: {error.what}", error.remedy) from None
    except Exception as error:  # each format's and store's library raises its own kinds
        what, remedy = (
            f"cannot read {shown(name)}: {_reason(error)}",
            "check the name, and that you may read it",
        )
        if isinstance(error, ImportError):
            remedy = "run: pip install 'attnscan[stores]'"
        elif is_open and packing and not getattr(error, "errno", None):
            what, remedy = (
                f"{shown(name)} is not a whole {packing} file: {_reason(error)}",
                "compress it again",
            )
        elif is_open and is_table and not getattr(error, "errno", None):
            what = f"{shown(name)} is not a valid {format_of(name)} file: it is damaged, or in another format"
            remedy = "write it again, without a password"
        elif is_open and isinstance(error, UnicodeError):
            what, remedy = (
                f"{shown(name)} is no text: {_reason(error)}",
                "save it as UTF-8, or pass --encoding NAME",
            )
        elif is_open and not scheme_of(name) and not isinstance(error, OSError):  # a fault of ours
            raise
        raise PairsError(what, remedy) from None


@contextmanager
def _open(name: str, packing: str) -> Iterator[Any]:
    if name == STDIN:
        if sys.stdin is None:  # the shell's `<&-`
            raise PairsError("standard input is closed", "pipe pairs into it, or name a file")
        yield sys.stdin.buffer
    elif not packing and not scheme_of(name):
        with Path(name).open("rb") as stream:
            yield stream
    else:
        import fsspec

        if packing and packing not in fsspec.compression.compr:
            raise PairsError(
                f"reading {shown(name)} needs backports.zstd, which is not installed",
                "run: pip install 'attnscan[zstd]'",
            )
        with (
            fsspec.open(name, "rb", compression=packing or None) as file,
            io.BufferedReader(file, _BUFFER) as stream,
        ):
            yield stream


def _reason(error: Exception) -> str:
    """The first line of what a library says, without secrets of addresses."""
    reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    if isinstance(error, FileNotFoundError) and not isinstance(
        error.errno, int
    ):  # of a store: the address once more
        reason = "nothing was found there"
    return re.sub(r"\w+://[^\s'\"]+", lambda address: shown(address[0]), reason.splitlines()[0])[
        :200
    ]
