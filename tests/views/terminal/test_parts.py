"""What all screens are made of."""

from __future__ import annotations

import math

from rich.text import Text

from attnscan.views.terminal.parts import number, render


def test_what_is_not_known_is_left_empty() -> None:
    assert [number(value) for value in (math.nan, 0.0, -0.126)] == ["", "0.00", "-0.13"]
    assert [number(value, 3) for value in (math.nan, 0.0, -0.1264)] == ["", "0.000", "-0.126"]


def test_nothing_that_a_terminal_obeys_gets_through_whoever_forgot_it() -> None:
    assert render(Text("a\x1b[31mb\nc\u202ed"), 40) == "a\\x1b[31mb\nc\\u202ed\n"
