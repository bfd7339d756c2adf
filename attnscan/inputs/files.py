"""Names -> files of pairs, opened and unpacked.

A name is a path, a glob, a directory, `-` for standard input, or an address that fsspec opens.
"""

import io
import json
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
_ABOUT_DATASETS = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json")
"""What `datasets` keeps beside its files; in a directory, these are no pairs."""
_HIDDEN = (".", "~$")  # the latter Excel keeps beside an open workbook
_BUFFER = 1 << 20  # bytes that are asked for at a time: stores answer slowly


def scheme_of(name: str) -> str:
    """The scheme of an address, such as `s3`, in lower case; empty for a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", name)
    return match[1].lower() if match else ""


def shown(name: str) -> str:
    """A name for messages and results.

    An address has no password, and nothing of what follows `?`, which may be a signature.
    """
    if name == STDIN:
        return "standard input"
    if not scheme_of(name):
        return name
    address = re.split("[?#]", name, maxsplit=1)[0]
    # without a colon, what stands before `@` may be a store's container
    user = "[^/@]*" if scheme_of(name).startswith("http") else "[^/@:]*:[^/@]*"
    return re.sub(f"(?<=://){user}@", "", address)


def _suffixes(name: str) -> tuple[str, str]:
    """The suffixes that say format and packing, in lower case; empty if there is no packing."""
    path = PurePosixPath(shown(name).lower())
    if path.suffix in PACKED:
        return path.with_suffix("").suffix, path.suffix
    return path.suffix, ""


def format_of(name: str) -> str:
    """The suffix that says the format of a file; empty for standard input and pipes.

    Raises: PairsError for other suffixes.
    """
    suffix, _ = _suffixes(name)
    if suffix in FORMATS or (not suffix and not scheme_of(name)):
        return suffix
    raise PairsError(
        f"cannot tell the format of {shown(name)} from its suffix",
        f"use one of {' '.join(FORMATS)}, with {' '.join(PACKED)} behind it or without",
    )


def path_of(name: str) -> str:
    """The path that a name is, or that a `file://` names."""
    if not scheme_of(name):
        return name
    path = name.partition("://")[2]
    return unquote(path.removeprefix("localhost"))


def files_named(names: Sequence[str]) -> list[str]:
    """Every file that is named, in order, those of a glob or a directory sorted.

    Raises: PairsError if there is none.
    """
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
        if not name:  # a shell's variable that is not set; `Path("")` is this directory
            raise ValueError("its name is empty")
        if path.is_dir():
            files = [str(file) for file in _files_below(path) if _suffixes(file.name)[0] in FORMATS]
            if _is_saved_dataset(path):  # in the order of its rows
                return files
        elif re.search(r"[*?\[]", name) and not path.exists():
            matches = Path(path.anchor).glob(name.lstrip("/"))
            files = [str(f) for f in matches if f.is_file() and not _is_hidden(f, path)]
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


def _is_hidden(file: Path, pattern: Path) -> bool:
    """Whether a pattern meets a hidden file or directory that it does not name.

    A shell's patterns leave these out, too.
    """
    if any(re.match(r"\.[^.]*[*?\[]", part) for part in pattern.parts):
        return False
    others = set(file.parts) - set(pattern.parts)
    return any(part.startswith(_HIDDEN) for part in others)


def _is_saved_dataset(directory: Path) -> bool:
    """Whether `Dataset.save_to_disk` of Hugging Face wrote a directory."""
    return (directory / "state.json").is_file() and (directory / "dataset_info.json").is_file()


def _files_of_dataset(directory: Path) -> list[Path]:
    """The files of a saved data set, in order. Raises: PairsError if its rows stand otherwise."""
    try:
        state = json.loads((directory / "state.json").read_text(encoding="utf-8"))
        files = [directory / file["filename"] for file in state["_data_files"]]
        is_in_order = not state.get("_indices_files")
    except (ValueError, KeyError, TypeError, AttributeError):
        files = []
        is_in_order = False
    if is_in_order and not files:
        raise PairsError(f"{directory} is a data set without rows", "name one that has some")
    if not is_in_order:
        raise PairsError(
            f"{directory} is a data set whose state.json names no files that can be read in order",
            "save it again with flatten_indices() and save_to_disk()",
        )
    return files


def _check_one_split(directory: Path) -> None:
    """Raises: PairsError for a dictionary of data sets with several splits."""
    try:
        about = json.loads((directory / "dataset_dict.json").read_text(encoding="utf-8"))
        splits = [str(split) for split in about["splits"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if len(splits) > 1:
        raise PairsError(
            f"{directory} holds the splits {', '.join(splits)}",
            f"name one of them, such as {directory / splits[0]}",
        )


def _files_below(directory: Path) -> Iterator[Path]:
    """Every file below a directory but hidden ones, and what is about data sets.

    Raises: OSError for a directory in it that cannot be read; PairsError.
    """
    if _is_saved_dataset(directory):
        yield from _files_of_dataset(directory)
        return
    _check_one_split(directory)
    for path in directory.iterdir():
        if path.name.startswith(_HIDDEN) or path.name in _ABOUT_DATASETS:
            continue
        if path.is_dir() and not path.is_symlink():  # a link may lead in a circle
            yield from _files_below(path)
        elif path.is_file():
            yield path


def local_files(names: Sequence[str]) -> list[str] | None:
    """The files that are named, if all are on this machine and can be read again; else None."""
    if STDIN in names:
        return None
    files = files_named(names)
    is_local = bool(files) and all(Path(file).is_file() for file in files)
    return files if is_local else None


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, unpacked as its name says.

    Raises: PairsError for what goes wrong meanwhile.
    """
    packing = PACKED.get(_suffixes(name)[1], "")
    is_table = format_of(name) in TABLES
    is_open = False
    try:
        with _open(name, packing) as stream:
            is_open = True
            needs_seeking = is_table and (packing or not stream.seekable())
            yield io.BytesIO(stream.read()) if needs_seeking else stream
    except PairsError as error:
        if shown(name) in error.what:
            raise
        raise PairsError(f"{shown(name)}: {error.what}", error.remedy) from None
    except Exception as error:  # each format's and store's library raises its own kinds
        refusal = _damage(name, error, packing) if is_open else None
        is_ours = is_open and not scheme_of(name) and not isinstance(error, OSError | ImportError)
        if refusal is None and is_ours:
            raise
        raise refusal or _unreadable(name, error) from None


