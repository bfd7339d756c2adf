"""How far a scan on a cluster is: each block added once, in one order, and kept in a file for another driver.

Blocks are added in their order, so that sums are the same to the last bit however often a scan is stopped, and the file
names the next block alone. The block before it, scored again, shows that pairs and model are the same. Needs no Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from attnscan.errors import AttnscanError, EngineError, PairsError, StateError
from attnscan.hashing import hashed
from attnscan.inputs.formats.columnar import RowGroups
from attnscan.inputs.places.files import version_of
from attnscan.results.ranking import Ranking
from attnscan.results.signature import Signature
from attnscan.results.stored_file import StoredFile
from attnscan.results.syntax import Syntax
from attnscan.scan.cluster.blocks import ASKED_AT_ONCE, Bad, Block, BlockFiles, Cuts
from attnscan.scan.options import ScanOptions
from attnscan.scan.state import ScanState, ScanSums, no_pair
from attnscan.scan.stored import Keeper, read_state, write_state

SAVE_EVERY = 60.0
"""Seconds between two states in a file."""
Number = tuple[int, int]
"""Of a block: its part's place, and its own."""


@dataclass(frozen=True)
class Proof:
    """A block that has been added, by which another run shows that it has the same pairs and model."""

    number: Number
    digest: str
    """Of its pairs."""


@dataclass(frozen=True)
class ClusterProgress:
    """What the first blocks add up to, and which is next."""

    state: ScanState
    next: Number = (0, 0)
    bad: Bad = field(default_factory=Bad)
    proof: Proof | None = None
    """The last of them that had pairs; None where none had."""
    cuts: Cuts = field(default_factory=dict)
    """What blocks are numbered by."""


def save_progress(path: Path | StoredFile, progress: ClusterProgress, about: Mapping[str, Any]) -> None:
    """Write what `load_progress` reads, whole or not at all; nothing before a block had pairs. Raises: OutputError."""
    proof, bad = progress.proof, progress.bad
    if proof is None:
        return
    position = {
        "cuts": progress.cuts,
        "next": progress.next,
        "proof": [*proof.number, proof.digest],
        "bad": [bad.count, *([error.what, error.remedy] for error in bad.first)],
    }
    write_state(path, progress.state, about, position)


def load_progress(path: Path | StoredFile, options: ScanOptions, about: Mapping[str, Any]) -> ClusterProgress:
    """Read what `save_progress` wrote. Raises: StateError if that was of other files or options, or is damaged."""
    with read_state(path, options, about, of_cluster=True) as (state, position):
        part, block, digest = position["proof"]
        count, *first = position["bad"]
        bad = Bad(count, tuple(PairsError(what, remedy) for what, remedy in first))
        cuts = {int(at): tuple(RowGroups(*groups) for groups in cut) for at, cut in position["cuts"].items()}
        part_next, block_next = position["next"]
        return ClusterProgress(state, (part_next, block_next), bad, Proof((part, block), digest), cuts)


def about_scan(options: ScanOptions, files: BlockFiles) -> dict[str, Any]:
    """What must be equal for a scan to be gone on with, as JSON holds it.

    Raises: PairsError if a file cannot be looked at.
    """
    read = files.paths if files.alignments is None else (*files.paths, files.alignments)
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        versions = list(threads.map(version_of, read))
    told = (f"{name} {version}".encode() for name, version in zip(read, versions, strict=True))
    return {
        **options.deciding,
        "columns": str(files.reading),
        "skip_bad": files.skip_bad,
        "block_pairs": files.block_pairs,
        "files": hashed(*told),
    }


@dataclass(frozen=True)
class BlockResult:
    """What a block adds."""

    block: Block
    """Without its records."""
    state: ScanState | None = None
    """None where the block could not be scored, or has no records."""
    bad: Bad = field(default_factory=Bad)
    rows: int = 0
    """Of its pairs' own scores, if these are kept."""


@dataclass(frozen=True)
class Asked:
    """What a pair of the sample adds to `predictive`."""

    number: int
    """In the sample."""
    sums: ScanSums | None = None
    error: AttnscanError | None = None
    """What ends the run."""
    signature: Signature | None = None
    """Of the model that was asked; None where that failed."""
    rows: int = 0
    """Of the pair's own scores, if these are kept."""


