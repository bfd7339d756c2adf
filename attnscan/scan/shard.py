"""Shards: what some pairs add to a ranking. Made anywhere, they add in any order, and are finished once.

What must be the same for them to add is what their numbers hang on: the model by its fingerprint, the options, the
versions of what computes, and on what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from attnscan.errors import EngineError, OptionError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.pairs import Record
from attnscan.results.ranking import Ranking
from attnscan.results.signature import Signature
from attnscan.scan.events import PairScores
from attnscan.scan.local import ScanState, ScanSums, scan
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import OnPairs, Scanner
from attnscan.scan.seen import Seen, no_pair, sampled
from attnscan.scan.stream import Encode, OnBad
from attnscan.scoring.patterns import PATTERNS

_DIGESTS = 1 << 256
_NAMES = ("model", "revision")


_FORMAT = 1  # rises whenever what a shard holds has other fields


@dataclass(frozen=True)
class Shard:
    """What some pairs add to a ranking; one of no pairs adds nothing."""

    options: ScanOptions
    """What was computed, and the model as every machine finds it; None for one in memory."""
    seen: Seen = field(default_factory=Seen)
    """Its digest is the sum, modulo 2**256, of the hashes of all records: the same in any order."""
    sums: ScanSums = field(default_factory=ScanSums)
    """Sums over the pairs."""
    signature: Signature | None = None
    """Of the model as it ran; None where no pair was scored."""

    def __getstate__(self) -> dict[str, Any]:
        """Without functions of one's own, which another process need not find; ranking needs their names alone."""
        patterns = [each if each in PATTERNS else replace(each, target=_elsewhere) for each in self.options.patterns]
        return {**vars(self), "options": replace(self.options, patterns=tuple(patterns)), "format": _FORMAT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Raises: EngineError for what another version pickled."""
        state = dict(state)
        if state.pop("format", None) != _FORMAT:
            raise EngineError("the shard was pickled by another version of attnscan", "make it anew")
        vars(self).update(state)

    @classmethod
    def of(
        cls,
        scanner: Scanner,
        records: Iterable[Record],
        on_bad: OnBad | None = None,
        on_pairs: OnPairs | None = None,
        encode: Encode | None = None,
    ) -> Shard:
        """What a stream of pairs adds; `on_pairs` is given each pair's own sums. Raises: as `scan`."""
        state, digest = ScanState(), 0

        def read() -> Iterator[Record]:
            nonlocal digest
            for record in records:
                digest += int(record.pair.key, 16)
                yield record

        for event in scan(scanner, read(), on_bad=on_bad, encode=encode, pair_scores=on_pairs is not None):
            if isinstance(event, ScanState):
                state = event
            elif isinstance(event, PairScores) and on_pairs is not None:
                on_pairs(event.places, event.sums)
        seen = replace(state.seen, digest=f"{digest % _DIGESTS:064x}")
        signature = None if state.sums.any is None else scanner.signature(Seen(), fingerprint=True)
        return cls(scanner.options, seen, state.sums, signature)

    def __add__(self, other: Shard) -> Shard:
        """Both together. Raises: EngineError if they are not of the same model and options."""
        if not isinstance(other, Shard):
            return NotImplemented
        _check_same(self.options.deciding, other.options.deciding)
        if other.signature is not None:
            self.check(other.signature)
        a, b = self.seen, other.seen
        seen = Seen(
            read=a.read + b.read,
            truncated=a.truncated + b.truncated,
            skipped=a.skipped + b.skipped,
            digest=f"{(int(a.digest or '0', 16) + int(b.digest or '0', 16)) % _DIGESTS:064x}",
            sample=sampled((*a.sample, *b.sample), self.options.predictive_pairs),
        )
        return Shard(self.options, seen, self.sums + other.sums, self.signature or other.signature)

    def __radd__(self, other: int) -> Shard:
        """For `sum`, which begins with 0."""
        return self if other == 0 else NotImplemented

    @property
    def asks(self) -> bool:
        """Whether `predictive` has yet to be asked of the sample."""
        asked = self.signature is not None and self.signature.predictive != "off"
        return asked and not self.options.asks_every_pair

    def check(self, signature: Signature) -> None:
        """Raises: EngineError if it is of another model, of other versions or of another device."""
        if self.signature is not None:
            _check_same(_ran(self.signature), _ran(signature))

    def ranking(self, asked: ScanSums | None = None) -> Ranking:
        """Every head ranked, with what was `asked` for predictive added.

        Raises: InputError if no pair was scored, or with `split` none in one of the halves.
        """
        if self.signature is None:
            raise no_pair("to score")
        sums = self.sums if asked is None else self.sums + asked
        return sums.ranking(replace(self.signature, **self.seen.signature_fields), self.options)


def _elsewhere(_: EncodedBatch) -> NoReturn:
    """In place of a function that did not travel."""
    raise OptionError(
        "predictive words vote for labels beside patterns of one's own, whose functions do not travel with shards",
        "leave out labelled, or predictive",
    )


def _ran(signature: Signature) -> dict[str, Any]:
    """What a signature says of the numbers: of the model its fingerprint, whatever its name and place."""
    return {name: value for name, value in asdict(signature).items() if name not in _NAMES}


def _check_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    if unlike := [f"{name} {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]]:
        raise EngineError(
            f"parts of one scan differ: {'; '.join(unlike)}",
            "use the same model, options and versions on all machines",
        )
