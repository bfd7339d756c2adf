"""Files of this machine by name, glob, directory and file://, each found once and opened as bytes."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from attnscan.errors import PairsError
from attnscan.inputs.read import FORMATS, PACKED, files_named, read_pairs

NAMES = ["a.tsv", "b.parquet", "b/c.csv.gz", "b/d/e.jsonl", "b/d/notes.md", "f[1].txt", ".hidden/x.tsv"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Some files, all empty."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tsv", ["a.tsv"]),
        ("*.tsv", ["a.tsv"]),
        ("[!b].tsv", ["a.tsv"]),
        ("f[1].txt", ["f[1].txt"]),
        ("b/*.gz", ["b/c.csv.gz"]),
        ("b/**/*.jsonl", ["b/d/e.jsonl"]),
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
    files = files_named([f"{scheme}{directory}/{name}"])
    assert files == [f"{directory}/{file}" for file in expected]


def test_relative_names_stay_relative(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    assert [str(Path(file)) for file in files_named(["*.tsv", "./*.tsv", "b/*.gz"])] == ["a.tsv", "a.tsv", "b/c.csv.gz"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((f"none{suffix}", "there is no file") for suffix in ("", ".tsv", ".parquet", ".csv.gz")),
        *((f"odd/{name}", "cannot tell the format of") for name in ("p.doc", "p.gz.gz", "p.xml", "p.csv.gz.gz")),
        ("a.tsv/p.csv", "cannot read .*: Not a directory"),
        ("p" * 300 + ".csv", "cannot read .*: File name too long"),
        ("a\0b.csv", "cannot read .*: .*null byte"),
        ("*.csv", "there is no file of pairs by the name of"),
        ("b/d/notes.md", "cannot tell the format of"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_not_there_is_said(directory: Path, name: str, says: str, scheme: str) -> None:
    (directory / "odd").mkdir()
    for odd in ("p.doc", "p.gz.gz", "p.xml", "p.csv.gz.gz"):
        (directory / "odd" / odd).touch()
    with pytest.raises(PairsError, match=says) as caught:
        read_pairs([f"{scheme}{directory}/{name}"])  # at once, before any is read
    if "format" in says:
        assert all(suffix in caught.value.remedy for suffix in (*FORMATS, *PACKED))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_opened_files_are_read_as_local_ones_are(tmp_path: Path, scheme: str) -> None:
    text = 'sentence_a\tsentence_b\nthe "cat\tsat\n\nthe dog\n'
    (tmp_path / "p.tsv").write_text(text)
    with gzip.open(tmp_path / "p.tsv.gz", "wt") as file:
        file.write(text)
    for name in (f"{scheme}{tmp_path}/p.tsv", f"{scheme}{tmp_path}/p.tsv.gz"):
        bad: list[PairsError] = []
        (name,) = files_named([name])
        records = list(read_pairs([name], on_bad=bad.append))
        assert [(record.pair.texts, record.where) for record in records] == [(('the "cat', "sat"), f"{name}:2")]
        assert len(bad) == 1 and str(bad[0]).startswith(f"{name}:4: ")


def test_names_of_one_directory_a_pipe_and_standard_input(directory: Path) -> None:
    names = [str(directory / "b"), "-", "/dev/null", str(directory / "a.tsv")]
    assert files_named(names) == [f"{directory}/b/c.csv.gz", f"{directory}/b/d/e.jsonl", *names[1:]]


def test_links_are_followed_to_files_but_not_in_circles(directory: Path) -> None:
    (directory / "b" / "link.tsv").symlink_to(directory / "a.tsv")
    (directory / "b" / "d" / "round").symlink_to(directory)
    assert [Path(file).name for file in files_named([f"{directory}/b"])] == ["c.csv.gz", "e.jsonl", "link.tsv"]
    assert [Path(file).name for file in files_named([f"{directory}/b/**/*[lv]"])] == ["e.jsonl", "link.tsv"]
    assert [Path(file).name for file in files_named([f"{directory}/b/d/*/a.tsv"])] == ["a.tsv"]


def test_a_directory_without_any_and_one_that_cannot_be_listed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "empty" / ".x").mkdir(parents=True)
    (directory / "empty" / ".x" / "a.csv").touch()
    with pytest.raises(PairsError, match=r"there is no file of pairs by the name of .*/empty"):
        files_named([str(directory / "empty")])

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(PairsError, match=r"cannot read .*: Permission denied"):
        files_named([str(directory / "b")])


def test_local_files_are_read_without_libraries_of_networks(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("text\na\n")
    script = (
        "import sys\nfrom attnscan.inputs.read import read_pairs\n"
        "print(len(list(read_pairs(sys.argv[1:]))))\n"
        "apart = {'pandas', 'numpy', 'torch', 'transformers', 'pyarrow', 'fsspec', 'aiohttp', 'huggingface_hub'}\n"
        "print(sorted(apart & set(sys.modules)))\n"
    )
    names = [str(tmp_path), f"{tmp_path}/*.csv", f"file://{tmp_path}/p.csv"]
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n[]\n"
