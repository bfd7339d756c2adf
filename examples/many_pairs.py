"""Many pairs from anywhere, read one by one: the ranking never holds more than a window of them.

python examples/many_pairs.py [PAIRS] [MODEL]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

import attnscan

PAIRS, MODEL, *_ = [*sys.argv[1:], *[str(Path(__file__).parent / "pairs.csv"), "bundled"][len(sys.argv) - 1 :]]


def pairs() -> Iterator[tuple[str, str]]:
    """Only the pairs that share no first word, from a file that need not fit into memory."""
    for chunk in pd.read_csv(PAIRS, chunksize=1000):
        for a, b in zip(chunk["sentence_a"], chunk["sentence_b"], strict=True):
            if a.split()[0] != b.split()[0]:
                yield a, b


ranking = attnscan.heads(pairs(), model=MODEL, predictive="off", batch_tokens=4096)
print(f"{ranking.signature.pairs_read} pairs")
for pattern in ("next-word", "identical"):
    best = ranking.to_frame([pattern], top=1).iloc[0]
    print(f"{pattern}: {best.layer}-{best['head']} {best.score:.2f} ± {best.se:.3f}")
