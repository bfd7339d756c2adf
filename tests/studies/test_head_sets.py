"""Sets of heads, and the controls beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ablated import reader_of
from toy import save_toy_bert

from attnscan.errors import InputError, SelectionError
from attnscan.inputs.pairs import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.studies.ablation import ablate
from attnscan.studies.head_sets import AblationRequest, requested_sets, with_controls


def test_controls_are_as_many_heads_of_the_same_layers() -> None:
    heads = [(0, 1), (0, 2), (2, 0)]
    found = with_controls("x", heads, 12, 20, 0)
    for control in found.controls:
        assert [layer for layer, _ in control] == [0, 0, 2] and len(set(control)) == 3
        assert not set(control) & set(heads)
    assert found.overlap == 0 and len(set(found.controls)) > 10
    assert with_controls("x", heads, 12, 20, 0) == found != with_controls("x", heads, 12, 20, 1)


def test_controls_of_crowded_layers_share_heads_with_the_set_and_say_so() -> None:
    found = with_controls("x", [(0, 0), (0, 1), (0, 2), (1, 0)], 4, 20, 0)
    assert all({(0, 3)} < set(control) for control in found.controls)
    assert found.overlap == pytest.approx(2 / 4)
    assert with_controls("x", [(0, head) for head in range(4)], 4, 20, 0).controls == ()


READ = reader_of(Pair("the cat sat on the mat", "a dog ran"), Pair("i went to the store", "i bought a cat"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    plan = {(0, 1): "next-word", (1, 0): "previous-word", (1, 2): "next-word"}
    directory = save_toy_bert(tmp_path_factory.mktemp("planted") / "toy", 2, 3, plan)
    with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        yield scanner


@pytest.mark.parametrize(
    ("asked", "sets"),
    [
        (AblationRequest(heads="0-1,1-2"), {"0-1,1-2": [(0, 1), (1, 2)]}),
        (AblationRequest(heads="layer:1", singly=True), {f"1-{head}": [(1, head)] for head in range(3)}),
        (AblationRequest(singly=True), {f"{layer}-{head}": [(layer, head)] for layer in range(2) for head in range(3)}),
    ],
)
def test_heads_that_are_named_are_taken_without_a_scan(
    planted: Scanner, asked: AblationRequest, sets: dict[str, list[tuple[int, int]]]
) -> None:
    def unread() -> Iterator[Any]:
        raise AssertionError

    requested, how = requested_sets(planted, unread, asked)
    assert {chosen.name: list(chosen.heads) for chosen in requested} == sets and how == "by name"


def test_heads_that_follow_patterns_are_found_by_a_scan(planted: Scanner) -> None:
    counts: list[int] = []
    request = AblationRequest(("previous-word", "next-word"), draws=2)
    sets, how = requested_sets(planted, READ, request, on_batch=counts.append)
    assert [(chosen.name, chosen.heads) for chosen in sets] == [
        ("next-word", ((0, 1), (1, 2))),
        ("previous-word", ((1, 0),)),
    ]
    assert how == "label, 0.25 above chance" and counts[-1] == 2
    assert all(len(chosen.controls) == 2 for chosen in sets)


def test_of_each_pattern_that_is_scored_the_best_heads(planted: Scanner) -> None:
    sets, how = requested_sets(planted, READ, AblationRequest(top=1))
    assert how == "the 1 most above chance"
    best = {chosen.name: chosen.heads for chosen in sets}
    assert best["previous-word"] == ((1, 0),) and len(best["next-word"]) == 1
    assert len(best) == 6 and "predictive" not in best  # which nobody asked the model for


def test_what_is_not_there_cannot_be_switched_off(planted: Scanner) -> None:
    with pytest.raises(SelectionError):
        requested_sets(planted, READ, AblationRequest(heads="5-0"))
    with pytest.raises(InputError, match="there is no pair"):
        requested_sets(planted, reader_of(), AblationRequest())


def test_an_ablation_by_askedis_that_of_the_sets_which_it_describes(planted: Scanner) -> None:
    request = AblationRequest(("next-word",), draws=2, by="mean", measures=("cls",))
    found = ablate(planted, READ, request)
    sets, how = requested_sets(planted, READ, request)
    assert [(effect.set, effect.quantity.name) for effect in found.effects] == [(one, "cls") for one in sets]
    assert (found.chosen_by, found.by, found.draws) == (how, "mean", 2)
    assert found.effects[0].set.heads == ((0, 1), (1, 2))
