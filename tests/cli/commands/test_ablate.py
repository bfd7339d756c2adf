"""`attnscan ablate`: rows, JSON, pictures, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.inputs.read import shipped_pairs


def _run(*arguments: str, stdin: str | None = None) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"})
    return runner.invoke(app, ["ablate", *arguments], input=stdin)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pairs") / "few.csv"
    rows = [record.pair for record, _ in zip(shipped_pairs(), range(8), strict=False)]
    path.write_text("sentence_a,sentence_b\n" + "".join(f'"{pair.a}","{pair.b}"\n' for pair in rows))
    return str(path)


def test_each_pattern_has_a_row_and_one_without_heads_says_so(few: str) -> None:
    result = _run("--pairs", few, "--predictive", "off", "--draws", "2")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert re.search(r"cls  1 − cosine  intact 0.000  n [2-6]\n", text)
    rows = {
        line.split()[1]: line for line in text.splitlines() if line[:2] in ("N ", "P ", "I ", "X ", "W ", "D ", "B ")
    }
    assert len(rows) == 6 and "no head" in rows["bag-of-words"]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_best_heads_of_a_pattern_as_json(few: str) -> None:
    result = _run(
        "--pairs", few, "--pattern", "previous-word", "--top", "2", "--draws", "2", "-f", "json", "--predictive", "off"
    )
    found = json.loads(result.stdout)
    row = found["rows"][0]
    assert found["members"]["previous-word"].startswith("0-2") and row["heads"] == 2
    assert row["effect"] == pytest.approx(row["ablated"] - row["control"], abs=2e-6)
    assert found["chosen_by"] == "the 2 most above chance"
    assert found["choosing_pairs"] + found["measured_pairs"] == 8 == found["signature"]["pairs_read"]
    assert row["pairs"] == found["measured_pairs"] > 0 and row["controls"] == 2 < found["possible_controls"][row["set"]]
    assert row["p"] == pytest.approx(row["rank"] / 3, abs=1e-6)


def test_each_head_in_turn_runs_every_set_once(few: str) -> None:
    header, *rows = _run("--pairs", few, "--heads", "layer:0", "--each", "--draws", "2", "--csv").stdout.splitlines()
    assert header.startswith(
        "model,set,heads,measure,intact,ablated,control,effect,se,spread,controls,rank,p,overlap,n,"
    )
    assert [row.split(",")[1] for row in rows] == [f"0-{head}" for head in range(12)]


@pytest.mark.parametrize("arguments", [["--heads", "0-2,1-8"], ["--heads", "0-2,1-8", "--each"]])
@pytest.mark.usefixtures("each_run_once")
def test_pictures(few: str, arguments: list[str], tmp_path: Path) -> None:
    for suffix in ("svg", "png"):
        path = tmp_path / f"worth.{suffix}"
        result = _run("--pairs", few, *arguments, "--draws", "2", "-o", str(path))
        assert result.exit_code == 0, result.output
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
        assert suffix == "png" or b"cls: " in content
