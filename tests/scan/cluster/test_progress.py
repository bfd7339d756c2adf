"""A driver that dies: another one goes on from its file, to the same bits, and a file of anything else is refused."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from scans import PAIRS, records_of, states_of
from toy import save_toy_bert

from attnscan.errors import PairsError, StateError
from attnscan.inputs.columns import FileReading
from attnscan.inputs.formats.columnar import RowGroups
from attnscan.inputs.places import stores
from attnscan.results.stored_file import StoredFile
from attnscan.scan.cluster import progress as keeping
from attnscan.scan.cluster.blocks import BlockFiles
from attnscan.scan.cluster.progress import (
    BlockResult,
    ClusterProgress,
    Totals,
    about_scan,
    kept,
    load_progress,
    save_progress,
)
from attnscan.scan.cluster.worker import Plan, ScoringActor
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState
from attnscan.scan.stored import arrays_of, load_state, save_state

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "."]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three files: of eight blocks, of none, and of two, one of which is a bad record alone."""
    draw = random.Random(0)

    def lines(count: int) -> list[str]:
        return ["\t".join(" ".join(draw.choices(WORDS, k=draw.randint(2, 9))) for _ in "AB") for _ in range(count)]

    paths = []
    for name, some in (("a", lines(30)), ("b", []), ("c", [*lines(4), "broken"])):
        path = tmp_path / f"{name}.tsv"
        path.write_text("\n".join(["sentence_a\tsentence_b", *some]))
        paths.append(str(path))
    return paths


def plan_of(toy: str, files: list[str], **options: Any) -> Plan:
    chosen = ScanOptions(model=toy, on_long="truncate", predictive="distance", predictive_pairs=3, **options)
    return Plan(chosen, toy, BlockFiles(tuple(files), FileReading(), True, 4), 1)


def begun(plan: Plan, found: Sequence[BlockResult] = ()) -> Totals:
    """The totals of some blocks."""
    totals = Totals(ClusterProgress(ScanState(plan.options)))
    for each in found:
        totals.add(each)
    return totals


def found_in(plan: Plan, start: tuple[int, int] = (0, 0)) -> list[BlockResult]:
    """What workers find in the blocks that a driver wants."""
    worker = ScoringActor(plan)
    return [worker.score(block, []) for part in plan.files.parts({}, start) for block in plan.files.blocks(part)]


def assert_same(found: Totals, expected: Totals) -> None:
    """To the last bit."""
    a, b = found.progress, expected.progress
    assert (a.next, a.bad.count, a.proof) == (b.next, b.bad.count, b.proof)
    assert (a.state.seen, a.state.signature) == (b.state.seen, b.state.signature)
    ours, theirs = arrays_of(a.state.sums), arrays_of(b.state.sums)
    assert ours.keys() == theirs.keys()
    assert all((values == theirs[name]).all() for name, values in ours.items())


def test_blocks_in_any_order_add_up_to_the_same_bits(toy: str, files: list[str]) -> None:
    plan = plan_of(toy, files, labelled=True)
    found = found_in(plan)
    expected = begun(plan, found)
    expected.check(3)
    assert expected.progress.next == (3, 0) and expected.progress.bad.count == 1
    for seed in range(5):
        shuffled = [*found, *found[:4]]
        random.Random(seed).shuffle(shuffled)
        totals = begun(plan, shuffled)
        totals.check(3)
        assert_same(totals, expected)


