"""What a file of pairs' scores says of itself: every value of every type, and sizes that nobody has."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hostile.values import changed, of_other_types
from scans import PAIRS, ranked, records_of, states_of
from small_results import SIGNATURE

from attnscan.errors import PairsError
from attnscan.results.grid import Grid
from attnscan.results.tables import render
from attnscan.scan.options import ScanOptions
from attnscan.scan.per_pair import About, PerPairWriter, finish_directory
from attnscan.scan.per_pair_read import rank_file
from attnscan.scan.scanner import Scanner
from attnscan.views.terminal.parts import render as shown
from attnscan.views.terminal.ranking import best_heads_view

NAMES = ["next-word", "identical", "delimiter"]


@pytest.fixture
def file(options: ScanOptions, tmp_path: Path) -> Path:
    """Of five pairs, a toy's heads and three patterns."""
    path = tmp_path / "pairs.parquet"
    asked = tuple(pattern for pattern in options.patterns if pattern.id in NAMES)
    with Scanner(ScanOptions(model=options.model, patterns=asked)) as scanner, PerPairWriter(path, NAMES) as writer:
        ranking = ranked(scanner, states_of(scanner, records_of(PAIRS[:5]), writer=writer)[-1])
        writer.finish(ranking.signature, ranking.scores.grid)
    return path


def _about(path: Path) -> Any:
    return json.loads(pa.parquet.read_metadata(path).metadata[b"attnscan"])


def _say(path: Path, about: Any, metadata: bool = True) -> Path:
    """The same file, which says something else of itself."""
    table = pa.parquet.read_table(path)
    pa.parquet.write_table(table.replace_schema_metadata({"attnscan": json.dumps(about)} if metadata else None), path)
    return path


def test_any_value_of_another_type_is_refused_or_read_right(file: Path) -> None:
    """Each of them was a traceback once: 69 of some 2,000."""
    about, expected = _about(file), rank_file(file).scores.every_key.score
    read = refused = 0
    for place, other in changed(about, of_other_types):
        try:
            ranking = rank_file(_say(file, other))
        except PairsError as error:
            refused += 1
            line = str(error)
            assert line.isprintable() and len(line) < 400 and error.remedy, place
            continue
        read += 1
        layers, heads, _ = expected.shape  # of a larger grid the other heads have no row
        np.testing.assert_array_equal(ranking.scores.every_key.score[:layers, :heads], expected, err_msg=place)
        assert render(ranking.to_frame(), "json") and render(ranking.to_frame(), "csv")
        assert shown(best_heads_view(ranking, ranking.scores.patterns, 3, 80), 80)
    assert read > 20 and refused > 200
    for lacking in about:
        with pytest.raises(PairsError, match="lacks what it must say"):
            rank_file(_say(file, {name: value for name, value in about.items() if name != lacking}))
    with pytest.raises(PairsError, match="says nothing of itself"):
        rank_file(_say(file, None, metadata=False))


def test_what_a_directory_says_too(file: Path) -> None:
    directory = file.parent / "parts"
    directory.mkdir()
    ranking, rows = rank_file(file), pa.parquet.read_metadata(file).num_rows
    file.rename(directory / "a.parquet")
    finish_directory(directory, ranking, ["a"], rows)
    common = directory / "_common_metadata"
    about = _about(common)
    assert (rank_file(directory).scores.every_key.n == ranking.scores.every_key.n).all()
    for parts in (None, "a", ["a", "a"], [["a"]], ["../a"], {"a": 1}, 1, [""], [None]):
        pa.parquet.write_metadata(pa.schema([], metadata={"attnscan": json.dumps({**about, "parts": parts})}), common)
        with pytest.raises(PairsError, match="not a file that --per-pair wrote"):
            rank_file(directory)


@pytest.mark.parametrize(
    ("grid", "patterns"), [([1024, 1024], 127), ([1 << 40, 1], 1), ([256, 256], 17), ([600, 600], 3), ([2, 3], 128)]
)
def test_no_small_file_asks_for_the_memory_of_a_huge_model(file: Path, grid: list[int], patterns: int) -> None:
    names = [*NAMES, *(f"own-{i}" for i in range(patterns))][:patterns]
    _say(file, {**_about(file), "grid": grid, "patterns": names})
    tracemalloc.start()
    try:
        with pytest.raises(PairsError, match=r"it (is of|has) .*(heads|patterns)"):
            rank_file(file)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("grid", "patterns"), [([1024, 64], 15), ([20, 30], 127), ([24, 16], 7)])
def test_the_largest_model_is_read_in_bounded_memory(file: Path, grid: list[int], patterns: int) -> None:
    names = [*NAMES, *(f"own-{i}" for i in range(patterns))][:patterns]
    expected = rank_file(file).scores.every_key.score
    _say(file, {**_about(file), "grid": grid, "patterns": names})
    tracemalloc.start()
    try:
        found = rank_file(file).scores.every_key.score
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 900 << 20, f"{peak >> 20} MiB"
    layers, heads, _ = expected.shape
    np.testing.assert_array_equal(found[:layers, :heads, :3], expected)


def test_what_is_said_is_read_again() -> None:
    about = About(SIGNATURE, ("a", "b"), Grid.square(2, 3), ("x",))
    assert About.read({b"attnscan": about.metadata()["attnscan"].encode()}) == about
