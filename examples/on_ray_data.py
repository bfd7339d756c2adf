"""Rank heads by a Ray data set of pairs, in a pipeline of one's own: actors hold the model, batches become shards.

python examples/on_ray_data.py        (needs ray[data])
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import ray

import attnscan

PAIRS = Path(__file__).parent / "pairs.csv"
OPTIONS = {"predictive": "off"}


class Scorer:
    """An actor, which loads the model once: for its first batch, so that its start does not wait for that."""

    model: attnscan.LoadedModel | None = None

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """All rows of a batch, as one row: their shard."""
        self.model = self.model or attnscan.load("bundled")
        pairs = zip(frame["sentence_a"], frame["sentence_b"], strict=True)
        return pd.DataFrame({"shard": [pickle.dumps(attnscan.shard(pairs, model=self.model, **OPTIONS))]})


if __name__ == "__main__":
    # Two CPUs for the actors and two for the repartition: with two in all, this hangs
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    rows = ray.data.from_pandas(pd.read_csv(PAIRS)).repartition(4)
    actors = ray.data.ActorPoolStrategy(size=2)
    found = rows.map_batches(Scorer, batch_format="pandas", batch_size=32, compute=actors)
    shards = [pickle.loads(row["shard"]) for row in found.iter_rows()]
    ray.shutdown()
    ranking = attnscan.finish(sum(shards))
    print(ranking.to_frame(["next-word"], top=3).round(3).to_string(index=False))

    expected = attnscan.heads(PAIRS, model="bundled", **OPTIONS)
    np.testing.assert_allclose(ranking.scores.every_key.score, expected.scores.every_key.score, rtol=1e-9, atol=1e-9)
    print(f"{len(shards)} shards, {ranking.signature.pairs_read} pairs: the scores are those of one machine")
