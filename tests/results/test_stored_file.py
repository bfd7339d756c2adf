"""A file in a store is replaced whole or not at all, and a store that fails is one line without secrets."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from web_server import nobody, silence

from attnscan.errors import OutputError, PairsError, StateError
from attnscan.inputs.places import stores
from attnscan.results import stored_file
from attnscan.results.stored_file import StoredFile, place_of

# A thread that was left to itself drops its socket when it may
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Store:
    """A store that is a directory here, and does not do what `without` names."""

    def __init__(self, directory: Path, *without: str) -> None:
        self._own, self._directory, self.without = (
            fs.SubTreeFileSystem(str(directory), fs.LocalFileSystem()),
            directory,
            without,
        )

    def __getattr__(self, name: str) -> Any:
        if name in self.without:
            raise (NotImplementedError if name == "move" else OSError)(f"no {name}")
        return getattr(self._own, name)

    def move(self, one: str, other: str) -> None:
        """As HDFS does."""
        if "move" in self.without:
            raise NotImplementedError("no move")
        if (self._directory / other).exists():
            raise OSError("there is a file")
        self._own.move(one, other)


def store_at(directory: Path, monkeypatch: pytest.MonkeyPatch, *without: str) -> Store:
    store = Store(directory, *without)
    monkeypatch.setattr(stores, "file_system", lambda name: (store, name.rpartition("/")[2]))
    return store


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs", "hdfs"])
@pytest.mark.parametrize("without", [(), ("move",)])
def test_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, without: tuple[str, ...]) -> None:
    store_at(tmp_path, monkeypatch, *without)
    file = StoredFile(f"{scheme}://bucket/state")
    assert not file.exists()
    for content in (b"one", b"another", b""):
        file.write_bytes(content)
        assert file.exists() and file.read_bytes(99) == content
        assert (tmp_path / "state").read_bytes() == content
        left = ["state.new"] if scheme in ("abfs", "hdfs") and without else []
        assert sorted(path.name for path in tmp_path.iterdir()) == ["state", *left]
    file.write_bytes(bytes(9))
    assert len(file.read_bytes(8)) == 9 and len(file.read_bytes(4)) == 5


@pytest.mark.parametrize("without", ["open_output_stream", "delete_file", "move copy_file"])
def test_a_writer_that_ends_anywhere_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    store, file = store_at(tmp_path, monkeypatch), StoredFile("hdfs://key:SECRET@host/state")
    file.write_bytes(b"old")
    store.without = tuple(without.split())
    with pytest.raises(OutputError, match=r"cannot write hdfs://host/state: no \w+; check the address"):
        file.write_bytes(b"new")
    assert file.read_bytes(9) == (b"new" if "move" in without else b"old")
    store.without = ()
    file.write_bytes(b"newer")
    assert file.read_bytes(9) == b"newer" and list(tmp_path.iterdir()) == [tmp_path / "state"]


def test_what_was_not_waited_for_does_not_come_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, file = store_at(tmp_path, monkeypatch), StoredFile("s3://bucket/state")
    go_on, last, replace = threading.Event(), threading.Event(), stored_file._upload

    def slow(*of: Any) -> None:
        if of[2] == b"slow":
            go_on.wait(60)
        replace(*of)
        if of[2] == b"fast":
            last.set()

    monkeypatch.setattr(stored_file, "_upload", slow)
    monkeypatch.setattr(stored_file, "PATIENCE", 0.2)
    for content in (b"slow", b"fast"):
        with pytest.raises(OutputError, match=r"cannot write s3://bucket/state: timed out after 0 seconds"):
            file.write_bytes(content)
    assert not file.exists()
    go_on.set()
    assert last.wait(60)
    monkeypatch.setattr(stored_file, "PATIENCE", 60)
    assert file.read_bytes(9) == b"fast" and store.without == ()


def test_nobody_there_and_a_silent_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    name = "s3://AKIAKEY:SECRET%2FSECRET@bucket/state?scheme=http&region=x&endpoint_override="
    file = StoredFile(name + nobody())
    for ask, error in ((file.exists, StateError), (lambda: file.write_bytes(b"x"), OutputError)):
        with pytest.raises(error, match=r"cannot (read|write) s3://bucket/state: ") as caught:
            ask()
        assert not any(each in f"{caught.value}{file}{file!r}" for each in ("SECRET", "AKIA"))
    monkeypatch.setattr(stored_file, "_LOOK", 0.5)
    with silence() as host, pytest.raises(StateError, match="timed out after 0 seconds"):
        StoredFile(name + host).exists()


def test_places(tmp_path: Path) -> None:
    assert place_of("a/b.state") == Path("a/b.state")
    assert place_of(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert place_of("s3://bucket/a?region=x") == StoredFile("s3://bucket/a?region=x")
    for name in ("https://me:SECRET@host/s", "hf://datasets/a/b/s", "ftp://me:SECRET@host/s"):
        with pytest.raises(OutputError, match=r"cannot write .*: \w+:// takes no files; use one of s3://") as caught:
            place_of(name)
        assert "SECRET" not in str(caught.value)
    for name in ("s3://bucket", "gs://bucket/", "hdfs://host/a/", "s3://bucket/?region=x"):
        with pytest.raises(OutputError, match="it names no file; put the file's name behind it"):
            place_of(name)
    with pytest.raises(PairsError, match="on another machine"):
        place_of("file://host/a")
    with pytest.raises(OutputError, match="no file can have this name"):
        place_of("\ud800.state")
