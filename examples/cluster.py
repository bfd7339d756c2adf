"""The same from Python: one ranking, by the actors of a Ray cluster.

python examples/cluster.py [ADDRESS] [PAIRS] [MODEL]        (needs attnscan[ray])
"""

from __future__ import annotations

import sys
from pathlib import Path

import attnscan

DEFAULTS = ["local", str(Path(__file__).parent / "pairs.csv"), "bundled"]
ADDRESS, PAIRS, MODEL, *_ = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]

if __name__ == "__main__":
    cluster = attnscan.ClusterOptions(address=ADDRESS, workers=2)
    ranking = attnscan.rank_files(PAIRS, cluster=cluster, model=MODEL, predictive="off")
    print(ranking.to_frame(["next-word"], top=5).round(3).to_string(index=False))
