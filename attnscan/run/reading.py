"""The pairs that a run reads, from files, a program, standard input or a command line; and what it tells of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Self

from attnscan.errors import InputError, PairsError
from attnscan.inputs.option import Option
from attnscan.inputs.read import STDIN, FileReading
from attnscan.run.events import Note, Skipped

if TYPE_CHECKING:
    from attnscan.inputs.alignments import Alignments
    from attnscan.inputs.frames import Objects
    from attnscan.inputs.sentence import Pair, Record
    from attnscan.scan.local import OnBad


class Ledger:
    """Notes and bad records of the passes over some pairs. Readers write from threads of their own."""

    def __init__(self) -> None:
        self.bad = 0
        """How many records were skipped."""
        self._events = deque[Note | Skipped]()
        self._known: set[int] = set()  # hashes of texts; that of a bad record says where it stands

    def say(self, text: str) -> None:
        """Tell the user something."""
        if text:
            self._events.append(Note(text))

    def note(self, text: str) -> None:
        """Tell once how a file is read."""
        if self._is_new(text):
            self._events.append(Note(text, warns=True))

    def skip(self, error: InputError) -> None:
        """Count a bad record and tell of it, once."""
        if self._is_new(str(error)):
            self.bad += 1
            self._events.append(Skipped(error))

    def take(self) -> Iterator[Note | Skipped]:
        """What has been written since this was last called."""
        while self._events:
            yield self._events.popleft()

    def _is_new(self, text: str) -> bool:
        key = hash(text)
        is_new = key not in self._known
        self._known.add(key)
        return is_new


class Pairs:
    """Pairs that can be read."""

    skip_bad: bool = False
    """Whether a bad record is counted and skipped; else it ends the run."""

    def read(self, ledger: Ledger) -> Iterator[Record]:
        """Begin a pass over all pairs. Raises: PairsError, InputError for a bad one that is not to be skipped."""
        raise NotImplementedError

    def ready(self, ledger: Ledger, passes: int = 1, remedy: str = "") -> Pairs:  # noqa: ARG002
        """Pairs that can be read so often, checked as far as is quick, so that a model is not loaded in vain.

        Raises: PairsError if these cannot, with a `remedy` that would do; as `read`.
        """
        return self

    def how_many(self) -> int | None:
        """About how many pairs there are; None where that cannot be told cheaply."""
        return None

    def has_ids(self) -> bool:
        """Whether a column of ids was named, which tell pairs apart."""
        return False


def on_bad_of(pairs: Pairs, ledger: Ledger) -> OnBad | None:
    """What a bad record is handed to; None if it ends the run."""
    return ledger.skip if pairs.skip_bad else None


@dataclass(frozen=True)
class FilePairs(Pairs):
    """Files of pairs by their names; without any, the pairs that attnscan ships."""

    paths: tuple[str, ...] = ()
    reading: FileReading = FileReading()
    skip_bad: Annotated[bool, Option("Report and count bad records instead of stopping.")] = False

    def has_ids(self) -> bool:
        """Whether a column of ids was named."""
        return self.reading.id is not None

    def read(self, ledger: Ledger) -> Iterator[Record]:
        """Begin a pass over all pairs, as `Pairs.read`."""
        from attnscan.inputs.read import read_pairs, shipped_pairs

        if not self.paths:
            return shipped_pairs()
        return read_pairs(self.paths, self.reading, on_bad_of(self, ledger), ledger.note)

    def ready(self, ledger: Ledger, passes: int = 1, remedy: str = "") -> FilePairs:
        """These files, whose first record is read; as `Pairs.ready`."""
        once = [path for path in self.paths if path == STDIN or _is_no_file(path)]
        if once and passes > 1:
            name = "standard input" if once[0] == STDIN else once[0]
            raise PairsError(f"{name} can be read only once, and this takes {passes} passes", remedy)
        if self.paths and os.path.isfile(self.paths[0]):  # noqa: PTH113 (a name may be too long for a file)
            next(self.read(ledger), None)
        return self

    def how_many(self) -> int | None:
        """About how many pairs there are, by lines of text, if that is what the files hold."""
        from attnscan.inputs.read import about_how_many

        return about_how_many(self.paths, self.reading)


@dataclass(frozen=True)
class _ChangedPairs(Pairs):
    """Pairs that are changed as they are read."""

    pairs: Pairs

    @property
    def skip_bad(self) -> bool:  # type: ignore[override]
        """As the pairs are read."""
        return self.pairs.skip_bad

    def has_ids(self) -> bool:
        """Whether a column of ids was named."""
        return self.pairs.has_ids()

    def ready(self, ledger: Ledger, passes: int = 1, remedy: str = "") -> Self:
        """Pairs that can be read so often; as `Pairs.ready`."""
        return replace(self, pairs=self.pairs.ready(ledger, passes, remedy))

    def how_many(self) -> int | None:
        """About how many pairs there are."""
        return self.pairs.how_many()


class SourcePairs(_ChangedPairs):
    """The sources of some pairs, which an encoder reads alone."""

    def read(self, ledger: Ledger) -> Iterator[Record]:
        """Begin a pass over all pairs, as `Pairs.read`."""
        return (replace(record, pair=record.pair.source) for record in self.pairs.read(ledger))


@dataclass(frozen=True)
class AlignedPairs(_ChangedPairs):
    """Pairs of source and target, whose words a file of gold alignments links."""

    alignments: str | Alignments
    """A line for each pair, or the file that has them."""

    def read(self, ledger: Ledger) -> Iterator[Record]:
        """Begin a pass over all pairs, as `Pairs.read`."""
        from attnscan.inputs.alignments import Alignments

        links = Alignments.read(self.alignments)
        return links.linked(self.pairs.read(ledger), to_the_end=not self.skip_bad)

    def ready(self, ledger: Ledger, passes: int = 1, remedy: str = "") -> Self:
        """Pairs that can be read so often, whose first has links; as `Pairs.ready`."""
        known = super().ready(ledger, passes, remedy)
        if isinstance(self.pairs, FilePairs):
            next(known.read(ledger), None)
        return known


def _is_no_file(path: str) -> bool:
    """Whether it is there and is neither a file nor a directory; a name that is too long for one is not there."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113


