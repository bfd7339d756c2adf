"""`attnscan.pairs` shows how files are read: the same pairs that are scored, and what is wrong."""

from pathlib import Path

import pytest

import attnscan
from attnscan.errors import OptionError, PairsError

TABLE = 'premise, hypothesis,no\n"A lamp.", "A light.",7\nalone\nHe came.,"x, y",8\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "p.csv"
    path.write_text(TABLE)
    return path


def test_rows_are_the_pairs_as_they_are_read(table: Path) -> None:
    frame = attnscan.pairs(table)
    assert frame.columns.tolist() == ["file", "row", "sentence_a", "sentence_b"]
    assert frame.values.tolist() == [
        [str(table), 1, "A lamp.", "A light."],
        [str(table), 3, "He came.", "x, y"],
    ]


def test_attrs_say_how_the_file_is_read(table: Path) -> None:
    (about,) = attnscan.pairs([str(table)]).attrs["files"]
    assert about["file"] == str(table) and about["records"] == 2
    assert (about["format"], about["encoding"], about["separator"]) == ("CSV", "UTF-8", ",")
    assert (about["columns"], about["why"]) == (["premise", "hypothesis"], "known names")
    assert about["first_line"] == "names" and about["has_quotes"] and about["notes"] == []


def test_bad_records_are_listed_with_their_lines(table: Path) -> None:
    bad = attnscan.pairs(table).attrs["bad"]
    assert bad == [f"{table}:3: its number of fields is 1, where 3 are expected"]


def test_ids_stand_beside_the_rows(table: Path) -> None:
    frame = attnscan.pairs(table, id="no", columns="premise")
    assert frame["id"].tolist() == ["7", "8"]
    assert frame["sentence_b"].isna().all()


def test_guesses_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("story\nA lamp.\n")
    (about,) = attnscan.pairs(path).attrs["files"]
    (note,) = about["notes"]
    assert "its first line looks like names of columns" in note and "--no-header" in note
    assert about["why"] == "the only column"


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PairsError, match=r"cannot read '.*no\.csv'"):
        attnscan.pairs(tmp_path / "no.csv")
    with pytest.raises(OptionError, match="there is no quoting 'x'"):
        attnscan.pairs("p.csv", quoting="x")  # type: ignore[arg-type]


def test_inputs_that_a_model_cuts_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text("the cat sat\n" + "the cat " * 600 + "\n")
    attrs = attnscan.pairs(path, model="bundled").attrs
    assert (attrs["cut"], attrs["longest"], attrs["model"]) == (1, 512, "bundled")
