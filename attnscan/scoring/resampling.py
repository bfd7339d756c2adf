"""How often a head keeps its label when the words of its one input, or the pairs of a corpus, are drawn anew.

A label of one input rests on a handful of words, one of a corpus on its pairs. Drawing as many of them with
replacement, again and again, shows how much of it is theirs: the bootstrap, with the word or the pair for its unit. Of
one input it cannot tell what another would say.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 6.
"""

from __future__ import annotations

import numpy as np

from attnscan.results.labels import FEWEST, MOST_HEADS, RESAMPLINGS, Labels, Stability
from attnscan.results.scores import FloatArray, Race, Scores, ScoreTable
from attnscan.scoring.label_sums import QUANTITIES, LabelSums, table_of
from attnscan.scoring.sums import KINDS, PairSums

_AT_ONCE = 50  # resamplings: of 384 heads and 7 patterns, their sums take 5 MB a quantity


def labels_of(scores: Scores, sums: LabelSums, threshold: float, seed: int, *, norm: bool) -> Labels:
    """What heads are called by scores over many pairs, and how sure that is."""
    sure = stability(scores, sums.units(), threshold, seed)
    return Labels(scores, norm, threshold, sure, sums.agreement(scores, threshold))


def stability(scores: Scores, units: PairSums, threshold: float, seed: int) -> Stability | None:
    """In what share of resamplings each head keeps its label, and its label on words; None of more than `MOST_HEADS`.

    Shape: `units` as of `Scorer.pair_sums`, each the sums of what is drawn: of an input's words, or of pairs.
    """
    if scores.entropy.size > MOST_HEADS:
        return None
    return Stability(*(_stays(scores, kind, units, threshold, seed) for kind in KINDS))


def _stays(scores: Scores, kind: str, units: PairSums, threshold: float, seed: int) -> FloatArray:
    """The same by one kind of score; NaN where a label rests on too few units. Shape: [layer, head]."""
    count = len(units["every_key.n"])
    if count < FEWEST:  # too few for any label, and of tens of thousands of heads the drawings take minutes
        return np.full(scores.grid, np.nan)
    rng = np.random.default_rng(seed)
    table: ScoreTable = getattr(scores, kind)
    winners, kept = Race(scores.scored, table).winners(0, threshold), np.zeros(scores.grid)
    for _ in range(0, RESAMPLINGS, _AT_ONCE):
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=_AT_ONCE).astype(float)
        kept += (Race(scores.scored, _table(units, kind, drawn)).winners(0, threshold) == winners).sum(0)
    # a label rests on the units that are eligible for its pattern; `mixed`, the last of these, on all of them
    eligible = np.broadcast_to((units[f"{kind}.n"] > 0).sum(0), table.score.shape)
    rests_on = np.concatenate([eligible, np.full((*scores.grid, 1), count)], -1)
    too_few = np.take_along_axis(rests_on, winners[..., None] % rests_on.shape[-1], -1)[..., 0] < FEWEST
    return np.where(too_few, np.nan, kept / RESAMPLINGS)


def _table(units: PairSums, kind: str, drawn: FloatArray) -> ScoreTable:
    """The scores by some drawings of the units.

    Shape: `drawn` [drawing, unit] -> each [drawing, layer, head, pattern].
    """

    def summed(name: str) -> FloatArray:
        values = units[f"{kind}.{name}"]
        added: FloatArray = (drawn @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])
        return added

    return table_of(*map(summed, QUANTITIES))
