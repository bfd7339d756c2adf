"""Every pair's own scores, in a file or a directory, rank as the scan did."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hostile.values import changed, of_other_types
from numpy.testing import assert_allclose
from scans import PAIRS, ranked, records_of, states_of, write
from small_results import SIGNATURE

from attnscan.errors import InputError, OutputError, PairsError, SelectionError
from attnscan.inputs.pairs import Pair, Place
from attnscan.results.grid import Grid
from attnscan.results.tables import render
from attnscan.scan.events import outcome
from attnscan.scan.local import finished
from attnscan.scan.options import ScanOptions
from attnscan.scan.per_pair import About, PerPairWriter, finish_directory, rank_file
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.terminal.parts import render as shown
from attnscan.views.terminal.ranking import best_heads_view


def test_a_file_of_every_pair_ranks_as_the_scan_did(options: ScanOptions, tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    sampling = replace(options, model="bundled", predictive="auto", predictive_pairs=3, predictive_words=4)
    with Scanner(sampling) as scanner, PerPairWriter(path, [p.id for p in PATTERNS]) as writer:
        state = states_of(scanner, records_of(PAIRS), writer=writer)[-1]
        ranking = outcome(finished(scanner, state), partial(write, writer))
        assert not path.exists()  # it gets its name when it is whole
        writer.finish(ranking.signature, ranking.scores.grid)
    again = rank_file(path)
    assert again.signature == ranking.signature
    for kind in ("every_key", "words_only"):
        for name in ("score", "chance", "se", "n", "pairs", "itself", "se_between"):
            found, expected = (getattr(getattr(each.scores, kind), name) for each in (again, ranking))
            assert_allclose(found, expected, rtol=1e-9, atol=1e-7, err_msg=f"{kind} {name}")
    table = pd.read_parquet(path)
    assert set(table.loc[table["pattern"] == "next-word", "pair"]) == set(range(1, 41))
    assert table.loc[table["pattern"] == "predictive", "pair"].nunique() == 3
    assert table["score"].between(0, 1 + 1e-6).all()


def test_a_directory_of_files_of_pairs_ranks_as_one_file_does(options: ScanOptions, tmp_path: Path) -> None:
    directory, whole, names = tmp_path / "parts", tmp_path / "pairs.parquet", [pattern.id for pattern in PATTERNS]
    parts = ["000000-000000", "000000-000001"]
    with Scanner(options) as scanner, PerPairWriter(whole, names) as writer:
        ranking = ranked(scanner, states_of(scanner, records_of(PAIRS), writer=writer)[-1])
        writer.finish(ranking.signature, ranking.scores.grid)
        directory.mkdir()
        for part, some in zip(parts, (PAIRS[:15], PAIRS[15:]), strict=True):
            with PerPairWriter(directory / f"{part}.parquet", names) as half:
                states_of(scanner, records_of(some), writer=half)
                half.finish(ranking.signature, ranking.scores.grid)
    with pytest.raises(InputError, match="it has no _common_metadata"):
        rank_file(directory)
    rows = len(pd.read_parquet(whole))
    for other in (rows - 1, rows + 1):
        with pytest.raises(OutputError, match=f"{rows:,} rows of pairs' scores were written, and not {other:,}"):
            finish_directory(directory, ranking, parts, other)
    finish_directory(directory, ranking, parts, rows)
    assert len(pd.read_parquet(directory)) == rows
    found, expected = rank_file(directory), rank_file(whole)
    assert found.signature == expected.signature
    for name in ("score", "chance", "se", "n", "pairs"):
        a, b = (getattr(each.scores.every_key, name) for each in (found, expected))
        assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)
    (directory / f"{parts[1]}.parquet").unlink()
    with pytest.raises(InputError, match="its part 000000-000001 is not there"):
        rank_file(directory)
    with pytest.raises(OutputError, match="1 of 2 files"):
        finish_directory(directory, ranking, parts, rows)
    finish_directory(directory, ranking, [], 0)
    assert (rank_file(directory).scores.every_key.n == 0).all()


def test_rows_are_compact_and_of_the_heads_that_were_named(options: ScanOptions, tmp_path: Path) -> None:
    whole, some, names = tmp_path / "whole.parquet", tmp_path / "some.parquet", [p.id for p in options.patterns]
    with Scanner(options) as scanner:
        for path, heads in ((whole, None), (some, "1-2, layer:0")):
            with PerPairWriter(path, names, heads=heads) as writer:
                ranking = ranked(scanner, states_of(scanner, records_of(PAIRS), writer=writer)[-1])
                writer.finish(ranking.signature, ranking.scores.grid)
        with PerPairWriter(tmp_path / "none.parquet", names, heads="9-0") as writer, pytest.raises(SelectionError):
            states_of(scanner, records_of(PAIRS), writer=writer)
    every, chosen = pd.read_parquet(whole), pd.read_parquet(some)
    of_those = (every["layer"] == 0) | (every["layer"] == 1) & (every["head"] == 2)
    assert 0 < of_those.sum() < len(every)
    pd.testing.assert_frame_equal(chosen, every[of_those].reset_index(drop=True))
    assert set(map(str, every.dtypes)) == {"category", "int64", "int32", "float32"}
    found, expected = (rank_file(path).scores.every_key.score for path in (some, whole))
    there = np.zeros(found.shape[:2], dtype=bool)
    there[0] = there[1, 2] = True
    np.testing.assert_array_equal(found[there], expected[there])
    assert np.isnan(found[~there]).all()


def test_every_pair_counts_once_whatever_its_file_and_row(options: ScanOptions, tmp_path: Path) -> None:
    """Files of one pair stand side by side, all with row 1; one file is there twice, as its pairs then are."""
    records = [replace(record, place=Place(f"{i // 2}.tsv", 1)) for i, record in enumerate(records_of(PAIRS))]
    some = [each for record in records for each in (record, record)] + records_of([Pair("the cat sat")])
    path = tmp_path / "pairs.parquet"
    with Scanner(options) as scanner, PerPairWriter(path, [p.id for p in PATTERNS]) as writer:
        ranking = ranked(scanner, states_of(scanner, some, writer=writer)[-1])
        writer.finish(ranking.signature, ranking.scores.grid)
    found, expected = rank_file(path).scores.every_key, ranking.scores.every_key
    assert found.pairs.max() == 81
    for name in ("score", "se", "n", "pairs"):
        a, b = (getattr(table, name) for table in (found, expected))
        assert_allclose(a, b, rtol=1e-9, atol=1e-7, err_msg=name)


def test_an_unfinished_file_of_pairs_leaves_nothing_behind(options: ScanOptions, tmp_path: Path) -> None:
    writing = PerPairWriter(tmp_path / "pairs.parquet", [p.id for p in PATTERNS])
    with pytest.raises(ZeroDivisionError), Scanner(options) as scanner, writing as writer:
        states_of(scanner, records_of(PAIRS[:5]), writer=writer)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_no_files_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(InputError, match="not a file that --per-pair wrote"):
        rank_file(path)
    path.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(InputError, match="not a file that --per-pair wrote"):
        rank_file(path)
    with pytest.raises(InputError, match="there is no file"):
        rank_file(tmp_path / "missing.parquet")


# What a file says of itself: every value of every type, and sizes that nobody has

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
