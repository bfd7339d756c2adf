"""Pairs a second on a Ray cluster of this machine, with 1 and with 2 workers, beside one process.

Two runs of different lengths give the cost of a pair, without that of starting. Bound: 1.05 with 1 worker.
"""

from __future__ import annotations

import argparse
import itertools
import time
from statistics import median
from typing import Any

from sidebyside import machine

import attnscan
from attnscan.inputs.read import shipped_pairs

RIVALS: dict[str, dict[str, Any]] = {
    "one process": {},
    "Ray, 1 worker": {"engine": "ray", "ray_workers": 1},
    "Ray, 2 workers": {"engine": "ray", "ray_workers": 2},
}


def seconds(count: int, options: dict[str, Any]) -> float:
    """How long a scan of so many pairs takes; the shipped ones, again and again."""
    shipped = itertools.cycle([record.pair.texts for record in shipped_pairs()])
    start = time.perf_counter()
    attnscan.heads(itertools.islice(shipped, count), model="bundled", predictive="off", **options)
    return time.perf_counter() - start


def main() -> None:
    """Measure every rival in turn, run by run, and print pairs a second and the ratio of neighbouring runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    print(machine())
    costs: dict[str, list[float]] = {name: [] for name in RIVALS}
    for _ in range(asked.runs):
        for name, options in RIVALS.items():
            more, less = (seconds(times * asked.pairs, options) for times in (3, 1))
            costs[name].append((more - less) / (2 * asked.pairs))
    print("| engine | pairs a second | cost beside one process |\n| --- | ---: | ---: |")
    for name, own in costs.items():
        ratio = median(cost / alone for cost, alone in zip(own, costs["one process"], strict=True))
        print(f"| {name} | {1 / median(own):.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
