"""Files on a network, in stores or behind http:// and https://: a request has a timeout, and a failure is one line."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar, cast

import httpx2

from attnscan.errors import AttnscanError, PairsError
from attnscan.inputs.library_calls import NoAnswer, hushed, within
from attnscan.inputs.places import stores
from attnscan.inputs.places.compression import Pieces
from attnscan.inputs.places.names import scheme_of, shown, suffix_in, without_query

PATIENCE = 6.0
"""Seconds until a request times out."""
_BUFFER = 1 << 20  # bytes of a file that are asked for at a time: stores answer slowly
_T = TypeVar("_T")


def files_named(name: str, is_wanted: Callable[[str], bool]) -> list[str]:
    """The files that a URI names: one, those of a glob, or those of a directory for which `is_wanted` holds, sorted.

    Raises: PairsError if the network does not answer or refuses, or the scheme is not known.
    """
    scheme = scheme_of(name)
    if scheme in stores.WEB:
        host, _, path = without_query(name).partition("://")[2].partition("/")
        if not host or not path or path.endswith("/") or stores.WILD.search(path):
            raise PairsError(f"{shown(name)} is not one file, and {scheme}:// lists none", "name each file in full")
        suffix_in(name)
        _Remote(name).close()  # is it there?
        return [name]
    if scheme not in stores.SCHEMES:
        schemes = " ".join(f"{known}://" for known in (*stores.SCHEMES, *stores.WEB, "file"))
        raise PairsError(f"cannot read {shown(name)}: {scheme}:// is not known", f"use one of {schemes}, or a path")
    stores.load(name)
    return answered(lambda: stores.matching(name, is_wanted), name)


@contextmanager
def opened(file: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes; that of a store is seekable.

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
        if scheme_of(name) in stores.WEB:
            self._file = self._answered(lambda: _WebFile(name))
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
            return answered(ask, self._name)
        except PairsError as error:
            self.failure = error
            raise


def answered(
    ask: Callable[[], _T],
    name: str,
    doing: str = "read",
    error: type[AttnscanError] = PairsError,
    seconds: float | None = None,
    remedy: str = "",
) -> _T:
    """The answer of a network, for which `seconds` are waited; the `remedy` stands in place of one by what is wrong.

    Raises: `error` if it fails or times out; an AttnscanError of `ask` as it is.
    """
    seconds = PATIENCE if seconds is None else seconds
    try:
        with hushed():  # Azure's library calls programs that are not there
            return within(seconds, ask, "network")
    except AttnscanError:
        raise
    except (NoAnswer, httpx2.TimeoutException):  # whichever of the two clocks is first
        why, usual = f"timed out after {seconds:.0f} seconds", "check the address and the network"
    except Exception as failed:  # each store raises its own kinds
        why, usual = stores.reason(failed, name)
    raise error(f"cannot {doing} {shown(name)}: {why}", remedy or usual)


class _WebFile(Pieces):
    """A file that is read by one request, from its start on. Raises: httpx2.HTTPError, httpx2.InvalidURL."""

    def __init__(self, url: str) -> None:
        self._answer = _answer_to(url)
        next(self._answer)
        super().__init__(self._answer)

    def close(self) -> None:
        self._answer.close()
        super().close()


def _answer_to(url: str) -> Generator[bytes, None, None]:
    """An empty piece once the server has the file, then all of the file."""
    once = httpx2.Limits(max_keepalive_connections=0)  # else a redirect meets a connection that has ended
    with (
        httpx2.Client(headers=stores.HEADERS, timeout=PATIENCE, follow_redirects=True, limits=once) as client,
        client.stream("GET", url) as response,
    ):
        response.raise_for_status()
        yield b""
        yield from response.iter_raw()
