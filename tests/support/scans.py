"""Forty pairs, and a scan of them, taken apart: the records, the states, the sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from numpy.testing import assert_allclose

from attnscan.inputs.sentence import Pair, Place, Record
from attnscan.results.ranking import Ranking
from attnscan.scan.local import finished, scan
from attnscan.scan.options import ScanOptions
from attnscan.scan.per_pair import PerPairWriter
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState
from attnscan.scoring.sums import HeadProducts, ScoreSums, Sums

PAIRS = [Pair(f"the cat sat on {i % 7} mats" + " ." * (i % 5), f"a cat ran {i} times to the store") for i in range(40)]


def records_of(pairs: list[Pair]) -> list[Record]:
    return [Record(pair, f"pairs.tsv:{row + 1}", place=Place("pairs.tsv", row)) for row, pair in enumerate(pairs, 1)]


def states_of(
    scanner: Scanner,
    records: Any,
    start: ScanState | None = None,
    writer: PerPairWriter | None = None,
    **more: Any,
) -> list[ScanState]:
    """The states of a scan, whose pairs' own scores go to a writer, if there is one."""
    states: list[ScanState] = []
    scan(scanner, records, start, on_pairs=None if writer is None else writer.write, keep=states.append, **more)
    return states


def ranked(scanner: Scanner, state: ScanState) -> Ranking:
    """The ranking of a state."""
    return finished(scanner, state)


def scan_shard(options: ScanOptions, pairs: Iterable[Pair]) -> ScoreSums:
    """The sums of some pairs, which add to other shards', by a model that is loaded for them."""
    with Scanner(options) as scanner:
        sums = states_of(scanner, (Record(pair, f"pair {number}") for number, pair in enumerate(pairs, 1)))[-1].sums
    assert sums.told is not None
    return sums.told


def assert_equal_sums(one: ScoreSums, other: ScoreSums, tolerance: float) -> None:
    for kind in ("every_key", "words_only"):
        for field in fields(Sums):
            found, expected = (getattr(getattr(sums, kind), field.name) for sums in (one, other))
            assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{kind} {field.name}")
        for field in fields(HeadProducts):
            assert one.products is not None and other.products is not None
            found, expected = (getattr(sums.products[kind], field.name) for sums in (one, other))
            assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{kind} {field.name}")
    assert_allclose(one.entropy, other.entropy, rtol=tolerance)
    assert_allclose(one.words, other.words)


ARTICLE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
BUNDLED = ScanOptions(model="bundled")
RECORDS = [Record(pair, f"pair {number}", place=Place(row=number)) for number, pair in enumerate(PAIRS, 1)]