def _damage(name: str, error: Exception, packing: str) -> PairsError | None:
    """The refusal of a file that was opened and is not what its name says; else None."""
    if isinstance(error, ImportError):
        return None
    is_of_content = not getattr(error, "errno", None)
    if packing and is_of_content:
        what = f"{shown(name)} is not a whole {packing} file: {_reason(error)}"
        return PairsError(what, "compress it again")
    if format_of(name) in TABLES and is_of_content:
        kind = f"a valid {format_of(name)} file"
        what = f"{shown(name)} is not {kind}: it is damaged, or in another format"
        return PairsError(what, "write it again, without a password")
    if isinstance(error, UnicodeError):
        what = f"{shown(name)} is no text: {_reason(error)}"
        return PairsError(what, "save it as UTF-8, or pass ``encoding=NAME``")
    return None


def _unreadable(name: str, error: Exception) -> PairsError:
    remedy = "check the name, and that you may read it"
    if isinstance(error, ImportError):
        remedy = "run: pip install 'attnscan[stores]'"
    return PairsError(f"cannot read {shown(name)}: {_reason(error)}", remedy)


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
    if isinstance(error, FileNotFoundError) and not isinstance(error.errno, int):
        reason = "nothing was found there"  # a store would say the address once more
    first_line = reason.splitlines()[0]
    return re.sub(r"\w+://[^\s'\"]+", lambda address: shown(address[0]), first_line)[:200]
