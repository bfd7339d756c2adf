"""Objects of Python -> records: texts, pairs, rows and tables of any library, streams and loaders of them.

- A text is a sentence; a tuple or a list of two texts is a pair.
- A dict is a row, whose columns are told by their names, as those of files are; so is a table's row.
- A dict of lists is many rows: as all that is given or, in a stream or a loader, as a batch. A list of dicts and a
  table are batches there, too. In what is held, such as a list, a dict is always a row.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from attnscan.errors import InputError, PairsError
from attnscan.inputs.columns import Reading, picked
from attnscan.inputs.objects.items import TEXTS, Reader, spelled
from attnscan.inputs.objects.loaders import is_hugging_face, is_loader, items_of, only
from attnscan.inputs.objects.tables import Table, is_column, of_columns, table_in
from attnscan.inputs.pairs import Record

OnBad = Callable[[InputError], None]


@dataclass(frozen=True)
class Objects:
    """Pairs that a program has, checked to be of a kind that can be read, and how they are read."""

    items: Iterable[object]
    reading: Reading
    total: int | None = None
    """How many pairs there are, if that is known without reading them."""
    batches: bool = False
    """Whether an item may be many rows."""

    def records(self, on_bad: OnBad | None = None) -> Iterator[Record]:
        """The pairs with their places, from 1. What is bad is raised, or handed to `on_bad` and left out.

        Raises: InputError.
        """
        for found in Reader(self.reading, self.batches).read(self.items):
            if not isinstance(found, InputError):
                yield found
            elif on_bad is None:
                raise found
            else:
                on_bad(found)

    def held(self) -> Objects:
        """The same, to be read several times: what can be read only once is held in memory."""
        return replace(self, items=list(self.items)) if isinstance(self.items, Iterator) else self


def objects_in(pairs: Any, reading: Reading = Reading()) -> Objects:
    """What callers give, if it may hold pairs.

    Raises: InputError if not; PairsError if it is a table without such columns.
    """
    if isinstance(pairs, Mapping):
        pairs = _of_columns(pairs)
    table = pairs if isinstance(pairs, Table) else table_in(pairs)
    try:
        if table is not None:
            picked(reading, table.names, True)
            return Objects([table], reading, table.total, batches=True)
        if is_hugging_face(pairs):
            total = len(pairs) if hasattr(pairs, "__len__") else None
            return Objects(only(pairs, reading), reading, total, batches=total is None)
    except PairsError as error:
        raise spelled(error) from None
    if remedy := _why_not(pairs):
        raise InputError(f"pairs is of the class {type(pairs).__name__}, which holds no pairs", remedy)
    if is_loader(pairs):
        return Objects(items_of(pairs, reading), reading, batches=True)
    if isinstance(pairs, Collection):
        return Objects(pairs, reading, len(pairs))
    return Objects(pairs, reading, batches=True)


def _of_columns(columns: Mapping[Any, Any]) -> Table:
    kind = type(columns).__name__
    if any(map(is_hugging_face, columns.values())):
        raise InputError(f"pairs is of the class {kind}, which holds splits", f"choose one: [{next(iter(columns))!r}]")
    if not any(map(is_column, columns.values())):
        remedy = "give a list of dicts, or a dict of lists"
        raise InputError(f"pairs is of the class {kind}, and none of its values is a list", remedy)
    return of_columns(((str(name), value) for name, value in columns.items()), "pairs")


def _why_not(pairs: Any) -> str:
    """What to give in place of what are no pairs; nothing where they may be."""
    if isinstance(pairs, os.PathLike | io.IOBase) or (isinstance(pairs, str) and os.path.isfile(pairs[:4096])):  # noqa: PTH113
        return "rank_files reads files"
    if hasattr(pairs, "iter_rows"):  # of Ray
        return "give its rows: pairs.iter_rows()"
    if hasattr(pairs, "compute") or hasattr(pairs, "collect"):
        return "compute or collect it first, or give its parts one by one"
    if (
        isinstance(pairs, str | bytes | type)
        or not isinstance(pairs, Iterable)
        or getattr(pairs, "ndim", 1) not in (1, 2)
    ):
        return TEXTS
    return ""
