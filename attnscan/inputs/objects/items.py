"""Items of what a program gives -> records, one by one: texts, tuples, dicts, and batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from attnscan.errors import InputError, PairsError
from attnscan.inputs.columns import Column, Picked, Reading, picked
from attnscan.inputs.objects.tables import Table, is_column, of_columns, table_in
from attnscan.inputs.pairs import Pair, Place, Record

TEXTS = "give a list of texts, or of (text, text)"
_SPELLED = {"--columns 1": "columns=1", "--columns": "columns=", "--id": "id=", "pass --skip-bad": "pass on_bad="}


def pair_of(*sentences: object) -> Pair:
    """One sentence, or two; a B of None stands for none. Raises: InputError if they are no text, or cannot be read."""
    for name, sentence in zip("AB", sentences, strict=False):
        if not isinstance(sentence, str) and (sentence is not None or name == "A"):
            remedies: dict[type, str] = {
                bytes: "decode it: text.decode()",
                list: "give one text; rank_heads takes many inputs",
                tuple: "give A and B apart; rank_heads takes many inputs",
            }
            remedy = remedies.get(type(sentence), "give text")
            what = f"{sentence}" if _is_missing(sentence) else f"of the class {type(sentence).__name__}"
            raise InputError(f"sentence {name} is {what}, and not text", remedy)
    return Pair(*sentences)  # type: ignore[arg-type]


@dataclass
class Reader:
    """Reads items one by one, and remembers how many pairs there were, and which columns the first rows had."""

    reading: Reading
    batches: bool
    number: int = 0
    good: int = 0
    unfit: InputError | None = None
    """Of the first dict that has no column of sentences."""
    keys: Sequence[Any] = ()
    """Of dicts: the columns that are picked, as `picked` orders them."""
    picked: Picked | None = None

    def __post_init__(self) -> None:
        self.asked = self.reading.columns is not None or self.reading.id is not None

    def read(self, items: Iterable[object]) -> Iterator[Record | InputError]:
        """The record of each pair, or what is wrong with it. Raises: InputError for what is wrong with all."""
        for item in _begun(items):
            for found in self._item(_plain(item)):
                self.good += not isinstance(found, InputError)
                yield found
        if self.unfit is not None and not self.good:
            raise self.unfit

    def _item(self, item: Any) -> Iterator[Record | InputError]:
        table = item if isinstance(item, Table) or not self.batches else table_in(item)
        if isinstance(table, Table):
            yield from self._table(table)
        elif isinstance(item, Mapping):
            yield from self._mapping(item)
        elif self.batches and isinstance(item, list) and item and all(isinstance(each, Mapping) for each in item):
            for row in item:
                yield from self._mapping(row)
        elif isinstance(item, str) and self.asked:
            raise InputError(f"pair {self.number + 1} is a text, which has no columns", "leave out columns and id")
        else:
            try:
                yield self._pair(item)
            except InputError as error:
                yield error

    def _table(self, table: Table) -> Iterator[Record | InputError]:
        try:
            columns = picked(self.reading, table.names, True)
        except PairsError as error:
            raise spelled(error) from None
        self._keep([table.names[column.index] for column in columns.sentences])
        for cells in table.rows(columns.indexes):
            cell = dict(zip(columns.indexes, cells, strict=True))
            yield self._row([column.within(_plain(cell[column.index])) for column in columns.all], columns)

    def _mapping(self, row: Mapping[Any, Any]) -> Iterator[Record | InputError]:
        if self.picked is None:
            keys = list(row)
            try:
                self.picked = picked(self.reading, list(map(str, keys)), False)
            except PairsError as error:
                self.number += 1
                found = spelled(error, f"row {self.number}: ")
                self.unfit = self.unfit or found
                yield found
                return
            self.keys = [keys[column.index] for column in self.picked.all]
            self._keep([str(key) for key in self.keys[: len(self.picked.sentences)]])
        missing = [key for key in self.keys if key not in row]
        if missing:
            self.number += 1
            yield _bad(f"row {self.number}", f"has no field {str(missing[0])!r}")
            return
        cells = [_within(column, row[key]) for key, column in zip(self.keys, self.picked.all, strict=True)]
        if self.batches and any(map(is_column, cells[: len(self.picked.sentences)])):
            columns = zip(map(str, self.keys), cells, strict=True)
            for each in of_columns(columns, f"the batch after row {self.number}").rows(range(len(cells))):
                yield self._row(each, self.picked)
        else:
            yield self._row(cells, self.picked)

    def _keep(self, names: Sequence[str]) -> None:
        """Read the same columns from here on: the next batch may have others as well."""
        if self.reading.columns is None:
            self.reading = replace(self.reading, columns=tuple(names))

    def _pair(self, item: Any) -> Record | InputError:
        """The record of a text or a tuple, or what is wrong with it, which may be raised as well."""
        self.number += 1
        where = f"pair {self.number}"
        if isinstance(item, str):
            return self._record([item], where)
        if not isinstance(item, tuple | list):
            remedy = "give a text, or two in a tuple" if table_in(item) is None else "give one, or an iterator of them"
            raise InputError(f"{where} is a {type(item).__name__}", remedy)
        names: Sequence[str] = getattr(item, "_fields", ())
        if names[:1] == ("Index",):  # of DataFrame.itertuples
            item, names = item[1:], names[1:]
        if names or self.asked:
            try:
                columns = picked(self.reading, names or [str(number + 1) for number in range(len(item))], True)
            except PairsError as error:
                if self.asked or len(item) not in (1, 2):
                    raise spelled(error, f"{where}: ") from None
            else:
                return self._record_of([column.within(item[column.index]) for column in columns.all], columns, where)
        if len(item) not in (1, 2):
            remedy = "give a text, or two in a tuple, or say which with columns=, counted from 1"
            raise InputError(f"{where} is a {type(item).__name__} of {len(item)}", remedy)
        return self._record(item, where)

    def _row(self, cells: Sequence[object], columns: Picked) -> Record | InputError:
        self.number += 1
        return self._record_of(cells, columns, f"row {self.number}")

    def _record_of(self, cells: Sequence[object], columns: Picked, where: str) -> Record | InputError:
        """The record of the cells that are picked, as `Picked.all` orders them."""
        values = [None if _is_missing(cell) else _plain(cell) for cell in cells]
        count = len(columns.sentences)
        sentences, rest = values[:count], iter(values[count:])
        for name, sentence in zip("AB", sentences, strict=False):
            if sentence is None:
                return _bad(where, f"sentence {name} is missing")
        key, label = (None if column is None else next(rest) for column in (columns.id, columns.label))
        try:
            return self._record(sentences, where, *(None if each is None else str(each) for each in (key, label)))
        except InputError as error:
            return error

    def _record(
        self, sentences: Sequence[object], where: str, key: str | None = None, label: str | None = None
    ) -> Record:
        try:
            pair = pair_of(*sentences)
        except InputError as error:
            raise type(error)(f"{where}: {error.what}", error.remedy.partition(";")[0]) from None
        return Record(pair, where, label, Place(row=self.number, id=key))


def _begun(items: Iterable[object]) -> Iterator[object]:
    try:
        return iter(items)
    except TypeError as error:  # some classes say so only when they are asked
        raise InputError(f"pairs cannot be read one by one: {error}", TEXTS) from None


def _plain(item: Any) -> Any:
    """A scalar of Arrow, an array of texts, or a row of pandas, as objects of Python."""
    if hasattr(item, "as_py"):
        return item.as_py()
    if hasattr(item, "iloc") and not hasattr(item, "columns"):
        return dict(item.items())
    if getattr(item, "ndim", 0) == 1 and getattr(item.dtype, "kind", "") in ("O", "U", "T"):
        return item.tolist()
    return item


def _is_missing(cell: object) -> bool:
    """Whether a cell is empty: None, NaN, or NA of pandas."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, Real) and bool(cell != cell)


def _within(column: Column, cell: Any) -> Any:
    """What a path leads to within a cell or, where that is a column, within each of its cells."""
    if column.keys and is_column(cell):
        return [column.within(_plain(each)) for each in cell]
    return column.within(_plain(cell))


def _bad(where: str, why: str) -> PairsError:
    return PairsError(f"{where}: {why}", "correct it, or pass on_bad= to go on without it")


def spelled(error: PairsError, where: str = "") -> PairsError:
    """What is wrong with columns, in words for Python."""
    if "'input_ids'" in error.what:
        return PairsError(f"{where}{error.what}", "it looks tokenized already: give the text, or name it with columns=")
    remedy = error.remedy
    for option, name in _SPELLED.items():
        remedy = remedy.replace(option, name)
    return PairsError(f"{where}{error.what}", remedy)
