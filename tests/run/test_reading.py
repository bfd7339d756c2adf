"""Pairs that a run reads: bad ones are told once, and what can be read only once is not read twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscan.errors import InputError, PairsError
from attnscan.inputs.frames import objects_in
from attnscan.inputs.read import FileReading, shipped_pairs
from attnscan.inputs.sentence import Pair
from attnscan.run.events import Note, Skipped
from attnscan.run.reading import FilePairs, Ledger, ObjectPairs, OnePair


@pytest.fixture
def bad(tmp_path: Path) -> str:
    """Five bad records among seven."""
    path = tmp_path / "bad.csv"
    path.write_text("text,label\na cat,yes\n" + " ,no\n" * 5 + "a dog,no\n")
    return str(path)


def test_bad_records_are_told_and_counted_once(bad: str) -> None:
    ledger, pairs = Ledger(), FilePairs((bad,), FileReading(labelled=True), skip_bad=True)
    assert [record.pair.a for record in pairs.read(ledger)] == ["a cat", "a dog"]
    told = list(ledger.take())
    assert ledger.bad == len(told) == 5 and all(isinstance(event, Skipped) for event in told)
    assert [record.label for record in pairs.read(ledger)] == ["yes", "no"]
    assert (ledger.bad, list(ledger.take())) == (5, [])


def test_what_only_a_later_pass_finds_bad_is_told_too(bad: str) -> None:
    ledger, error = Ledger(), InputError("bad.csv:2: no word")
    for _ in range(2):
        list(FilePairs((bad,), skip_bad=True).read(ledger))
        ledger.skip(error)
    assert ledger.bad == 6 and list(ledger.take())[-1] == Skipped(error)


def test_a_bad_record_ends_the_run_unless_it_is_to_be_skipped(bad: str) -> None:
    with pytest.raises(PairsError, match=r"bad\.csv:3"):
        list(FilePairs((bad,)).read(Ledger()))


def test_without_files_the_pairs_are_those_that_attnscan_ships() -> None:
    assert list(FilePairs().read(Ledger())) == list(shipped_pairs())
    assert FilePairs().how_many() == 102


def test_how_a_file_is_read_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text('gj04\t1\t"Is it ""so""?"\ngj04\t0\tIt is.\n')
    ledger, pairs = Ledger(), FilePairs((str(path),), FileReading(columns=("3",)))
    for _ in pairs.ready(ledger).read(ledger):
        pass
    told = list(ledger.take())
    assert len(told) == 2 and all(isinstance(event, Note) and event.warns for event in told)


@pytest.mark.parametrize(("path", "name"), [("-", "standard input"), ("/dev/null", "/dev/null")])
def test_what_can_be_read_once_is_not_read_twice(path: str, name: str) -> None:
    pairs = FilePairs((path,))
    assert pairs.ready(Ledger()) is pairs
    with pytest.raises(PairsError, match=f"{name} can be read only once, and this takes 3 passes; name a file"):
        pairs.ready(Ledger(), 3, "name a file")


def test_what_is_wrong_with_the_first_record_is_said_at_once(bad: str) -> None:
    with pytest.raises(PairsError, match="there is no column 'x'"):
        FilePairs((bad,), FileReading(columns=("x",))).ready(Ledger())


def test_an_iterator_is_held_for_several_passes() -> None:
    pairs = ObjectPairs(objects_in(iter(["a cat", "a dog"])), classes=("yes",)).ready(Ledger(), 2)
    for _ in range(2):
        assert [(record.pair.a, record.label) for record in pairs.read(Ledger())] == [("a cat", "yes"), ("a dog", None)]
    once = ObjectPairs(objects_in(iter(["a cat"])))
    assert once.ready(Ledger()) is once


def test_one_pair_is_one_record() -> None:
    pairs = OnePair(Pair("a cat", "a dog"))
    assert [record.pair for record in pairs.read(Ledger())] == [pairs.pair] and pairs.how_many() == 1


def test_a_name_too_long_for_a_file_is_no_file() -> None:
    with pytest.raises(PairsError, match="check the path"):
        FilePairs(("x" * 5000 + ".csv",)).ready(Ledger()).read(Ledger())
