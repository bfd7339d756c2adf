"""What half precision does to results: each number format against float32, on your pairs or those that come along.

    python benchmarks/precision.py [--model NAME ...] [--pairs FILE] [--device cpu|cuda]

The model runs in the format; logits, the softmax and everything behind it are float32 or better, as always. Differences
of scores are given as they are and in standard errors of the score; what changes of the answers is counted: labels, and
how many heads of all patterns' five best, over every key and over words alone, are others.
"""

from __future__ import annotations

import argparse

import numpy as np

import attnscan
from attnscan.inputs.pairs import read_pairs, shipped_pairs
from attnscan.results.ranking import Ranking

LEAST_ERROR = 1e-6  # a smaller one is of scores that do not vary
FIVE = 5


def ranked(model: str, dtype: str, device: str, pairs: list[tuple[str, ...]]) -> Ranking:
    """Every head's scores and labels in a format, but for `predictive`, which is float32 on a CPU whatever is asked."""
    return attnscan.heads(pairs, model=model, dtype=dtype, device=device, predictive="off")


def line(model: str, found: Ranking, expected: Ranking) -> str:
    """How one ranking differs from another."""
    tables = [each.scores.table(out) for out in (False, True) for each in (found, expected)]
    off, errors, others, places = [], [], 0, 0
    for mine, theirs in zip(tables[::2], tables[1::2], strict=True):
        off.append(np.abs(mine.score - theirs.score))
        errors.append(off[-1] / np.maximum(theirs.se, LEAST_ERROR))
        for pattern in range(mine.score.shape[-1]):
            best = set(theirs.ranked(pattern)[:FIVE].tolist())
            others += len(best - set(mine.ranked(pattern)[:FIVE].tolist()))
            places += len(best)
    changed, labels = (found.label != expected.label).sum(), expected.label.size
    return (
        f"{model:>16} {found.signature.dtype:>9} {np.nanmax(off):9.4f} {np.nanmean(off):8.5f} {np.nanmax(errors):8.2f} "
        f"{np.nanmean(errors):7.3f} {changed:>4} of {labels} {others:>4} of {places}"
    )


def main() -> None:
    """Print a line for each model and format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", default=["bundled"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", help="a file of them; without it, those that come along")
    asked = parser.parse_args()
    records = read_pairs([asked.pairs]) if asked.pairs else shipped_pairs()
    pairs = [record.pair.texts for record in records]
    print(f"{len(pairs)} pairs; differences of scores, and the same in standard errors")
    names = ["model", "format", "largest", "mean", "largest", "mean", "labels", "top-fives"]
    print("{:>16} {:>9} {:>9} {:>8} {:>8} {:>7} {:>9} {:>9}".format(*names))
    for model in asked.model:
        expected = ranked(model, "float32", asked.device, pairs)
        for dtype in ("bfloat16",) if asked.device == "cpu" else ("bfloat16", "float16"):
            print(line(model.rstrip("/").rsplit("/", 1)[-1], ranked(model, dtype, asked.device, pairs), expected))


if __name__ == "__main__":
    main()
