"""What the workers of a cluster find, and how it adds up: each block once, in any order. Needs no Ray."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add

from attnscan.errors import AttnscanError, EngineError
from attnscan.results.ranking import Ranking
from attnscan.results.signature import Signature
from attnscan.scan.cluster.blocks import Bad, Block
from attnscan.scan.local import ScanSums
from attnscan.scan.options import ScanOptions
from attnscan.scan.seen import no_pair
from attnscan.scan.shard import Shard


@dataclass(frozen=True)
class Found:
    """What a block adds."""

    block: Block
    """Without its records."""
    shard: Shard | None = None
    """None where the block could not be scored, or has no records."""
    bad: Bad = field(default_factory=Bad)
    part: str = ""
    """The part of the `--per-pair` directory that holds its pairs' own scores, if any are kept."""


@dataclass(frozen=True)
class Asked:
    """What a pair of the sample adds to `predictive`."""

    number: int
    """In the sample."""
    sums: ScanSums | None = None
    error: AttnscanError | None = None
    """What ends the run."""
    part: str = ""
    signature: Signature | None = None
    """Of the model that was asked; None where that failed."""


@dataclass
class Totals:
    """Blocks and answers added, each once."""

    options: ScanOptions
    bad: Bad = field(default_factory=Bad)
    parts: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)
    """What was told of how files are read."""
    _arrived: set[tuple[int, int]] = field(default_factory=set)
    _ends: dict[int, int] = field(default_factory=dict)
    """The number of the last block of each file that was read to its end."""
    _answers: dict[int, ScanSums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shard = Shard(self.options)

    def add(self, found: Found) -> None:
        """Add what a block found, unless it is here already.

        Raises: AttnscanError if the block says so; EngineError if its worker ran another model than the others.
        """
        block = found.block
        if block.error is not None:
            raise block.error
        if (block.file, block.number) in self._arrived:
            return
        self._arrived.add((block.file, block.number))
        if block.last:
            self._ends[block.file] = block.number
        if found.shard is not None:
            self.shard += found.shard
        self.bad += found.bad
        self.parts |= {found.part} - {""}

    def add_answer(self, asked: Asked) -> None:
        """Add what a pair of the sample was asked, unless it is here already.

        Raises: AttnscanError if the answer is one; EngineError if another model was asked than scored.
        """
        if asked.error is not None:
            raise asked.error
        assert asked.sums is not None and asked.signature is not None
        self.shard.check(asked.signature)
        self._answers[asked.number] = asked.sums
        self.parts |= {asked.part} - {""}

    def check(self, files: int) -> None:
        """Raises: EngineError if a block of a file has not arrived; InputError if there is nothing to rank by."""
        due = sum(last + 1 for last in self._ends.values())
        if len(self._ends) != files or due != len(self._arrived):
            raise EngineError("the cluster lost blocks of pairs, and the sums are not whole", "run it again")
        if self.shard.signature is None:
            raise no_pair("to score")

    def ranking(self) -> Ranking:
        """The ranking by all that was added.

        Raises: EngineError if a pair of the sample was not answered; InputError if one of two halves is empty.
        """
        if self.shard.asks and len(self._answers) != len(self.shard.seen.sample):
            raise EngineError("the cluster lost pairs that predictive was asked of", "run it again")
        return self.shard.ranking(reduce(add, (self._answers[number] for number in sorted(self._answers)), ScanSums()))
