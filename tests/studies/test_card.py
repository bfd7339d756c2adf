"""A closer look at planted heads: what they link, how far away, which are alike and what they go by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from toy import Plan, save_toy_bert
from work import classify, similar

from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair, Record
from attnscan.inputs.tokens import Unit
from attnscan.model import tap
from attnscan.results.card import DISTANCES, Look, Measure
from attnscan.results.grid import Head
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.studies import card
from attnscan.studies.card import looks

PLAN: Plan = {(0, 0): "next-word", (0, 1): "identical", (1, 0): "next-word", (1, 2): "punctuation"}
PAIRS = [
    Pair("the cat sat on the mat .", "a cat ran to the store ."),
    Pair("i went to the store , i bought strawberries ."),
    Pair("the dog ran to a mat .", "i sat on the mat , the dog ran ."),
]
NEXT, ALIKE, PUNCTUATION, EVEN = Head(0, 0), Head(0, 1), Head(1, 2), Head(1, 1)
MEASURES = {
    NEXT: Measure("next-word", labelled=True, own=True),
    ALIKE: Measure("identical", labelled=True, own=True),
    PUNCTUATION: Measure("punctuation", labelled=False, own=True),
    EVEN: Measure("even", labelled=False, own=False),
}


@pytest.fixture(scope="module")
def scanner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    directory: Path = save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, PLAN, carries=True)
    with Scanner(ScanOptions(model=str(directory), predictive="off", related=False)) as scanner:
        yield scanner


def _looks(scanner: Scanner, pairs: list[Pair]) -> dict[Head, Look]:
    return looks(scanner, [Record(pair, "here") for pair in pairs], MEASURES)


@pytest.fixture(scope="module")
def seen(scanner: Scanner) -> dict[Head, Look]:
    return _looks(scanner, PAIRS)


def _rows(scanner: Scanner, pair: Pair) -> tuple[list[str], list[int], np.ndarray]:
    """The words of an input, their sentences, and what heads carry among them, from `classify` alone."""
    result = classify(scanner, pair, keep=True)
    attention = result.kept_attention().carried
    words = [place for place, sentence in enumerate(result.sentence) if sentence >= 0]
    rows = attention.weights[:, :, words][..., words].astype(float)
    return [result.units[i] for i in words], [result.sentence[i] for i in words], rows / rows.sum(-1, keepdims=True)


def test_distances_and_links_are_those_of_a_plain_loop(scanner: Scanner, seen: dict[Head, Look]) -> None:
    at = {distance: np.zeros(3) for distance in DISTANCES}
    linked: dict[tuple[str, str], np.ndarray] = {}
    words = 0
    for pair in PAIRS:
        units, sentence, rows = _rows(scanner, pair)
        for query, key in np.ndindex(len(units), len(units)):
            cell = np.array([rows[0, 0, query, key], rows[:, :, query, key].mean(), 1])
            if sentence[query] == sentence[key] and key - query in at:
                at[key - query] += cell
            linked[units[query], units[key]] = linked.get((units[query], units[key]), 0) + cell
        words += len(units)
    look = seen[NEXT]
    assert_allclose(look.distance, [own / words for own, _, _ in at.values()], atol=1e-5)
    assert_allclose(look.average_distance, [average / words for _, average, _ in at.values()], atol=1e-5)
    assert look.links and look.distance.sum() <= 1 + 1e-6
    for link in look.links:
        own, average, count = linked[link.query, link.key]
        assert (link.share, link.average) == pytest.approx((own / count, average / count), abs=1e-5)
        assert link.count == count and link.share > link.average


@pytest.mark.parametrize("unit", ["token", "word"])
def test_ranges_of_queries_and_rows_spread_over_an_input(
    scanner: Scanner, monkeypatch: pytest.MonkeyPatch, unit: Unit
) -> None:
    own = scanner.with_options(unit=unit)
    whole = _looks(own, PAIRS)
    monkeypatch.setattr(tap, "_BLOCK", 1)  # one head of one input at a time
    ranges = _looks(own, PAIRS)
    monkeypatch.setattr(card, "_ROWS", 6 * 12 * 4)  # of about four words
    few = _looks(own, PAIRS)
    for head, look in ranges.items():
        assert_allclose(look.distance, whole[head].distance, atol=1e-6)
        assert_allclose(few[head].distance, whole[head].distance, atol=0.4)
        assert look.alike[0][0] == whole[head].alike[0][0]
        for mine, same in zip(look.examples, whole[head].examples, strict=True):
            assert (mine.units, mine.query, mine.key) == (same.units, same.query, same.key)
        assert look.why.score == pytest.approx(whole[head].why.score, abs=1e-6) == few[head].why.score
        for before, after in zip(whole[head].links, look.links, strict=True):
            assert (before.query, before.key, before.count) == (after.query, after.key, after.count)
        assert sum(link.count for link in few[head].links) <= sum(link.count for link in look.links)


def test_heads_link_what_they_were_planted_to(seen: dict[Head, Look]) -> None:
    assert 0.8 < seen[NEXT].distance[DISTANCES.index(1)] < 0.95  # of all words, the last ones of sentences included
    assert {link.query for link in seen[ALIKE].links[:3]} == {link.key for link in seen[ALIKE].links[:3]}
    assert {link.key for link in seen[PUNCTUATION].links[:3]} <= {".", ","}
    example = seen[PUNCTUATION].examples[0]
    assert example.units[example.key] in ".," and example.sentences in [pair.texts for pair in PAIRS]
    shares = [example.share for example in seen[PUNCTUATION].examples]
    assert shares == sorted(shares, reverse=True) and len(shares) <= 3


def test_a_head_of_the_same_weights_is_nearest(seen: dict[Head, Look]) -> None:
    (nearest, divergence), *others = seen[NEXT].alike
    assert nearest == Head(1, 0) and divergence == pytest.approx(0, abs=1e-5)
    assert all(later > 0.1 for _, later in others) and NEXT not in [head for head, _ in seen[NEXT].alike]


def test_the_nearest_are_those_of_similar(scanner: Scanner, seen: dict[Head, Look]) -> None:
    found = similar(scanner, [Record(pair, "here") for pair in PAIRS])
    for head, look in seen.items():
        for other, divergence in look.alike:
            place = found.scores.grid.index(head), found.scores.grid.index(other)
            assert divergence == pytest.approx(found.divergence[place], abs=1e-9)


def test_why_a_head_does_it(seen: dict[Head, Look]) -> None:
    assert seen[NEXT].reason.startswith("Why: by position. 1.00 becomes 0.")
    assert seen[ALIKE].reason.startswith("Why: by content. ") and "positions shuffled" in seen[ALIKE].reason
    assert seen[PUNCTUATION].reason.startswith("Why: by content. ")


def test_one_pair_is_enough_and_none_is_refused(scanner: Scanner) -> None:
    assert _looks(scanner, PAIRS[:1])[NEXT].pairs == 1
    with pytest.raises(InputError, match="no pair can be read"):
        _looks(scanner, [])
