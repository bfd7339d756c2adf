"""What a user waits for: whole processes, attnscan and its rival in turn, and the ratio of each pair of runs.

    python benchmarks/startup.py [--runs 9]

Rivals are the least that the answer could cost: an import of Typer and rich, and a bare script that loads the bundled
model and runs one forward pass.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sidebyside import Row, in_turn, machine, process_cost, row, show

from attnscan.model.sources import bundled

A, B = "I went to the store.", "At the store, I bought fresh strawberries."
IMPORTS = [sys.executable, "-c", "import typer, rich"]
BARE = f"""
import torch
from transformers import AutoModel, AutoTokenizer
place = {bundled().location!r}
tokenizer, model = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place)
with torch.no_grad():
    model(**tokenizer({A!r}, {B!r}, return_tensors="pt"))
"""
ATTNSCAN = [str(Path(sys.executable).with_name("attnscan"))]
CASES = [
    ("`--help`", [*ATTNSCAN, "--help"], IMPORTS, "`import typer, rich`", 1.5),
    ("`--version`", [*ATTNSCAN, "--version"], IMPORTS, "`import typer, rich`", 1.5),
    ("`patterns`", [*ATTNSCAN, "patterns"], IMPORTS, "`import typer, rich`", 1.5),
    (
        "`classify` of one pair, predictive off",
        [*ATTNSCAN, "classify", A, B, "--model", "bundled", "--predictive", "off"],
        [sys.executable, "-c", BARE],
        "a bare script: load, one forward",
        1.15,
    ),
]


def rows(runs: int) -> list[Row]:
    """A line for each case."""
    found = []
    for name, ours, theirs, rival, bound in CASES:
        costs = in_turn({"ours": lambda c=ours: process_cost(c), "theirs": lambda c=theirs: process_cost(c)}, runs)
        found.append(row(name, rival, costs["ours"], costs["theirs"], bound))
    return found


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="counted runs of each, after one that is not")
    asked = parser.parse_args()
    print(machine())
    show(rows(asked.runs))


if __name__ == "__main__":
    main()
