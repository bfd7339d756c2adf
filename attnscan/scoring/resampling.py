"""How often a head keeps its label when the words of its one input are drawn anew.

A label of one input rests on a handful of words. Drawing as many of them with replacement, again and again, shows how
much of it is theirs: the bootstrap, with the word for its unit. It cannot tell what another input would say.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 6.
"""

from __future__ import annotations

import numpy as np

from attnscan.results.classification import LEAST_WORDS, RESAMPLINGS, Stability
from attnscan.results.scores import FloatArray, Scores, ScoreTable
from attnscan.scoring.sums import KINDS, PairSums

_AT_ONCE = 50  # resamplings: of 384 heads and 7 patterns, their sums take 5 MB a quantity


def stability(scores: Scores, words: PairSums, threshold: float, seed: int) -> Stability:
    """In what share of resamplings each head keeps its label, and its label on words.

    Shape: `words` as of a `Scorer` that takes every query by itself, those of the input's words alone.
    """
    return Stability(*(_stays(scores, kind, words, threshold, seed) for kind in KINDS))


def _stays(scores: Scores, kind: str, words: PairSums, threshold: float, seed: int) -> FloatArray:
    """The same by one kind of score; NaN where a label rests on too few words. Shape: [layer, head]."""
    count = len(words["every_key.n"])
    if count < LEAST_WORDS:  # too few for any label, and of tens of thousands of heads the drawings take minutes
        return np.full(scores.grid, np.nan)
    rng = np.random.default_rng(seed)
    table: ScoreTable = getattr(scores, kind)
    winners, kept = scores.winners(table, 0, threshold), np.zeros(scores.grid)
    for _ in range(0, RESAMPLINGS, _AT_ONCE):
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=_AT_ONCE).astype(float)
        kept += (scores.winners(_table(words, kind, drawn), 0, threshold) == winners).sum(0)
    # a label rests on the words that are eligible for its pattern; `mixed`, the last of these, on all of them
    rests_on = np.concatenate([table.n, np.full((*scores.grid, 1), count)], -1)
    too_few = np.take_along_axis(rests_on, winners[..., None] % rests_on.shape[-1], -1)[..., 0] < LEAST_WORDS
    return np.where(too_few, np.nan, kept / RESAMPLINGS)


def _table(words: PairSums, kind: str, drawn: FloatArray) -> ScoreTable:
    """The scores by some drawings of the words.

    Shape: `drawn` [drawing, word] -> each [drawing, layer, head, pattern].
    """

    def summed(name: str) -> FloatArray:
        values = words[f"{kind}.{name}"]
        added: FloatArray = (drawn @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])
        return added

    weight, n, chance, whole, itself = map(summed, ("weight", "n", "chance", "whole", "itself"))
    unknown = np.full((1,) * n.ndim, np.nan)  # errors, which no label looks at, take as long as all else
    with np.errstate(invalid="ignore", divide="ignore"):
        return ScoreTable(
            score=weight / n,
            chance=chance / n,
            se=unknown,
            n=n.astype(np.int64),
            pairs=np.zeros_like(unknown, dtype=np.int64),
            share=weight / whole,
            itself=itself / n,
        )
