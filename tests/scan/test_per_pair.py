"""Every pair's own scores, in a file."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose
from scans import PAIRS, records_of, states_of

from attnscan.scan.local import finished
from attnscan.scan.options import ScanOptions
from attnscan.scan.per_pair import PerPairWriter
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS


def test_the_rows_of_all_pairs_have_the_means_of_the_scan(options: ScanOptions, tmp_path: Path) -> None:
    path, names = tmp_path / "pairs.parquet", [pattern.id for pattern in PATTERNS]
    sampling = replace(options, model="bundled", predictive="auto", predictive_pairs=3, predictive_words=4)
    with Scanner(sampling) as scanner, PerPairWriter(path, names) as writer:
        state = states_of(scanner, records_of(PAIRS), writer=writer)[-1]
        ranking = finished(scanner, state, on_pairs=writer.write)
        assert not path.exists()  # it gets its name when it is whole
        writer.finish(ranking.signature, ranking.scores.grid)
    table = pd.read_parquet(path)
    for prefix, kind in (("", ranking.scores.every_key), ("words_", ranking.scores.words_only)):
        for column, means in (("score", kind.score), ("chance", kind.chance), ("self", kind.itself)):
            table["weighted"] = table[f"{prefix}{column}"].astype(float) * table[f"{prefix}n"]
            scored = table[table[f"{prefix}n"] > 0]
            sums = scored.groupby(["pattern", "layer", "head"], observed=True)[["weighted", f"{prefix}n"]].sum()
            for at, name in enumerate(names):
                found = np.full(means.shape[:2], np.nan)
                for (pattern, layer, head), row in sums.iterrows():  # type: ignore[misc]
                    if pattern == name:
                        found[layer, head] = row["weighted"] / row[f"{prefix}n"]
                assert_allclose(found, means[..., at], atol=1e-6, err_msg=f"{name} {prefix}{column}")
    assert set(table.loc[table["pattern"] == "next-word", "pair"]) == set(range(1, 41))
    assert table.loc[table["pattern"] == "predictive", "pair"].nunique() == 3
    assert set(map(str, table.drop(columns="weighted").dtypes)) == {"category", "int64", "int32", "float32"}
    about = json.loads(pa.parquet.read_metadata(path).metadata[b"attnscan"])
    signature = {**asdict(ranking.signature), "layers": []}
    assert about == {"signature": signature, "patterns": names, "grid": list(ranking.scores.grid.shape)}


def test_an_unfinished_file_of_pairs_leaves_nothing_behind(options: ScanOptions, tmp_path: Path) -> None:
    writing = PerPairWriter(tmp_path / "pairs.parquet", [p.id for p in PATTERNS])
    with pytest.raises(ZeroDivisionError), Scanner(options) as scanner, writing as writer:
        states_of(scanner, records_of(PAIRS[:5]), writer=writer)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
