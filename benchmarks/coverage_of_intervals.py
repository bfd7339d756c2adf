"""How often a 95 % interval holds the truth: pairs drawn again and again from a population whose scores are known.

All pairs of a file are taken for the population, and its score of a head for the truth. K pairs drawn from it with
replacement give a score and an interval by several rules. A pair without an eligible word is drawn, and does not count
among the K of a rule; drawings with fewer than two that count have no interval, and are left out. attnscan writes every
pair's score once; all else is worked out here, and nothing of attnscan is imported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import beta
from scipy.stats import t as student
from written import written

DRAWINGS = 2_000
SIZES = (5, 10, 20, 50)
READINGS = {"special tokens in": ("score", "n"), "words alone": ("words_score", "words_n")}
Interval = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Population:
    """Every pair's weight on target and eligible words. Shape: each [pair, head]."""

    model: str
    pattern: str
    reading: str
    total: np.ndarray
    n: np.ndarray

    @property
    def truth(self) -> np.ndarray:
        """The score by all pairs. Shape: [head]."""
        return self.total.sum(0) / self.n.sum(0)


@dataclass(frozen=True)
class Drawn:
    """What some drawings of pairs say of every head. Shape: each [drawing, head]."""

    score: np.ndarray
    error: np.ndarray
    """√Σ(S - score·n)² / Σn, without a factor for few pairs."""
    pairs: np.ndarray
    """Those that have an eligible word."""
    effective: np.ndarray
    """(Σn)² / Σn²."""

    @classmethod
    def of(cls, times: np.ndarray, total: np.ndarray, n: np.ndarray) -> Drawn:
        """Shape: `times`, how often each pair was drawn, [drawing, pair]; the others [pair, head]."""
        words, squares = times @ n, times @ (n * n)
        score = times @ total / words
        spread = times @ (total * total) - 2 * score * (times @ (total * n)) + score**2 * squares
        return cls(score, np.sqrt(spread.clip(0)) / words, times @ (n > 0), words**2 / squares)

    @property
    def se(self) -> np.ndarray:
        """The standard error, as tables have it."""
        return np.sqrt(self.pairs / (self.pairs - 1)) * self.error

    @property
    def wide(self) -> np.ndarray:
        """Half a width, of E effective pairs: t of E - 1 degrees of freedom, and E/(E - 1) in place of √(K/(K - 1))."""
        return _t(self.effective) * self.effective / (self.effective - 1) * self.error


def _t(pairs: np.ndarray) -> np.ndarray:
    return student.ppf(0.975, np.where(pairs > 1, pairs - 1, np.nan))


def by_t(drawn: Drawn) -> Interval:
    """Student's t of K - 1 degrees of freedom: what attnscan did before."""
    return drawn.score - _t(drawn.pairs) * drawn.se, drawn.score + _t(drawn.pairs) * drawn.se


def by_logit(drawn: Drawn) -> Interval:
    """Student's t of K - 1 degrees of freedom on the logit scale, by the delta method."""
    return _around_logit(drawn.score, _t(drawn.pairs) * drawn.se)


def by_effective_pairs(drawn: Drawn) -> Interval:
    """On the logit scale by effective pairs: what attnscan does."""
    return _around_logit(drawn.score, drawn.wide)


def by_beta(drawn: Drawn) -> Interval:
    """Clopper and Pearson's interval for a share of so many independent words as would have this error."""
    words = drawn.score * (1 - drawn.score) / (drawn.wide / 1.96) ** 2
    hits, misses = drawn.score * words, (1 - drawn.score) * words
    return beta.ppf(0.025, hits, misses + 1), beta.ppf(0.975, hits + 1, misses)


RULES: dict[str, Callable[[Drawn], Interval]] = {
    "t(K-1)": by_t,
    "logit, t(K-1)": by_logit,
    "logit, effective": by_effective_pairs,
    "beta, effective": by_beta,
}
USED = "logit, effective"


def _around_logit(score: np.ndarray, width: np.ndarray) -> Interval:
    low, high = (_expit(_logit(score) + sign * width / (score * (1 - score))) for sign in (-1, 1))
    return low, high


def _logit(share: np.ndarray) -> np.ndarray:
    return np.log(share / (1 - share))


def _expit(odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-odds))


