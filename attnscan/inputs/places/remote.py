"""Files on a network: each request has a timeout, and a failure is one line."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar, cast

from attnscan.errors import PairsError
from attnscan.inputs.patience import NoAnswer, within
from attnscan.inputs.places import stores, web
from attnscan.inputs.places.names import scheme_of, shown, suffix_in, without_query
from attnscan.inputs.tokenizer_calls import hushed

PATIENCE = 6.0
"""Seconds until a request times out."""
_BUFFER = 1 << 20  # bytes of a file that are asked for at a time: stores answer slowly
_WEB = ("http", "https")
_T = TypeVar("_T")


def files_named(name: str, is_wanted: Callable[[str], bool]) -> list[str]:
    """The files that a URI names: one, those of a glob, or those of a directory for which `is_wanted` holds, sorted.

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
        schemes = " ".join(f"{known}://" for known in (*stores.SCHEMES, *_WEB, "file"))
        raise PairsError(f"cannot read {shown(name)}: {scheme}:// is not known", f"use one of {schemes}, or a path")
    stores.load(name)
    return _answered(name, lambda: stores.matching(name, is_wanted))


@contextmanager
def opened(file: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes; it is seekable if the server allows that.

    Raises: PairsError if it cannot be opened or read; this replaces what a format's library raises then.
    """
    with _Remote(file) as remote:
        try:
            yield cast(IO[bytes], io.BufferedReader(remote, _BUFFER))
        except Exception:  # whatever a format makes of it
            if remote.failure is not None:
                raise remote.failure from None
            raise


class _Remote(io.RawIOBase):
    """A file on a network, each request for which has a timeout."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._file: Any = None
        self.failure: PairsError | None = None
        """The error that ended reading, if any."""
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
        piece = self._answered(lambda: self._file.read(size))
        buffer[: len(piece)] = piece
        return len(piece)

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
    """The answer of a network. Raises: PairsError if it fails or times out."""
    try:
        with hushed():  # Azure's library calls programs that are not there
            return within(PATIENCE, ask, "network")
    except PairsError:
        raise
    except NoAnswer:
        what = f"cannot read {shown(name)}: no answer for {PATIENCE:.0f} seconds"
        raise PairsError(what, "check the address and the network") from None
    except Exception as error:  # each store raises its own kinds
        why, remedy = web.reason(error) if scheme_of(name) in _WEB else stores.reason(error, name)
        raise PairsError(f"cannot read {shown(name)}: {why}", remedy) from None
