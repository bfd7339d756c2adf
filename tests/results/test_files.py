"""A result is written whole or not at all, and what cannot be written is said in one line."""

import errno
import os
import stat
import threading
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from support.docstring_examples import check_examples

from attnscan.errors import OutputError
from attnscan.results.files import (
    ResultsByKind,
    check_suffix,
    check_writable,
    create_temporary,
    is_stream,
    join_kinds,
    local_path,
    write_file,
)

FULL = Path("/dev/full")


@pytest.mark.parametrize("module", ["files", "syntax"])
def test_examples_in_docstrings_are_real(module: str) -> None:
    check_examples(f"attnscan.results.{module}")


def refusal(path: Path, content: bytes = b"new") -> str:
    with pytest.raises(OutputError) as caught:
        write_file(path, content)
    line = str(caught.value)
    assert str(path) in line and len(line.splitlines()) == 1 and caught.value.remedy
    return line


@pytest.mark.parametrize("older", [b"old and longer", None])
def test_nobody_sees_a_part_of_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, older: bytes | None
) -> None:
    seen = []
    if older is not None:
        file.write_bytes(older)
    monkeypatch.setattr(
        os, "fsync", lambda _: seen.append(file.read_bytes() if file.exists() else None)
    )
    write_file(file, b"a\r\n\x00\xff")
    assert seen == [older]
    assert file.read_bytes() == b"a\r\n\x00\xff" and list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("step", [(os, "fsync"), (Path, "replace")], ids=lambda step: step[1])
def test_a_failure_leaves_the_older_file_and_nothing_beside_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[object, str]
) -> None:
    file.write_bytes(b"old")
    monkeypatch.setattr(
        *step, mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    )
    assert "No space left on device" in refusal(file)
    assert file.read_bytes() == b"old" and list(file.parent.iterdir()) == [file]


def test_an_older_file_keeps_its_mode(file: Path) -> None:
    file.touch()
    file.chmod(0o604)
    write_file(file, b"new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o604


@pytest.mark.parametrize("older", [b"old", None], ids=["link", "dangling link"])
def test_a_link_is_written_through(tmp_path: Path, older: bytes | None) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "target.csv"
    link = tmp_path / "link.csv"
    if older is not None:
        target.write_bytes(older)
    link.symlink_to(target)
    write_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert list(target.parent.iterdir()) == [target]


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    got: list[bytes] = []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_file(pipe, b"new")
    reader.join(timeout=60)
    assert got == [b"new"] and pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
def test_a_full_device_is_an_error_and_stays_a_device() -> None:
    assert "No space left on device" in refusal(FULL)
    assert FULL.is_char_device()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "is a directory"),
        ("missing/heads.csv", "there is no directory"),
        ("text/heads.csv", "there is no directory"),
        ("a" * 256, "File name too long"),
    ],
    ids=["directory", "missing directory", "below a file", "long name"],
)
def test_what_is_no_place_for_a_file_is_refused_in_time(
    tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "text").write_text("")
    path = tmp_path / name
    assert words in refusal(path)
    with pytest.raises(OutputError, match=words):
        check_writable(path)


@pytest.mark.parametrize(
    "protected", ["heads.csv", "."]
)  # as told by the system, since root may write everywhere
def test_a_write_protected_place_is_refused(
    file: Path, protected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda place, _: not place.samefile(file.parent / protected))
    assert "no permission" in refusal(file)
    assert file.read_bytes() == b"old"


def test_a_file_that_is_written_has_no_name_before_it_is_whole(tmp_path: Path) -> None:
    """So that a run that is killed leaves nothing."""
    temporary = create_temporary(tmp_path / "heads.csv")
    if temporary.descriptor is None:
        pytest.skip("needs a file system with files that have no name")
    temporary.path.write_bytes(b"half")
    assert list(tmp_path.iterdir()) == []
    temporary.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("can", [True, False])
def test_a_written_file_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can: bool
) -> None:
    if not can:
        monkeypatch.delattr("os.O_TMPFILE", raising=False)
    write_file(tmp_path / "heads.csv", b"whole")
    assert (tmp_path / "heads.csv").read_bytes() == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == ["heads.csv"]


def test_a_file_in_the_way_of_a_temporary_one_stays(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.O_TMPFILE", raising=False)
    monkeypatch.setattr("secrets.token_hex", lambda _: "0")
    other = file.with_name(f".{file.name}.0")
    other.write_bytes(b"other")
    assert "File exists" in refusal(file)
    assert other.read_bytes() == b"other"


def test_a_file_by_another_suffix_is_refused() -> None:
    check_suffix(Path("state.JSON"), ".json", "state")
    check_suffix(Path("/dev/stdout"), ".json", "state")
    with pytest.raises(OutputError) as caught:
        check_suffix(Path("runs/pairs.csv"), ".json", "state")
    message = "state writes a .json file, and runs/pairs.csv is not one; name it pairs.json"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "path"),
    [("a/b.csv", "a/b.csv"), ("file:///tmp/b.csv", "/tmp/b.csv")],
)
def test_a_file_on_this_machine_is_named_by_its_path_or_address(name: str, path: str) -> None:
    assert local_path(name) == Path(path)


def test_a_place_on_another_machine_is_refused() -> None:
    with pytest.raises(OutputError, match=r"cannot write s3://b/a\.csv: it is not on this machine"):
        local_path("s3://b/a.csv")


@pytest.mark.parametrize(
    ("name", "stream"),
    [("/dev/null", True), ("/dev/stdout", True), ("/dev/fd/7", True), (".", False), ("no", False)],
)
def test_devices_and_descriptors_are_streams(name: str, stream: bool) -> None:
    assert is_stream(Path(name)) == stream


def table(kind: str | None) -> pd.DataFrame:
    """A table of two heads, with the kind of attention unless it is the only one."""
    columns = {"model": "m", "kind": kind, "layer": [0, 1], "score": 0.5}
    if kind is None:
        del columns["kind"]
    frame = pd.DataFrame(columns)
    frame.attrs = {"schema": "s", "of": kind}
    return frame


def test_tables_of_kinds_of_attention_are_joined_with_their_kind() -> None:
    joined = join_kinds([table(None), table("cross")])
    assert joined.columns.tolist() == ["model", "kind", "layer", "score"]
    assert joined["kind"].tolist() == ["encoder", "encoder", "cross", "cross"]
    assert joined.index.tolist() == [0, 1, 2, 3]
    kinds = {"encoder": {"of": None}, "cross": {"of": "cross"}}
    assert joined.attrs == {"schema": "s", **kinds}


def test_a_single_table_stays_as_it_is() -> None:
    frame = table(None)
    assert join_kinds([frame]) is frame


def test_results_by_kind_make_one_table() -> None:
    class Result:
        def to_frame(self, top: int) -> pd.DataFrame:
            return table("cross")[:top]

    results = ResultsByKind[Result](decoder=Result(), cross=Result())
    assert len(results.to_frame(1)) == 2
