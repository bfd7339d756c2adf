"""`attnscan compare`: the screen, the rows and the picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from drawn import texts
from toy import save_toy_bert
from two_models import AFTER, BEFORE, PAIRS
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.scoring.patterns import PATTERNS


def _run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["compare", *arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    models = [save_toy_bert(tmp_path_factory.mktemp("model"), 2, 4, plan) for plan in (BEFORE, AFTER)]
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("sentence_a\tsentence_b\n" + "".join(f"{pair.a}\t{pair.b}\n" for pair in PAIRS))
    return [*map(str, models), "--pairs", str(path)]


def test_the_screen_answers_in_one_look(files: list[str]) -> None:
    text = _run(*files).stdout
    assert "4 pairs, 8 heads: heads of one place" in text
    assert "6 of 8 heads changed their label" in text and "P → D  1-2" in text
    assert re.search(r"\d+ of \d+ differences survive; \d+ beyond chance are smaller than 0.02\n", text)
    assert re.search(r"^0 of \d+ differences survive;", _run(*files, "--least", "1").stdout, re.M)
    assert "identical, cross-sentence: words are related where the embeddings of both models" in text
    assert all(len(line) <= 80 for line in text.splitlines()[4:]) and "…" not in "".join(text.splitlines()[4:])
    assert len(text.splitlines()) < 36
    nearest = _run(*files, "--match", "nearest").stdout
    assert "of 8 heads are most like the head of their own place" in nearest


def test_rows_and_json(files: list[str]) -> None:
    header, *rows = _run(*files, "-p", "delimiter", "--csv").stdout.splitlines()
    assert header == (
        "model_a,model_b,pattern,layer,head,layer_b,head_b,score_a,score_b,difference,se,n,pairs,"
        "label_a,label_b,divergence,p,fdr,label_a_stays,label_b_stays,survives"
    )
    assert len(rows) == 8
    found = json.loads(_run(*files, "--format", "json").stdout)
    assert set(found["rank_correlation"]) == {pattern.id for pattern in PATTERNS} - {"predictive"}
    assert len(found["heads"]) == 8 * 6


def test_some_heads_head_by_head(files: list[str]) -> None:
    lines = _run(*files, "--top", "1").stdout.splitlines()
    at = lines.index("Head by head; bold: the difference survives")
    assert lines[at + 1].split() == ["pattern", "head", "A", "B", "B", "−", "A", "±", "se"]
    assert lines[at + 8] == "" and [line.split()[0] for line in lines[at + 2 : at + 8]] == list("NPIXDB")
    header, *every = _run(*files, "-p", "delimiter", "--csv").stdout.splitlines()
    assert _run(*files, "-p", "delimiter", "--csv", "--heads", "1-2,0-1").stdout.splitlines() == [
        header,
        every[6],
        every[1],
    ]
    greatest = max(every, key=lambda row: abs(float(row.split(",")[9])))
    assert _run(*files, "-p", "delimiter", "--csv", "--top", "1").stdout.splitlines() == [header, greatest]
    done = _run(*files, "--heads", "9-9")
    assert done.exit_code == 1 and "9-9: this model has layers 0 to 1" in done.stderr


def test_the_picture(files: list[str], tmp_path: Path) -> None:
    path = tmp_path / "c.svg"
    assert _run(*files, "-o", str(path)).exit_code == 0
    assert "Pale: the difference does not survive" in " ".join(texts(path.read_bytes()))
    assert {"opacity: 0.25", "opacity: 0.85"} <= set(re.findall(r"opacity: [\d.]+", path.read_text()))
