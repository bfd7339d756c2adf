"""Pairs as a program has them: a data frame, rows of JSON, chunks of it; and the scores of each
pair.

python examples/pairs_of_a_program.py [MODEL]
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import attnscan

MODEL = (*sys.argv[1:], "bundled")[0]
FRAME = pd.read_csv(Path(__file__).parent / "pairs.csv").head(12)
FRAME["key"] = [f"pair-{number}" for number in range(len(FRAME))]
FRAME.loc[3, "sentence_b"] = None  # as data sets have it


def show_progress(doing: str, done: int | None, total: int | None) -> None:
    """Print what runs and, where that is counted, how much of it is done."""
    print(doing if total is None else f"{doing}: {done} of {total}")


ranking = attnscan.heads(
    FRAME,
    id="key",
    on_bad=lambda error: print(f"left out: {error.what}"),
    progress=show_progress,
    per_pair="per-pair.parquet",
    model=MODEL,
    predictive="off",
)
best = ranking.to_frame(["next-word"], top=1).iloc[0]
per_pair = pd.read_parquet("per-pair.parquet").set_index(["layer", "head", "pattern"]).sort_index()
of_best = per_pair.loc[(best.layer, best["head"], "next-word")]
lowest = of_best.loc[of_best["score"] == of_best["score"].min()].iloc[0]
print(f"head {best.layer}-{best['head']} looks at the next word least in {lowest['id']}")

rows = FRAME.dropna().to_dict("records")  # as json.loads gives them, line by line
chunks = (FRAME[start : start + 4].dropna() for start in range(0, len(FRAME), 4))
for pairs in (rows, chunks):
    again = attnscan.heads(
        pairs, columns=["sentence_a", "sentence_b"], model=MODEL, predictive="off"
    )
    same = (again.label == ranking.label).all()
    print(f"{type(pairs).__name__}: {again.signature.pairs_read} pairs, the same labels: {same}")
