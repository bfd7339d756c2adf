"""Pairs a second on a Ray cluster of this machine, with 1 and with 2 workers, beside one process.

Two runs of different lengths give the cost of a pair, without that of starting. Bound: 1.05 with 1
worker.
"""

import itertools
from functools import partial
from statistics import median

from sidebyside import cost, machine

import attnscan
from attnscan.inputs.read import shipped_pairs

PAIRS = 2000
RUNS = 3


def scan(count: int, workers: int) -> None:
    """Score so many pairs, the shipped ones again and again; 0 workers are one process."""
    pairs = itertools.islice(
        itertools.cycle([record.pair.texts for record in shipped_pairs()]), count
    )
    engine = {"engine": "ray", "ray_workers": workers} if workers else {}
    attnscan.heads(pairs, model="bundled", predictive="off", **engine)


def main() -> None:
    """Measure every rival in turn, run by run, and print pairs a second and the ratio of
    neighbouring runs.
    """
    costs: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for _, (workers, seconds) in itertools.product(range(RUNS), costs.items()):
        more = cost(partial(scan, 3 * PAIRS, workers)).wall
        less = cost(partial(scan, PAIRS, workers)).wall
        seconds.append((more - less) / (2 * PAIRS))
    print(machine())
    print("| Ray workers | pairs a second | cost beside one process |")
    print("| --- | ---: | ---: |")
    for workers, seconds in costs.items():
        ratio = median(ours / alone for ours, alone in zip(seconds, costs[0], strict=True))
        print(f"| {workers or 'none'} | {1 / median(seconds):.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
