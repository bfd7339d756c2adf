"""Which heads of my fine-tuned model look at the previous word?

python examples/rank_heads.py [MODEL] [PAIRS.csv]
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import attnscan

MODEL, PAIRS, *_ = [*sys.argv[1:], *["bundled", str(Path(__file__).parent / "pairs.csv")][len(sys.argv) - 1 :]]

pairs = pd.read_csv(PAIRS)[["sentence_a", "sentence_b"]].itertuples(index=False, name=None)
ranking = attnscan.heads(pairs, model=MODEL, predictive="off")
frame = ranking.to_frame(["previous-word"], top=5)
print(frame.round(3).to_string(index=False))
