"""How memory grows with the number of pairs: it should not.

    python benchmarks/memory.py [--pairs 1000 20000]

Whole processes of `attnscan heads` on the bundled model, over the pairs that come along, repeated; the peak is the
operating system's, of each process by itself.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attnscan.inputs.pairs import shipped_pairs


def main() -> None:
    """Print a line for each number of pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[1000, 20_000])
    pairs = [record.pair for record in shipped_pairs()]
    print(f"{'pairs':>7} {'peak':>9} {'pairs a second':>15}")
    with tempfile.TemporaryDirectory() as directory:
        for count in parser.parse_args().pairs:
            path = Path(directory) / "pairs.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(("sentence_a", "sentence_b"))
                writer.writerows((pair.a, pair.b) for pair in itertools.islice(itertools.cycle(pairs), count))
            command = [sys.executable, "-m", "attnscan", "heads", "--model", "bundled", "--pairs", str(path)]
            start = time.perf_counter()
            process = subprocess.Popen([*command, "--predictive", "off"], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            assert status == 0
            rate = count / (time.perf_counter() - start)
            print(f"{count:>7} {usage.ru_maxrss / 1024:>5.0f} MiB {rate:>15.0f}")


if __name__ == "__main__":
    main()
