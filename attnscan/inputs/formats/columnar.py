"""Parquet and Arrow files, of which only the columns that are asked for are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from attnscan.errors import PairsError, needs
from attnscan.inputs.columns import Column, FileReading, Picked, Rows, bad_record, picked, row_of

_ROWS = 16  # at a time: a Parquet file of a kilobyte can repeat a long cell a million times


class RowGroups(NamedTuple):
    """Consecutive row groups of a Parquet file, which one of several readers reads."""

    start: int
    stop: int
    rows_before: int
    """Of all groups before `start`."""


def parquet_rows(file: IO[bytes], name: str, reading: FileReading, groups: RowGroups | None = None) -> Rows:
    """The rows of a Parquet file, or of some of its row groups. Raises: PairsError."""
    table = _parquet(file, name)
    from pyarrow import types

    with _sound(name, "Parquet"):
        columns = _text_columns(table.schema_arrow, reading)
        fields = [table.schema_arrow.field(index) for index in columns.indexes]
        names = [field.name for field in fields]
        plain = not all(map(types.is_dictionary, (field.type for field in fields)))
        size = _ROWS if plain else 64 * _ROWS  # where cells stay references, nothing is repeated
        start, stop, number = groups or (0, table.num_row_groups, 0)
        wanted, data = list(range(start, stop)), table.metadata
        end = data.num_rows if groups is None else number + sum(data.row_group(group).num_rows for group in wanted)
        for batch in table.iter_batches(size, row_groups=wanted, columns=names, use_threads=False):
            yield from _rows(batch, names, columns, name, number)
            number += batch.num_rows
        if number != end:
            raise PairsError(f"has {end} rows, of which {number} can be read", "write it again")


def row_groups(file: IO[bytes], name: str, size: int) -> list[RowGroups]:
    """The row groups of a Parquet file in parts of about so many bytes; none if its numbers of rows do not agree.

    Raises: PairsError.
    """
    table = _parquet(file, name)
    with _sound(name, "Parquet"):
        parts, start, before, rows, held = list[RowGroups](), 0, 0, 0, 0
        for number in range(table.num_row_groups):
            group = table.metadata.row_group(number)
            if held >= size:
                parts.append(RowGroups(start, number, before))
                start, before, held = number, rows, 0
            rows += group.num_rows
            held += group.total_byte_size
        parts.append(RowGroups(start, table.num_row_groups, before))
        return parts if rows == table.metadata.num_rows else []


def _parquet(file: IO[bytes], name: str) -> Any:
    """Without pre_buffer, pages are read one after another, not a whole row group at once.

    A checksum is seldom there, but where one is, a changed letter is found.
    """
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow.parquet
    with _sound(name, "Parquet"):
        return pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16, page_checksum_verification=True)


def arrow_rows(file: IO[bytes], name: str, reading: FileReading) -> Rows:
    """The rows of an Arrow file, or of an Arrow stream, as `datasets` keeps them. Raises: PairsError."""
    with needs(f"reading {name} needs pyarrow", "parquet", PairsError):
        import pyarrow as pa
    with _sound(name, "Arrow"):
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


@contextmanager
def _sound(name: str, kind: str) -> Iterator[None]:
    """Make one line of what is not sound: Arrow raises a dozen kinds, from OSError to KeyError, in its own words."""
    try:
        yield
    except PairsError as error:
        raise PairsError(f"{name}: {error.what}", error.remedy) from None
    except Exception:
        what = f"{name} is not a valid {kind} file: it is damaged, or in another format"
        raise PairsError(what, "write it again") from None


def _rows(batch: Any, names: Sequence[str], columns: Picked, file: str, before: int) -> Rows:
    arrays = dict(zip(columns.indexes, map(batch.column, names), strict=True))
    for row in range(batch.num_rows):
        where = f"{file}: row {before + row + 1}"
        try:
            cells = {index: array[row].as_py() for index, array in arrays.items()}
        except UnicodeDecodeError as error:
            yield bad_record(where, f"is not valid UTF-8 at byte {error.start + 1}")
        else:
            yield row_of(where, before + row + 1, columns, cells)


def _text_columns(schema: Any, reading: FileReading) -> Picked:
    """Raises: PairsError if there are none by these names, or those of the sentences hold no text."""
    columns = picked(reading, schema.names)
    for column in columns.all:
        field = schema.field(column.index)
        if schema.names.count(field.name) > 1:
            raise PairsError(f"two columns are called {field.name!r}", "rename one of them")
        if column in columns.sentences:
            _check_text(field, column)
    return columns


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
