"""The claims of "Deconstructing BERT, Part 2", measured: which heads of a model they can be asked
of, and what is left.

    python examples/article_claims.py [--model NAME] [--best 5] [--pairs 40]

On the first of the sentence pairs that attnscan ships. A head is asked about a pattern only if it
follows it: if its score is at least 0.25 above chance, as (score - chance) / (1 - chance). What is
said of neurons is measured in rotated bases, too, which change no weight: what they give as well is
no finding.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

import attnscan
from attnscan.results.explanation import CAUSES, NEURONS, Explanations, effects, sign

PAIRS = Path(__file__).parent / "pairs.csv"
ENOUGH = 0.25
PATTERNS = ("delimiter", "bag-of-words", "next-word", "previous-word", "identical")
NUMBERS = ["score", "chance", "above_chance", *CAUSES]


def best_heads(found: Explanations, pattern: str, best: int) -> pd.DataFrame:
    """The heads that follow a pattern, best first; a row each, with how its neurons compare and
    what changes do.
    """
    of_pattern = replace(found, pattern=pattern)
    rows = [pd.Series({"name": head.name, **of_pattern[head]}) for head in of_pattern.heads]
    for row in rows:
        row["signs"] = {measure: sign(row, measure) for measure in NEURONS}
        row["effects"] = effects(row)
    frame = pd.DataFrame(rows).sort_values("score", ascending=False)
    follow = frame[frame["above_chance"] >= ENOUGH][:best]
    return follow if len(follow) else frame[:1]


def follows(heads: pd.DataFrame) -> bool:
    """Whether any head follows the pattern."""
    return bool((heads["above_chance"] >= ENOUGH).all())


def of_neurons(heads: pd.DataFrame, measure: str, claimed: str) -> str:
    """What is left of a claim that a measure lies below (`<`) or above (`>`) what rotated bases
    give.
    """
    signs = [of_head[measure] for of_head in heads["signs"]]
    own = heads[measure].mean()
    rotated = heads[f"{measure}_rotated"].mean()
    verdict = f"{signs.count(claimed)} of {len(signs)} heads"
    return f"so in {verdict}: {own:.2f} on average, and rotated bases give {rotated:.2f}"


def of_cause(heads: pd.DataFrame, causes: tuple[str, ...], falls: bool = True) -> str:
    """What is left of a claim that the pattern falls with a change, or that it stays."""
    holds = []
    for effect_of in heads["effects"]:
        changes = {effect_of.get(cause) for cause in causes}
        holds.append("falls" in changes if falls else changes == {"stays"})
    what = "falls by more than half of what is above chance" if falls else "stays"
    return f"the score {what} in {sum(holds)} of {len(holds)} heads"


def claims(of: dict[str, pd.DataFrame]) -> Iterator[tuple[str, str]]:
    """Each claim, and what is left of it."""
    positions = ("positions_shuffled",)
    segments = ("segments_zeroed", "segments_swapped")
    asked = [
        ("Delimiter heads work by few neurons", "delimiter", of_neurons, "effective_neurons", "<"),
        ("... which are always the same", "delimiter", of_neurons, "stability", ">"),
        (
            "Bag-of-words heads work by few neurons",
            "bag-of-words",
            of_neurons,
            "effective_neurons",
            "<",
        ),
        (
            "... whose signs agree inside and differ across",
            "bag-of-words",
            of_neurons,
            "sign_agreement",
            ">",
        ),
        ("... and come from the segment embeddings", "bag-of-words", of_cause, segments),
        ("Next-word heads need many neurons", "next-word", of_neurons, "effective_neurons", ">"),
        ("... which differ from query to query", "next-word", of_neurons, "stability", "<"),
        ("... and come from the position embeddings", "next-word", of_cause, positions),
        ("Previous-word heads likewise", "previous-word", of_cause, positions),
        (
            "Identical words are found by content",
            "identical",
            of_cause,
            (*positions, *segments),
            False,
        ),
    ]
    for claim, pattern, judge, *more in asked:
        heads = of[pattern]
        best = heads.iloc[0]
        none = f"this model has no such head: the best, {best['name']}, scores {best['score']:.2f}"
        yield (
            claim,
            judge(heads, *more)
            if follows(heads)
            else f"{none}, and chance is {best['chance']:.2f}",
        )


def main() -> None:
    """Print what was measured, and then each claim with what is left of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bundled")
    parser.add_argument(
        "--best", type=int, default=5, metavar="N", help="how many heads of each pattern"
    )
    parser.add_argument("--pairs", type=int, default=40, metavar="N")
    asked = parser.parse_args()
    sentences = pd.read_csv(PAIRS, nrows=asked.pairs)[["sentence_a", "sentence_b"]]
    found = attnscan.explain(pairs=sentences.itertuples(index=False, name=None), model=asked.model)
    of = {pattern: best_heads(found, pattern, asked.best) for pattern in PATTERNS}
    frame = pd.concat(of.values())
    columns = [
        "pattern",
        "name",
        *NUMBERS,
    ]
    for measure in NEURONS:
        columns += [measure, f"{measure}_rotated"]
    print(frame[columns].to_string(index=False, float_format="%.2f", na_rep="-"))
    print()
    for claim, left in claims(of):
        print(f"{claim}:\n    {left}.")


if __name__ == "__main__":
    main()
