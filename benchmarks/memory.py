"""How memory grows with the number of pairs: it should not.

    python benchmarks/memory.py [--pairs 1000 20000] [--treebank FILE]

Whole processes of `attnscan heads` on the bundled model, over the pairs that come along, repeated; or of `syntax` over
a treebank, repeated. The peak is the operating system's, of each process by itself.
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
    parser.add_argument("--treebank", type=Path)
    asked = parser.parse_args()
    print(f"{'pairs':>7} {'peak':>9} {'pairs a second':>15}")
    with tempfile.TemporaryDirectory() as directory:
        for count in asked.pairs:
            written = (
                _trees(asked.treebank, Path(directory), count) if asked.treebank else _pairs(Path(directory), count)
            )
            start = time.perf_counter()
            command = [sys.executable, "-m", "attnscan", *written, "--model", "bundled"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            assert status == 0
            rate = count / (time.perf_counter() - start)
            print(f"{count:>7} {usage.ru_maxrss / 1024:>5.0f} MiB {rate:>15.0f}")


def _pairs(directory: Path, count: int) -> list[str]:
    """The command over so many pairs."""
    path, pairs = directory / "pairs.csv", [record.pair for record in shipped_pairs()]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("sentence_a", "sentence_b"))
        writer.writerows((pair.a, pair.b) for pair in itertools.islice(itertools.cycle(pairs), count))
    return ["heads", "--pairs", str(path), "--predictive", "off"]


def _trees(treebank: Path, directory: Path, count: int) -> list[str]:
    """The command over so many sentences of a treebank."""
    path, sentences = directory / "trees.conllu", treebank.read_text(encoding="utf-8").strip().split("\n\n")
    path.write_text("\n\n".join(itertools.islice(itertools.cycle(sentences), count)) + "\n\n", encoding="utf-8")
    return ["syntax", "--treebank", str(path)]


if __name__ == "__main__":
    main()
