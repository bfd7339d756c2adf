"""Files as people have them are read right, or what is doubtful about them is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_sets import DATA_SETS, DataSet
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.errors import PairsError
from attnscan.inputs.read import read_pairs


@pytest.fixture(params=DATA_SETS, ids=list(DATA_SETS))
def data_set(request: pytest.FixtureRequest) -> DataSet:
    return DATA_SETS[request.param]()


def written(data_set: DataSet, place: Path) -> str:
    path = place / data_set.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data_set.content)
    return str(path)


def test_is_read(data_set: DataSet, tmp_path: Path) -> None:
    path, bad, notes = written(data_set, tmp_path), list[PairsError](), list[str]()
    records = list(read_pairs([path], data_set.reading, bad.append, notes.append))
    assert tuple(record.pair for record in records) == data_set.pairs
    assert tuple(record.place.row for record in records) == (data_set.rows or tuple(range(1, len(records) + 1)))
    assert {record.place.file for record in records} == {path}
    assert len(notes) == len(data_set.notes) and len(bad) == len(data_set.bad)
    assert all(part in note and note.startswith(path) for part, note in zip(data_set.notes, notes, strict=True))
    for part, error in zip(data_set.bad, bad, strict=True):
        assert part in error.what and "--skip-bad" in error.remedy


def test_is_scored_from_the_command_line(data_set: DataSet, tmp_path: Path) -> None:
    path, reading = written(data_set, tmp_path), data_set.reading
    words = ["heads", "-p", "next-word", "--pairs", path, "--model", "bundled", "--csv", "--quoting", reading.quoting]
    words += ["--columns", ",".join(reading.columns)] if reading.columns else []
    done = CliRunner().invoke(app, [*words, *(["--skip-bad"] if data_set.bad else [])])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[1].endswith(f",{len(data_set.pairs)}") or f",{len(data_set.pairs)}," in done.stdout
    for part in data_set.notes:
        assert sum(part in line for line in done.stderr.splitlines()) == 1
    if data_set.bad:
        refused = CliRunner().invoke(app, words)
        assert refused.exit_code == 1 and data_set.bad[0] in refused.stderr and "--skip-bad" in refused.stderr