@pytest.mark.parametrize("split", [False, True])
def test_a_scan_stopped_after_any_block_goes_on_to_the_same_bits(
    toy: str, files: list[str], tmp_path: Path, split: bool
) -> None:
    plan, path = plan_of(toy, files, labelled=True, split=split), tmp_path / "state"
    about, found = about_scan(plan.options, plan.files), found_in(plan)
    expected = begun(plan, found)
    for stop in range(1, len(found) + 1):
        stopped = begun(plan, found[:stop])
        stopped.progress = replace(stopped.progress, cuts={1: (RowGroups(0, 9, 0), RowGroups(9, 12, 400))})
        save_progress(path, stopped.progress, about)
        totals = Totals(load_progress(path, plan.options, about))
        assert_same(totals, stopped)
        assert totals.progress.cuts == stopped.progress.cuts
        rest = found_in(plan, totals.start)
        assert len(rest) <= len(found) - stop + 3  # the block that proves, and what had no pair behind it
        for each in rest[::-1]:
            totals.add(each)
        totals.check(3)
        assert_same(totals, expected)


def test_a_scan_that_is_not_proven_is_not_whole(toy: str, files: list[str], tmp_path: Path) -> None:
    plan, path = plan_of(toy, files), tmp_path / "state"
    about, totals = about_scan(plan.options, plan.files), begun(plan, found_in(plan))
    save_progress(path, totals.progress, about)
    with pytest.raises(Exception, match="lost blocks"):
        Totals(load_progress(path, plan.options, about)).check(3)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"options": {"seed": 1}}, "its seed is 0, and here it is 1"),
        ({"options": {"on_long": "error"}}, "its on_long is truncate, and here it is error"),
        ({"files": {"block_pairs": 5}}, "its block_pairs is 4, and here it is 5"),
        ({"files": {"skip_bad": False}}, "its skip_bad is True"),
        ({"files": {"reading": FileReading(id="key")}}, "its columns is"),
    ],
)
def test_a_state_of_other_options_is_refused(
    toy: str, files: list[str], tmp_path: Path, other: dict[str, Any], says: str
) -> None:
    plan, path = plan_of(toy, files), tmp_path / "state"
    totals = begun(plan, found_in(plan)[:1])
    save_progress(path, totals.progress, about_scan(plan.options, plan.files))
    options = replace(plan.options, **other.get("options", {}))
    with pytest.raises(StateError, match=f"belongs to another run: {says}"):
        load_progress(path, options, about_scan(options, replace(plan.files, **other.get("files", {}))))


