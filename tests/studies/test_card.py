"""A closer look at planted heads: what they link, which are alike, what they go by; examples."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.toy_bert import Plan, save_toy_bert

from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair, Record, Unit
from attnscan.model import tap
from attnscan.results.card import Card
from attnscan.results.explanation import CAUSES
from attnscan.results.grid import Head
from attnscan.scan.one_input import classify_input
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import finish_scan, scan
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.studies import card
from attnscan.studies.card import HeadWatcher, cards, look_at
from attnscan.studies.comparison import similar
from attnscan.studies.explanation import explain

PLAN: Plan = {(0, 0): "next-word", (0, 1): "identical", (1, 0): "next-word", (1, 2): "punctuation"}
PAIRS = [
    Pair("the cat sat on the mat .", "a cat ran to the store ."),
    Pair("i went to the store , i bought strawberries ."),
    Pair("the dog ran to a mat .", "i sat on the mat , the dog ran ."),
]
NEXT = Head(0, 0)
ALIKE = Head(0, 1)
PUNCTUATION = Head(1, 2)
HEADS = (NEXT, ALIKE, PUNCTUATION)


@pytest.fixture(scope="module")
def scanner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    directory: Path = save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, PLAN, carries=True)
    options = ScanOptions(model=str(directory), predictive="off", related=False, labelled=True)
    with open_scanner(options) as scanner:
        yield scanner


def _cards(scanner: Scanner, pairs: list[Pair]) -> dict[Head, Card]:
    records = [Record(pair, "here") for pair in pairs]
    ranking = finish_scan(scanner, scan(scanner, [Record(pair, "here") for pair in PAIRS * 8]))
    watcher = HeadWatcher(scanner, HEADS)
    look_at(scanner, records, watcher)
    return {made.head: made for made in cards(scanner, ranking, watcher)}


@pytest.fixture(scope="module")
def seen(scanner: Scanner) -> dict[Head, Card]:
    return _cards(scanner, PAIRS)


def test_links_are_those_of_a_plain_loop(scanner: Scanner, seen: dict[Head, Card]) -> None:
    """Over what heads carry among words, from `classify` alone."""
    linked: dict[tuple[str, str], np.ndarray] = {}
    for pair in PAIRS:
        result = classify_input(scanner, pair, keep=True)
        words = [place for place, sentence in enumerate(result.sentence) if sentence >= 0]
        units = [result.units[place] for place in words]
        rows = result.kept_attention().carried.weights[:, :, words][..., words].astype(float)
        rows /= rows.sum(-1, keepdims=True)
        for query, key in np.ndindex(len(units), len(units)):
            cell = np.array([rows[0, 0, query, key], rows[:, :, query, key].mean(), 1])
            linked[units[query], units[key]] = linked.get((units[query], units[key]), 0) + cell
    assert len(seen[NEXT].links) == 10
    for link in seen[NEXT].links.itertuples():
        weight, average, count = linked[link.query, link.key]
        assert (link.share, link.average) == pytest.approx(
            (weight / count, average / count), abs=1e-5
        )
        assert link.count == count and link.share > link.average


@pytest.mark.parametrize("unit", ["token", "word"])
def test_ranges_of_queries_and_rows_spread_over_an_input(
    scanner: Scanner, monkeypatch: pytest.MonkeyPatch, unit: Unit
) -> None:
    variant = scanner.with_options(unit=unit)
    whole = _cards(variant, PAIRS)
    monkeypatch.setattr(tap, "_BLOCK_CELLS", 1)  # one head of one input at a time
    ranges = _cards(variant, PAIRS)
    monkeypatch.setattr(card, "_WEIGHTS", 6 * 12 * 4)  # of about four words
    few = _cards(variant, PAIRS)
    for head, made in ranges.items():
        assert made.alike[0][0] == whole[head].alike[0][0]
        for mine, same in zip(made.examples, whole[head].examples, strict=True):
            assert (mine.units, mine.query, mine.key) == (same.units, same.query, same.key)
        assert (
            made.why.score == pytest.approx(whole[head].why.score, abs=1e-6) == few[head].why.score
        )
        assert made.links[["query", "key", "count"]].equals(
            whole[head].links[["query", "key", "count"]]
        )
        assert len(few[head].links) > 0 and few[head].pairs == 3


def test_alike_and_why_are_those_of_similar_and_explain(
    scanner: Scanner, seen: dict[Head, Card]
) -> None:
    records = [Record(pair, "here") for pair in PAIRS]
    found = similar(scanner, records)
    explained = explain(scanner, records, pattern="next-word", shuffles=3)  # 8 in all of 3 pairs
    for head, made in seen.items():
        for other, divergence in made.alike:
            place = scanner.grid().index(head), scanner.grid().index(other)
            assert divergence == pytest.approx(found.divergence[place], abs=1e-9)
    (nearest, divergence), *others = seen[NEXT].alike
    assert nearest == Head(1, 0) and divergence == pytest.approx(0, abs=1e-5)  # of the same weights
    assert all(later > 0.1 for _, later in others) and NEXT not in [
        head for head, _ in seen[NEXT].alike
    ]
    for name in ("score", *CAUSES):
        assert seen[NEXT].why[name] == explained[NEXT][name]


def test_why_a_head_does_it(seen: dict[Head, Card]) -> None:
    assert [seen[head].why.by for head in (NEXT, ALIKE, PUNCTUATION)] == [
        "by position",
        "by content",
        "by content",
    ]
    for head, made in seen.items():  # the ranking is of the same pairs, several times over
        number = made.ranking.labels.numbers(made.main_kind, head)
        assert made.why.pattern == made.main_kind
        assert_allclose([made.why.score, made.why.chance], [number.share, number.chance], atol=1e-6)


def test_one_pair_is_enough_and_none_is_refused(scanner: Scanner) -> None:
    assert _cards(scanner, PAIRS[:1])[NEXT].pairs == 1
    with pytest.raises(InputError, match="no pair"):
        _cards(scanner, [])


def test_a_scan_of_all_pairs_shows_the_first_ones(
    scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass over the pairs serves the ranking and the cards."""
    monkeypatch.setattr(card, "LOOKED_AT", 2)
    records = [Record(pair, "here") for pair in PAIRS]
    during = HeadWatcher(scanner, HEADS)
    scan(scanner, records, observer=during)
    behind = HeadWatcher(scanner, HEADS)
    look_at(scanner, records, behind)
    assert [pair.encoded.number for pair in during.pairs] == [1, 2]
    for mine, same in zip(during.pairs, behind.pairs, strict=True):
        assert mine.encoded.units == same.encoded.units and mine.rows == same.rows
        for name in ("shares", "weight", "n", "apart"):
            assert_allclose(getattr(mine, name), getattr(same, name), atol=1e-6, err_msg=name)
