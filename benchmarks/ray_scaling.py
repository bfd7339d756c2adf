"""What a cluster costs: the Ray engine against the one-machine engine, on the same pairs and the same cores.

    python benchmarks/ray_scaling.py --pairs FILE [--model bundled] [--workers 2] [--block-pairs 256] [--repeat 1]

One machine plays the cluster. The one-machine engine has as many threads as there are workers of one core. Timed apart:
the scan, which a longer run has more of, and all that is paid once (starting Ray, loading the model in each worker,
and the end). The scan's ratio is the overhead of a long run; the file is read --repeat times to make it longer.
"""

from __future__ import annotations

import argparse
import os
import re
import time

import torch

from attnscan.inputs.columns import Reading
from attnscan.inputs.pairs import read_pairs
from attnscan.scan.cluster.blocks import BlockFiles
from attnscan.scan.cluster.scan import scan_on_ray
from attnscan.scan.local import ScanState, scan
from attnscan.scan.options import ClusterOptions, ScanOptions
from attnscan.scan.scanner import Scanner


def main() -> None:
    """Print a line for each engine, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--block-pairs", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=1, help="read the file that often")
    asked = parser.parse_args()
    paths = [asked.pairs] * asked.repeat
    options = ScanOptions(model=asked.model, device="cpu", on_long="truncate", predictive="off")

    torch.set_num_threads(asked.workers)
    started = time.perf_counter()
    with Scanner(options) as scanner:
        state, scanning = ScanState(), time.perf_counter()
        for after in scan(scanner, read_pairs(paths)):
            state = after
        local_scan = time.perf_counter() - scanning
        expected = state.finish(scanner)
    local = time.perf_counter() - started

    said: list[str] = []
    started = time.perf_counter()
    cluster = ClusterOptions(workers=asked.workers, block_pairs=asked.block_pairs)
    files = BlockFiles(tuple(paths), Reading(), False, asked.block_pairs)
    result, _ = scan_on_ray(options, files, cluster, say=said.append)
    ray = time.perf_counter() - started
    ray_scan = float(re.findall(r"in ([\d.,]+) s", said[-1])[0].replace(",", ""))

    differs = abs(result.scores.every_key.score - expected.scores.every_key.score)
    pairs = state.seen.read
    load = os.getloadavg()[0]
    print(
        f"{pairs:,} pairs, {asked.workers} cores, blocks of {asked.block_pairs}; load of the machine after {load:.1f}"
    )
    print(f"local  scan {local_scan:7.1f} s  {pairs / local_scan:8.1f} pairs/s  in all {local:7.1f} s")
    print(f"ray    scan {ray_scan:7.1f} s  {pairs / ray_scan:8.1f} pairs/s  in all {ray:7.1f} s  (with their start)")
    print(f"ratio  scan {ray_scan / local_scan:7.2f}    in all {ray / local:7.2f}")
    print(f"scores differ by {differs[~(differs != differs)].max():.1e} at most")


if __name__ == "__main__":
    main()
