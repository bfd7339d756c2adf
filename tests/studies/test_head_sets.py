"""Sets of heads, the pairs that choose them, and those that measure them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from ablated import reader_of
from hypothesis import given
from hypothesis import strategies as st
from toy import save_toy_bert

from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair
from attnscan.results.terms import Grid, Head
from attnscan.scan.options import AblationRequest, ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import half
from attnscan.studies import ablation
from attnscan.studies.ablation import ablate, requested_sets, with_controls

TEXTS = (
    ("the cat sat on the mat", "a dog ran"),
    ("i went to the store", "i bought a cat"),
    ("a dog ran to the cat", "the mat"),
    ("the store", "i sat on a mat"),
    ("the dog bought a mat", "i ran"),
    ("a cat went on", "the dog sat"),
)
PAIRS = [Pair(*texts) for texts in TEXTS]
READ = reader_of(*PAIRS)
WIDTH, LAYERS = 5, 3
GRID = Grid((LAYERS, WIDTH))
some_heads = st.lists(st.sampled_from(list(GRID)), unique=True, max_size=8)


def in_half(which: int, *pairs: Pair) -> list[Pair]:
    return [pair for pair in pairs if half(pair, 0) == which]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    plan = {(0, 1): "next-word", (1, 0): "previous-word", (1, 2): "next-word"}
    directory = save_toy_bert(tmp_path_factory.mktemp("planted") / "toy", 2, 3, plan)
    with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        yield scanner


@pytest.mark.parametrize(
    ("asked", "sets"),
    [
        (AblationRequest(heads="0-1,1-2"), {"0-1,1-2": [Head(0, 1), Head(1, 2)]}),
        (AblationRequest(heads="layer:1", each=True), {f"1-{head}": [Head(1, head)] for head in range(3)}),
        (
            AblationRequest(each=True),
            {f"{layer}-{head}": [Head(layer, head)] for layer in range(2) for head in range(3)},
        ),
    ],
)
def test_heads_that_are_named_are_taken_without_a_scan(
    planted: Scanner, asked: AblationRequest, sets: dict[str, list[Head]]
) -> None:
    def unread() -> Iterator[Any]:
        raise AssertionError

    found, chosen_by, seen = requested_sets(planted, unread, asked)
    assert {chosen.name: list(chosen.heads) for chosen in found} == sets and (chosen_by, seen.read) == ("by name", 0)


def test_heads_that_follow_patterns_are_found_by_a_scan(planted: Scanner) -> None:
    request = AblationRequest(("previous-word", "next-word"), draws=2)
    steps: list[Any] = []
    told = planted.changed(progress=lambda *step: steps.append(step))
    found, chosen_by, seen = ablation.requested_sets(told, READ, request)
    assert [(chosen.name, chosen.heads) for chosen in found] == [
        ("next-word", (Head(0, 1), Head(1, 2))),
        ("previous-word", (Head(1, 0),)),
    ]
    choosing = in_half(0, *PAIRS)
    assert chosen_by == "label, 0.25 above chance" and steps[-1][1] == seen.read == len(choosing)
    assert ablate(planted, READ, request).measured_pairs == len(PAIRS) - len(choosing) > 0


def test_heads_that_another_pattern_labels_are_no_controls(planted: Scanner) -> None:
    """Layer 1 has one head beside those of next-word and previous-word, and layer 0 two beside next-word's."""
    sets = {one.name: one for one in requested_sets(planted, READ, AblationRequest())[0]}
    assert sets["next-word"].controls == ((Head(0, 0), Head(1, 1)), (Head(0, 2), Head(1, 1)))
    assert sets["previous-word"].controls == ((Head(1, 1),),)
    named = requested_sets(planted, READ, AblationRequest(heads="1-0"))[0][0]
    assert named.controls == ((Head(1, 1),), (Head(1, 2),))


def test_of_each_pattern_that_is_scored_the_best_heads(planted: Scanner) -> None:
    found, chosen_by, _ = requested_sets(planted, READ, AblationRequest(top=1))
    assert chosen_by == "the 1 most above chance"
    best = {chosen.name: chosen.heads for chosen in found}
    assert best["previous-word"] == (Head(1, 0),) and len(best["next-word"]) == 1
    assert len(best) == 6 and "predictive" not in best  # which nobody asked the model for


@pytest.mark.parametrize(
    ("which", "what"), [(0, "no pair can be measured"), (1, "chooses the heads, and no pair fell")]
)
def test_a_half_without_pairs_is_an_error(planted: Scanner, which: int, what: str) -> None:
    pairs = in_half(which, *PAIRS)
    for request in (AblationRequest(), AblationRequest(top=1)):
        with pytest.raises(InputError, match=f"{what}.*; give more pairs, or name heads with heads"):
            ablate(planted, reader_of(*pairs), request)
    assert ablate(planted, reader_of(*pairs), AblationRequest(heads="0-0")).measured_pairs == len(pairs)


def test_of_few_possible_controls_all_are_taken() -> None:
    found = with_controls("x", [Head(0, 0), Head(0, 1), Head(1, 5)], Grid((2, 6)), 60, 0)
    pairs = itertools.combinations([Head(0, head) for head in range(2, 6)], 2)
    assert set(found.controls) == {(*pair, Head(1, head)) for pair in pairs for head in range(5)}
    assert len(found.controls) == found.possible == 30
    assert len(with_controls("x", [Head(0, 0), Head(0, 1), Head(1, 5)], Grid((2, 6)), 29, 0).controls) == 29


def test_controls_of_crowded_layers_share_heads_with_the_set_and_say_so() -> None:
    found = with_controls("x", [Head(0, 0), Head(0, 1), Head(0, 2), Head(1, 0)], Grid((2, 4)), 20, 0)
    assert all({Head(0, 3)} < set(control) for control in found.controls)
    assert found.overlap == pytest.approx(2 / 4) and found.possible == math.comb(3, 2) * 3
    barred = with_controls("x", [Head(0, 0), Head(0, 1)], Grid((2, 4)), 20, 0, barred=[Head(0, 3)])
    assert barred.controls == ((Head(0, 0), Head(0, 2)), (Head(0, 1), Head(0, 2)))


@given(some_heads, some_heads, st.integers(1, 40), st.integers(0, 3))
def test_whatever_is_asked_for(heads: list[Head], barred: list[Head], draws: int, seed: int) -> None:
    found = with_controls("x", heads, GRID, draws, seed, barred)
    assert len(set(found.controls)) == len(found.controls) == min(draws, found.possible)
    for control in found.controls:
        assert list(control) == sorted(set(control)) and control != found.heads
        assert Counter(head.layer for head in control) == Counter(head.layer for head in heads)
        assert not set(control) & (set(barred) - set(heads))
        assert len(set(control) & set(heads)) == pytest.approx(found.overlap * len(heads))
