"""Blocks: runs of records of one file, the same ones however often and wherever it is read. Needs no torch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attnscan.errors import AttnscanError, InputError
from attnscan.inputs.columns import Reading
from attnscan.inputs.pairs import Record, pairs_in
from attnscan.inputs.places.files import opened

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
    """Some records of one file, known by the file's place and a number of its own."""

    file: int
    number: int
    records: tuple[Record, ...] = ()
    bad: Bad = field(default_factory=Bad)
    """Those that could not be read among them."""
    last: bool = False
    """Whether the file ends here; only such a block may be empty."""
    error: AttnscanError | None = None
    """What ends the run."""
    notes: tuple[str, ...] = ()
    """What is to be told of how the file is read."""


@dataclass(frozen=True)
class BlockFiles:
    """Files, and how they are cut into blocks."""

    paths: tuple[str, ...]
    reading: Reading = Reading()
    skip_bad: bool = False
    block_pairs: int = 1024
    start: tuple[int, int] = (0, 0)
    """The first block that is wanted, by its file's place and its own number."""

    def blocks(self, file: int) -> Iterator[Block]:
        """The blocks of one file that are wanted; an error is the last of them."""
        name, number = self.paths[file], 0
        first = self.start[1] if file == self.start[0] else 0
        records: list[Record] = []
        bad: list[InputError] = []

        notes: list[str] = []

        def taken() -> Block:
            block = Block(file, number, tuple(records), Bad.of(bad), notes=tuple(notes))
            for each in (records, bad, notes):
                each.clear()
            return block

        try:
            with opened(name) as stream:
                for record in pairs_in(stream, name, self.reading, bad.append if self.skip_bad else None, notes.append):
                    records.append(record)
                    if len(records) == self.block_pairs:
                        block = taken()
                        if number >= first:
                            yield block
                        number += 1
            yield replace(taken(), last=True)
        except AttnscanError as error:
            yield Block(file, number, error=error)

    def rows(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The same for Ray Data: a row that names a file, to rows of its blocks."""
        for block in self.blocks(int(batch["item"][0])):
            yield row("block", block)


def row(name: str, value: object) -> dict[str, Any]:
    """A batch of one row of one cell, which carries any object of ours from process to process."""
    return {name: column([pickle.dumps(value)])}


def column(cells: Sequence[bytes]) -> Any:
    """Cells of bytes as Ray Data takes them. Shape: [cell]."""
    import numpy as np

    return np.array(cells, dtype=object)
