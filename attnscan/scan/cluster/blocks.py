"""Blocks: runs of records of a part of a file, the same ones however often and wherever it is read. Needs no torch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attnscan.errors import AttnscanError, InputError
from attnscan.inputs.alignments import Alignments
from attnscan.inputs.columns import FileReading
from attnscan.inputs.formats.columnar import RowGroups, row_groups
from attnscan.inputs.pairs import Record, pairs_in
from attnscan.inputs.places.files import opened, size_of
from attnscan.inputs.places.names import PARQUET, packing_in, scheme_of, shown, suffix_in

if TYPE_CHECKING:
    from attnscan.inputs.batch import EncodedInput

PART_BYTES = 128 << 20
"""Of a Parquet file, what a part has at least."""
MOST_PARTS = 256
"""Of all Parquet files together, which feed any cluster; beyond that, parts are larger."""

ASKED_AT_ONCE = 32
"""Files, of stores that answer slowly."""

Cuts = Mapping[int, tuple[RowGroups, ...]]
"""The parts of those files that have several, by the files' places."""

_TOLD = 3  # bad records whose words travel; the others are counted


@dataclass(frozen=True)
class Bad:
    """Bad records that were skipped: how many, and the first of them."""

    count: int = 0
    first: tuple[InputError, ...] = ()

    @classmethod
    def of(cls, errors: Sequence[InputError]) -> Bad:
        """What is told of all these."""
        return cls(len(errors), tuple(errors[:_TOLD]))

    def __add__(self, other: Bad) -> Bad:
        return Bad(self.count + other.count, (*self.first, *other.first)[:_TOLD])


@dataclass(frozen=True)
class Block:
    """Some records of one part, known by the part's place among all and a number of its own."""

    part: int
    number: int
    records: tuple[Record, ...] = ()
    bad: Bad = field(default_factory=Bad)
    """Those that could not be read among them."""
    last: bool = False
    """Whether the part ends here; only such a block may be empty."""
    error: AttnscanError | None = None
    """What ends the run."""
    notes: tuple[str, ...] = ()
    """What to tell the user of how the file was read and, once the block is scored, of how the model was loaded."""
    inputs: tuple[EncodedInput | AttnscanError, ...] | None = None
    """The records tokenized, or up to what ends the run; None where that is left to who scores them."""


@dataclass(frozen=True)
class FilePart:
    """What one task reads: a file, or a part of it."""

    number: int
    """Among the parts of all files."""
    file: str
    groups: RowGroups | None = None
    """Of a Parquet file that has several parts: what this part holds."""
    first: int = 0
    """The number of the first block that is wanted."""


@dataclass(frozen=True)
class BlockFiles:
    """Files, and how they are cut into blocks."""

    paths: tuple[str, ...]
    reading: FileReading = FileReading()
    skip_bad: bool = False
    block_pairs: int = 1024
    alignments: str | None = None
    """A file with a line of gold links for each pair of the only file."""

    def cuts(self) -> dict[int, tuple[RowGroups, ...]]:
        """How large Parquet files are shared among readers; every other file has one reader. Raises: PairsError."""
        columnar = [at for at, file in enumerate(self.paths) if suffix_in(file) in PARQUET and not packing_in(file)]
        if len(columnar) > MOST_PARTS:  # readers enough: stores are not asked how large their files are
            columnar = [at for at in columnar if not scheme_of(self.paths[at])]
        with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
            sizes = dict(zip(columnar, threads.map(lambda at: size_of(self.paths[at]) or 0, columnar), strict=True))
            piece = max(PART_BYTES, -(-sum(sizes.values()) // MOST_PARTS))
            large = [at for at, size in sizes.items() if size > piece]
            cuts = dict(zip(large, threads.map(lambda at: _row_groups(self.paths[at], piece), large), strict=True))
        return {at: groups for at, groups in cuts.items() if len(groups) > 1}

    def parts(self, cuts: Cuts, start: tuple[int, int] = (0, 0)) -> list[FilePart]:
        """What is to be read from a block on, given by its part and its own number."""
        parts = [(file, groups) for at, file in enumerate(self.paths) for groups in cuts.get(at, (None,))]
        first, block = start
        return [
            FilePart(number, file, groups, block if number == first else 0)
            for number, (file, groups) in enumerate(parts)
            if number >= first
        ]

    def blocks(self, wanted: FilePart) -> Iterator[Block]:
        """The blocks of a part that are wanted; an error is the last of them."""
        number = 0
        records: list[Record] = []
        bad: list[InputError] = []
        notes: list[str] = []

        def taken() -> Block:
            block = Block(wanted.number, number, tuple(records), Bad.of(bad), notes=tuple(notes))
            for kept in (records, bad, notes):
                kept.clear()
            return block

        try:
            with opened(wanted.file) as stream:
                on_bad = bad.append if self.skip_bad else None
                read = pairs_in(stream, wanted.file, self.reading, on_bad, notes.append, wanted.groups)
                if self.alignments is not None:
                    to_the_end = wanted.groups is None and not self.skip_bad
                    read = Alignments.read(self.alignments).linked(read, to_the_end=to_the_end)
                for record in read:
                    records.append(record)
                    if len(records) == self.block_pairs:
                        block = taken()
                        if number >= wanted.first:
                            yield block
                        number += 1
            yield replace(taken(), last=True)
        except AttnscanError as error:
            yield Block(wanted.number, number, error=error)

    def rows(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Cut a part of a file into blocks for Ray Data: a row that holds a FilePart, to rows of its blocks."""
        for block in self.blocks(pickle.loads(batch["item"][0])):
            yield row("block", block)


def _row_groups(file: str, size: int) -> tuple[RowGroups, ...]:
    with opened(file) as stream:
        return tuple(row_groups(stream, shown(file), size))


def row(name: str, value: object) -> dict[str, Any]:
    """A batch of one row of one cell, which carries any object of ours from process to process."""
    return {name: column([pickle.dumps(value)])}


def column(cells: Sequence[bytes]) -> Any:
    """Cells of bytes as Ray Data takes them. Shape: [cell]."""
    import numpy as np

    return np.array(cells, dtype=object)
