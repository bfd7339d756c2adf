"""`attnscan similar`: groups, the nearest, the matrix and the map."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner, Result

from attnscan.cli.app import app


def _run(*arguments: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"})
    return runner.invoke(
        app, ["similar", "--pairs", "-", *arguments], input="text\nthe cat sat on the mat\na dog ran\n"
    )


@pytest.mark.usefixtures("each_run_once")
def test_the_screen_shows_groups_or_the_nearest_of_some() -> None:
    text = _run("--within", "0.2", "--special", "in").stdout
    assert "1 group within 0.2 nats" in text and "The closest two" in text
    lines = _run("--heads", "0-2", "--nearest", "2").stdout.splitlines()
    assert lines[3].split() == ["head", "nearest", "divergence", "±", "se"]
    assert [line.split()[0] for line in lines[4:6]] == ["0-2", "0-2"]
    assert all(len(line) <= 80 for line in [*text.splitlines(), *lines])


def test_rows_of_heads_and_the_matrix() -> None:
    header, *rows = _run("--csv", "--nearest", "1").stdout.splitlines()
    assert header == "model,layer,head,label,group,x,y,nearest_1,divergence_1,se_1,label_stays" and len(rows) == 72
    found = json.loads(_run("--matrix", "--format", "json").stdout)
    matrix = np.array([[row[f"{layer}-{head}"] for layer in range(6) for head in range(12)] for row in found["heads"]])
    assert_allclose(matrix, matrix.T)
    assert np.diag(matrix).max() == 0 and matrix.max() <= 0.6932
    assert found["queries"] == 6 + 3 and 0 < found["map_share"] <= 1


@pytest.mark.usefixtures("each_run_once")
def test_rows_of_some_heads_alone() -> None:
    """In the order they are named in, and as among all."""
    header, *rows = _run("--csv").stdout.splitlines()
    assert _run("--csv", "--heads", "1-8,0-2").stdout.splitlines() == [header, rows[12 + 8], rows[2]]
    header, *rows = _run("--csv", "--matrix").stdout.splitlines()
    assert _run("--csv", "--matrix", "--heads", "layer:5").stdout.splitlines() == [header, *rows[-12:]]


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_the_map_as_a_picture(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"map.{suffix}"
    assert _run("-o", str(path)).exit_code == 0
    content = path.read_bytes()
    assert content.startswith(b"%PDF" if suffix == "pdf" else b"<?xml")
    assert suffix == "pdf" or b">1-8<" in content
