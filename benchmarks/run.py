"""Measures what fits into about ten minutes, and writes it to `RESULTS.md` beside this file: `make bench`.

    python benchmarks/run.py [--runs 5] [--only startup scan]

What is pasted there below "By hand", from other scripts, stays.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import scan
import startup
import torch
from sidebyside import HEAD, machine

PARTS = ("startup", "scan")
RESULTS = Path(__file__).with_name("RESULTS.md")
BY_HAND = "\n## By hand\n"
"""Where what other scripts printed begins."""


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each rival")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave the other part out")
    asked = parser.parse_args()
    where = f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    rows = startup.rows(asked.runs) if "startup" in asked.only else []
    if "scan" in asked.only:
        rows += scan.rows(asked.runs, 12, scan.works_of([32, 128, 512]))
    missing = ", ".join(part for part in PARTS if part not in asked.only)
    blocks = [
        "# What attnscan costs",
        f"Written by `make bench`. {where}." + (f" Not measured in this run: {missing}." if missing else ""),
        f"Median ratios of {asked.runs} neighbouring runs, ours divided by the rival's: below 1 is faster. Scans are\n"
        "of every pattern but `predictive`, with a model of BERT base's shape and batches of "
        f"1,024 tokens.",
        "\n".join(["<!-- measured: speed -->", HEAD, *map(str, rows), "<!-- end of speed -->"]),
    ]
    _, begins, by_hand = RESULTS.read_text(encoding="utf-8").partition(BY_HAND)
    RESULTS.write_text("\n\n".join(blocks) + "\n" + begins + by_hand, encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
