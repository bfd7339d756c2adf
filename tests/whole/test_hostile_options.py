"""Options of every command at their extremes: every so many of those that `benchmarks/faults.py` tries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.options import lines, options, prepared, trials
from hostile.runs import loaded_once, save_tiny_model

from attnscan.cli.app import COMMANDS

_EVERY = 41  # no number of values is a multiple: all kinds come


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("options")
    with loaded_once():
        prepared(directory, save_tiny_model(tmp_path_factory.mktemp("tiny")))
        yield directory


def test_the_walk_finds_every_command_and_kind() -> None:
    """A control."""
    assert set(lines()) == set(COMMANDS)
    found = {(command, option) for command, option, _ in options()}
    assert found >= {
        ("heads", "--seed"),
        ("report", "--size"),
        ("classify", "--weights"),
        ("models", "argument checkpoint"),
    }
    assert found >= {("ablate", "--each"), ("compare", "argument model_b"), ("heads", "--state"), ("plot", "--width")}
    assert len(found) > 130


def test_extremes_give_a_result_or_one_line(place: Path) -> None:
    done = [trial() for _, trial in list(trials(place))[::_EVERY]]
    assert len(done) > 60 and any(done) and not all(done)
