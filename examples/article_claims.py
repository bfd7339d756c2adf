"""The claims of "Deconstructing BERT, Part 2", measured: which heads of a model they can be asked of, and what is left.

    python examples/article_claims.py [--model NAME] [--best 5] [--pairs 40]

On the first of the sentence pairs that attnscan ships. A head is asked about a pattern only if it follows it: if its
score is at least 0.25 above chance, as (score - chance) / (1 - chance). What is said of neurons is measured in rotated
bases, too, which change no weight: what they give as well is no finding.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

import attnscan
from attnscan.results.explanation import Explanations, HeadExplanation

PAIRS = Path(__file__).parent / "pairs.csv"
ENOUGH = 0.25
PATTERNS = ("delimiter", "bag-of-words", "next-word", "previous-word", "identical")
MEASURES = {"effective_neurons": "neurons", "stability": "stability", "sign_agreement": "signs"}


@dataclass(frozen=True)
class Measured:
    """The best heads of one pattern, those that follow it."""

    pattern: str
    heads: list[HeadExplanation]
    neurons: dict
    """By measure: its mean over these heads in their own basis, and in rotated ones."""
    best: HeadExplanation
    """The best of all, whether it follows the pattern or not."""

    def mean(self, what) -> float:
        """The mean over heads of what is asked of each."""
        return sum(map(what, self.heads)) / len(self.heads)


def measured(found: Explanations, pattern: str, best: int) -> Measured:
    """The heads that follow a pattern, best first."""
    p = found.scores.patterns.index(pattern)
    of_pattern = replace(found, pattern=pattern)
    ranked = [of_pattern[found.scores.grid[number]] for number in found.scores.every_key.ranked(p)]
    heads = [head for head in ranked if head.above_chance >= ENOUGH][:best]
    neurons = found.neurons.in_bases([head.head for head in heads], p) if heads else {}
    return Measured(pattern, heads, neurons, ranked[0])


def named(heads: list[HeadExplanation]) -> str:
    """Heads by name."""
    return " ".join(head.head.name for head in heads)


def row(one: Measured) -> dict:
    """A row of the table: means over the heads."""
    heads = one.heads or [one.best]
    numbers = {
        name: sum(getattr(head, name) for head in heads) / len(heads) for name in ("score", "chance", "above_chance")
    }
    causes = {
        cause.split("_")[-1]: one.mean(lambda head, cause=cause: head.causes[cause]) if one.heads else float("nan")
        for cause in one.best.causes
    }
    who = named(one.heads) or f"none (best: {named([one.best])})"
    return {"pattern": one.pattern, "heads": who, **numbers, **causes}


def neuron_rows(one: Measured) -> Iterator[dict]:
    """A row for each measure: the own basis beside rotated ones."""
    for name, measure in one.neurons.items():
        yield {
            "pattern": one.pattern,
            "measure": MEASURES[name],
            "own basis": written(measure.own),
            "rotated bases": rotated(measure),
            "own lies": {"<": "below", ">": "above", "≈": "within", "": "n/a"}[measure.sign],
        }


def written(value: float) -> str:
    """A count of neurons with two decimals, a share with three."""
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def rotated(measure) -> str:
    """The mean over rotations and its standard deviation."""
    places = 2 if measure.rotated >= 1 else 3
    return f"{measure.rotated:.{places}f} ± {measure.rotated_sd:.{places}f}"


def of_neurons(one: Measured, name: str, claimed: str) -> str:
    """What is left of a claim that a measure lies below (`<`) or above (`>`) what rotated bases give."""
    if not one.heads:
        return no_head(one)
    measure = one.neurons[name]
    if measure.sign == "":
        return "cannot be measured in this model"
    verdict = {"≈": "nothing is left of it", claimed: "holds"}.get(measure.sign, "does not hold")
    return f"{verdict}: {written(measure.own)}, and rotated bases give {rotated(measure)}"


def of_cause(one: Measured, causes: tuple[str, ...], falls: bool = True) -> str:
    """What is left of a claim that the pattern falls with a change, or that it stays."""
    if not one.heads:
        return no_head(one)
    effects = [{head.effect(cause) for cause in causes} for head in one.heads]
    holds = [bool({"falls"} & effect) if falls else effect == {"stays"} for effect in effects]
    verdict = "holds" if all(holds) else "does not hold" if not any(holds) else "holds in part"
    what = "falls by more than half of what is above chance" if falls else "stays"
    return f"{verdict}: the score {what} in {sum(holds)} of {len(holds)} heads"


def no_head(one: Measured) -> str:
    """What is said where no head follows the pattern."""
    best = one.best
    return (
        f"this model has no such head: the best, {named([best])}, scores {best.score:.2f}, "
        f"chance is {best.chance:.2f} (above chance: {best.above_chance:.2f})"
    )


def claims(of: dict[str, Measured]) -> Iterator[tuple[str, str]]:
    """Each claim, and what is left of it."""
    positions, segments = ("positions_shuffled",), ("segments_zeroed", "segments_swapped")
    delimiter, bag, following = of["delimiter"], of["bag-of-words"], of["next-word"]
    yield "Delimiter heads work by few neurons", of_neurons(delimiter, "effective_neurons", "<")
    yield "... which are always the same", of_neurons(delimiter, "stability", ">")
    yield "Bag-of-words heads work by few neurons", of_neurons(bag, "effective_neurons", "<")
    yield "... whose signs agree inside a sentence and differ across", of_neurons(bag, "sign_agreement", ">")
    yield "... and come from the segment embeddings", of_cause(bag, segments)
    yield "Next-word heads need many neurons", of_neurons(following, "effective_neurons", ">")
    yield "... which differ from query to query", of_neurons(following, "stability", "<")
    yield "... and come from the position embeddings", of_cause(following, positions)
    yield "Previous-word heads likewise", of_cause(of["previous-word"], positions)
    yield "Identical words are found by content", of_cause(of["identical"], (*positions, *segments), falls=False)


def main() -> None:
    """Print what was measured, and then each claim with what is left of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--best", type=int, default=5, metavar="N", help="how many heads of each pattern")
    parser.add_argument("--pairs", type=int, default=40, metavar="N")
    asked = parser.parse_args()
    sentences = pd.read_csv(PAIRS, nrows=asked.pairs)[["sentence_a", "sentence_b"]]
    found = attnscan.explain(pairs=sentences.itertuples(index=False, name=None), model=asked.model)
    of = {pattern: measured(found, pattern, asked.best) for pattern in PATTERNS}
    print(pd.DataFrame([row(one) for one in of.values()]).to_string(index=False, float_format="%.2f", na_rep="-"))
    neurons = [each for one in of.values() for each in neuron_rows(one)]
    if neurons:
        print(f"\n{pd.DataFrame(neurons).to_string(index=False)}")
    print()
    for claim, left in claims(of):
        print(f"{claim}:\n    {left}.")


if __name__ == "__main__":
    main()
