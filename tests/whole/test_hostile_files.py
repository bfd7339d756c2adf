"""Generated files, broken in many ways: a right result or one line with a remedy."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hostile.files import PAIRS, Kind, bombs, broken, pair_kinds, state_kind, survives, weights_kind
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


def _held(kind: Kind, directory: Path) -> None:
    """A whole file of pairs is read right; a broken one of any kind is read right or refused."""
    path = directory / kind.name
    kind.write(path)
    whole, content = kind.read(path), path.read_bytes()
    if kind.name.startswith("pairs"):
        one_column = kind.name.startswith(("pairs.txt", "pairs.conllu"))
        assert [Pair(p.a) if one_column else p for p in whole] == [Pair(p.a) if one_column else p for p in PAIRS]
    ways = list(broken(content, 0))
    read = [survives(kind, path, each, whole) for each in ways[:: (len(ways) // _A_FEW) | 1]]
    assert len(read) >= _A_FEW // 2 and not all(read), "a control: some damage must be found"


@pytest.mark.parametrize("kind", [*pair_kinds(), weights_kind()], ids=lambda kind: kind.name)
def test_a_file_is_read_right_or_refused_however_it_is_broken(tmp_path: Path, kind: Kind) -> None:
    _held(kind, tmp_path)


def test_what_a_scan_keeps_too(tmp_path: Path, tiny: Path) -> None:
    with Scanner(ScanOptions(model=str(tiny), predictive="off", related=False, on_long="truncate")) as scanner:
        _held(state_kind(scanner), tmp_path)


def test_how_a_file_is_read_may_be_told_before_what_is_wrong_with_it(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "quoted.tsv"
    path.write_text('sentence_a\tsentence_b\n"the ""cat"""\ta mat\n\ta cat\n')
    refused = run("heads", "--pairs", path, "--model", tiny, "--predictive", "off", "--csv")
    assert not check(refused) and len(refused.stderr.splitlines()) == 2


@pytest.mark.long
def test_no_small_file_takes_much_memory(tmp_path: Path) -> None:
    for path in bombs(tmp_path):
        tracemalloc.start()
        with suppress(AttnscanError):
            read_weights(path) if path.suffix == ".npz" else list(read_pairs([str(path)], FileReading(("1",))))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 300 << 20, f"{path.name}: {peak >> 20} MiB"
        path.unlink()


@pytest.mark.parametrize("kind", ["directory", "nowhere", "loop", "pipe", "device"])
def test_what_is_no_file_is_refused_in_the_place_of_every_file_that_is_read(
    kind: str, tmp_path: Path, tiny: Path
) -> None:
    path = tmp_path / "x.parquet"
    match kind:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to({"nowhere": tmp_path / "no" / "x", "loop": path, "device": Path("/dev/zero")}[kind])
    off = ("--model", tiny, "--predictive", "off")
    commands = [("heads", "--state", path, *off), ("classify", "the cat", "--model", path)]
    if kind != "pipe":  # which is read until its writer ends
        commands += [("heads", "--pairs", path, *off), ("classify", "--weights", path)]
    for command in commands:
        assert not check(run(*command)), command
    before = path.lstat()
    assert not check(run("heads", "--per-pair", path, *off))
    assert path.lstat().st_ino == before.st_ino, "it was replaced"
