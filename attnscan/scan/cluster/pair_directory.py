"""Every pair's own scores as a cluster writes them: a directory of a few large files.

Workers pack rows in pieces of a few MB, and Ray hands as many as make a file to a task that writes it; tried again, it
writes the same rows under the same name. The directory gets its name when every row is there once.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from attnscan.errors import OutputError
from attnscan.results.ranking import Ranking
from attnscan.scan.cluster.blocks import column, row
from attnscan.scan.per_pair import finish_directory, parquet_writer

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE = 5 << 20  # bytes of rows in memory, of which packing leaves a fifth
_PIECES_OF_GROUP = 16  # of those that Parquet's readers read at a time
_PIECES_OF_FILE = 192  # and so some 200 MB
_SHARE = 8 * (2 << 20)  # of the cluster's store, for a piece and what goes with it: an eighth holds a file's


class PairDirectory:
    """The directory, from the driver's side.

    Raises: OutputError if there is something by its name, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser().absolute()
        if os.path.lexists(self._path):
            raise OutputError(f"{path} is there already", "name a new directory for --per-pair")
        try:
            self.beside = Path(tempfile.mkdtemp(prefix=".attnscan-", dir=self._path.parent))
            """Where its files are written."""
        except OSError as error:
            raise self._refused(error) from None
        self.parts: set[str] = set()
        """The names of its files."""

    def __enter__(self) -> PairDirectory:
        return self

    def finish(self, ranking: Ranking, rows: int) -> None:
        """Add what the directory, which is to have so many rows, has to say of itself, and give it its name.

        Raises: OutputError.
        """
        try:
            for begun in self.beside.glob(".*"):  # by a task that was killed
                begun.unlink()
            finish_directory(self.beside, ranking, sorted(self.parts), rows)
            self.beside.chmod(0o755)
            self.beside.rename(self._path)
        except OSError as error:
            raise self._refused(error) from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        shutil.rmtree(self.beside, ignore_errors=True)

    def _refused(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self._path}: {error.strerror or error}", "choose another place", self._path)


def pieces_of_file(store: float) -> int:
    """How many pieces make a file, where all machines' stores together have so many bytes."""
    return max(1, min(_PIECES_OF_FILE, int(store) // _SHARE))


def handed(result: object, name: str, tables: Iterable[pa.Table]) -> dict[str, Any]:
    """What was found and the rows beside it, to travel: rows of `found`, `rows` and `name`, the first in the last."""
    pieces = list(_packed(tables)) or [b""]
    cells = [*[b""] * (len(pieces) - 1), pickle.dumps(result, protocol=5)]
    names = [f"{name}-{number:03}" for number in range(len(pieces))]
    return {"found": column(cells), "rows": column(pieces), "name": names}


def write_rows(batch: dict[str, Any], directory: str) -> dict[str, Any]:
    """Write one file, and hand on the rest: what `handed` gave becomes rows of `found` and `part`.

    Runs on the machines of the cluster. Where the rows cannot be written, an OutputError stands in the place of what
    was found.
    """
    pieces = [bytes(piece) for piece in batch["rows"] if len(piece)]
    results, part = [bytes(piece) for piece in batch["found"] if len(piece)] or [b""], ""
    if pieces:
        part = str(batch["name"][0])
        try:
            _write(pieces, Path(directory), part)
        except OSError as error:
            why = (str(error).splitlines() or [""])[-1][:200]
            refused = OutputError(f"cannot write in {Path(directory).parent}: {why}", "free some space")
            return {**row("found", refused), "part": [""]}
    return {"found": column(results), "part": [part] * len(results)}


def _packed(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """Tables of whole pairs, some at a time, as bytes."""
    some: list[pa.Table] = []
    for table in tables:
        some.append(table)
        if sum(table.nbytes for table in some) >= _PIECE:
            yield _bytes_of(some)
            some = []
    if any(len(table) for table in some):
        yield _bytes_of(some)


def _bytes_of(tables: Sequence[pa.Table]) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    rows = _together(tables)
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _together(tables: Iterable[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _write(pieces: Sequence[bytes], directory: Path, name: str) -> None:
    """Raises: OSError."""
    import pyarrow as pa

    beside = directory / f".{name}-{uuid4().hex}"
    try:
        with beside.open("wb") as file:
            writer = None
            for first in range(0, len(pieces), _PIECES_OF_GROUP):
                some = pieces[first : first + _PIECES_OF_GROUP]
                rows = _together(pa.ipc.open_stream(piece).read_all() for piece in some)
                writer = writer or parquet_writer(file, rows.schema)
                writer.write_table(rows, row_group_size=len(rows))
            assert writer is not None
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        beside.replace(directory / f"{name}.parquet")
    finally:
        beside.unlink(missing_ok=True)
