"""What a scan has read so far, apart from the sums."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

from attnscan.errors import InputError
from attnscan.inputs.pairs import Pair
from attnscan.results.signature import hashed
from attnscan.scan.options import ScanOptions


@dataclass(frozen=True)
class Seen:
    """What a scan has read so far, apart from the sums."""

    read: int = 0
    """Records, those that were skipped included."""
    truncated: int = 0
    skipped: int = 0
    digest: str = ""
    """A hash of every record read, in order: two scans with the same have read the same."""
    sample: tuple[tuple[str, int, Pair], ...] = ()
    """The pairs that `predictive` asks about: the hash that each is drawn by, its number, and itself."""

    @property
    def signature_fields(self) -> dict[str, Any]:
        """What a signature says of it, by the names of its fields."""
        return {
            "input_hash": self.digest,
            "pairs_read": self.read,
            "pairs_truncated": self.truncated,
            "pairs_skipped": self.skipped,
        }

    def and_then(self, pair: Pair, options: ScanOptions, *, truncated: bool, skipped: bool) -> Seen:
        """The same, one record later."""
        text = [sentence.encode() for sentence in pair.sentences]
        sample = list(self.sample)
        if not skipped:
            # The pairs with the smallest hashes are a uniform sample, whatever the order and the sharding.
            drawn = (hashed(str(options.seed).encode(), *text), self.read + 1, pair)
            if drawn[0] not in [key for key, *_ in sample]:
                bisect.insort(sample, drawn, key=lambda each: each[0])
        return Seen(
            read=self.read + 1,
            truncated=self.truncated + truncated,
            skipped=self.skipped + skipped,
            digest=hashed(self.digest.encode(), *text),
            sample=tuple(sample[: options.predictive_pairs]),
        )


def half(pair: Pair, seed: int) -> int:
    """Which half of all pairs a pair is in, by a hash of its sentences and a seed: 0 chooses heads, 1 measures them.

    What is measured on other pairs than chose it owes nothing to luck; a pair that is there twice is in one half.
    """
    text = [sentence.encode() for sentence in pair.sentences]
    return int(hashed(str(seed).encode(), *text)[-1], 16) & 1  # the last bit: samples are drawn by the first ones


def no_pair(purpose: str) -> InputError:
    """What is to be raised at the end of a stream without pairs for that purpose."""
    return InputError(f"there is no pair {purpose}", "give a file with at least one pair that is not skipped")
