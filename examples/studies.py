"""What heads are worth, which attend alike, and what sets two models apart: three studies of the same pairs.

python examples/studies.py [PAIRS] [MODEL] [OTHER_MODEL]        (needs attnscan[plot])
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import attnscan

DEFAULTS = [str(Path(__file__).parent / "pairs.csv"), "bundled", "bundled"]
PAIRS, MODEL, OTHER, *_ = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]
pairs = list(pd.read_csv(PAIRS)[["sentence_a", "sentence_b"]].head(12).itertuples(index=False, name=None))

worth = attnscan.ablate(pairs, heads="0-2,1-8", draws=3, model=MODEL)
print(worth.to_frame()[["set", "measure", "effect", "se"]].round(3).to_string(index=False))

alike = attnscan.similar(pairs, model=MODEL)
print(f"{len(alike.groups)} groups of heads within {alike.within} nats")
Path("similar.svg").write_bytes(attnscan.plot(alike))

apart = attnscan.compare(MODEL, OTHER, pairs)
print(f"{(apart.to_frame()['difference'].abs() > 1e-6).sum()} scores differ over {apart.pairs} pairs")
