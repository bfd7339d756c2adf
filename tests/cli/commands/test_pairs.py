"""`attnscan pairs`, and the line above screens that names the columns of files."""

from pathlib import Path

import pytest
from support.command_line import run

from attnscan.cli.output import input_lines
from attnscan.inputs.report import FileReport, collect_reports


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text("premise,hypothesis\nA lamp.,A light.\nalone\nHe came.,Who?\n")
    return "p.csv"


def test_screen_says_how_a_file_is_read(table: str) -> None:
    lines = run("pairs", table).stdout.splitlines()
    assert lines[0] == table
    assert "format      CSV, UTF-8, separated by commas, quotes belong to the format" in lines
    assert "columns     A is 'premise', B is 'hypothesis' (known names)" in lines
    assert lines[-2:] == [
        "2 pairs and 1 bad record",
        "p.csv:3: its number of fields is 1, where 2 are expected",
    ]


def test_csv_has_the_pairs_as_they_were_read(table: str) -> None:
    expected = "file,row,sentence_a,sentence_b\np.csv,1,A lamp.,A light.\np.csv,3,He came.,Who?\n"
    assert run("pairs", table, "--csv").stdout == expected


def test_options_say_how_it_is_read(table: str) -> None:
    lines = run("pairs", table, "--columns", "2", "--id", "premise").stdout.splitlines()
    assert "columns     A is 'hypothesis' (named by --columns)" in lines


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ([("x", "y")], "pairs  p.csv (x, y)"),
        ([("text",), ("text",)], "pairs  p.csv, q.csv (text)"),
        ([("text",), ("a", "b")], "pairs  p.csv (text), q.csv (a, b)"),
        ([()], "pairs  p.csv"),
    ],
)
@pytest.mark.usefixtures("table")
def test_first_line_of_screens_names_the_columns(
    monkeypatch: pytest.MonkeyPatch, columns: list[tuple[str, ...]], line: str
) -> None:
    files = ["p.csv", "q.csv"][: len(columns)]
    Path("q.csv").touch()
    reports = [FileReport(file, columns=names) for file, names in zip(files, columns, strict=True)]
    monkeypatch.setattr("attnscan.cli.output._reports", reports)
    assert input_lines({"pairs": files}) == [line]


def test_reports_are_collected_while_files_are_read(table: str) -> None:
    from attnscan.inputs.read import read_pairs

    with collect_reports() as reports:
        list(read_pairs([table], on_bad=lambda _: None))
    list(read_pairs([table], on_bad=lambda _: None))
    assert [report.columns for report in reports] == [("premise", "hypothesis")]
