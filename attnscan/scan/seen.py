"""What a scan has read so far, apart from the sums, and the signature of what it comes to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from typing import Any

import torch

from attnscan.__version__ import __version__
from attnscan.errors import InputError
from attnscan.inputs.pairs import Pair, Place, Record
from attnscan.inputs.sentence import Sentence
from attnscan.results.signature import Signature
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERN_SET_VERSION

_DIGESTS = 1 << 256
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
    """The sum, modulo 2**256, of the hashes of all records: the same in any order. 64 hexadecimal digits, or none."""
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

    @classmethod
    def of(cls, pair: Pair, *, truncated: bool = False, skipped: bool = False, sample: tuple[Drawn, ...] = ()) -> Seen:
        """A single record."""
        return cls(1, int(truncated), int(skipped), pair.key, sample)

    def and_then(self, record: Record, options: ScanOptions, *, truncated: bool = False, skipped: bool = False) -> Seen:
        """What has been read one record later."""
        pair = record.pair
        drawn = () if skipped else ((pair.key_after(str(options.seed)), record.place, pair),)
        later = Seen.of(pair, truncated=truncated, skipped=skipped, sample=drawn)
        return self.joined(later, options.predictive_pairs)

    def joined(self, other: Seen, most: int) -> Seen:
        """What has been read by both, with a sample of at most so many pairs."""
        sample = self.sample
        if other.sample and (len(sample) < most or other.sample[0][0] <= sample[-1][0]):
            sample = sampled((*sample, *other.sample), most)
        return Seen(
            read=self.read + other.read,
            truncated=self.truncated + other.truncated,
            skipped=self.skipped + other.skipped,
            digest=f"{(int(self.digest or '0', 16) + int(other.digest or '0', 16)) % _DIGESTS:064x}",
            sample=sample,
        )

    def dumped(self) -> dict[str, Any]:
        """What was read, as JSON holds it."""
        drawn = [[key, *astuple(place), *map(_sentence_dumped, pair.sentences)] for key, place, pair in self.sample]
        return {**asdict(self), "sample": drawn}

    @classmethod
    def loaded(cls, *, read: int, truncated: int, skipped: int, digest: str, sample: list[list[Any]]) -> Seen:
        """Read what `dumped` made. Raises: ValueError for counts or places of another type."""
        counts = read, truncated, skipped
        if not all(type(count) is int and count >= 0 for count in counts) or type(digest) is not str:
            raise ValueError("counts of another type")
        return cls(read, truncated, skipped, digest, tuple(_drawn(*dumped) for dumped in sample))


def _sentence_dumped(sentence: Sentence) -> str | list[Any]:
    return sentence.text if sentence.words is None else [sentence.text, sentence.words, sentence.tags]


def _drawn(key: str, file: str, row: int, name: str | None, *sentences: str | list[Any]) -> Drawn:
    if not (type(key) is type(file) is str and type(row) is int and isinstance(name, str | None)):
        raise ValueError("a place of another type")
    known = (Sentence(*dumped) if isinstance(dumped, list) else dumped for dumped in sentences)
    return key, Place(file, row, name), Pair(*known)


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
