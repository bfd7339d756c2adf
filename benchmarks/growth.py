"""How what a scan costs grows with tokens, heads and pairs, with the exponent that fits.

    python benchmarks/growth.py [--runs 3] [--pairs 100 1000 10000] [--tokens 16 32 64 128 256 512]

Tokens: four layers of BERT base's width, as many tokens in all. Heads: models of 6 × 12, 12 × 12 and 24 × 16 heads of
64 dimensions, 512 tokens. Pairs: the bundled model on the pairs that come along, repeated. Costs are processor time,
divided by the table's first; an exponent of 1 is growth in proportion.
"""

from __future__ import annotations

import argparse
import itertools
import math
from functools import partial

import numpy as np
from scan import inputs_of, random_model, scan
from sidebyside import Cost, cost, in_turn, machine

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import shipped_pairs
from attnscan.scan.local import scan as scan_pairs
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

TOKENS = 2048
SHAPES = {72: (6, 12), 144: (12, 12), 384: (24, 16)}


def table(what: str, costs: dict[int, list[Cost]]) -> str:
    """The costs of some sizes beside the first's, and the exponent that fits best, by least squares of logarithms."""
    least = [min(each.cpu for each in runs) for runs in costs.values()]
    slope = np.polyfit(np.log(list(costs)), np.log(least), 1)[0] if len(costs) > 1 else math.nan
    lines = [f"| {what} | cost |", "| ---: | ---: |"]
    lines += [f"| {size:,} | {value / least[0]:.2f} |" for size, value in zip(costs, least, strict=True)]
    return "\n".join([*lines, "", f"Exponent: {slope:.2f}"])


def of_model(layers: int, heads: int, inputs: list[EncodedInput]) -> Cost:
    """One scan with a random model of that shape, made beforehand."""
    with random_model(layers, heads) as scanner:
        return cost(partial(scan, scanner.exact(), inputs))


def tables(runs: int, tokens: list[int], pairs: list[int]) -> list[str]:
    """One for tokens, one for heads, one for pairs."""
    by_tokens = {size: partial(of_model, 4, 12, inputs_of(size, max(1, TOKENS // size))) for size in tokens}
    some = inputs_of(128, 4)
    by_heads = {size: partial(of_model, *shape, some) for size, shape in SHAPES.items()}
    shipped = list(shipped_pairs())
    with Scanner(ScanOptions(model="bundled", predictive="off")) as scanner:

        def over(count: int) -> Cost:
            records = itertools.islice(itertools.cycle(shipped), count)
            return cost(lambda: [None for _ in scan_pairs(scanner, records)])

        over(pairs[0])  # not counted; of each size, one scan would be as long again
        return [
            table("tokens an input", in_turn(by_tokens, runs)),
            table("heads", in_turn(by_heads, runs)),
            table("pairs", {size: [over(size)] for size in pairs}),
        ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 1000, 10_000])
    asked = parser.parse_args()
    print(machine())
    print("\n\n".join(tables(asked.runs, asked.tokens, asked.pairs)))


if __name__ == "__main__":
    main()
