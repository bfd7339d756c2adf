"""Sets of heads, the pairs that choose them, and those that measure them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ablated import reader_of
from small_results import result_of
from toy import save_toy_bert
from work import ablate, heard, requested_sets

from attnscan.errors import InputError, SelectionError
from attnscan.inputs.pairs import Pair
from attnscan.results.grid import Head
from attnscan.scan.options import AblationRequest, ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import half
from attnscan.studies import head_sets
from attnscan.studies.head_sets import heads_of_patterns, measured

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

    found = requested_sets(planted, unread, asked)
    assert {chosen.name: list(chosen.heads) for chosen in found.sets} == sets and found.chosen_by == "by name"
    assert found.seen.read == 0 and list(measured(READ(), asked, 0)) == list(READ())


def test_heads_that_follow_patterns_are_found_by_a_scan(planted: Scanner) -> None:
    request = AblationRequest(("previous-word", "next-word"), draws=2)
    found, steps = heard(head_sets.requested_sets(planted, READ, request))
    assert [(chosen.name, chosen.heads) for chosen in found.sets] == [
        ("next-word", (Head(0, 1), Head(1, 2))),
        ("previous-word", (Head(1, 0),)),
    ]
    choosing = in_half(0, *PAIRS)
    assert found.chosen_by == "label, 0.25 above chance" and steps[-1].done == found.seen.read == len(choosing)
    assert [record.pair for record in measured(READ(), request, 0)] == in_half(1, *PAIRS)
    assert 0 < len(choosing) < len(PAIRS)


def test_heads_that_another_pattern_labels_are_no_controls(planted: Scanner) -> None:
    """Layer 1 has one head beside those of next-word and previous-word, and layer 0 two beside next-word's."""
    sets = {one.name: one for one in requested_sets(planted, READ, AblationRequest()).sets}
    assert sets["next-word"].controls == ((Head(0, 0), Head(1, 1)), (Head(0, 2), Head(1, 1)))
    assert sets["previous-word"].controls == ((Head(1, 1),),)
    named = requested_sets(planted, READ, AblationRequest(heads="1-0")).sets[0]
    assert named.controls == ((Head(1, 1),), (Head(1, 2),))


def test_a_head_that_rests_may_be_a_control(tmp_path: Path) -> None:
    plan = {(0, 0): "next-word", (0, 1): "delimiter", (0, 2): "identical", (0, 3): "next-word"}
    directory = save_toy_bert(tmp_path / "toy", 1, 4, plan)
    with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        sets = {one.name: one for one in requested_sets(scanner, READ, AblationRequest()).sets}
        (top,) = requested_sets(scanner, READ, AblationRequest(("next-word",), top=1)).sets
    assert {name: one.heads for name, one in sets.items() if one.heads} == {
        "next-word": (Head(0, 0), Head(0, 3)),
        "identical": (Head(0, 2),),
        "delimiter": (Head(0, 1),),
    }
    assert sets["identical"].controls == ((Head(0, 1),),)
    assert sets["delimiter"].controls == ()
    assert top.heads == (Head(0, 0),) and top.controls == (
        (Head(0, 1),),
        (Head(0, 3),),
    )  # its own pattern's may be, too


def test_the_half_that_measures_chooses_nothing(tmp_path: Path) -> None:
    """Only pairs with a word twice tell an identical head; they count in the half that chooses, and nowhere else."""
    directory = save_toy_bert(tmp_path / "toy", 1, 3, {(0, 1): "identical"})
    twice = [Pair(f"the {word} sat on the {word}") for word in ("cat", "dog", "mat", "store", "straw")]
    once = [Pair(f"the {word} sat on a {other}") for word, other in itertools.permutations(("cat", "dog", "mat"), 2)]
    chosen = {}
    with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        for which in (0, 1):
            read = reader_of(*in_half(which, *twice), *in_half(1 - which, *once))
            (chosen[which],) = requested_sets(scanner, read, AblationRequest(("identical",))).sets
    assert {which: one.heads for which, one in chosen.items()} == {0: (Head(0, 1),), 1: ()}


def test_of_each_pattern_that_is_scored_the_best_heads(planted: Scanner) -> None:
    found = requested_sets(planted, READ, AblationRequest(top=1))
    assert found.chosen_by == "the 1 most above chance"
    best = {chosen.name: chosen.heads for chosen in found.sets}
    assert best["previous-word"] == (Head(1, 0),) and len(best["next-word"]) == 1
    assert len(best) == 6 and "predictive" not in best  # which nobody asked the model for


def test_no_head_at_chance_or_below_is_among_the_best() -> None:
    nan = float("nan")
    of_heads = [[above, 0.1, nan, -0.1] for above in (0.1, 0.0, -0.1, nan, 0.5)]
    scores, labels = result_of(of_heads).scores, np.full((1, 5), "mixed")
    asked = ("next-word", "cross-sentence", "delimiter")
    nothing: dict[str, list[Head]] = {"cross-sentence": [], "delimiter": []}
    for top, best in ((1, [Head(0, 4)]), (4, [Head(0, 4), Head(0, 0)])):
        assert heads_of_patterns(scores, labels, asked, top) == {"next-word": best, **nothing}


def test_what_is_not_there_cannot_be_switched_off(planted: Scanner) -> None:
    with pytest.raises(SelectionError):
        requested_sets(planted, READ, AblationRequest(heads="5-0"))
    with pytest.raises(InputError, match="there is no pair"):
        requested_sets(planted, reader_of(), AblationRequest())


@pytest.mark.parametrize(("which", "empty"), [(0, "measures them"), (1, "chooses the heads")])
def test_a_half_without_pairs_is_an_error(planted: Scanner, which: int, empty: str) -> None:
    pairs = in_half(which, *PAIRS)
    message = f"of {len(pairs)} given none fell into the half that {empty}; give more pairs, or name heads with --heads"
    for request in (AblationRequest(), AblationRequest(top=1)):
        with pytest.raises(InputError, match=message):
            ablate(planted, reader_of(*pairs), request)
    assert ablate(planted, reader_of(*pairs), AblationRequest(heads="0-0")).measured_pairs == len(pairs)


def test_an_ablation_by_asked_is_that_of_the_sets_which_it_describes(planted: Scanner) -> None:
    request = AblationRequest(("next-word",), draws=2, by="mean", measures=("cls",))
    found = ablate(planted, READ, request)
    asked = requested_sets(planted, READ, request)
    assert [(effect.set, effect.quantity.name) for effect in found.effects] == [(one, "cls") for one in asked.sets]
    assert (found.chosen_by, found.by, found.draws) == (asked.chosen_by, "mean", 2)
    assert found.effects[0].set.heads == (Head(0, 1), Head(1, 2))
