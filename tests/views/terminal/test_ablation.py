"""The screen of `ablate`: a row a set, how many controls, and by which rule they were taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ablated import effect_of
from small_results import SIGNATURE

from attnscan.results.ablation import Ablation, Effect, HeadSet, Quantity
from attnscan.results.terms import Grid
from attnscan.views.terminal.ablation import ablation_view
from attnscan.views.terminal.parts import render

MANY = (1.0, 1.5, 1.25)


def text_of(*effects: Effect, width: int = 80, choosing: int = 5) -> str:
    found = Ablation(effects, Grid((1, 4)), "zero", 3, "label, 0.25 above chance", choosing, 6, SIGNATURE)
    return render(ablation_view(found, width), width)


def test_a_row_shows_the_controls_their_spread_the_rank_and_its_p() -> None:
    row = text_of(effect_of(2.0, MANY, "next-word", 12)).splitlines()[4]
    *numbers, bar = row.split()
    assert numbers == ["N", "next-word", "1", "2.000", "1.250", "0.250", "+0.750", "0.125", "1/4", "0.250"]
    assert set(bar) == {"█"}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_no_line_is_wider_than_the_screen_and_no_number_is_cut(width: int, size: float) -> None:
    others = tuple(size * other for other in MANY)
    effects = [effect_of(2 * size, others, name, 10**20) for name in ("cross-sentence", "a pattern of my own")]
    text = text_of(*effects, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count(f"{0.75 * size:+.{3 if size == 1 else 5}f}") == 2 and "…" not in text


def test_what_has_no_head_or_no_controls_says_so() -> None:
    nan = float("nan")
    none = replace(effect_of(nan, ()), set=HeadSet("identical", ()))
    text = text_of(none, effect_of(2.0, (), "delimiter"), effect_of(2.0, (1.0,), "next-word"))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "I identical 0 no head" in rows and "D delimiter 1 2.000 no others" in rows
    assert any(row.startswith("N next-word 1 2.000 1.000 +1.000 0.125 1/2 0.500") for row in rows)  # without a spread


def test_accuracy_without_classes_says_which_column_is_missing() -> None:
    accuracy = Quantity("classifier-accuracy", "accuracy", larger_is_better=True)
    text = text_of(replace(effect_of(2.0, MANY, quantity=accuracy), n=0))
    assert "no pair has a class in a column 'label' or 'gold_label'" in text.replace("\n", " ")


def test_who_may_be_a_control_and_by_which_pairs() -> None:
    chosen = " ".join(text_of(effect_of(2.0, MANY)).split())
    assert "by label, 0.25 above chance, on 5 pairs; measured on the other 6." in chosen
    assert "The others leave out heads labelled with another pattern, delimiter excepted" in chosen
    named = " ".join(text_of(effect_of(2.0, MANY), choosing=0).split())
    assert "the others may follow any pattern" in named and "the other 6" not in named


@pytest.mark.parametrize(("own", "drawn"), [(9.0, True), (1.0, False)])
def test_a_set_beside_which_another_costs_as_much_has_no_bar(own: float, drawn: bool) -> None:
    """However far it is from zero: its error is an eighth."""
    text = text_of(effect_of(own, (0.1, 0.2, 0.3, 4.0), "next-word"), width=120)
    assert ("█" in text) is drawn and "No bar: p above 0.05, and another set costs as much." in " ".join(text.split())
    assert ("is not seen to cost more than other heads" in text) and f"rank {1 if drawn else 2} of 5" in text
