"""What a cluster costs: the Ray engine against the one-machine engine, on the same pairs and the same cores.

    python benchmarks/ray_scaling.py --pairs FILE [--model bundled] [--workers 2] [--block-pairs 1024] [--count 3072]
                                     [--labels] [--repeat 3]

One machine plays the cluster. Each run is a process of its own, and what is counted are the CPU seconds of the whole
machine meanwhile, so that none of Ray's own processes is left out; nothing else may run on it. Both engines run with
some pairs and with --count more, by turns: the difference is what the pairs take, the rest is start and end. Some are
two blocks for each worker: of fewer, the worker that is there first takes all, and the others load no model. Printed
are the medians, and the ratio of the two engines, whose bound is 1.05; then the largest difference of any number of the
two tables.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pandas as pd
import psutil
from ray_proof import repeated

_AFTER = 2.0  # seconds, in which what Ray started ends


def main() -> None:
    """Print a line for each engine, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", required=True, help="a TSV file")
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--block-pairs", type=int, default=1024)
    parser.add_argument("--count", type=int, default=3072)
    parser.add_argument("--labels", action="store_true", help="label every head, and do not rank for one pattern alone")
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    what = ["--predictive", "off"] if asked.labels else ["--pattern", "next-word"]
    beside = 2 * asked.workers * asked.block_pairs
    with tempfile.TemporaryDirectory() as name:
        files = []
        for count in (beside, beside + asked.count):
            (place := Path(name) / str(count)).mkdir()
            files.append(repeated(Path(asked.pairs), count, place))
        scan = ["heads", "--model", asked.model, "--device", "cpu", "--on-long", "truncate", *what]
        ray = ["--engine", "ray", "--workers", str(asked.workers), "--block-pairs", str(asked.block_pairs)]
        engines = {"local": scan, "ray": [*scan, *ray]}
        cpu = {engine: [list[float](), list[float]()] for engine in engines}
        wall = {engine: [list[float](), list[float]()] for engine in engines}
        for _ in range(asked.repeat):
            for engine, arguments in engines.items():
                for size, file in enumerate(files):
                    took = run([*arguments, "--pairs", str(file), "-o", f"{name}/{engine}.csv"])
                    cpu[engine][size].append(took[0])
                    wall[engine][size].append(took[1])
        tables = [pd.read_csv(Path(name) / f"{engine}.csv") for engine in engines]
    differs = max((tables[0][name] - tables[1][name]).abs().max() for name in tables[0].select_dtypes("number"))
    print(f"{asked.count:,} pairs beside {beside:,}, {asked.workers} cores, blocks of {asked.block_pairs}, ", end="")
    print(f"medians of {asked.repeat}; load of the machine after {os.getloadavg()[0]:.1f}")
    of_pairs = {}
    for engine in engines:
        (few, many), (few_wall, many_wall) = (list(map(median, each[engine])) for each in (cpu, wall))
        of_pairs[engine] = many - few
        a_pair = of_pairs[engine] / asked.count
        start = few - beside * a_pair
        print(f"{engine:6} {a_pair * 1000:6.2f} ms of CPU a pair; start and end {start:5.1f} s of CPU; ", end="")
        print(f"{asked.count / (many_wall - few_wall):6.1f} pairs/s")
    print(f"ratio  {of_pairs['ray'] / of_pairs['local']:6.3f}; the tables differ by {differs:.1e} at most")


def run(arguments: list[str]) -> tuple[float, float]:
    """CPU seconds of the machine while attnscan runs, and how long it does."""
    before, started = busy(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "attnscan", *arguments], check=True, stderr=subprocess.DEVNULL)
    took = time.perf_counter() - started
    time.sleep(_AFTER)
    return busy() - before, took


def busy() -> float:
    """CPU seconds of all processes since the machine was started."""
    times = psutil.cpu_times()
    return times.user + times.system + times.nice


if __name__ == "__main__":
    main()
