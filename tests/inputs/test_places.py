"""Files by name, glob, directory and URI, each found once and opened as bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from attnscan.inputs.remote_files import files_named, opened

from attnscan.errors import PairsError
from attnscan.inputs.pairs import pairs_in

pytest.importorskip("pyarrow")
NAMES = ["a.tsv", "b.parquet", "b/c.csv.gz", "b/d/e.jsonl", "b/d/notes.md", "f[1].txt", ".hidden/x.tsv"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Some files, all empty."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name != "b.parquet":
            (tmp_path / name).touch()
    (tmp_path / "b.parquet").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", ["a.tsv"]),
        ("*.tsv", ["a.tsv"]),
        ("?.tsv", ["a.tsv"]),
        ("[a-c].tsv", ["a.tsv"]),
        ("[!b].tsv", ["a.tsv"]),
        ("f[1].txt", ["f[1].txt"]),
        ("b/*.gz", ["b/c.csv.gz"]),
        ("b/**/*.jsonl", ["b/d/e.jsonl"]),
        ("**/*.gz", ["b/c.csv.gz"]),
        ("*/*/*.json?", ["b/d/e.jsonl"]),
        (".h*/*.tsv", [".hidden/x.tsv"]),
        ("**/*.tsv", [".hidden/x.tsv", "a.tsv"]),
        ("b", ["b/c.csv.gz", "b/d/e.jsonl"]),
        ("", ["a.tsv", "b.parquet", "b/c.csv.gz", "b/d/e.jsonl", "f[1].txt"]),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_names_stand_for_files(directory: Path, name: str, expected: list[str], scheme: str) -> None:
    if scheme and name == "f[1].txt":
        name = "f[[]1].txt"  # in a URI brackets are a glob's
    found = files_named([f"{scheme}{directory}/{name}"])
    assert found == [f"{scheme}{directory}/{each}" for each in expected]


def test_relative_names_stay_relative(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    assert [str(Path(each)) for each in files_named(["*.tsv", "./*.tsv", "b/*.gz"])] == ["a.tsv", "a.tsv", "b/c.csv.gz"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.tsv", "there is no file"),
        ("*.csv", "there is no file of pairs by the name of"),
        ("none/*.csv", "there is no file"),
        ("b/d/notes.md", "cannot tell the format of"),
        ("b/d/*", "cannot tell the format of"),
        ("b**", "cannot read .*b[*][*]: "),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_not_there_is_said(directory: Path, name: str, says: str, scheme: str) -> None:
    with pytest.raises(PairsError, match=says):
        files_named([f"{scheme}{directory}/{name}"])


def test_an_empty_name_is_no_file() -> None:
    with pytest.raises(PairsError, match="there is no file"):
        files_named([""])


def test_standard_input_and_unknown_stores_are_refused() -> None:
    with pytest.raises(PairsError, match="standard input"):
        files_named(["-"])
    with pytest.raises(PairsError, match="cannot read nowhere://"):
        files_named(["nowhere://bucket/a.tsv"])


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_opened_files_are_read_as_local_ones_are(tmp_path: Path, scheme: str) -> None:
    text = 'sentence_a\tsentence_b\nthe "cat\tsat\n\nthe dog\n'
    (tmp_path / "p.tsv").write_text(text)
    with gzip.open(tmp_path / "p.tsv.gz", "wt") as file:
        file.write(text)
    for name in (f"{scheme}{tmp_path}/p.tsv", f"{scheme}{tmp_path}/p.tsv.gz"):
        bad: list[PairsError] = []
        with opened(name) as stream:
            records = list(pairs_in(stream, name, on_bad=bad.append))
        assert [(each.pair.sentences, each.where) for each in records] == [(('the "cat', "sat"), f"{name}:2")]
        assert len(bad) == 1 and str(bad[0]).startswith(f"{name}:4: ")
    with pytest.raises(PairsError, match="cannot read"), opened(f"{scheme}{tmp_path}/none.tsv"):
        pass


def test_parquet_is_read_through_the_filesystem(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["the cat", None, "sat"]}), tmp_path / "p.parquet")
    bad: list[PairsError] = []
    name = f"file://{tmp_path}/p.parquet"
    with opened(name) as stream:
        assert [each.pair.a for each in pairs_in(stream, name, on_bad=bad.append)] == ["the cat", "sat"]
    assert f"{name}: row 2" in str(bad[0])
