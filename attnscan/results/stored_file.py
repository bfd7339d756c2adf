"""A file in a store (S3, GCS, Azure, HDFS) that is read whole and replaced whole, as a state is.

An object of S3 or GCS is replaced at once, when its upload ends. Elsewhere the new file is written beside the old one,
and then takes its place; of a run that died between the two, the one beside counts.
Does not handle: two runs that write the same file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from attnscan.errors import AttnscanError, OutputError, StateError, needs
from attnscan.inputs.places.names import scheme_of, shown, without_query

PATIENCE = 60.0
"""Seconds for a whole file, up or down."""
_LOOK = 6.0  # seconds to find out whether it is there
_AT_ONCE = ("s3", "gs", "gcs")
_SCHEMES = (*_AT_ONCE, "abfs", "abfss", "hdfs", "viewfs")
_REMEDY = "check the address, the network and that you may read and write there"
_T = TypeVar("_T")


@dataclass(frozen=True)
class StoredFile:
    """A file by its URI, which `str` shows without what is secret in it."""

    name: str = field(repr=False)
    _writing: Any = field(default_factory=Lock, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        return shown(self.name)

    def exists(self) -> bool:
        """Whether it is there. Raises: StateError if the store does not say."""
        return self._answered("read", StateError, _LOOK, self._found) is not None

    def read_bytes(self, most: int) -> bytes:
        """All of it, or of more than so many bytes so many and one. Raises: StateError."""

        def read() -> bytes:
            if (there := self._found()) is None:
                raise FileNotFoundError
            store, path = there
            with store.open_input_stream(path) as stream:
                content: bytes = stream.read(most + 1)
                return content

        return self._answered("read", StateError, PATIENCE, read)

    def write_bytes(self, content: bytes) -> None:
        """Replace it, whole or not at all. Raises: OutputError."""

        def write() -> None:
            with self._writing:  # one that was not waited for must not come after this one
                try:
                    self._replace(content)
                except FileNotFoundError:
                    raise OSError("there is no such bucket or directory") from None

        self._answered("write", OutputError, PATIENCE, write)

    def _found(self) -> tuple[Any, str] | None:
        from pyarrow import fs

        from attnscan.inputs.places import stores

        store, path = stores.file_system(self.name)
        paths = [path] if scheme_of(self.name) in _AT_ONCE else [path, _beside(path)]
        there = (info.path for info in store.get_file_info(paths) if info.type is fs.FileType.File)
        return next(((store, info) for info in there), None)

    def _replace(self, content: bytes) -> None:
        from attnscan.inputs.places import stores

        store, path = stores.file_system(self.name)
        if scheme_of(self.name) in _AT_ONCE:
            _upload(store, path, content)
            return
        _upload(store, _beside(path), content)
        there = self._found()
        if there is not None and there[1] == path:
            store.delete_file(path)  # HDFS moves nothing over a file
        try:
            store.move(_beside(path), path)
        except NotImplementedError:  # Azure without directories; its copy may take a while, so what is beside stays
            store.copy_file(_beside(path), path)

    def _answered(self, what: str, error: type[AttnscanError], patience: float, ask: Callable[[], _T]) -> _T:
        """Raises: `error` if the store does not answer or fails; each one raises its own kinds."""
        with needs(f"a file at {self} needs pyarrow", "parquet", error):
            import pyarrow.fs  # noqa: F401
        from attnscan.inputs.places.remote import answered

        return answered(ask, self.name, what, error, patience, _REMEDY)


def place_of(name: str) -> Path | StoredFile:
    """What a path or a URI stands for. Raises: OutputError if no file can be written there."""
    scheme = scheme_of(name)
    if not scheme:
        try:
            os.fsencode(name)
        except UnicodeEncodeError:  # half of a surrogate pair
            raise OutputError(f"cannot write {shown(name)}: no file can have this name", "choose another") from None
        return Path(name)
    if scheme == "file":
        from attnscan.inputs.places.files import path_of

        return Path(path_of(name))
    if scheme not in _SCHEMES:
        known = " ".join(f"{known}://" for known in (*_SCHEMES, "file"))
        raise OutputError(f"cannot write {shown(name)}: {scheme}:// takes no files", f"use one of {known}, or a path")
    if not without_query(name).partition("://")[2].partition("/")[2] or without_query(name).endswith("/"):
        raise OutputError(f"cannot write {shown(name)}: it names no file", "put the file's name behind it")
    return StoredFile(name)


def _beside(path: str) -> str:
    return f"{path}.new"


def _upload(store: Any, path: str, content: bytes) -> None:
    stream = store.open_output_stream(path)
    stream.write(content)  # where this fails nothing is closed: closing is what makes an object of an upload
    stream.close()
