"""What a scan has read so far, apart from the sums, and the signature of what it comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from attnscan.__version__ import __version__
from attnscan.errors import InputError
from attnscan.inputs.pairs import Pair, Place, Record
from attnscan.results.signature import Signature
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERN_SET_VERSION

Drawn = tuple[str, Place, Pair]
"""A pair of a sample: the hash that it is drawn by, its place, and itself."""


@dataclass(frozen=True)
class Seen:
    """What a scan has read so far, apart from the sums."""

    read: int = 0
    """Records, those that were skipped included."""
    truncated: int = 0
    skipped: int = 0
    digest: str = ""
    """A hash of every record read, in order: two scans with the same have read the same."""
    sample: tuple[Drawn, ...] = ()
    """The pairs that `predictive` asks about."""

    @property
    def signature_fields(self) -> dict[str, Any]:
        """What a signature says of it, by the names of its fields."""
        return {
            "input_hash": self.digest,
            "pairs_read": self.read,
            "pairs_truncated": self.truncated,
            "pairs_skipped": self.skipped,
        }

    def and_then(self, record: Record, options: ScanOptions, *, truncated: bool, skipped: bool) -> Seen:
        """The same, one record later."""
        sample, most = self.sample, options.predictive_pairs
        if not skipped:
            key = record.pair.key_after(str(options.seed))
            if len(sample) < most or key <= sample[-1][0]:
                sample = sampled([*sample, (key, record.place, record.pair)], most)
        return Seen(
            read=self.read + 1,
            truncated=self.truncated + truncated,
            skipped=self.skipped + skipped,
            digest=record.pair.key_after(self.digest),
            sample=sample,
        )


def sampled(drawn: Iterable[Drawn], most: int) -> tuple[Drawn, ...]:
    """The pairs with the smallest hashes, at most so many: a uniform sample, whatever the order and the sharding.

    Of a pair that is there twice, the first place counts.
    """
    first = {each[0]: each for each in sorted(drawn, key=lambda each: each[:2], reverse=True)}
    return tuple(first[key] for key in sorted(first)[:most])


def half(pair: Pair, seed: int) -> int:
    """Which half of all pairs a pair is in, by a hash of its sentences and a seed: 0 chooses heads, 1 measures them.

    What is measured on other pairs than chose it owes nothing to luck; a pair that is there twice is in one half.
    """
    return int(pair.key_after(str(seed))[-1], 16) & 1  # the last bit: samples are drawn by the first ones


def no_pair(purpose: str) -> InputError:
    """What is to be raised at the end of a stream without pairs for that purpose."""
    return InputError(f"there is no pair {purpose}", "give a file with at least one pair that is not skipped")


def signed(options: ScanOptions, **about: Any) -> Signature:
    """A signature, with what every result has in common filled in."""
    about["model"] = about["model"].encode(errors="backslashreplace").decode()  # a file name need not be UTF-8
    return Signature(
        **about,
        attnscan=__version__,
        torch=str(torch.__version__),
        unit=options.unit,
        **asdict(options.reading),
        pattern_set=PATTERN_SET_VERSION,
    )
