"""Measures what fits into about ten minutes, and writes it to `RESULTS.md` beside this file: `make bench`.

    python benchmarks/run.py [--runs 5]

TransformerLens takes part where it can be imported; `peers.py` says how. `page.py` needs BertViz and a browser,
`ray_scaling.py` Ray: run them by hand. The README shows the main table; `make readme` pastes it.
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

RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each rival")
    runs = parser.parse_args().runs
    where = f"{machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    rows = [*startup.rows(runs), *scan.rows(runs, 12, scan.works_of([32, 128, 512]))]
    if importlib.util.find_spec("transformer_lens") is not None:
        import peers

        rows += peers.rows(runs, 16, 12)
    grown = growth.tables(1, [16, 32, 64, 128, 256, 512], [100, 1000, 10_000])
    RESULTS.write_text(
        "# What attnscan costs\n\n"
        f"Written by `make bench`. {where}.\n\n"
        f"Median ratios of {runs} neighbouring runs, ours divided by the rival's: below 1 is faster. Scans are\n"
        "of every pattern but `predictive`, with a model of BERT base's shape, 4,096 tokens at a time.\n\n"
        f"<!-- speed -->\n{HEAD}\n" + "\n".join(map(str, rows)) + "\n<!-- end of speed -->\n\n"
        "## How it grows\n\nProcessor time, divided by the table's first.\n\n" + "\n\n".join(grown) + "\n",
        encoding="utf-8",
    )
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
