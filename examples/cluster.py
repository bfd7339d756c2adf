"""The same from Python: one ranking, by the actors of a Ray cluster.

python examples/cluster.py [ADDRESS] [PAIRS] [MODEL]        (needs attnscan[ray])
"""

from __future__ import annotations

import sys
from pathlib import Path

from attnscan.scan.cluster.blocks import BlockFiles
from attnscan.scan.cluster.scan import scan_on_ray
from attnscan.scan.options import ClusterOptions, ScanOptions

DEFAULTS = ["local", str(Path(__file__).parent / "pairs.csv"), "bundled"]
ADDRESS, PAIRS, MODEL, *_ = [*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]]

if __name__ == "__main__":
    options = ScanOptions(model=MODEL, on_long="truncate", predictive="off")
    cluster = ClusterOptions(address=ADDRESS, workers=2)
    ranking, bad = scan_on_ray(options, BlockFiles((PAIRS,)), cluster, say=print)
    print(ranking.to_frame(["next-word"], top=5).round(3).to_string(index=False))
