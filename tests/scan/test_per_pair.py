"""Every pair's own scores, in a file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose
from scans import PAIRS

import attnscan
from attnscan.scoring.patterns import PATTERNS

TEXTS = [(pair.a, pair.b) for pair in PAIRS]


def test_the_rows_of_all_pairs_have_the_means_of_the_scan(tmp_path: Path) -> None:
    path, names = tmp_path / "pairs.parquet", [pattern.id for pattern in PATTERNS]
    how: Any = {"predictive_pairs": 3, "predictive_words": 4}
    ranking = attnscan.heads(TEXTS, model="bundled", per_pair=path, **how)
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
    assert about == {"signature": signature, "patterns": names, "grid": list(ranking.grid.shape)}


def test_an_unfinished_file_of_pairs_leaves_nothing_behind(toy: str, tmp_path: Path) -> None:
    def stop(_doing: str, done: int | None, _total: int | None) -> None:
        if done:
            raise ZeroDivisionError

    (tmp_path / "place").mkdir()
    path = tmp_path / "place" / "pairs.parquet"
    with pytest.raises(ZeroDivisionError):
        attnscan.heads(TEXTS[:5], model=toy, predictive="off", per_pair=path, progress=stop)
    assert list(path.parent.iterdir()) == []
