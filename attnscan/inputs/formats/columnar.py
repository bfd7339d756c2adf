"""Parquet and Arrow files: columns, of which those that are asked for are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from attnscan.errors import PairsError, needs
from attnscan.inputs.columns import Column, Picked, Reading, picked
from attnscan.inputs.formats.found import Found, FoundRows, bad_record
from attnscan.inputs.formats.part import WHOLE, Bookmark, Part

_ROWS = 16  # at a time: a Parquet file of a kilobyte can repeat a long cell a million times


def parquet_rows(file: IO[bytes], name: str, reading: Reading, part: Part = WHOLE) -> FoundRows:
    """The rows of a Parquet file, or of some of its row groups. Raises: PairsError."""
    table = _parquet(file, name)
    from pyarrow import types

    with _Sound(name, "Parquet"):
        columns = _text_columns(table.schema_arrow, reading)
        fields = [table.schema_arrow.field(index) for index in columns.indexes]
        names = [field.name for field in fields]
        plain = not all(map(types.is_dictionary, (field.type for field in fields)))
        size = _ROWS if plain else 64 * _ROWS  # where cells stay references, nothing is repeated
        groups = range(table.num_row_groups)[part.start.offset : part.stop]
        told, number = sum(table.metadata.row_group(group).num_rows for group in groups), 0
        for batch in table.iter_batches(size, row_groups=list(groups), columns=names, use_threads=False):
            yield from _rows(batch, names, columns, name, part.start.row + number)
            number += batch.num_rows
        if part == WHOLE:
            told = table.metadata.num_rows
        if number != told:
            raise PairsError(f"has {told} rows, of which {number} can be read", "write it again")


def parquet_bookmarks(file: IO[bytes], name: str, size: int) -> list[Bookmark]:
    """Where parts of a Parquet file start that are row groups of about so many bytes together. Raises: PairsError."""
    table = _parquet(file, name)
    with _Sound(name, "Parquet"):
        starts, rows, held = [Bookmark()], 0, 0
        for number in range(table.num_row_groups):
            group = table.metadata.row_group(number)
            if held >= size:
                starts.append(Bookmark(number, row=rows))
                held = 0
            rows += group.num_rows
            held += group.total_byte_size
        return starts if rows == table.metadata.num_rows else starts[:1]


def _parquet(file: IO[bytes], name: str) -> Any:
    """Without pre_buffer, pages are read one after another, not a whole row group at once.

    A checksum is seldom there, but where one is, a changed letter is found.
    """
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow.parquet
    with _Sound(name, "Parquet"):
        return pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16, page_checksum_verification=True)


def arrow_rows(file: IO[bytes], name: str, reading: Reading) -> FoundRows:
    """The rows of an Arrow file, or of an Arrow stream, as `datasets` keeps them. Raises: PairsError."""
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow as pa
    with _Sound(name, "Arrow"):
        start = file.read(8)
        file.seek(0)
        table = pa.ipc.open_file(file) if start.startswith(b"ARROW1") else pa.ipc.open_stream(file)
        columns = _text_columns(table.schema, reading)
        names = [table.schema.names[index] for index in columns.indexes]
        number = 0
        for batch in _batches(table):
            batch.validate(full=True)  # what is read of a file that lies about itself would be other memory
            yield from _rows(batch, names, columns, name, number)
            number += batch.num_rows


def _batches(table: Any) -> Iterator[Any]:
    if hasattr(table, "num_record_batches"):
        return (table.get_batch(number) for number in range(table.num_record_batches))
    return iter(table)


class _Sound:
    """Makes one line of what is not sound: Arrow raises a dozen kinds, from OSError to KeyError, in its own words."""

    def __init__(self, name: str, kind: str) -> None:
        self._name, self._kind = name, kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        if isinstance(error, PairsError):
            raise PairsError(f"{self._name}: {error.what}", error.remedy) from None
        if isinstance(error, Exception):
            raise PairsError(
                f"{self._name} is not a sound {self._kind} file: it is damaged, or of another kind", "write it again"
            ) from None


def _rows(batch: Any, names: Sequence[str], columns: Picked, file: str, before: int) -> FoundRows:
    arrays = dict(zip(columns.indexes, map(batch.column, names), strict=True))
    for row in range(batch.num_rows):
        where = f"{file}: row {before + row + 1}"
        cells = _cells(where, {index: array[row] for index, array in arrays.items()})
        yield cells if isinstance(cells, PairsError) else Found(where, before + row + 1, columns, cells)


def _text_columns(schema: Any, reading: Reading) -> Picked:
    """Raises: PairsError if there are none by these names, or those of the sentences hold no text."""
    found = picked(reading, schema.names, True)
    for column in found.all:
        field = schema.field(column.index)
        if schema.names.count(field.name) > 1:
            raise PairsError(f"two columns are called {field.name!r}", "rename one of them")
        if column in found.sentences:
            _check_text(field, column)
    return found


def _check_text(field: Any, column: Column) -> None:
    from pyarrow import types

    kind, shown = field.type, field.name
    for key in column.keys:
        if types.is_struct(kind):
            names = [kind.field(at).name for at in range(kind.num_fields)]
            if key not in names:
                raise PairsError(f"there is no {key!r} in its column {shown!r}; there are {', '.join(names)}", _OTHERS)
            kind = kind.field(key).type
        elif (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)) and key.isdecimal():
            kind = kind.value_type
        else:
            raise PairsError(f"its column {shown!r} has no {key!r}: it is {kind}", _OTHERS)
        shown += f".{key}"
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        within = ", ".join(f"{shown}.{name}" for name in names[:5])
        raise PairsError(f"its column {shown!r} has columns within", f"name one or two with --columns: {within}")
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise PairsError(f"its column {shown!r} is not text but {kind}", _OTHERS)


_OTHERS = "name others with --columns"


def _cells(where: str, cells: Mapping[int, Any]) -> dict[int, object] | PairsError:
    try:
        return {index: cell.as_py() for index, cell in cells.items()}
    except UnicodeDecodeError as error:
        return bad_record(where, f"is not valid UTF-8 at byte {error.start + 1}")
