"""Whatever is killed, and whenever: the table and every pair's scores are the same, to the last byte and row.

    python benchmarks/ray_kills.py --pairs FILE [--runs 21] [--count 1500] [--block-pairs 32] [--seed 0]

One machine plays three of one core, and one that only leads. First a scan that nothing harms. Then in each run, at a
random moment of its scoring, the driver (with --state, and started again), a worker (with --per-pair) or a machine
(with --per-pair; another one joins) is killed, by turns. A random BERT of two layers of four heads scores. Printed for
each run: what was killed and when, its seconds, and whether its CSV and its rows are those of the first.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from ray.cluster_utils import Cluster
from ray_proof import add_machine, kill_worker, machines, remove_machine, repeated, tiny

_SCRIPT = "from attnscan.scan.cluster import progress; progress.SAVE_EVERY = 1; from attnscan.cli.app import app; app()"
_ROWS = ["pair", "layer", "head", "pattern"]


def main() -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", required=True, help="a TSV file")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--block-pairs", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    draw, out = random.Random(asked.seed), sys.stdout  # within a cluster, what is printed goes to standard error
    with tempfile.TemporaryDirectory() as name, machines() as (cluster, nodes):
        place = Path(name)
        pairs = repeated(Path(asked.pairs), asked.count, place)
        scan = ["heads", "--model", tiny(place), "--pairs", str(pairs), "--engine", "ray", "--workers", "3"]
        scan += ["--ray-address", cluster.address, "--block-pairs", str(asked.block_pairs), "--predictive-pairs", "2"]
        started = time.perf_counter()
        whole, wanted = place / "whole", place / "whole.csv"
        assert driver(scan, "--per-pair", str(whole), "-o", str(wanted)).wait() == 0
        lasts = time.perf_counter() - started
        print(
            f"nothing killed: {lasts:.0f} s, {rows_of(whole)[0]:,} rows; load {os.getloadavg()[0]:.1f}",
            file=out,
            flush=True,
        )
        for run in range(asked.runs):
            harm = ("driver", "worker", "machine")[run % 3]
            after = draw.uniform(0.3, 0.8) * lasts
            started, found = time.perf_counter(), place / f"{run}.csv"
            same = killed(harm, after, [*scan, "-o", str(found)], place / str(run), (cluster, nodes))
            same &= found.read_bytes() == wanted.read_bytes()
            if harm != "driver":
                same &= rows_of(place / str(run)) == rows_of(whole)
            took = time.perf_counter() - started
            print(
                f"{run:3} {harm:8} after {after:5.1f} s, in all {took:5.0f} s  {'same' if same else 'OTHER'}",
                file=out,
                flush=True,
            )


def killed(harm: str, after: float, scan: list[str], beside: Path, cluster: tuple[Cluster, list[Any]]) -> bool:
    """Kill something so many seconds after the start; whether the scan, gone on with if need be, ends well."""
    kept = ["--state", str(beside)] if harm == "driver" else ["--per-pair", str(beside)]
    process = driver(scan, *kept)
    time.sleep(after)
    if harm == "driver":
        process.kill()
        process.wait()
        process = driver(scan, *kept)
    elif harm == "worker":
        kill_worker(*cluster)
    else:
        remove_machine(*cluster)
        add_machine(*cluster)
    return process.wait() == 0


def driver(scan: list[str], *more: str) -> subprocess.Popen[bytes]:
    """A driver in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", _SCRIPT, *scan, *more], stderr=subprocess.DEVNULL)


def rows_of(directory: Path) -> tuple[int, str]:
    """How many rows there are, each once, and a digest of all in an order that hangs on no file's name."""
    rows = pd.read_parquet(directory).astype({"file": str, "pattern": str}).sort_values(_ROWS)
    assert not rows.duplicated(_ROWS).any()
    return len(rows), hashlib.sha256(rows.to_csv(index=False).encode()).hexdigest()


if __name__ == "__main__":
    main()
