"""Rank heads by a Dask DataFrame of pairs: each partition becomes what its rows add up to.

python examples/on_dask.py        (needs dask[dataframe])
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import dask.dataframe
import numpy as np
import pandas as pd

import attnscan

PAIRS = Path(__file__).parent / "pairs.csv"
OPTIONS = {"predictive": "off"}
loaded = cache(attnscan.load)  # once in each process


def scored(frame: pd.DataFrame) -> pd.DataFrame:
    """All rows of a partition, as one row: their shard."""
    pairs = zip(frame["sentence_a"], frame["sentence_b"], strict=True)
    return pd.DataFrame({"shard": [attnscan.shard(pairs, model=loaded("bundled"), **OPTIONS)]})


if __name__ == "__main__":
    from on_dask import scored as task  # by its module, which processes import, and keep the model from task to task

    rows = dask.dataframe.from_pandas(pd.read_csv(PAIRS), npartitions=4)
    shards = rows.map_partitions(task, meta={"shard": object}).compute(scheduler="processes", num_workers=2)["shard"]
    ranking = attnscan.finish(sum(shards))
    print(ranking.to_frame(["next-word"], top=3).round(3).to_string(index=False))

    expected = attnscan.heads(PAIRS, model="bundled", **OPTIONS)
    np.testing.assert_allclose(ranking.scores.every_key.score, expected.scores.every_key.score, rtol=1e-9, atol=1e-9)
    print(f"{len(shards)} shards, {ranking.signature.pairs_read} pairs: the scores are those of one machine")
