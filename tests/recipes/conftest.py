"""A copy of the package, to which a recipe is applied: `NAME.patch` beside this file."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import attnscan

HERE = Path(__file__).parent
PACKAGE = Path(attnscan.__file__).parent
BEFORE = """
import json

import attnscan
from attnscan.cli.app import app
from typer.testing import CliRunner


def answer(*values):
    print(json.dumps(values))


def printed(*arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout
"""
"""What a script of `Recipe.answers` has at hand."""


@dataclass(frozen=True)
class Recipe:
    """The package with a recipe in place."""

    place: Path
    """The directory that holds the package."""
    files: tuple[str, ...]
    """Files of the package that the recipe touches."""

    def answers(self, script: str) -> Any:
        """What a script gives to `answer()`, with this package in a process of its own.

        In the script `printed(*arguments)` is what a command prints.
        """
        environment = os.environ | {"PYTHONPATH": str(self.place), "ATTNSCAN_MODEL": "bundled"}
        done = subprocess.run(
            [sys.executable, "-c", BEFORE + script],
            cwd=self.place,
            env=environment | {"COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def apply_recipe(tmp_path: Path) -> Callable[[str], Recipe]:
    """Applies `NAME.patch` to a copy of the package."""

    def apply(name: str) -> Recipe:
        patch = HERE / f"{name}.patch"
        shutil.copytree(PACKAGE, tmp_path / "attnscan")
        # `git apply` works outside of any repository; one line of context is enough
        command = ["git", "apply", "-C1", patch]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"redo {patch.name}: {done.stderr}"
        files = re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(encoding="utf-8"), re.MULTILINE)
        return Recipe(tmp_path, tuple(files))

    return apply
