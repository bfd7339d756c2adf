"""How often a head keeps its label when the words of its one input, or the pairs of a corpus, are resampled.

A label of one input rests on a handful of words, one of a corpus on its pairs. Drawing as many of them with
replacement, again and again, shows how much of it is theirs: the bootstrap, with the word or the pair for its unit. Of
one input it cannot tell what another would say.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from attnscan.results.labels import DRAWN_MAPS, FEWEST, MOST_HEADS, RESAMPLINGS, Labels, Stability
from attnscan.results.scores import FloatArray, IntArray, Race, Scores, ScoreTable
from attnscan.results.terms import Scored
from attnscan.scoring.block_sums import squeezed
from attnscan.scoring.label_sums import QUANTITIES, LabelSums, columns_of
from attnscan.scoring.sums import KINDS, PairSums

_AT_ONCE = 50  # resamplings: of 384 heads and 7 patterns, their sums take 1 MB a quantity
_UNKNOWN = np.full((1, 1, 1, 1), np.nan)


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
    (label, drawn), (content_label, content_drawn) = (_stays(scores, kind, units, threshold, seed) for kind in KINDS)
    return Stability(label, content_label, {"in": drawn, "out": content_drawn})


def _stays(scores: Scores, kind: str, units: PairSums, threshold: float, seed: int) -> tuple[FloatArray, IntArray]:
    """By one kind of score: the share of resamples, NaN where a label rests on too few units, and the first labels.

    Shape: [layer, head] and [`DRAWN_MAPS`, layer, head].
    """
    count = len(units["every_key.n"])
    if count < FEWEST:  # too few for any label, and of tens of thousands of heads the drawings take minutes
        return np.full(scores.grid.shape, np.nan), np.zeros((0, *scores.grid.shape), dtype=np.int64)
    table: ScoreTable = getattr(scores, kind)
    winners, kept = Race(scores.scored, table).winners(0, threshold), np.zeros(scores.grid.shape)
    first: list[IntArray] = []
    laid_out = _laid_out(units, kind, scores.scored, scores.grid.shape)
    for drawn in _drawings(count, seed):
        again = Race(scores.scored, _table(laid_out, scores.scored, drawn)).winners(0, threshold)
        first.extend(again[: DRAWN_MAPS - len(first)])
        kept += (again == winners).sum(0)
    # a label rests on the units that are eligible for its pattern; `mixed`, the last of these, on all of them
    eligible = np.broadcast_to((units[f"{kind}.n"] > 0).sum(0), table.score.shape)
    rests_on = np.concatenate([eligible, np.full((*scores.grid.shape, 1), count)], -1)
    too_few = np.take_along_axis(rests_on, winners[..., None] % rests_on.shape[-1], -1)[..., 0] < FEWEST
    return np.where(too_few, np.nan, kept / RESAMPLINGS), np.stack(first)


@lru_cache(maxsize=1)
def _drawings(count: int, seed: int) -> tuple[FloatArray, ...]:
    """How often each unit is drawn, some resamplings at a time. Shape: each [drawing, unit]."""
    rng, even = np.random.default_rng(seed), np.full(count, 1 / count)
    return tuple(rng.multinomial(count, even, size=_AT_ONCE).astype(float) for _ in range(0, RESAMPLINGS, _AT_ONCE))


def _laid_out(units: PairSums, kind: str, scored: Sequence[Scored], shape: tuple[int, int]) -> dict[str, FloatArray]:
    """What labels follow from, pattern by pattern, of the patterns that need it; `shape` is layers and heads.

    Shape: each [pattern, unit, layer, head], or 1 in place of layer or head.
    """
    found = {}
    for name in QUANTITIES:
        values = units[f"{kind}.{name}"][..., columns_of(name, scored)]
        # how many are eligible, and what chance gives them, hang on no head but where some carry nothing
        values = squeezed(values) if name in ("n", "chance") else values
        if name == "weight":  # which may come with one for all heads
            values = np.broadcast_to(values, (len(values), *shape, len(scored)))
        found[name] = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    return found


def _table(laid_out: Mapping[str, FloatArray], scored: Sequence[Scored], drawn: FloatArray) -> ScoreTable:
    """The scores by some drawings of the units, as far as labels need them.

    Shape: `drawn` [drawing, unit] -> each [drawing, layer, head, pattern], or 1 in place of layer or head.
    """

    def summed(name: str) -> FloatArray:
        values = laid_out[name]
        added: FloatArray = drawn @ values.reshape(*values.shape[:2], -1)
        return added.reshape(*added.shape[:2], *values.shape[2:])

    weight, n, chance = map(summed, ("weight", "n", "chance"))
    with np.errstate(invalid="ignore", divide="ignore"):
        share, itself = (np.full_like(weight, np.nan) for _ in range(2))
        parts, of_others = (columns_of(name, scored) for name in ("whole", "itself"))
        share[parts] = weight[parts] / summed("whole")
        itself[of_others] = summed("itself") / n[of_others]
        return ScoreTable(
            score=_patterns_last(weight / n),
            chance=_patterns_last(chance / n),
            se=_UNKNOWN,  # what no label looks at
            n=_patterns_last(n).astype(np.int64),
            pairs=np.zeros_like(_UNKNOWN, dtype=np.int64),
            effective_pairs=_UNKNOWN,
            share=_patterns_last(share),
            itself=_patterns_last(itself),
        )


def _patterns_last(values: FloatArray) -> FloatArray:
    return np.moveaxis(values, 0, -1)
