"""What a change in what the model reads makes of the scores: sums over pairs, with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnscan.results.scores import FloatArray, Scores
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import PairSums, RatioSums, ScoreSums

_WEIGHT, _N = "every_key.weight", "every_key.n"


@dataclass(frozen=True)
class CauseSums:
    """Sums over pairs of the scores after a change. They add.

    A change that is drawn at random is drawn several times: a pair's S and n are means over the draws before the pair
    is counted, as one cluster.
    """

    scores: ScoreSums
    falls: RatioSums
    """Of what each pair's weight on target falls by."""
    variance: FloatArray
    """Of the variance that each pair's mean S has by its draws; NaN of a single draw. Shape: [layer, head, pattern]."""

    @classmethod
    def of(cls, plain: PairSums, drawn: Sequence[Scorer]) -> CauseSums:
        """Of one batch: what its pairs have as they are, and what every draw of the change makes of them."""
        draws = len(drawn)
        sums = [scorer.sums() for scorer in drawn]
        pairs: dict[str, FloatArray] = {}
        squares = np.zeros_like(plain[_WEIGHT])
        for scorer in drawn:
            of_draw = scorer.pair_sums()
            squares += of_draw[_WEIGHT] ** 2
            pairs = {name: values + pairs.get(name, 0.0) for name, values in of_draw.items()}
        pairs = {name: values / draws for name, values in pairs.items()}
        spread = (squares - draws * pairs[_WEIGHT] ** 2).clip(0)
        alone = np.full_like(spread, np.nan)
        return cls(
            scores=ScoreSums.of(
                pairs,
                sums[0].scored,
                entropy=np.mean([of_draw.entropy for of_draw in sums], axis=0),
                words=sums[0].words,
            ),
            falls=RatioSums.of(plain[_WEIGHT] - pairs[_WEIGHT], pairs[_N]),
            variance=(spread / (draws * (draws - 1)) if draws > 1 else alone).sum(0),
        )

    def __add__(self, other: CauseSums) -> CauseSums:
        return CauseSums(self.scores + other.scores, self.falls + other.falls, self.variance + other.variance)

    def finish(self) -> tuple[Scores, FloatArray]:
        """The scores after the change, and the standard errors of what they fall by. Shape: [layer, head, pattern].

        Clustered by pair; of one pair alone, over the draws.
        """
        scores = self.scores.finish()
        table = scores.every_key
        with np.errstate(invalid="ignore", divide="ignore"):
            of_draws = np.sqrt(self.variance) / self.falls.n
        se, fall_se = (np.where(table.pairs == 1, of_draws, by_pair) for by_pair in (table.se, self.falls.se))
        return replace(scores, every_key=replace(table, se=se)), fall_se
