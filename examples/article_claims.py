"""The claims of "Deconstructing BERT, Part 2", measured: the best heads of each pattern, and how they make it.

    python examples/article_claims.py [--model NAME] [--best 5] [--pairs 40]

Means over the best heads of each pattern, on the first of the sentence pairs that attnscan ships.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import attnscan

PAIRS = Path(__file__).parent / "pairs.csv"
PATTERNS = ("delimiter", "bag-of-words", "next-word", "previous-word", "identical")


def main() -> None:
    """Print a row for each pattern."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--best", type=int, default=5, metavar="N", help="how many heads of each pattern")
    parser.add_argument("--pairs", type=int, default=40, metavar="N")
    asked = parser.parse_args()
    sentences = pd.read_csv(PAIRS, nrows=asked.pairs)[["sentence_a", "sentence_b"]]
    found = attnscan.explain_over(sentences.itertuples(index=False, name=None), model=asked.model)
    rows = []
    for pattern in PATTERNS:
        p = found.scores.patterns.index(pattern)
        order = found.scores.every_key.ranked(p)[: asked.best]
        layer, head = np.divmod(order, found.scores.grid[1])
        causes = {name: scores.every_key.score[layer, head, p].mean() for name, scores in found.causes.items()}
        rows.append(
            {
                "pattern": pattern,
                "heads": " ".join(f"{i}-{j}" for i, j in zip(layer, head, strict=True)),
                "score": found.scores.every_key.score[layer, head, p].mean(),
                "neurons": found.neurons.effective[layer, head, p].mean(),
                "stability": found.neurons.stability[layer, head, p].mean(),
                "signs": found.neurons.sign_agreement[layer, head, p].mean(),
                **{name.split("_")[-1]: score for name, score in causes.items()},
            }
        )
    print(pd.DataFrame(rows).to_string(index=False, float_format="%.2f"))


if __name__ == "__main__":
    main()
