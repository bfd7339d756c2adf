"""What a user waits for: whole processes, attnscan and its rival in turn, and the ratio of each pair of runs.

    python benchmarks/startup.py [--runs 9]

The rivals are the least that the same answer could cost: importing the two libraries that any command line of
this kind imports, and a bare script that loads the bundled model and runs one forward pass. The budgets are
DESIGN.md's, section 9. Times on a shared machine drift; ratios of neighbouring runs hold better.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

from attnscan.sources import bundled

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
    ("attnscan --help", [*ATTNSCAN, "--help"], IMPORTS, "import typer, rich", 1.5),
    ("attnscan --version", [*ATTNSCAN, "--version"], IMPORTS, "import typer, rich", 1.5),
    ("attnscan patterns", [*ATTNSCAN, "patterns"], IMPORTS, "import typer, rich", 1.5),
    (
        "attnscan classify",
        [*ATTNSCAN, "classify", A, B, "--model", "bundled", "--predictive", "off"],
        [sys.executable, "-c", BARE],
        "bare script",
        1.15,
    ),
]


def seconds(command: list[str]) -> float:
    """Wall time of one run of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="counted runs of each, after one that is not")
    runs = parser.parse_args().runs
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{'command':20} {'median':>8}  {'rival':20} {'median':>8} {'ratio':>7} {'bound':>7}")
    for name, ours, theirs, rival, bound in CASES:
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(runs + 1)][1:]
        ratio = statistics.median(a / b for a, b in pairs)
        a, b = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{name:20} {a:7.3f}s  {rival:20} {b:7.3f}s {ratio:6.2f}× {bound:6.2f}×")


if __name__ == "__main__":
    main()
