"""What the workers of a cluster find, and how it adds up: each block once, in one order. Needs no Ray."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

from attnscan.errors import AttnscanError, EngineError, StateError
from attnscan.results.ranking import Ranking
from attnscan.results.signature import Signature
from attnscan.scan.cluster.blocks import Bad, Block
from attnscan.scan.cluster.progress import ClusterState, Number, Proof
from attnscan.scan.local import ScanSums
from attnscan.scan.seen import no_pair
from attnscan.scan.shard import Shard


@dataclass(frozen=True)
class BlockResult:
    """What a block adds."""

    block: Block
    """Without its records."""
    shard: Shard | None = None
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

    progress: ClusterState
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
    def shard(self) -> Shard:
        """The sums."""
        return self.progress.shard

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
        before, block, shard = self.progress, result.block, result.shard
        self.rows += result.rows
        number = block.part, block.number
        # In one step: whatever ends the run, the sums are of the blocks that are said to be in them
        self.progress = replace(
            before,
            shard=before.shard if shard is None else before.shard + shard,
            next=(block.part + 1, 0) if block.last else (block.part, block.number + 1),
            bad=before.bad + result.bad,
            proof=before.proof if shard is None else Proof(number, shard.seen.digest),
        )

    def _prove(self, result: BlockResult, proof: Proof) -> None:
        """Raises: StateError."""
        if result.shard is None or result.shard.seen.digest != proof.digest:
            raise StateError("the state belongs to other pairs than these", "give the same files in the same order")
        assert result.shard.signature is not None
        try:
            self.shard.check(result.shard.signature)
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
        self.shard.check(asked.signature)
        self.rows += asked.rows if asked.number not in self._answers else 0
        self._answers[asked.number] = asked.sums

    def check(self, parts: int) -> None:
        """Raises: EngineError if a block of a part has not arrived; InputError if there is nothing to rank by."""
        if self._unproven is not None or self._waiting or self.progress.next != (parts, 0):
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
