"""One pair through a model that is loaded for it, and a scan of forty, taken apart: records,
states, sums.
"""

from collections.abc import Iterable
from typing import Any

from numpy.testing import assert_allclose

from attnscan.inputs.sentence import Pair, Place, Record
from attnscan.results.heads import HeadScores
from attnscan.scan.one_input import classify_input
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import scan
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.scan.state import ScanState
from attnscan.scoring.blocks import PairSums

PAIRS = [
    Pair(f"the cat sat on {i % 7} mats" + " ." * (i % 5), f"a cat ran {i} times to the store")
    for i in range(40)
]


def records_of(pairs: list[Pair]) -> list[Record]:
    return [
        Record(
            pair, f"pairs.tsv:{row + 1}", place=Place("pairs.tsv", row, group=f"genre {row % 6}")
        )
        for row, pair in enumerate(pairs, 1)
    ]


def states_of(
    scanner: Scanner, records: Any, start: ScanState | None = None, **more: Any
) -> list[ScanState]:
    """The states of a scan."""
    states: list[ScanState] = []
    scan(scanner, records, start, keep=states.append, **more)
    return states


def classify(pair: Pair, options: ScanOptions, *, keep: bool = False) -> HeadScores:
    with open_scanner(options) as scanner:
        return classify_input(scanner, pair, keep=keep)


def scan_shard(options: ScanOptions, pairs: Iterable[Pair]) -> PairSums:
    """The sums of some pairs, which add to other shards', by a model that is loaded for them."""
    with open_scanner(options) as scanner:
        sums = states_of(
            scanner, (Record(pair, f"pair {number}") for number, pair in enumerate(pairs, 1))
        )[-1].sums
    return sums["scored"]


def assert_equal_sums(one: PairSums, other: PairSums, tolerance: float) -> None:
    assert one.keys.tolist() == other.keys.tolist() and one.bits == other.bits
    for name in {**one.sums, **other.sums}:
        assert_allclose(
            one.sums[name], other.sums[name], rtol=tolerance, atol=tolerance, err_msg=name
        )


ARTICLE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
BUNDLED = ScanOptions(model="bundled")
RECORDS = [
    Record(pair, f"pair {number}", place=Place(row=number)) for number, pair in enumerate(PAIRS, 1)
]
