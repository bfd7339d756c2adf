"""What all screens are made of."""

from __future__ import annotations

import math

import pytest
from rich.text import Text

from attnscan.views.terminal.parts import beyond, decimals, number, render


def test_what_is_not_known_is_left_empty() -> None:
    assert [number(value) for value in (math.nan, 0.0, -0.126)] == ["", "0.00", "-0.13"]
    assert [decimals(value) for value in (math.nan, 0.0, -0.1264)] == ["", "0.000", "-0.126"]


@pytest.mark.parametrize(("value", "se", "has_a_bar"), [(0.3, 0.1, True), (-0.3, 0.1, True), (0.1, 0.1, False)])
def test_a_bar_is_for_what_is_two_errors_from_nothing(value: float, se: float, has_a_bar: bool) -> None:
    assert beyond(value, se) == has_a_bar and not beyond(value, math.nan)


def test_nothing_that_a_terminal_obeys_gets_through_whoever_forgot_it() -> None:
    assert render(Text("a\x1b[31mb\nc\u202ed"), 40) == "a\\x1b[31mb\nc\\u202ed\n"
