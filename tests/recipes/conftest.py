"""A copy of the package, to which a recipe is applied: `NAME.patch` beside this file."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import attnscan

HERE = Path(__file__).parent
PACKAGE = Path(attnscan.__file__).parent


@dataclass(frozen=True)
class Recipe:
    """The package with a recipe in place."""

    place: Path
    """The directory that holds the package."""
    files: tuple[str, ...]
    """Files of the package that the recipe touches."""

    def python(self, script: str) -> str:
        """What a process prints that runs a script with this package."""
        environment = os.environ | {"PYTHONPATH": str(self.place), "ATTNSCAN_MODEL": "bundled"}
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=self.place,
            env=environment | {"COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def attnscan(self, *arguments: str) -> str:
        """What a command prints."""
        typed = ["attnscan", *arguments]
        return self.python(
            "import sys\nfrom attnscan.cli.app import main\n"
            f"sys.argv = {typed!r}\n"
            "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        )


@pytest.fixture
def apply_recipe(tmp_path: Path) -> Callable[[str], Recipe]:
    """Applies `NAME.patch` to a copy of the package."""

    def apply(name: str) -> Recipe:
        patch = HERE / f"{name}.patch"
        shutil.copytree(
            PACKAGE, tmp_path / "attnscan", ignore=shutil.ignore_patterns("__pycache__")
        )
        # `git apply` works outside of any repository; one line of context is enough
        command = ["git", "apply", "-C1", patch]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"redo {patch.name}: {done.stderr}"
        files = re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(encoding="utf-8"), re.MULTILINE)
        return Recipe(tmp_path, tuple(files))

    return apply
