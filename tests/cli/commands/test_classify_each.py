"""Several inputs for `classify`: each as if it were alone, written before the next is scored, by one model."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import run
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.scan import one_input

A, B = "I went to the store.", "a cat ran to the store."
QUICK = ("--predictive", "off")
LINES = f"{A}\t{B}\n\nthe cat sat\n"
OLD = b"of an earlier run"


@pytest.fixture(autouse=True)
def place(toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTNSCAN_MODEL", toy)
    (tmp_path / "pairs.csv").write_text(f'x,y\n"{A}","{B}"\nthe cat sat,the cats ran\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def piped(text: str | bytes, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["classify", "-", *QUICK, *arguments], input=text)


def of_pairs(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["classify", "--pairs", "pairs.csv", "--columns", "x,y", *QUICK, *arguments])


def test_each_input_is_scored_as_if_it_were_alone() -> None:
    every = pd.read_csv(io.StringIO(of_pairs("--csv").stdout))
    alone = [run("classify", *pair, *QUICK, "--csv").stdout for pair in ((A, B), ("the cat sat", "the cats ran"))]
    assert list(every.columns[:4]) == ["file", "input", "sentence_a", "sentence_b"]
    for number, (own, text) in enumerate(zip((A, "the cat sat"), alone, strict=True), 1):
        rows = every[every["input"] == number]
        assert set(rows["sentence_a"]) == {own}
        pd.testing.assert_frame_equal(
            rows.iloc[:, 4:].reset_index(drop=True), pd.read_csv(io.StringIO(text)), check_dtype=False
        )


def test_a_line_of_standard_input_is_an_input() -> None:
    done = piped(LINES.encode("utf-8-sig"), "--csv", "-p", "N", "--top", "1")
    assert done.exit_code == 0 and done.stderr == ""
    rows = pd.read_csv(io.StringIO(done.stdout), keep_default_na=False)
    assert rows[["input", "sentence_a", "sentence_b"]].to_numpy().tolist() == [[1, A, B], [3, "the cat sat", ""]]
    assert piped(LINES.replace("\n", "\r\n"), "--csv", "-p", "N", "--top", "1").stdout == done.stdout


def test_formats_and_files_hold_the_same(place: Path) -> None:
    told = {form: piped(LINES, "--format", form, "--top", "2").stdout for form in ("csv", "tsv", "jsonl", "table")}
    assert told["csv"].count("sentence_a") == told["tsv"].count("sentence_a") == 1
    assert len(told["csv"].splitlines()) == len(told["tsv"].splitlines()) == 1 + 4
    records = [json.loads(line) for line in told["jsonl"].splitlines()]
    assert [record["input"] for record in records] == [1, 1, 3, 3]
    assert list(records[0]) == told["csv"].splitlines()[0].split(",")
    blocks = told["table"].split("\n\n")
    assert [block.splitlines()[0] for block in blocks if block] == ["input 1", "input 2"]
    assert "B a cat ran" in blocks[0] and "A [CLS] the cat sat [SEP]" in blocks[1] and "Map" not in told["table"]
    for name, form in (("a.csv", "csv"), ("a.tsv", "tsv"), ("a.jsonl", "jsonl")):
        assert piped(LINES, "-o", name, "--top", "2").stdout == ""
        assert (place / name).read_text() == told[form]
    every = piped("the cat sat\n", "--all", "--top", "3").stdout
    assert every.startswith("input 1\nA [CLS] the cat sat [SEP]\nhead ")
    assert sum(line[:1].isdigit() for line in every.splitlines()) == 3


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second input."""
    made, seen = one_input.classify, list[int]()

    def classify(*given: Any, **named: Any) -> Any:
        seen.append(1)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return made(*given, **named)

    monkeypatch.setattr(one_input, "classify", classify)


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_leaves_a_file_as_it_was(place: Path) -> None:
    (place / "every.csv").write_bytes(OLD)
    done = of_pairs("-o", "every.csv")
    assert (done.exit_code, done.stderr) == (130, "attnscan: interrupted\n")
    assert (place / "every.csv").read_bytes() == OLD
    assert sorted(path.name for path in place.iterdir()) == ["every.csv", "pairs.csv"]


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_keeps_what_was_printed() -> None:
    done = of_pairs("--csv")
    assert done.exit_code == 130 and set(pd.read_csv(io.StringIO(done.stdout))["input"]) == {1}


def test_a_bad_input_says_where_it_is_or_is_skipped(place: Path) -> None:
    (place / "every.csv").write_bytes(OLD)
    text = b"the cat sat\nfour\tsentences\tin\tone\nthe dog\t \n" + b"cat " * 600 + b"\nthe dog ran\n"
    done = piped(text, "-o", "every.csv")
    assert (done.exit_code, (place / "every.csv").read_bytes()) == (1, OLD)
    assert done.stderr == (
        "attnscan: standard input:2: it has 4 cells, where one or two sentences are expected; "
        "correct it, or pass --skip-bad to go on without it\n"
    )
    assert sorted(path.name for path in place.iterdir()) == ["every.csv", "pairs.csv"]
    done = piped(text, "--csv", "--skip-bad", "-p", "D", "--top", "1")
    assert list(pd.read_csv(io.StringIO(done.stdout))["sentence_a"]) == ["the cat sat", "the dog ran"]
    *told, last = done.stderr.splitlines()
    assert [line.split(": ")[1:3] for line in told] == [["skipped", f"standard input:{n}"] for n in (2, 3, 4)]
    assert last == "attnscan: 3 bad records were skipped"
    assert "standard input:5: " in piped(b"\n\n\n\n" + b"cat " * 600).stderr
    cut = piped(b"cat " * 600 + b"\nthe cat\n", "--on-long", "truncate", "--csv")
    assert cut.exit_code == 0 and "1 of 2 inputs" in cut.stderr
