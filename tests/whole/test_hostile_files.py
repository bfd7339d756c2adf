"""Generated files, broken in many ways: a right result or one line with a remedy."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.files import PAIRS, Kind, bombs, broken, pair_kinds, scan_kinds, survives, weights_kind
from hostile.runs import check, loaded_once, run, save_tiny_model

from attnscan.errors import AttnscanError
from attnscan.inputs.read import FileReading, read_pairs
from attnscan.inputs.sentence import Pair
from attnscan.inputs.weights import read_weights
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

_A_FEW = 60  # ways to break each kind of file, or somewhat fewer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with loaded_once():
        yield save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("kind", [*pair_kinds(), weights_kind()], ids=lambda kind: kind.name)
def test_a_file_is_read_right_or_refused_however_it_is_broken(tmp_path: Path, kind: Kind) -> None:
    _held(kind, tmp_path)


def _held(kind: Kind, directory: Path) -> None:
    path = directory / kind.name
    kind.write(path)
    whole, content = kind.read(path), path.read_bytes()
    ways = list(broken(content, 0))
    read = [survives(kind, path, each, whole) for each in ways[:: (len(ways) // _A_FEW) | 1]]
    assert len(read) >= _A_FEW // 2 and not all(read), "a control: some damage must be found"


def test_what_a_scan_keeps_too(tmp_path: Path, tiny: Path) -> None:
    with Scanner(ScanOptions(model=str(tiny), predictive="off", related=False, on_long="truncate")) as scanner:
        for kind in scan_kinds(scanner):
            _held(kind, tmp_path)


def test_whole_files_are_read_right(tmp_path: Path) -> None:
    for kind in pair_kinds():
        kind.write(tmp_path / kind.name)
        read = kind.read(tmp_path / kind.name)
        if kind.name.startswith("pairs.conllu"):  # whose sentences have words and tags besides
            read = [Pair(pair.a) for pair in read]
        single = kind.name.startswith(("pairs.txt", "pairs.conllu"))
        assert read == ([Pair(pair.a) for pair in PAIRS] if single else PAIRS)


def test_how_a_file_is_read_may_be_told_before_what_is_wrong_with_it(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "quoted.tsv"
    path.write_text('sentence_a\tsentence_b\n"the ""cat"""\ta mat\n\ta cat\n')
    refused = run("heads", "--pairs", path, "--model", tiny, "--predictive", "off", "--csv")
    assert not check(refused) and len(refused.stderr.splitlines()) == 2


@pytest.mark.long
def test_no_small_file_takes_much_memory(tmp_path: Path) -> None:
    for path in bombs(tmp_path):
        tracemalloc.start()
        try:
            if path.suffix == ".npz":
                read_weights(path)
            else:
                list(read_pairs([str(path)], FileReading(("1",))))
        except AttnscanError as error:
            assert str(error).isprintable()
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 300 << 20, f"{path.name}: {peak >> 20} MiB"
        path.unlink()


class TestWhatIsNoFile:
    """Directories, links to nowhere and to themselves, pipes, devices: in the place of every file that is read."""

    @pytest.fixture(params=["directory", "nowhere", "loop", "pipe", "device"])
    def path(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        path = tmp_path / "x.parquet"
        match request.param:
            case "directory":
                path.mkdir()
            case "nowhere":
                path.symlink_to(tmp_path / "nowhere" / "x")
            case "loop":
                path.symlink_to(path)
            case "pipe":
                os.mkfifo(path)
            case "device":
                path.symlink_to("/dev/zero")
        return path

    def test_pairs(self, path: Path, tiny: Path, request: pytest.FixtureRequest) -> None:
        if "pipe" not in request.node.name:  # which is read until its writer ends
            assert not check(run("heads", "--pairs", path, "--model", tiny, "--predictive", "off"))

    def test_saved_weights(self, path: Path) -> None:
        assert not check(run("classify", "--weights", path))

    def test_a_state(self, path: Path, tiny: Path) -> None:
        assert not check(run("heads", "--state", path, "--model", tiny, "--predictive", "off"))

    def test_a_model(self, path: Path) -> None:
        assert not check(run("classify", "the cat", "--model", path))

    def test_every_pairs_scores(self, path: Path, tiny: Path) -> None:
        before = path.lstat()
        assert not check(run("heads", "--per-pair", path, "--model", tiny, "--predictive", "off"))
        assert path.lstat().st_ino == before.st_ino, "it was replaced"
