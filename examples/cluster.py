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
    ranking = attnscan.heads(PAIRS, engine="ray", ray_address=ADDRESS, workers=2, model=MODEL, predictive="off")
    print(ranking.to_frame(["next-word"], top=5).round(3).to_string(index=False))
