"""Files that are elsewhere: each answer of a network is waited for only so long, and a failure is one line."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar, cast

from attnscan.errors import PairsError
from attnscan.inputs.patience import within
from attnscan.inputs.places import stores, web
from attnscan.inputs.places.names import scheme_of, shown, suffix_in, without_query
from attnscan.inputs.tokenizer_calls import hushed

PATIENCE = 6.0
"""Seconds for each answer of a network."""
_BUFFER = 1 << 20  # bytes of a file that are asked for at a time: stores answer slowly
_WEB = ("http", "https")
_T = TypeVar("_T")


def files_named(name: str, is_wanted: Callable[[str], bool]) -> list[str]:
    """The files that a URI stands for, those of a glob or a directory sorted; of a directory those that are wanted.

    Raises: PairsError if the network does not answer or refuses, or the scheme is not known.
    """
    scheme = scheme_of(name)
    if scheme in _WEB:
        path = without_query(name).partition("://")[2].partition("/")[2]
        if not path or path.endswith("/") or stores.WILD.search(path):
            raise PairsError(f"{shown(name)} is not one file, and {scheme}:// lists none", "name each file in full")
        suffix_in(name)
        _Remote(name).close()  # is it there?
        return [name]
    if scheme not in stores.SCHEMES:
        known = " ".join(f"{each}://" for each in (*stores.SCHEMES, *_WEB, "file"))
        raise PairsError(f"cannot read {shown(name)}: {scheme}:// is not known", f"use one of {known}, or a path")
    stores.load(name)
    return _answered(name, lambda: stores.matching(name, is_wanted))


@contextmanager
def opened(file: str) -> Iterator[IO[bytes]]:
    """A file that was found, open to be read as bytes; from any place, if the server allows it.

    Raises: PairsError if it cannot be opened, or, in place of what is raised meanwhile, if it cannot be read on.
    """
    with _Remote(file) as remote:
        try:
            yield cast(IO[bytes], io.BufferedReader(remote, _BUFFER))
        except Exception:  # whatever a format makes of it
            if remote.failure is not None:
                raise remote.failure from None
            raise


class _Remote(io.RawIOBase):
    """A file on a network, each of whose answers is waited for only so long."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._file: Any = None
        self.failure: PairsError | None = None
        """Why it cannot be read on."""
        if scheme_of(name) in _WEB:
            self._file = self._answered(lambda: web.WebFile(name, PATIENCE))
        else:
            stores.load(name)
            self._file = self._answered(lambda: stores.opened(name))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        found = self._answered(lambda: self._file.read(size))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed and self._file is not None and self.failure is None:
            self._file.close()
        super().close()

    def _answered(self, ask: Callable[[], _T]) -> _T:
        try:
            return _answered(self._name, ask)
        except PairsError as error:
            self.failure = error
            raise


def _answered(name: str, ask: Callable[[], _T]) -> _T:
    """What a network answers. Raises: PairsError if it does not, or fails."""
    try:
        with hushed():  # Azure's library calls programs that are not there
            found = within(PATIENCE, ask, "network")
    except PairsError:
        raise
    except Exception as error:  # each store raises its own kinds
        why, remedy = web.reason(error) if scheme_of(name) in _WEB else stores.reason(error, name)
        raise PairsError(f"cannot read {shown(name)}: {why}", remedy) from None
    if not found:
        raise PairsError(
            f"cannot read {shown(name)}: no answer for {PATIENCE:.0f} seconds", "check the address and the network"
        )
    return found[0]
