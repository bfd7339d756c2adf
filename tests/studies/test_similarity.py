"""Which heads are alike: constructed heads that are equal, and divergences by a plain loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.testing import assert_allclose
from toy import save_toy_bert

from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair, Record
from attnscan.model.tap import AttentionKeeper
from attnscan.results.comparison import Similarity
from attnscan.results.terms import Head
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.studies.comparison import similar

PLAN = {(0, 0): "next-word", (0, 1): "delimiter", (1, 2): "next-word", (1, 0): "previous-word", (1, 3): "delimiter"}
PAIRS = [Pair("the cat sat on the mat", "a dog ran"), Pair("i went to the store ."), Pair("a cat", "the cat ran")]


def _records() -> Iterator[Record]:
    return iter([Record(pair, "here") for pair in PAIRS])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("alike"), 2, 4, PLAN))


@pytest.fixture(scope="module")
def toy(directory: str) -> Iterator[Scanner]:
    with Scanner(ScanOptions(model=directory, predictive="off", special="in")) as scanner:
        yield scanner


@pytest.fixture(scope="module")
def found(toy: Scanner) -> Similarity:
    return similar(toy, _records(), queries=100)


def _loop(scanner: Scanner) -> np.ndarray:
    """Every two heads, one query at a time. Shape: [head, head]."""
    total, n = np.zeros((8, 8)), 0
    for pair in PAIRS:
        encoded, keeper = scanner.encode(pair), AttentionKeeper()
        scanner.score([encoded], others=[keeper])
        weights = keeper.attention(encoded).weights.reshape(8, len(encoded.tokens), -1).astype(float)
        for query in (place for place, sentence in enumerate(encoded.sentence) if sentence >= 0):
            n += 1
            for a in range(8):
                for b in range(8):
                    p, q = weights[a, query], weights[b, query]
                    mean = (p + q) / 2
                    total[a, b] += _entropy(mean) - (_entropy(p) + _entropy(q)) / 2
    return total / n


def _entropy(row: np.ndarray) -> float:
    return float(-sum(p * np.log(p) for p in row if p > 0))


def test_divergences_are_those_of_a_plain_loop(toy: Scanner, found: Similarity) -> None:
    assert_allclose(found.divergence, _loop(toy), atol=2e-6)
    assert found.queries == 9 + 6 + 5


def test_heads_made_equal_diverge_by_nothing_and_are_of_one_group(found: Similarity) -> None:
    number = {head.place: number for number, head in enumerate(found.grid)}
    assert found.divergence[number[0, 0], number[1, 2]] == pytest.approx(0, abs=1e-6)
    groups = [{found.grid[head] for head in group} for group in found.groups]
    assert {Head(0, 0), Head(1, 2)} in groups and {Head(0, 1), Head(1, 3)} in groups and {Head(1, 0)} in groups
    assert found.nearest(number[0, 0], 1) == [number[1, 2]]
    places, _ = found.map
    assert_allclose(places[number[0, 0]], places[number[1, 2]], atol=1e-3)
    assert found.labels.label[0, 0] == found.labels.label[1, 2] == "next-word"


def test_no_pair_is_an_error(toy: Scanner) -> None:
    with pytest.raises(InputError, match="no pair"):
        similar(toy, [])
