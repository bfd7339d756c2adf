"""What an option takes: numbers within bounds, one of some words, True or False."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from attnscan.errors import OptionError
from attnscan.inputs.option import LARGEST, Option, check_declared, declared, words_of


@dataclass(frozen=True)
class Options:
    """One of each kind."""

    count: Annotated[int, Option("A whole number.", least=1)] = 1
    share: Annotated[float | None, Option("A number.", most=0.5)] = None
    words: Annotated[Literal["all", "some"], Option("A word.")] = "all"
    switch: Annotated[bool, Option("A switch.")] = True
    text: Annotated[str | int | None, Option("Anything.")] = None
    own: int = -7
    """Not for users."""

    def __post_init__(self) -> None:
        check_declared(self)


def test_fields_with_an_option_are_declared() -> None:
    assert list(declared(Options)) == ["count", "share", "words", "switch", "text"]
    assert declared(Options)["count"].default == 1
    assert declared(Options)["share"].option.about == "A number."


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"count": 1},
        {"count": LARGEST},
        {"count": 2**63 - 1},
        {"share": 0},
        {"share": 0.5},
        {"share": None},
        {"words": "some"},
        {"switch": False},
        {"text": 3},
        {"text": "3"},
        {"text": None},
        {"own": -9},
    ],
)
def test_bounds_belong_to_what_is_taken(values: dict[str, Any]) -> None:
    Options(**values)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"count": 0}, "count is 0; give a whole number, from 1 to 2**63"),
        ({"count": 2**63}, "give a whole number, from 1 to 2**63"),
        ({"count": 1.0}, "count is 1.0; give a whole number, from 1 to 2**63"),
        ({"count": True}, "count is True; give a whole number, from 1 to 2**63"),
        ({"count": None}, "count is None; give a whole number, from 1 to 2**63"),
        ({"count": "1"}, "count is '1'; give a whole number, from 1 to 2**63"),
        ({"share": -0.1}, "share is -0.1; give a number, from 0 to 0.5"),
        ({"share": 0.51}, "share is 0.51; give a number, from 0 to 0.5"),
        ({"share": float("nan")}, "share is nan; give a number, from 0 to 0.5"),
        ({"share": True}, "share is True; give a number, from 0 to 0.5"),
        ({"words": "none"}, "words"),
        ({"switch": 1}, "switch is 1; give True or False"),
        ({"switch": None}, "switch is None; give True or False"),
    ],
)
def test_what_is_not_taken_is_said_with_the_bounds(values: dict[str, Any], line: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options(**values)
    assert line in str(caught.value)


def test_the_words_of_a_type_are_in_order() -> None:
    assert words_of(Literal["b", "a"] | None) == ["b", "a"]
    assert words_of(int) == []


def test_an_option_is_optional_and_given_once() -> None:
    option = Option("A number.")
    assert not option.repeats
    assert not option.is_argument
    assert not option.is_required