def lines(models: Sequence[str], pairs: Path) -> Iterator[str]:
    """What to print. Warnings are off: of two pairs, one may have no words, and a score may be 0 or 1."""
    with np.errstate(all="ignore"):
        several = [population for model in models for population in populations(model, pairs)]
        plain = [population for population in several if population.reading == "special tokens in"]
        count = len(several[0].total)
        names = " and ".join(dict.fromkeys(population.model for population in several))
        held = f"the share of {DRAWINGS:,} drawings of K pairs whose interval holds the score by all"
        yield f"Intervals of 95 %: {held} {count} of {pairs.name};"
        yield f"{names}, {' and '.join(READINGS)}; a pattern is the mean over its heads"
        yield from _rules(several)
        yield ""
        yield "By pattern, special tokens in: logit, effective (t(K-1))"
        yield from _by_pattern(plain, _scores_held)
        yield ""
        yield "Leads, of each head over the next by all pairs: t(E-1) of E effective pairs (t(K-1))"
        yield from _by_pattern(plain, _leads_held)


def populations(model: str, pairs: Path) -> Iterator[Population]:
    """Every pattern by every reading that has scores, as attnscan writes them pair by pair."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pairs.parquet"
        asked = ("heads", "--model", model, "--pairs", str(pairs), "--predictive", "off", "--per-pair", str(path))
        written(*asked, "--csv")
        frame = pd.read_parquet(path)
    every = range(1, frame["pair"].max() + 1)
    for pattern, own in frame.groupby("pattern", observed=True):
        for reading, columns in READINGS.items():
            scores, words = (
                own.pivot_table(index="pair", columns=["layer", "head"], values=name, dropna=False)
                .reindex(every)
                .fillna(0)
                .to_numpy(dtype=np.float64)
                for name in columns
            )
            if words.any(0).all():
                yield Population(Path(model).name, str(pattern), reading, scores * words, words)


def _times(count: int, size: int, drawings: int, *seed: int) -> np.ndarray:
    """How often each pair is drawn. Shape: [drawing, pair]."""
    drawn = np.random.default_rng([size, *seed]).multinomial(size, np.full(count, 1 / count), size=drawings)
    return drawn.astype(np.float64)


def _held(interval: Interval, drawn: Drawn, truth: np.ndarray) -> np.ndarray:
    """The share of drawings whose interval holds the truth; without an error it is the score. Shape: [head]."""
    low, high = (np.where(drawn.error == 0, drawn.score, bound) for bound in interval)
    known = drawn.pairs > 1
    return (known & (low <= truth + 1e-12) & (high >= truth - 1e-12)).sum(0) / known.sum(0)


def _rules(several: Sequence[Population]) -> Iterator[str]:
    yield f"{'rule':18} {'K':>3} {'mean':>6} {'worst pattern':>14} {'best':>6} {'worst head':>11} {'mean width':>11}"
    for name, rule in RULES.items():
        for size in SIZES:
            shares, widths = [], []
            for number, population in enumerate(several):
                times = _times(len(population.n), size, DRAWINGS, number)
                drawn = Drawn.of(times, population.total, population.n)
                low, high = rule(drawn)
                shares.append(_held((low, high), drawn, population.truth))
                widths.append(np.nanmean(high.clip(max=1) - low.clip(0)))
            patterns = [np.mean(share) for share in shares]
            text = f"{name:18} {size:3} {np.mean(patterns):6.3f} {min(patterns):14.3f} {max(patterns):6.3f}"
            yield f"{text} {min(map(np.min, shares)):11.3f} {np.mean(widths):11.3f}"


def _by_pattern(
    several: Sequence[Population], held: Callable[[Population, np.ndarray], Iterator[float]]
) -> Iterator[str]:
    yield f"{'model':14} {'pattern':15}" + "".join(f"{f'K = {size}':>15}" for size in SIZES)
    for number, population in enumerate(several):
        cells = []
        for size in SIZES:
            ours, before = held(population, _times(len(population.n), size, DRAWINGS, number))
            cells.append(f"{f'{ours:.3f} ({before:.3f})':>15}")
        yield f"{population.model:14} {population.pattern:15}" + "".join(cells)


def _scores_held(population: Population, times: np.ndarray) -> Iterator[float]:
    """By the rule that attnscan has, and by the one before it."""
    drawn = Drawn.of(times, population.total, population.n)
    return (float(_held(rule(drawn), drawn, population.truth).mean()) for rule in (RULES[USED], by_t))


def _leads_held(population: Population, times: np.ndarray) -> Iterator[float]:
    """By t over effective pairs, and over all."""
    order = np.argsort(-population.truth)
    first, second = order[:-1], order[1:]
    drawn = Drawn.of(times, population.total[:, first] - population.total[:, second], population.n[:, first])
    truth = population.truth[first] - population.truth[second]
    for pairs in (drawn.effective, drawn.pairs):
        width = _t(pairs) * drawn.se
        yield float(_held((drawn.score - width, drawn.score + width), drawn, truth).mean())
