"""What half precision does to scores: each number format against float32, on the pairs that come along.

    python benchmarks/precision.py [--model NAME] [--device cpu|cuda]

The whole model runs in the format; the softmax and everything behind it is float32 or better, as always.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import torch

from attnscan.inputs.batch import batches
from attnscan.inputs.pairs import shipped_pairs
from attnscan.results.scores import Scores
from attnscan.results.terms import THRESHOLD
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner


def scores_in(dtype: torch.dtype, model: str, device: str) -> Scores:
    """Every head's scores with the model in that format; on a CPU `--dtype` refuses it, for it is slow there."""
    with Scanner(ScanOptions(model=model, device=device, predictive="off")) as scanner:
        scanner.loaded.model.to(dtype)
        scanner.loaded = replace(scanner.loaded, dtype=dtype)
        inputs = [scanner.encode(record.pair) for record in shipped_pairs()]
        sums = [scanner.score(batch) for batch in batches(inputs, scanner.loaded.room(None))]
    return sum(sums[1:], start=sums[0]).finish()


def main() -> None:
    """Print a line for each format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    expected = scores_in(torch.float32, asked.model, asked.device)
    labels = expected.ranked_labels(expected.every_key, 0, THRESHOLD)
    print(f"{'format':>9} {'largest difference':>19} {'mean':>9} {'standard errors':>16} {'labels changed':>15}")
    for dtype in (torch.bfloat16, torch.float16):
        found = scores_in(dtype, asked.model, asked.device)
        off = np.abs(found.every_key.score - expected.every_key.score)
        changed = (found.ranked_labels(found.every_key, 0, THRESHOLD) != labels).sum()
        in_errors = np.nanmax(off / np.maximum(expected.every_key.se, 1e-6))
        name = str(dtype).removeprefix("torch.")
        print(
            f"{name:>9} {np.nanmax(off):19.2e} {np.nanmean(off):9.1e} {in_errors:16.2f} {changed:>10} of {labels.size}"
        )


if __name__ == "__main__":
    main()
