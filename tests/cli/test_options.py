"""What a command was given becomes arguments of its function, and a place for its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from attnscan.cli.options import arguments_of, pattern_name
from attnscan.cli.output import Output, output_of
from attnscan.errors import InputError
from attnscan.scoring.patterns import PATTERNS, Pattern, chosen


def given_where(**given: Any) -> dict[str, Any]:
    """What a command was given of where its result goes."""
    return {"format": None, "csv": False, "decimal_comma": False, "output": None, "signature": None, **given}


def test_bad_records_are_told_of_three_times(capsys: pytest.CaptureFixture[str]) -> None:
    tell = arguments_of("heads", {"skip_bad": True})["on_bad"]
    for number in range(5):
        tell(InputError(f"pair {number}"))
    assert capsys.readouterr().err.splitlines() == [f"attnscan: skipped: pair {n}" for n in range(3)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (given_where(), Output("table")),
        (given_where(csv=True), Output("csv")),
        (given_where(format="csv", csv=True), Output("csv")),
        (given_where(output=Path("x.md")), Output("markdown", Path("x.md"))),
        (given_where(format="json", output=Path("x.JSON")), Output("json", Path("x.JSON"))),
        (given_where(format="json", output=Path("x.log")), Output("json", Path("x.log"))),
        (given_where(csv=True, output=Path("x")), Output("csv", Path("x"))),
    ],
)
def test_where_the_result_goes(
    given: dict[str, Any], expected: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_of(given) == expected == output_of(given, draws=True)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_a_pattern_goes_by_its_name_and_its_letter(pattern: Pattern) -> None:
    for name in (pattern.id, pattern.id.title(), pattern.letter, pattern.letter.lower()):
        assert pattern_name(name) == pattern.id
        assert chosen([name]) == (pattern,)


@pytest.mark.parametrize("name", ["", "c", "NP", "next", "·"])
def test_what_is_no_name_and_no_letter_is_no_pattern(name: str) -> None:
    with pytest.raises(typer.BadParameter, match="no pattern"):
        pattern_name(name)
