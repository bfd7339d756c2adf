"""Decompress files as streams, by the libraries that fsspec knows: gzip, bzip2, xz and Zstandard."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from attnscan.errors import PairsError, out_of_memory
from attnscan.inputs.places.names import ARROW, PARQUET, SHEETS, packing_in

_CALLED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}  # as fsspec does
_FROM_THE_END = (*PARQUET, *ARROW, *SHEETS)


@contextmanager
def unpacked(file: IO[bytes], name: str, suffix: str) -> Iterator[IO[bytes]]:
    """A file's content, decompressed as its name says; held in memory if its format is read from the end.

    Raises: PairsError if it is compressed in another way, or not whole.
    """
    packing = packing_in(name)
    try:
        stream = _stream(file, name, packing) if packing else file
        if suffix in _FROM_THE_END and (packing or not file.seekable()):
            stream = io.BytesIO(stream.read())
        yield stream
    except Exception as error:  # each library raises its own kinds; what the system says has a number
        if not packing or isinstance(error, PairsError) or out_of_memory(error) or getattr(error, "errno", None):
            raise
        what = f"{name} is not a whole {_CALLED[packing]} file: {error}"
        raise PairsError(what, "copy or compress it again") from None


def _stream(file: IO[bytes], name: str, packing: str) -> IO[bytes]:
    from fsspec.compression import compr

    if (kind := _CALLED[packing]) not in compr:
        what = f"reading {name} needs backports.zstd, which is not installed"
        raise PairsError(what, "run: pip install 'attnscan[zstd]'")
    return cast(IO[bytes], compr[kind](file, mode="rb"))
