"""Hostile texts, strings, options, disks and moments.

Hostile files and checkpoints have modules of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from draws import draws
from hostile import options, strings, texts
from hostile.runs import loaded_once, save_tiny_model
from hostile.writers import PICTURES, TABLES, writers
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from attnscan.cli.app import COMMANDS
from attnscan.cli.output import SUFFIXES
from attnscan.views.pictures.look import Picture

FORKED = Path(__file__).parents[1] / "support" / "hostile" / "forked.py"
GENERATE = (Phase.explicit, Phase.generate)  # to shrink a run of five commands takes minutes, and tells little more


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with loaded_once():
        yield save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.long
@settings(max_examples=draws(60), deadline=None, phases=GENERATE, suppress_health_check=list(HealthCheck))
@given(pair=texts.pairs, number=st.integers(0, 1000))
def test_no_sentence_does_harm(tiny: Path, directory: Path, pair: tuple[str, str | None], number: int) -> None:
    assert len(list(texts.commands(tiny, directory, pair, number))) == 5


@pytest.mark.long
def test_nothing_that_a_terminal_obeys_comes_out(tiny: Path, tmp_path: Path) -> None:
    done = [trial() for trial in strings.trials(tiny, tmp_path, 29)]  # no number of kinds or formats is a multiple
    assert len(done) > 20 and any(done) and not all(done)


def test_extremes_of_options_give_a_result_or_one_line(tiny: Path, tmp_path: Path) -> None:
    assert set(options.lines()) == set(COMMANDS) and len(list(options.options())) > 130
    options.prepared(tmp_path, tiny)
    done = [trial() for trial in list(options.trials(tmp_path))[::61]]  # no number of values is a multiple
    assert len(done) > 25 and any(done) and not all(done)


def test_the_list_of_writers_has_every_command_and_format(tmp_path: Path) -> None:
    assert {f".{suffix}" for suffix in TABLES} == set(SUFFIXES) and set(PICTURES) == set(get_args(Picture))
    scene: Any = SimpleNamespace(model="model", pairs=tmp_path / "pairs.csv")
    listed = list(writers(scene))
    assert {writer.arguments[0] for writer in listed} == set(COMMANDS) - {"serve"}, "which writes no file"
    assert {writer.option for writer in listed} == {"-o", "--save-weights", "--per-pair", "--state", "--signature"}


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count", "kinds"), [("runs", 1, 4), ("writers", 6, 1)])
def test_nothing_is_lost_by_runs_that_are_killed_interrupted_and_starved(
    kind: str, count: int, kinds: int, tmp_path: Path
) -> None:
    """By a process of its own with two threads, which run batches side by side: runs are forks of it."""
    command = [sys.executable, str(FORKED), kind, str(count), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "2"})
    assert done.returncode == 0, done.stdout + done.stderr
    struck: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    assert len(struck) == kinds and sum(struck.values()) > 0, struck
