"""Measures what fits into about ten minutes, and writes it to `RESULTS.md` beside this file: `make bench`.

    python benchmarks/run.py [--runs 5] [--only startup scan peers growth] [--pairs 100 1000 10000]

TransformerLens takes part where it can be imported; `peers.py` says how. `page.py` needs BertViz and a browser:
run it by hand. What is pasted there below "By hand" stays. `make readme` pastes the main table into `docs/speed.md`.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import growth
import scan
import startup
import torch
from sidebyside import HEAD, machine

from attnscan.model.loaded import tokens_in_cache

PARTS = ("startup", "scan", "peers", "growth")
RESULTS = Path(__file__).with_name("RESULTS.md")
BY_HAND = "\n## By hand\n"
"""Where what other scripts printed begins."""


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each rival")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave the other parts out")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 1000, 10_000], help="of the table of pairs")
    asked = parser.parse_args()
    runs, only = asked.runs, asked.only
    where = f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    rows = startup.rows(runs) if "startup" in only else []
    if "scan" in only:
        rows += scan.rows(runs, 12, scan.works_of([32, 128, 512]))
    if "peers" in only and importlib.util.find_spec("transformer_lens") is not None:
        import peers

        rows += peers.rows(runs, 16, 12)
    grown = growth.tables(1, [16, 32, 64, 128, 256, 512], asked.pairs) if "growth" in only else []
    missing = ", ".join(part for part in PARTS if part not in only)
    blocks = [
        "# What attnscan costs",
        f"Written by `make bench`. {where}." + (f" Not measured in this run: {missing}." if missing else ""),
        f"Median ratios of {runs} neighbouring runs, ours divided by the rival's: below 1 is faster. Scans are\n"
        "of every pattern but `predictive`, with a model of BERT base's shape and batches of "
        f"{tokens_in_cache(768):,} tokens.",
        "\n".join(["<!-- measured: speed -->", HEAD, *map(str, rows), "<!-- end of speed -->"]),
    ]
    if grown:
        blocks += ["## How it grows", "Processor time, divided by the table's first.", *grown]
    _, begins, by_hand = RESULTS.read_text(encoding="utf-8").partition(BY_HAND)
    RESULTS.write_text("\n\n".join(blocks) + "\n" + begins + by_hand, encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
