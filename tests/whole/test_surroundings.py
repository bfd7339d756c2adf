"""Where attnscan is run: what the shell has opened, a home that is none, a Python without docstrings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # processes that load the bundled model
PAIRS = "sentence_a\tsentence_b\nthe cat sat\ta cat ran\nhe ran\ta dog ran\n"
ONE = ["the cat sat", "--model", "bundled", "--predictive", "off"]


def _run(*arguments: str, stdin: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attnscan", *arguments]
    with Path(stdin or os.devnull).open("rb") as file:
        return subprocess.run(
            command, stdin=file, capture_output=True, text=True, check=False, env={**os.environ, **environment}
        )


def test_pairs_behind_a_redirection_are_read_by_any_name(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(PAIRS)
    options = ["heads", "--model", "bundled", "-p", "next-word", "--csv", "--pairs"]
    expected = _run(*options, "-", stdin=pairs)
    assert expected.returncode == 0 and expected.stdout.startswith("model,")
    found = _run(*options, "/dev/stdin", stdin=pairs)
    assert (found.returncode, found.stdout) == (0, expected.stdout), found.stderr


def test_a_picture_is_drawn_without_a_home(tmp_path: Path) -> None:
    nowhere = {"HOME": os.devnull, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "MPLCONFIGDIR": ""}
    done = _run("plot", *ONE, "-o", str(tmp_path / "map.svg"), **nowhere)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "map.svg").stat().st_size > 1000


def test_python_without_assertions_finds_the_same() -> None:
    """A control."""
    plain, optimized = (_run("classify", *ONE, "--csv", PYTHONOPTIMIZE=level) for level in ("", "1"))
    assert plain.returncode == 0 and optimized.stdout == plain.stdout and optimized.stderr == ""
