"""What the workers of a cluster find, and how it adds up: each block once, in any order. Needs no Ray."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from attnscan.errors import AttnscanError, EngineError
from attnscan.results.ranking import Ranking
from attnscan.results.signature import Signature
from attnscan.scan.cluster.blocks import Bad, Block
from attnscan.scan.local import ScanState, ScanSums
from attnscan.scan.options import ScanOptions
from attnscan.scan.seen import Seen, no_pair, sampled

DIGESTS = 1 << 256
"""A cluster's digest is a sum modulo this."""


@dataclass(frozen=True)
class Found:
    """What a block adds."""

    block: Block
    """Without its records."""
    state: ScanState = field(default_factory=ScanState)
    bad: Bad = field(default_factory=Bad)
    signature: Signature | None = None
    """Of the model as the worker runs it; None where no pair was scored."""
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
    state: ScanState = field(default_factory=ScanState)
    bad: Bad = field(default_factory=Bad)
    signature: Signature | None = None
    parts: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)
    """What was told of how files are read."""
    _arrived: set[tuple[int, int]] = field(default_factory=set)
    _ends: dict[int, int] = field(default_factory=dict)
    """The number of the last block of each file that was read to its end."""
    _answers: dict[int, ScanSums] = field(default_factory=dict)

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
        self.state = merged(self.state, found.state, self.options.predictive_pairs)
        self.bad += found.bad
        if found.signature is not None:
            self.signature = _same(self.signature or found.signature, found.signature)
        self.parts |= {found.part} - {""}

    def add_answer(self, asked: Asked) -> None:
        """Add what a pair of the sample was asked, unless it is here already.

        Raises: AttnscanError if the answer is one; EngineError if another model was asked than scored.
        """
        if asked.error is not None:
            raise asked.error
        if asked.signature is not None:
            self.signature = _same(self.signature or asked.signature, asked.signature)
        assert asked.sums is not None
        self._answers[asked.number] = asked.sums
        self.parts |= {asked.part} - {""}

    def check(self, files: int) -> None:
        """Raises: EngineError if a block of a file has not arrived; InputError if there is nothing to rank by."""
        due = sum(last + 1 for last in self._ends.values())
        if len(self._ends) != files or due != len(self._arrived):
            raise EngineError("the cluster lost blocks of pairs, and the sums are not whole", "run it again")
        if self.state.sums.any is None:
            raise no_pair("to score")

    def asks(self) -> bool:
        """Whether `predictive` has yet to be measured on the sample."""
        asked = self.signature is not None and self.signature.predictive != "off"
        return asked and not self.options.asks_every_pair

    def ranking(self) -> Ranking:
        """The ranking by all that was added.

        Raises: EngineError if a pair of the sample was not answered; InputError if one of two halves is empty.
        """
        seen, sums = self.state.seen, self.state.sums
        assert self.signature is not None
        if self.asks():
            if len(self._answers) != len(seen.sample):
                raise EngineError("the cluster lost pairs that predictive was asked of", "run it again")
            for number in sorted(self._answers):
                sums += self._answers[number]
        return sums.ranking(replace(self.signature, **seen.signature_fields), self.options)


def _same(one: Signature, other: Signature) -> Signature:
    """Raises: EngineError if two workers did not run the same thing."""
    a, b = asdict(one), asdict(other)
    if unlike := [f"{name} {a[name]} and {b[name]}" for name in a if a[name] != b[name]]:
        raise EngineError(
            f"the machines of the cluster differ: {', '.join(unlike)}", "install the same versions and models on all"
        )
    return one


def merged(one: ScanState, other: ScanState, sample: int) -> ScanState:
    """Two states of different pairs as one, whichever came first."""
    a, b = one.seen, other.seen
    seen = Seen(
        read=a.read + b.read,
        truncated=a.truncated + b.truncated,
        skipped=a.skipped + b.skipped,
        digest=f"{(int(a.digest or '0', 16) + int(b.digest or '0', 16)) % DIGESTS:064x}",
        sample=sampled((*a.sample, *b.sample), sample),
    )
    return ScanState(seen, one.sums + other.sums)