@dataclass
class Totals:
    """Blocks and answers added, each once and in one order, whatever the order in which they come."""

    progress: ClusterProgress
    """Of what has been added."""
    rows: int = 0
    """Of pairs' own scores."""
    notes: set[str] = field(default_factory=set)
    """What the user has been told already, so that each note is told once and not once a block."""
    _waiting: dict[Number, BlockResult] = field(default_factory=dict)
    """Blocks that came before the one that is next."""
    _answers: dict[int, ScanSums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._unproven = self.progress.proof

    @property
    def state(self) -> ScanState:
        """What they add up to."""
        return self.progress.state

    @property
    def start(self) -> Number:
        """The first block that is wanted."""
        return self.progress.next if self._unproven is None else self._unproven.number

    def add(self, result: BlockResult) -> None:
        """Add what a block found, unless it is here already, once all before it are.

        Raises: AttnscanError if the block says so; EngineError if its worker ran another model than the others;
        StateError if it shows that sums from a file are of other pairs or another model.
        """
        if result.block.error is not None:
            raise result.block.error
        number = result.block.part, result.block.number
        if self._unproven is not None and number == self._unproven.number:
            self._prove(result, self._unproven)
        elif number >= self.progress.next:
            self._waiting[number] = result
        while self._unproven is None and (after := self._waiting.pop(self.progress.next, None)) is not None:
            self._add(after)

    def _add(self, result: BlockResult) -> None:
        before, block, state = self.progress, result.block, result.state
        self.rows += result.rows
        number = block.part, block.number
        # In one step: whatever ends the run, the sums are of the blocks that are said to be in them
        self.progress = replace(
            before,
            state=before.state if state is None else before.state + state,
            next=(block.part + 1, 0) if block.last else (block.part, block.number + 1),
            bad=before.bad + result.bad,
            proof=before.proof if state is None else Proof(number, state.seen.digest),
        )

    def _prove(self, result: BlockResult, proof: Proof) -> None:
        """Raises: StateError."""
        if result.state is None or result.state.seen.digest != proof.digest:
            raise StateError("the state belongs to other pairs than these", "give the same files in the same order")
        assert result.state.signature is not None
        try:
            self.state.check(result.state.signature)
        except EngineError as error:
            raise StateError(
                f"the state was begun with another model, or by other versions: {error.what}",
                "name the model that it was begun with, or another --state file",
            ) from None
        self._unproven = None

    def add_answer(self, asked: Asked) -> None:
        """Add what a pair of the sample was asked, unless it is here already.

        Raises: AttnscanError if the answer is one; EngineError if another model was asked than scored.
        """
        if asked.error is not None:
            raise asked.error
        assert asked.sums is not None and asked.signature is not None
        self.state.check(asked.signature)
        self.rows += asked.rows if asked.number not in self._answers else 0
        self._answers[asked.number] = asked.sums

    def check(self, parts: int) -> None:
        """Raises: EngineError if a block of a part has not arrived; InputError if there is nothing to rank by."""
        if self._unproven is not None or self._waiting or self.progress.next != (parts, 0):
            raise EngineError("the cluster lost blocks of pairs, and the sums are not whole", "run it again")
        if self.state.signature is None:
            raise no_pair("to score")

    def result(self) -> Ranking | Syntax:
        """The ranking by all that was added or, of sentences with trees, every head against these.

        Raises: EngineError if a pair of the sample was not answered; as `ScanState.ranking` and `ScanState.syntax`.
        """
        if self.state.options.relations is not None:
            return self.state.syntax()
        if self.state.asks and len(self._answers) != len(self.state.seen.sample):
            raise EngineError("the cluster lost pairs that predictive was asked of", "run it again")
        return self.state.ranking(reduce(add, (self._answers[number] for number in sorted(self._answers)), ScanSums()))


@contextmanager
def kept(
    place: Path | StoredFile | None, about: Mapping[str, Any], totals: Totals, say: Callable[[str], None]
) -> Iterator[Keeper[ClusterProgress]]:
    """What keeps in a file how far a scan is; at the end, however that comes, too.

    A file that cannot be written ends no scan, and is told.
    """

    def save(progress: ClusterProgress) -> None:
        if place is not None:
            save_progress(place, progress, about)

    keep = Keeper(save, SAVE_EVERY, say, totals.progress)
    try:
        yield keep
    finally:
        keep(totals.progress, last=True)
