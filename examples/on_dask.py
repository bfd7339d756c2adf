"""Rank heads by a Dask DataFrame of pairs. Needs dask[dataframe]."""

from pathlib import Path

import dask.dataframe
import pandas as pd

import attnscan


def score(pairs: pd.DataFrame) -> pd.DataFrame:
    """The shard of a partition, as a frame of one row."""
    return pd.DataFrame({"shard": [attnscan.shard(pairs, model="bundled", predictive="off")]})


if __name__ == "__main__":
    pairs = dask.dataframe.read_csv(Path(__file__).with_name("pairs.csv")).repartition(
        npartitions=2
    )
    shards = pairs.map_partitions(score, meta={"shard": object}).compute(scheduler="processes")[
        "shard"
    ]
    print(
        attnscan.finish(sum(shards)).to_frame(["next-word"], top=3).round(3).to_string(index=False)
    )
