"""What is kept of the pairs that were read."""

from __future__ import annotations

from dataclasses import replace

from scans import PAIRS

from attnscan.inputs.pairs import Pair, Place, Record
from attnscan.scan.options import ScanOptions
from attnscan.scan.state import Seen, sampled


def test_the_sample_does_not_depend_on_order() -> None:
    options = ScanOptions(predictive_pairs=4)

    def sampled(pairs: list[Pair], seed: int = 0) -> set[Pair]:
        seen = Seen()
        for pair in pairs:
            seen = seen.and_then(Record(pair, ""), replace(options, seed=seed), truncated=False, skipped=False)
        return {pair for _, _, pair in seen.sample}

    assert sampled(PAIRS) == sampled(PAIRS[::-1]) == sampled(PAIRS * 2)
    assert len(sampled(PAIRS)) == 4 and sampled(PAIRS) != sampled(PAIRS, seed=1)


def test_of_a_pair_that_is_there_twice_the_first_place_counts() -> None:
    first, later = (("hash", place, Pair("the cat")) for place in (Place("a.tsv", 4, "x"), Place("b.tsv", 2)))
    assert sampled([first, later], 5) == sampled([later, first], 5) == (first,)
    records = [Record(pair, "", place=place) for _, place, pair in (first, later)]
    for some in (records, records[::-1]):
        seen = Seen()
        for record in some:
            seen = seen.and_then(record, ScanOptions(), truncated=False, skipped=False)
        assert [place for _, place, _ in seen.sample] == [first[1]]
