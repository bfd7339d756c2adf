"""How often a 95 % interval holds the truth: pairs drawn again and again from a population whose
scores are known.

All pairs of a file are taken for the population, and its score of a head for the truth. K pairs
drawn from it with replacement give a score and an interval by two rules. A pair without an eligible
word is drawn, and does not count among the K of a rule; drawings with fewer than two that count
have no interval, and are left out. attnscan writes every pair's score once; all else is worked out
here, and nothing of attnscan is imported.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student
from tally import written

DRAWINGS = 2_000
SIZES = (5, 10, 20, 50)
READINGS = {"special tokens in": ("score", "n"), "words alone": ("words_score", "words_n")}
Interval = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Population:
    """Every pair's weight on target and eligible words. Shape: each [pair, head]."""

    total: np.ndarray
    n: np.ndarray


@dataclass(frozen=True)
class Drawn:
    """What some drawings of pairs say of every head. Shape: each [drawing, head]."""

    score: np.ndarray
    error: np.ndarray  # √Σ(S - score·n)² / Σn, without a factor for few pairs
    pairs: np.ndarray  # those that have an eligible word
    effective: np.ndarray  # (Σn)² / Σn²


def draw(population: Population, size: int, seed: int) -> Drawn:
    """Draw so many pairs, again and again."""
    total = population.total
    n = population.n
    count = len(population.n)
    drawn = np.random.default_rng([size, seed]).multinomial(
        size, np.full(count, 1 / count), size=DRAWINGS
    )
    times = drawn.astype(np.float64)  # how often each pair is drawn. Shape: [drawing, pair]
    words = times @ n
    squares = times @ (n * n)
    score = times @ total / words
    spread = times @ (total * total) - 2 * score * (times @ (total * n)) + score**2 * squares
    return Drawn(score, np.sqrt(spread.clip(0)) / words, times @ (n > 0), words**2 / squares)


def by_t(drawn: Drawn) -> Interval:
    """Student's t of K - 1 degrees of freedom."""
    width = (
        student.ppf(0.975, drawn.pairs - 1) * np.sqrt(drawn.pairs / (drawn.pairs - 1)) * drawn.error
    )
    return drawn.score - width, drawn.score + width


def by_effective_pairs(drawn: Drawn) -> Interval:
    """What attnscan does, on the logit scale: of E effective pairs, t of E - 1 and E/(E - 1) for
    √(K/(K - 1)).
    """
    width = (
        student.ppf(0.975, drawn.effective - 1)
        * drawn.effective
        / (drawn.effective - 1)
        * drawn.error
    )
    reach = width / (drawn.score * (1 - drawn.score))
    odds = np.log(drawn.score / (1 - drawn.score))
    return 1 / (1 + np.exp(reach - odds)), 1 / (1 + np.exp(-reach - odds))


RULES: dict[str, Callable[[Drawn], Interval]] = {
    "t(K-1)": by_t,
    "logit, effective": by_effective_pairs,
}


def lines(models: Sequence[str], pairs: Path) -> Iterator[str]:
    """What to print.

    Warnings are off: of two pairs, one may have no words, and a score may be 0 or 1.
    """
    with np.errstate(all="ignore"):
        several = list[Population]()
        for model in models:
            several += populations(model, pairs)
        names = " and ".join(Path(model).name for model in models)
        count = len(several[0].total)
        held = f"the share of {DRAWINGS:,} drawings of K pairs whose interval holds the"
        yield f"Intervals of 95 %: {held} score by all {count} of {pairs.name};"
        yield f"{names}, {' and '.join(READINGS)}; a pattern is the mean over its heads"
        columns = f"{'rule':18} {'K':>3} {'mean':>6} {'worst pattern':>14} {'best':>6}"
        yield f"{columns} {'worst head':>11} {'width':>11}"
        for name, rule in RULES.items():
            for size in SIZES:
                shares, widths = zip(
                    *(_held(rule, data, size, i) for i, data in enumerate(several)), strict=True
                )
                patterns = [np.mean(share) for share in shares]
                text = f"{name:18} {size:3} {np.mean(patterns):6.3f}"
                text += f" {min(patterns):14.3f} {max(patterns):6.3f}"
                yield f"{text} {min(map(np.min, shares)):11.3f} {np.mean(widths):11.3f}"


def populations(model: str, pairs: Path) -> Iterator[Population]:
    """Every pattern by every reading that has scores, as attnscan writes them pair by pair."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pairs.parquet"
        options = ("--model", model, "--predictive", "off", "--per-pair", str(path), "--csv")
        written("heads", "--pairs", str(pairs), *options)
        frame = pd.read_parquet(path)
    every = range(1, frame["pair"].max() + 1)
    for _, of_pattern in frame.groupby("pattern", observed=True):
        for columns in READINGS.values():
            arrays = []
            for name in columns:
                table = of_pattern.pivot_table(name, "pair", ["layer", "head"], dropna=False)
                arrays.append(table.reindex(every).fillna(0).to_numpy(dtype=np.float64))
            scores, words = arrays
            if words.any(0).all():
                yield Population(scores * words, words)


def _held(
    rule: Callable[[Drawn], Interval], population: Population, size: int, seed: int
) -> tuple[np.ndarray, float]:
    """The share of drawings whose interval holds the truth [head], and its width; without an error
    it is the score.
    """
    drawn = draw(population, size, seed)
    truth = population.total.sum(0) / population.n.sum(0)
    interval = rule(drawn)
    width = float(np.nanmean(interval[1].clip(max=1) - interval[0].clip(0)))
    low = np.where(drawn.error == 0, drawn.score, interval[0])
    high = np.where(drawn.error == 0, drawn.score, interval[1])
    known = drawn.pairs > 1
    return (known & (low <= truth + 1e-12) & (high >= truth - 1e-12)).sum(0) / known.sum(0), width
