"""Ctrl-C: what an earlier run wrote is untouched, and what is done so far never stands under a whole result's name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.scan import local, scanner
from attnscan.scan.state import ScanState

SENTENCES = ["the cat sat on the mat", "he ran to a store", "a dog ran", "the store was red", "cats sat", "dogs ran"]
OLD = b"of an earlier run"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pairs.txt").write_text("\n".join(SENTENCES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def interrupted_in_the_second_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C once the second window's pairs are scored, and before it counts. Windows are of one batch."""
    whole = local.scan

    def scan(*given: Any, **named: Any) -> Iterator[Any]:
        windows = 0
        for event in whole(*given, **named):
            if windows and isinstance(event, ScanState):
                raise KeyboardInterrupt
            yield event
            windows += isinstance(event, ScanState)

    monkeypatch.setattr(local, "scan", scan)
    monkeypatch.setattr(local, "_BATCHES_IN_WINDOW", (1, 1))


def _heads(*arguments: str) -> Result:
    options = ["--model", "bundled", "--predictive", "off", "--batch-tokens", "10"]
    return CliRunner().invoke(app, ["heads", "--pairs", "pairs.txt", *options, *arguments])


@pytest.mark.usefixtures("interrupted_in_the_second_window")
class TestHeads:
    @pytest.mark.parametrize("older", [OLD, None])
    def test_a_part_stands_beside_the_whole_and_is_told(self, place: Path, older: bytes | None) -> None:
        whole = [place / "heads.csv", place / "every.parquet"]
        for path in whole if older is not None else ():
            path.write_bytes(older)
        done = _heads("-o", "heads.csv", "--per-pair", "every.parquet")
        assert done.exit_code == 130 and done.stdout == ""
        interrupted, *told = done.stderr.splitlines()
        assert "interrupted after" in interrupted
        assert told == [
            "attnscan: what is done is in every.partial.parquet, and every.parquet is untouched",
            "attnscan: what is done is in heads.partial.csv, and heads.csv is untouched",
        ]
        assert [path.read_bytes() for path in whole if path.exists()] == ([OLD, OLD] if older else [])
        names = {path.name for path in place.iterdir()} - {path.name for path in whole}
        assert names == {"pairs.txt", "heads.partial.csv", "every.partial.parquet"}

    def test_a_part_has_its_signature_beside_it(self, place: Path) -> None:
        (place / "of.json").write_bytes(OLD)
        done = _heads("-o", "heads.csv", "--signature", "of.json")
        assert done.stderr.splitlines()[1:] == [
            "attnscan: what is done is in heads.partial.csv, and heads.csv is untouched",
            "attnscan: what is done is in of.partial.json, and of.json is untouched",
        ]
        assert (place / "of.json").read_bytes() == OLD
        signature = json.loads((place / "of.partial.json").read_text())["signature"]
        assert 0 < signature["pairs_read"] < len(SENTENCES)
        done = _heads("--pairs", "of.partial.json", "--signature", "of.json")
        assert done.exit_code == 2 and "of.partial.json is named twice" in " ".join(done.stderr.split())

    def test_both_parts_count_the_same_pairs(self, place: Path) -> None:
        _heads("--best", "-o", "heads.csv", "--per-pair", "every.parquet")
        table = pd.read_csv(place / "heads.partial.csv")
        assert 0 < table["pairs"].max() == pd.read_parquet(place / "every.partial.parquet")["pair"].nunique()

    def test_standard_output_takes_a_part_as_it_is(self, place: Path) -> None:
        done = _heads("--csv")
        assert done.exit_code == 130 and done.stdout.startswith("model,layer,head,label,")
        assert len(done.stderr.splitlines()) == 1 and "interrupted after" in done.stderr
        assert [path.name for path in place.iterdir()] == ["pairs.txt"]

    def test_a_part_is_never_written_over_what_is_read(self, place: Path) -> None:
        (place / "heads.partial.csv").write_text("text\nthe cat sat\n")
        done = _heads("--pairs", "heads.partial.csv", "-o", "heads.csv")
        assert done.exit_code == 2 and "heads.partial.csv is named twice" in " ".join(done.stderr.split())


ONE = ["the cat sat", "--model", "bundled"]
MANY = ["--pairs", "pairs.txt", "--model", "bundled"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["classify", *ONE], "x.csv"),
        (["show", "0-2", *ONE], "x.csv"),
        (["predictive", *ONE], "x.csv"),
        (["report", *ONE], "x.html"),
        (["plot", *ONE], "x.svg"),
        (["explain", "0-2", *ONE], "x.csv"),
        (["explain", "0-2", *MANY], "x.json"),
        (["heads", *MANY], "x.csv"),
        (["ablate", *MANY], "x.svg"),
        (["similar", *MANY, "--matrix"], "x.parquet"),
        (["compare", "bundled", "bundled", *MANY[:2]], "x.csv"),
    ],
    ids=lambda value: " ".join(value[:1]) if isinstance(value, list) else value,
)
def test_every_command_leaves_what_is_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scanner, "collate", interrupt)
    monkeypatch.setattr(scanner, "help_between_words", lambda *_, **__: interrupt())
    (place / name).write_bytes(OLD)
    done = CliRunner().invoke(app, [*arguments, "-o", name])
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "attnscan: interrupted\n")
    assert (place / name).read_bytes() == OLD
    assert {path.name for path in place.iterdir()} == {"pairs.txt", name}