@dataclass(frozen=True)
class ObjectPairs(Pairs):
    """Pairs that a program has."""

    objects: Objects
    skip_bad: bool = False
    classes: Sequence[str] = ()
    """Which class each pair is of, as far as they go."""

    def has_ids(self) -> bool:
        """Whether a column of ids was named."""
        return self.objects.reading.id is not None

    def read(self, ledger: Ledger) -> Iterator[Record]:
        """Begin a pass over all pairs, as `Pairs.read`."""
        for record in self.objects.records(on_bad_of(self, ledger)):
            known = record.place.row <= len(self.classes)
            yield replace(record, label=self.classes[record.place.row - 1]) if known else record

    def ready(self, ledger: Ledger, passes: int = 1, remedy: str = "") -> ObjectPairs:  # noqa: ARG002
        """Pairs that can be read so often: for several passes, what can be read only once is held in memory."""
        return self if passes == 1 else replace(self, objects=self.objects.held())

    def how_many(self) -> int | None:
        """How many pairs there are, if that is known without reading them."""
        return self.objects.total


@dataclass(frozen=True)
class OnePair(Pairs):
    """A sentence or a pair, alone."""

    pair: Pair

    def read(self, ledger: Ledger) -> Iterator[Record]:  # noqa: ARG002 (nothing is told of it)
        """Yield the single record."""
        from attnscan.inputs.sentence import Record

        yield Record(self.pair, "the input")

    def how_many(self) -> int:
        """One."""
        return 1


@dataclass(frozen=True)
class LinePairs(Pairs):
    """Standard input, an input a line, read as the lines come."""

    skip_bad: bool = False

    def read(self, ledger: Ledger) -> Iterator[Record]:
        """Begin the one pass over all lines, as `Pairs.read`."""
        from attnscan.inputs.read import lines_of_stdin

        return lines_of_stdin(on_bad_of(self, ledger))
