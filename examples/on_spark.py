"""Rank heads by a Spark DataFrame of pairs. Needs pyspark and Java."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

import attnscan


def score(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The shard of a partition, as a frame of one row."""
    pairs = pd.concat(frames)[["sentence_a", "sentence_b"]].itertuples(index=False, name=None)
    yield pd.DataFrame(
        {"shard": [pickle.dumps(attnscan.shard(pairs, model="bundled", predictive="off"))]}
    )


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    pairs = spark.read.csv(
        str(Path(__file__).with_name("pairs.csv")), header=True, escape='"'
    )  # "" is a quote
    rows = pairs.repartition(2).mapInPandas(score, "shard binary").collect()
    shards = [pickle.loads(row.shard) for row in rows]
    print(
        attnscan.finish(sum(shards)).to_frame(["next-word"], top=3).round(3).to_string(index=False)
    )