def test_a_state_of_other_files_is_refused(toy: str, files: list[str], tmp_path: Path) -> None:
    plan, path = plan_of(toy, files), tmp_path / "state"
    totals = begun(plan, found_in(plan)[:1])
    save_progress(path, totals.progress, about_scan(plan.options, plan.files))

    def refused(*names: str) -> None:
        with pytest.raises(StateError, match="was begun with other files, or with these before they changed"):
            load_progress(path, plan.options, about_scan(plan.options, replace(plan.files, paths=names)))

    refused(*files[:2])
    refused(*files[::-1])
    before = Path(files[2]).stat()
    os.utime(files[2], ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    refused(*files)
    os.utime(files[2], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert load_progress(path, plan.options, about_scan(plan.options, plan.files)).next == (0, 1)
    Path(files[2]).unlink()
    with pytest.raises(PairsError, match="cannot read"):
        about_scan(plan.options, plan.files)


@pytest.mark.loads_anew
def test_a_state_of_another_model_or_of_other_pairs_is_found_out_by_its_last_block(
    toy: str, files: list[str], tmp_path: Path
) -> None:
    own, path = tmp_path / "model", tmp_path / "state"
    shutil.copytree(toy, own)
    plan = plan_of(str(own), files)
    about, found = about_scan(plan.options, plan.files), found_in(plan)
    save_progress(path, begun(plan, found[:3]).progress, about)
    again = Totals(load_progress(path, plan.options, about))
    assert again.start == (0, 2)
    again.add(found[3])  # waits for the proof
    assert again.progress.next == (0, 3)
    other = replace(found[1], block=found[2].block)
    with pytest.raises(StateError, match="other pairs than these"):
        again.add(other)
    shutil.rmtree(own)
    shutil.copytree(save_toy_bert(tmp_path / "other", 2, 3, {(0, 1): "identical"}), own)
    with pytest.raises(StateError, match=r"begun with another model, or by other versions: .* fingerprint"):
        again.add(found_in(plan, again.start)[0])


def test_a_damaged_file_or_one_of_another_kind_is_refused(toy: str, files: list[str], tmp_path: Path) -> None:
    plan, path, local = plan_of(toy, files), tmp_path / "state", tmp_path / "local"
    about, totals = about_scan(plan.options, plan.files), begun(plan, found_in(plan)[:1])
    save_progress(path, totals.progress, about)
    whole, draw = path.read_bytes(), random.Random(0)
    for _ in range(20):
        at = draw.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with suppress(StateError):  # or it was a byte that says nothing, such as of the time
            assert_same(Totals(load_progress(path, plan.options, about)), totals)
    path.write_bytes(whole[:-30])
    with pytest.raises(StateError, match="not a valid state file"):
        load_progress(path, plan.options, about)
    path.write_bytes(whole)
    with Scanner(plan.options) as scanner:
        with pytest.raises(StateError, match="is of a run on a cluster"):
            load_state(path, scanner)
        save_state(local, states_of(scanner, records_of(PAIRS[:2]))[-1], scanner)
    with pytest.raises(StateError, match="is of a run on one machine"):
        load_progress(local, plan.options, about)


def test_a_state_is_kept_now_and_then_and_whatever_ends_the_scan(
    toy: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, path = plan_of(toy, files), tmp_path / "state"
    about, found, totals = about_scan(plan.options, plan.files), found_in(plan), begun(plan)
    monkeypatch.setattr(keeping, "SAVE_EVERY", 10**6)
    with pytest.raises(KeyboardInterrupt), kept(path, about, totals, print) as keep:
        keep(totals.progress)
        totals.add(found[0])
        keep(totals.progress)
        assert not path.exists()
        keep._every = -1
        keep(totals.progress)
        assert load_progress(path, plan.options, about).next == (0, 1)
        totals.add(found[1])
        raise KeyboardInterrupt
    assert load_progress(path, plan.options, about).next == (0, 2)
    with kept(path, about, totals, print):
        totals.add(found[2])
    assert load_progress(path, plan.options, about).next == (0, 3)


def test_a_state_in_a_store_that_fails_at_times(
    toy: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan goes on, says so once, and another driver goes on from the last state to the same bits."""
    monkeypatch.setattr(stores, "file_system", lambda _: (store, "state"))
    monkeypatch.setattr(keeping, "SAVE_EVERY", -1)
    (tmp_path / "bucket").mkdir()
    store: Any = fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem())
    plan, place = plan_of(toy, files, labelled=True), StoredFile("s3://KEY:SECRET@bucket/state?region=x")
    about, found = about_scan(plan.options, plan.files), found_in(plan)
    expected = begun(plan, found)
    said: list[str] = []
    totals, whole = begun(plan), store
    with kept(place, about, totals, said.append) as keep:
        for number, each in enumerate(found[:6]):
            store = None if number in (0, 3, 4, 5) else whole
            totals.add(each)
            keep(totals.progress)
    assert [line.partition(": ")[0] for line in said] == ["cannot write s3://bucket/state"] * 3
    assert [line.rpartition("; ")[2] for line in said[:2]] == ["the scan continues and retries every minute"] * 2
    assert "SECRET" not in "".join(said)
    store = whole
    again = Totals(load_progress(place, plan.options, about))
    assert again.progress.next == (0, 3)
    with kept(place, about, again, said.append):
        for each in found_in(plan, again.start):
            again.add(each)
    again.check(3)
    assert_same(again, expected)
    assert_same(Totals(load_progress(place, plan.options, about)), expected)
    (tmp_path / "bucket" / "state").write_bytes(b"{}")
    with pytest.raises(StateError, match=r"s3://bucket/state is not a valid state file; remove it"):
        load_progress(place, plan.options, about)
