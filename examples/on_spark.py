"""Rank heads by a Spark DataFrame of pairs: each task scores its rows, and only what they add up to comes back.

python examples/on_spark.py        (needs pyspark and Java)
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import attnscan

PAIRS = Path(__file__).parent / "pairs.csv"
OPTIONS = {"predictive": "off"}
loaded = cache(attnscan.load)  # once in each Python worker


def scored(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """All rows of a partition, as one row: their shard."""
    pairs = (pair for frame in frames for pair in zip(frame["sentence_a"], frame["sentence_b"], strict=True))
    yield pd.DataFrame({"shard": [pickle.dumps(attnscan.shard(pairs, model=loaded("bundled"), **OPTIONS))]})


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.addPyFile(__file__)  # workers import this file, and keep the model from task to task
    from on_spark import scored as task

    rows = spark.createDataFrame(pd.read_csv(PAIRS)).repartition(4)
    shards = [pickle.loads(row.shard) for row in rows.mapInPandas(task, "shard binary").collect()]
    spark.stop()
    ranking = attnscan.finish(sum(shards))
    print(ranking.to_frame(["next-word"], top=3).round(3).to_string(index=False))

    expected = attnscan.heads(PAIRS, model="bundled", **OPTIONS)
    np.testing.assert_allclose(ranking.scores.every_key.score, expected.scores.every_key.score, rtol=1e-9, atol=1e-9)
    print(f"{len(shards)} shards, {ranking.signature.pairs_read} pairs: the scores are those of one machine")
