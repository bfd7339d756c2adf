"""No file that a run writes may overwrite another one, a file that it reads, or a file of its model.

An option's annotation says the role of its file, and files are compared by what they are: links and redirections count.
Does not handle: files in stores, where only states are written, which are read first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from glob import glob
from pathlib import Path
from typing import Any, NoReturn, get_args

import typer

from attnscan.cli.messages import say
from attnscan.errors import OutputError
from attnscan.model.sources import directories_of
from attnscan.results.files import check_writable, partial_of
from attnscan.results.stored_file import StoredFile, place_of


class FileRole(Enum):
    """What a run does with the file or the model that an option names."""

    READ = auto()
    WRITTEN = auto()
    MODEL = auto()


def role_of(annotation: object) -> FileRole | None:
    """The role that stands in an option's annotation."""
    return next((mark for mark in get_args(annotation) if isinstance(mark, FileRole)), None)


def check_options(roles: Mapping[str, FileRole], given: Mapping[str, Any]) -> None:
    """Check what a command was given by the roles of its options.

    Raises: typer.BadParameter if a file would be written over another one.
    """
    named: dict[FileRole, list[Any]] = {role: [] for role in FileRole}
    for name, role in roles.items():
        named[role] += given[name] if isinstance(given[name], list) else [given[name]]
    written = [path for name in named[FileRole.WRITTEN] if (path := _here(name)) is not None]
    check_not_overwritten(written, named[FileRole.READ])
    if "output" in roles and given["output"] is None:
        _check_not_stdout(written)
    _check_not_of_models(written, named[FileRole.MODEL])


@contextmanager
def option_named(roles: Mapping[str, FileRole], files: Mapping[str, Any]) -> Iterator[None]:
    """Add to the remedy for a file that cannot be written the option that named the file: "…, with --state"."""
    try:
        yield
    except OutputError as error:
        for name, role in roles.items():
            if role is FileRole.WRITTEN and _is_named(error.place, files[name]):
                option = "-o" if name == "output" else f"--{name.replace('_', '-')}"
                raise OutputError(error.what, f"{error.remedy} with {option}", error.place) from None
        raise


def _is_named(place: Path | None, name: Path | str | None) -> bool:
    """Whether a file is what an option named, or the part of it that an interrupted run leaves."""
    path = _here(name)
    return place is not None and path is not None and _place(place) in map(_place, (path, partial_of(path)))


def check_not_overwritten(written: Iterable[Path | None], read: Iterable[Path | str | None] = ()) -> None:
    """Raises: typer.BadParameter if a file that is to be written is named for something else, too."""
    files = [path for path in written if path is not None and not _is_null(path)]
    taken = {_identity(path) for name in read if name is not None for path in _files_of(name)} if files else set()
    for path in files:
        if (place := _identity(path)) in taken:
            raise typer.BadParameter(f"{path} is named twice, and would be overwritten")
        taken.add(place)


def parts_of(read: Iterable[str], *written: Path | None, state: Path | StoredFile | None = None) -> dict[Path, Path]:
    """Where an interrupted scan leaves what it has, for each file that is written of a whole one.

    Raises: OutputError if one of all these cannot be written; typer.BadParameter if it is a file of something else.
    """
    whole = [path for path in written if path is not None]
    parts = {path: part for path in whole if (part := partial_of(path)) != path}
    here = [state] if isinstance(state, Path) else []
    check_not_overwritten(parts.values(), [*read, *here, *whole])
    for path in (*whole, *parts.values(), *here):
        check_writable(path)
    return parts


def end_interrupted(parts: Mapping[Path, Path]) -> NoReturn:
    """Say where what is done is, and end as Ctrl-C does."""
    for path, part in parts.items():
        say(f"what is done is in {part}, and {path} is untouched")
    raise typer.Exit(130)


def _check_not_stdout(written: Iterable[Path | None]) -> None:
    """Raises: typer.BadParameter if something else goes where the result goes without -o."""
    try:
        result = _key(os.fstat(1))
    except OSError:  # there is no standard output
        return
    for path in written:
        if path is not None and not _is_null(path) and _identity(path) == result:
            raise typer.BadParameter(f"{path} is standard output, and the result goes there too: name its file with -o")


def _check_not_of_models(written: Iterable[Path | None], models: Iterable[str | None]) -> None:
    """Raises: typer.BadParameter if a file that is there, and would be overwritten, is a model's own."""
    there = [path for path in written if path is not None and stat.S_ISREG(_mode(path))]
    directories = [directory for name in models for directory in directories_of(name)] if there else []
    for path in there:
        for directory in directories:
            inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))
            if inside or any(file.samefile(path) for file in _linked(directory)):
                raise typer.BadParameter(
                    f"{path} is a file in the model's directory, and would be overwritten: name another"
                )


def _here(name: Path | str | None) -> Path | None:
    """The file on this machine that a name of something to write stands for. Raises: OutputError."""
    place = place_of(name) if isinstance(name, str) else name
    return place if isinstance(place, Path) else None


def _linked(directory: Path) -> Iterator[Path]:
    """The files that a model's directory has as links to elsewhere, such as its weights."""
    for pattern in ("*", "*/*"):
        yield from (path for path in directory.glob(pattern) if path.is_symlink() and path.is_file())


def _files_of(name: Path | str) -> Iterator[Path]:
    """The files on this machine that a name of something to read stands for: on a cluster it may stand for many."""
    if name == "-":
        yield Path("/dev/stdin")
        return
    path = str(name).removeprefix("file://")
    yield Path(path)
    if stat.S_ISDIR(mode := _mode(Path(path))):
        for place, _, names in os.walk(path):  # which leaves out what may not be read, and what is gone meanwhile
            yield from (Path(place, name) for name in names)
    elif not mode:
        yield from map(Path, glob(path, recursive=True))  # noqa: PTH207 (it may be absolute)


def _mode(path: Path) -> int:
    """What is there, by its mode; 0 for nothing, and for what cannot be: that is refused where it is opened."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):  # the second of a name that no system can have
        return 0


def _identity(path: Path) -> object:
    """What two names of one file share: its number on its disk, or the place where it is to be."""
    try:
        return _key(path.stat())
    except (OSError, ValueError):  # it is not there yet, or can never be
        return _place(path)


def _place(path: Path) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a link that may not be read: nothing can be written there either
        return os.path.abspath(path)  # noqa: PTH100


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_null(path: Path) -> bool:
    return _place(path) == os.path.realpath(os.devnull)
