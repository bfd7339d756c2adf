"""`attnscan syntax`: screens, tables, and what it refuses, each in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run
from drawn import texts
from toy import save_toy_bert
from treebanks import planted_file
from typer.testing import CliRunner

from attnscan.cli.app import app

COLUMNS = (
    "model,layer,head,relation,direction,n,sentences,accuracy,weight,weight_among_words,chance,rule,rule_accuracy,gain,"
    "se,p_holm,holds,held_gain,held_p_holm,held_holds,stated,syntax_label,"
    "syntax_statement,letter,uuas,chain_uuas"
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(
        save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, {(0, 0): "articles to nouns", (0, 1): "previous-word"})
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return planted_file(tmp_path_factory.mktemp("trees"))


def screen(*arguments: str) -> list[str]:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["syntax", *arguments])
    assert result.exit_code == 0, result.output
    lines: list[str] = result.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    return lines


def test_the_screen_fits_and_tells_the_planted_head(toy: str, planted: str) -> None:
    lines = screen("--treebank", planted, "--model", toy)
    assert len(lines) <= 45
    det = next(line.split() for line in lines if line.startswith("det → head"))
    assert det[3:5] == ["0-0", "1.00"] and any("*" in cell for cell in det)
    assert "1 head follows a relation" in " ".join(lines)
    assert any(line.split()[:3] == ["0", "F", "·"] for line in lines) and any(
        "F function word" in line for line in lines
    )
    screened = " ".join(" ".join(lines).split())
    assert "A small p is little by itself: " in screened and "guidelines decide what is a head." in screened
    assert "no numbers" not in screened


@pytest.mark.usefixtures("each_run_once")
def test_one_relation_and_all_rows(toy: str, planted: str) -> None:
    lines = screen("--treebank", planted, "--model", toy, "--relation", "det", "--held", planted)
    assert "det → head" in lines and "head → det" in lines and sum(line.startswith("0-0 ") for line in lines) == 2
    assert "in the second treebank, too" in " ".join(lines)
    assert len([line for line in screen("--treebank", planted, "--model", toy, "--all") if "±" in line]) == 12


@pytest.mark.usefixtures("each_run_once")
def test_tables(toy: str, planted: str) -> None:
    header, *rows = run("syntax", "--treebank", planted, "--model", toy, "--csv").stdout.splitlines()
    assert header == COLUMNS and len(rows) == 6 * 12
    one = ("--relation", "det", "--heads", "0-0", "-f", "json")
    document = json.loads(run("syntax", "--treebank", planted, "--model", toy, *one).stdout)
    assert document["signature"]["pairs_read"] == 288 and document["words_without_token"] == 0
    assert [row["direction"] for row in document["heads"]] == ["dep->head", "head->dep"]


def test_text_files_and_relations_that_are_not_there(toy: str, planted: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The cat sat.\n", encoding="utf-8")
    (said,) = _refused("--treebank", str(tmp_path / "a.txt"), "--model", toy)
    assert "a.txt:1: a sentence without a tree; name a treebank in CoNLL-U" in said
    (said,) = _refused("--treebank", planted, "--model", toy, "--relation", "nsbj")
    assert "the treebank has no relation 'nsbj'; did you mean 'nsubj'?" in said


def _refused(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, ["syntax", *arguments])
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    return [line for line in result.stderr.splitlines() if line.startswith("attnscan: ")]


def test_a_treebank_is_drawn(toy: str, planted: str, tmp_path: Path) -> None:
    run("syntax", "--treebank", planted, "--model", toy, "-o", str(tmp_path / "out.svg"))
    assert "what heads follow in 288 sentences" in " ".join(texts((tmp_path / "out.svg").read_bytes()))
