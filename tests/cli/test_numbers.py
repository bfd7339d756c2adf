"""Every numeric option of every command at its extremes: a result, or one line that says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from hostile.runs import served_for_a_moment
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import COMMANDS, app
from attnscan.errors import OptionError
from attnscan.scan.options import LARGEST, ClusterOptions, ScanOptions

ONE = ["the cat sat on the mat", "--model", "bundled"]
MANY = ["--pairs", "pairs.txt", "--model", "bundled"]
COMMAND_LINES = {
    "classify": ONE,
    "show": ["0-0", *ONE],
    "predictive": ONE,
    "report": [*ONE, "-o", "page.html"],
    "serve": ONE,
    "plot": [*ONE, "-o", "map.svg"],
    "explain": ["0-0", *ONE],
    "heads": MANY,
    "ablate": [*MANY, "--heads", "0-0"],
    "similar": MANY,
    "profile": MANY,
    "compare": ["bundled", "bundled", *MANY[:2]],
}
TOO_LARGE = ["1e308", "inf", "nan", str(2**63), str(2**64), str(10**22)]
FOR_RAY = ("--workers", "--worker-cpus", "--worker-gpus", "--block-pairs")


def _numeric(command: str) -> Iterator[tuple[str, type]]:
    """The names of a command's numeric options, as they are typed, and their kinds."""
    options = signature(getattr(import_module(f"attnscan.cli.commands.{command}"), command)).parameters
    for option in options.values():
        kind, *marks = get_args(option.annotation) or (option.annotation,)
        kinds = {int, float} & {kind, *get_args(kind)}
        for mark in marks if kinds else ():
            if isinstance(mark, typer.models.OptionInfo):
                yield (mark.param_decls or ("--" + option.name.replace("_", "-"),))[0], kinds.pop()


OPTIONS = [(command, *found) for command in COMMANDS if command != "patterns" for found in _numeric(command)]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "pairs.txt").write_text("the cat sat on the mat\nhe ran to a store\na dog ran\n")
    monkeypatch.chdir(tmp_path)
    with served_for_a_moment():
        yield tmp_path


def _ran(command: str, option: str, value: str) -> int:
    """The exit code of a run that ends calmly."""
    ray = ["--engine", "ray"] if option in FOR_RAY else []
    done = CliRunner().invoke(app, [command, *COMMAND_LINES[command], *ray, option, value])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    if done.exit_code == 2:
        assert option in done.stderr and done.stdout == "", "it says which"
    return done.exit_code


def test_the_walk_finds_them() -> None:
    """A control."""
    found = {(command, option) for command, option, _ in OPTIONS}
    assert found >= {("heads", "--seed"), ("report", "--size"), ("plot", "--width"), ("classify", "--batch-tokens")}
    assert found >= {("similar", "--within"), ("heads", "--worker-cpus"), ("ablate", "--draws"), ("show", "--top")}
    assert found >= {("serve", "--port")} and {command for command, _ in found} == set(COMMAND_LINES)


@pytest.mark.parametrize(("command", "option", "kind"), OPTIONS)
def test_what_cannot_be_counted_with_is_wrong_usage(command: str, option: str, kind: type) -> None:
    for value in (*TOO_LARGE, "-1"):
        assert _ran(command, option, value) == 2, (kind, value)


@pytest.mark.long
@pytest.mark.parametrize(("command", "option"), [each[:2] for each in OPTIONS if each[1] not in FOR_RAY])
def test_the_least_and_the_largest_give_a_result_or_are_wrong_usage(command: str, option: str) -> None:
    codes = [_ran(command, option, value) for value in ("0", str(LARGEST))]
    assert set(codes) <= {0, 2}


@pytest.mark.parametrize("name", ["seed", "batch_tokens", "predictive_words", "predictive_pairs"])
@pytest.mark.parametrize("value", [-1, 2**63, 2**64, 10**22, 1.5, float("inf"), float("nan"), True])
def test_options_in_python_have_the_same_bounds(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"{name} is {value}"):
        ScanOptions(**{name: value})
    assert ScanOptions(**{name: LARGEST})


@pytest.mark.parametrize("value", [-1, 0, 2**63, 1.5, float("nan")])
def test_a_cluster_too(value: Any) -> None:
    for name in (option.removeprefix("--").replace("-", "_") for option in FOR_RAY):
        with pytest.raises(OptionError, match=f"{name} is {value}"):
            ClusterOptions(**{name: value})
    with pytest.raises(OptionError, match=f"most_workers is {value}"):
        ClusterOptions(most_workers=value)


def test_a_cluster_has_no_fewer_workers_at_most_than_at_least() -> None:
    with pytest.raises(OptionError, match="most_workers is 2, and workers 3"):
        ClusterOptions(workers=3, most_workers=2)
    assert ClusterOptions(workers=2, most_workers=2)


@pytest.mark.parametrize("megabytes", [0, -1, float("inf"), float("nan"), 1e308])
def test_a_page_has_a_size(megabytes: float) -> None:
    with pytest.raises(OptionError, match="megabytes is"):
        attnscan.page(attnscan.classify("the cat", model="bundled", predictive="off"), megabytes=megabytes)
