"""Options in bundles: how a command's signature is spread out, and what the bundles become."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from attnscan.cli.bundles import Without, flattened
from attnscan.cli.destination import Destination
from attnscan.cli.options import OneInput, PairFiles, PairFilesWithIds, Where, pattern_name
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERNS, Pattern, chosen


@dataclass(frozen=True)
class Paint:
    colour: Annotated[str, typer.Option("--colour", help="Which.")] = "red"
    coats: Annotated[int, typer.Option("--coats", min=1, help="How many.")] = 2
    gloss: Annotated[bool, typer.Option("--gloss", help="Whether it shines.")] = False


@dataclass(frozen=True)
class Brush:
    width: Annotated[int, typer.Option("--width")] = 5


Name = Annotated[str, typer.Option("--name")]


def _run(command: Callable[..., None], *arguments: str) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(command)
    return CliRunner().invoke(alone, arguments)


def _options(command: Callable[..., None]) -> dict[str, Any]:
    """Each option's name and default, in the order of the help screen."""
    return {name: option.default for name, option in inspect.signature(command).parameters.items()}


def test_a_bundles_fields_stand_in_its_place_and_are_handed_over_as_a_bundle() -> None:
    taken: list[object] = []

    @flattened
    def command(*, first: Name = "a", paint: Paint, second: Annotated[int, typer.Option()] = 1, brush: Brush) -> None:
        """Paint it."""
        taken.extend([first, paint, second, brush])

    assert list(_options(command)) == ["first", "colour", "coats", "gloss", "second", "width"]
    assert _run(command, "--coats", "3", "--gloss").exit_code == 0
    assert taken == ["a", Paint(coats=3, gloss=True), 1, Brush()]
    screen = _run(command, "--help").stdout
    assert "Paint it." in screen and "[default: 2; x>=1]" in " ".join(screen.split())
    places = [screen.index(f"--{name}") for name in ("name", "colour", "coats", "gloss", "second", "width")]
    assert places == sorted(places)


def test_an_option_that_is_required_may_stand_anywhere() -> None:
    @flattened
    def command(*, paint: Paint, name: Name) -> None:
        """Paint it."""

    assert list(_options(command)) == ["colour", "coats", "gloss", "name"]
    assert _run(command).exit_code == 2 and _run(command, "--name", "x").exit_code == 0


def test_a_command_may_change_defaults() -> None:
    taken: list[Paint] = []

    @flattened
    def command(*, paint: Paint = Paint(coats=7)) -> None:
        """Paint it."""
        taken.append(paint)

    assert _options(command) == {"colour": "red", "coats": 7, "gloss": False}
    _run(command)
    _run(command, "--coats", "2")
    assert taken == [Paint(coats=7), Paint(coats=2)]
    assert Paint().coats == 2


def test_a_command_is_without_what_it_does_not_take() -> None:
    taken: list[Paint] = []

    @flattened
    def command(*, paint: Annotated[Paint, Without("colour", "gloss")] = Paint("blue")) -> None:
        """Paint it."""
        taken.append(paint)

    assert list(_options(command)) == ["coats"]
    assert _run(command, "--colour", "red").exit_code == 2
    _run(command, "--coats", "1")
    assert taken == [Paint("blue", 1)]


def test_what_a_bundle_has_not_cannot_be_left_out() -> None:
    def command(*, paint: Annotated[Paint, Without("color")]) -> None:
        """Paint it."""

    with pytest.raises(ValueError, match="not in list"):
        flattened(command)


def test_two_options_of_one_name_are_an_error() -> None:
    def command(*, width: Name = "wide", brush: Brush) -> None:
        """Paint it."""

    def twice(*, one: Brush, other: Brush) -> None:
        """Paint it."""

    for clash in (command, twice):
        with pytest.raises(ValueError, match="duplicate parameter name: 'width'"):
            flattened(clash)


def test_a_bundle_may_have_the_name_of_its_own_field() -> None:
    taken: list[Brush] = []

    @flattened
    def command(*, width: Brush) -> None:
        """Paint it."""
        taken.append(width)

    _run(command, "--width", "8")
    assert taken == [Brush(8)]


def test_options_declared_once_are_options_of_a_command_and_reach_it_as_their_object() -> None:
    taken: list[ScanOptions] = []

    @flattened
    def command(*, scan: Annotated[ScanOptions, Without("by")] = ScanOptions(predictive="off")) -> None:
        """Scan it."""
        taken.append(scan)

    assert set(_options(command)) >= {"model", "no_related", "seed"} and not {"by", "norm", "split"} & set(
        _options(command)
    )
    assert _run(command).exit_code == 0 and taken == [ScanOptions(predictive="off")]
    _run(command, "-m", "m", "--unit", "word", "--no-related", "--predictive", "cpmi", "--seed", "3")
    assert taken[1] == ScanOptions(model="m", unit="word", related=False, predictive="cpmi", seed=3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Where(), Destination("table")),
        (Where(csv=True), Destination("csv")),
        (Where(format="csv", csv=True), Destination("csv")),
        (Where(output=Path("x.md")), Destination("markdown", Path("x.md"))),
        (Where(format="json", output=Path("x.JSON")), Destination("json", Path("x.JSON"))),
        (Where(format="json", output=Path("x.log")), Destination("json", Path("x.log"))),
        (Where(csv=True, output=Path("x")), Destination("csv", Path("x"))),
    ],
)
def test_where_the_result_goes(
    given: Where, expected: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert given.destination() == expected == given.destination(draws=True)


def test_a_command_that_draws_tells_a_picture_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    assert Where(output=path).destination(draws=True) == Destination("svg", path)
    with pytest.raises(Exception, match="cannot tell the format"):
        Where(output=path).destination()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Where(format="jsn"), "no format 'jsn': did you mean 'json'"),
        (Where(format="json", csv=True), "--csv and --format json contradict each other"),
        (Where(csv=True, output=Path("x.json")), "--csv and x.json contradict each other"),
        (Where(format="json", output=Path("x.svg")), "--format json and x.svg contradict each other"),
        (Where(format="jsonl", output=Path("x.TXT")), "--format jsonl and x.TXT contradict each other"),
    ],
)
def test_formats_that_there_are_not(given: Where, message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        given.destination()


def test_an_input_is_sentences_or_saved_weights() -> None:
    OneInput("a").check()
    OneInput("all").check()
    OneInput(weights=Path("x.npz")).check()
    for wrong in (OneInput(), OneInput("a", weights=Path("x.npz")), OneInput(model="m", weights=Path("x.npz"))):
        with pytest.raises(typer.BadParameter):
            wrong.check()


def test_files_of_pairs() -> None:
    assert (PairFiles().paths, PairFiles().reading().columns) == ([], None)
    files = PairFiles(["x.csv"], "a,b")
    assert (files.paths, files.reading().columns) == (["x.csv"], ("a", "b"))
    assert PairFilesWithIds(id="key").chosen() == ["--id"]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_a_pattern_goes_by_its_name_and_its_letter(pattern: Pattern) -> None:
    for name in (pattern.id, pattern.id.title(), pattern.letter, pattern.letter.lower()):
        assert pattern_name(name) == pattern.id
        assert chosen([name]) == (pattern,)


@pytest.mark.parametrize("name", ["", "c", "NP", "next", "·"])
def test_what_is_no_name_and_no_letter_is_no_pattern(name: str) -> None:
    with pytest.raises(typer.BadParameter, match="no pattern"):
        pattern_name(name)
