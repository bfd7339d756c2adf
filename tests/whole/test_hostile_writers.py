"""Commands that write, on full disks and where they may not: a few of those that `benchmarks/faults.py` tries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hostile.kills import Scene
from hostile.writers import PICTURES, TABLES, writers

from attnscan.cli.app import COMMANDS
from attnscan.cli.destination import SUFFIXES
from attnscan.views.pictures.look import Picture

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


class _Scene(Scene):
    """One in which nothing is run."""

    def __init__(self, directory: Path) -> None:
        self.model, self.pairs = directory / "model", directory / "pairs.csv"


def test_the_list_has_every_command_and_format(tmp_path: Path) -> None:
    """A control."""
    assert {f".{suffix}" for suffix in TABLES} == set(SUFFIXES) and set(PICTURES) == set(get_args(Picture))
    found = list(writers(_Scene(tmp_path)))
    assert {writer.arguments[0] for writer in found} == set(COMMANDS) - {"serve"}, "which writes no file"
    assert {writer.option for writer in found} == {"-o", "--save-weights", "--per-pair", "--state", "--signature"}
    assert len({writer.label for writer in found}) == len(found)


@pytest.mark.long
def test_nothing_is_lost_where_nothing_can_be_written() -> None:
    """In a process of its own: runs are forks of it."""
    command = [sys.executable, str(FAULTS), "--writers", "6", "--part", "every command and format"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| every command ")]
    struck = [int(cells[3]) for cells in rows]
    assert len(struck) == 2 and min(struck) > 0, done.stdout
