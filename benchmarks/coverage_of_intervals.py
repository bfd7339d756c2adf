"""How often a 95 % interval holds the truth: pairs drawn anew from those that attnscan ships, by numpy.

All pairs are taken for the population: its score of a head is known. K pairs drawn from it with replacement give a
score and an interval by the rule of DESIGN.md, and by the rule before it (1.96 errors without K/(K-1)). A pair without
an eligible word is drawn, and does not count among the K of the rule; drawings with fewer than two that count have no
interval, and are left out. Nothing of attnscan is imported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student
from written import over, shipped

DRAWINGS = 2_000
SIZES = (2, 5, 10, 20, 50)
PATTERNS = ("next-word", "previous-word", "identical", "delimiter", "bag-of-words")


def lines() -> Iterator[str]:
    """What to print."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pairs.parquet"
        over(shipped(), "heads", "--model", "bundled", "--predictive", "off", "--per-pair", str(path))
        frame = pd.read_parquet(path)
    pairs, rng = frame["pair"].nunique(), np.random.default_rng(0)
    yield f"Intervals of 95 %: share that holds the score by all {pairs} pairs, in {DRAWINGS:,} drawings of K of them"
    yield f"{'pattern':16} {'K':>3} {'by t(K-1)':>10} {'worst head':>11} {'1.96 errors, no K/(K-1)':>24}"
    for pattern in PATTERNS:
        total, n = _population(frame, pattern)
        for size in SIZES:
            new, old = _shares(total, n, rng.integers(0, len(n), (DRAWINGS, size)))
            yield f"{pattern:16} {size:3} {new.mean():10.3f} {new.min():11.3f} {old.mean():24.3f}"
    yield ""
    yield "The same for leads: of each head over the next by all pairs, and of a drawing's best head over its second"
    yield f"{'pattern':16} {'K':>3} {'by t(K-1)':>10} {'worst lead':>11} {'best of the drawing':>24}"
    for pattern in PATTERNS:
        total, n = _population(frame, pattern)
        for size in SIZES[1:]:
            fixed, chosen = _lead_shares(total, n, rng.integers(0, len(n), (DRAWINGS, size)))
            yield f"{pattern:16} {size:3} {fixed.mean():10.3f} {fixed.min():11.3f} {chosen:24.3f}"


def _population(frame: pd.DataFrame, pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair's weight on target and eligible words. Shape: [pair, head], [pair]."""
    own = frame[frame["pattern"] == pattern]
    wide = {name: own.pivot_table(index="pair", columns=["layer", "head"], values=name) for name in ("score", "n")}
    every = sorted(frame["pair"].unique())
    n = wide["n"].reindex(every).fillna(0).to_numpy()
    return wide["score"].reindex(every).fillna(0).to_numpy() * n, n[:, 0]


def _moments(total: np.ndarray, n: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of each drawing: scores, residuals, eligible words, and pairs that have any.

    Shape: `drawn` [drawing, K] -> [drawing, head], [drawing, K, head], [drawing, 1] twice.
    """
    words = n[drawn].sum(1, keepdims=True)
    count = (n[drawn] > 0).sum(1, keepdims=True)
    keep = count[:, 0] > 1
    drawn, words, count = drawn[keep], words[keep], count[keep]
    score = total[drawn].sum(1) / words
    return score, total[drawn] - score[:, None] * n[drawn][..., None], words, count


def _shares(total: np.ndarray, n: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How often each head's interval holds its score by all pairs: by the new rule, and by the old one."""
    truth = total.sum(0) / n.sum()
    score, residual, words, count = _moments(total, n, drawn)
    plain = np.sqrt((residual**2).sum(1)) / words
    width = student.ppf(0.975, count - 1) * np.sqrt(count / (count - 1)) * plain
    off = np.abs(score - truth)
    return (off <= width + 1e-12).mean(0), (off <= 1.96 * plain + 1e-12).mean(0)


def _lead_shares(total: np.ndarray, n: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, float]:
    """How often a lead's interval holds the lead by all pairs: of fixed heads, and of each drawing's best."""
    truth = total.sum(0) / n.sum()
    score, residual, words, count = _moments(total, n, drawn)
    few = student.ppf(0.975, count - 1) * np.sqrt(count / (count - 1)) / words

    def holds(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Shape: heads [drawing, lead], twice -> [drawing, lead]."""
        rows = np.arange(len(score))[:, None]
        off = np.abs(score[rows, a] - score[rows, b] - (truth[a] - truth[b]))
        apart = residual[rows, :, a] - residual[rows, :, b]
        return off <= few * np.sqrt((apart**2).sum(-1)) + 1e-12

    order = np.broadcast_to(np.argsort(-truth), score.shape)
    best = np.argsort(-score, axis=1)
    return holds(order[:, :-1], order[:, 1:]).mean(0), float(holds(best[:, :1], best[:, 1:2]).mean())
