"""What sets two models apart, head by head, on the same pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.results.behaviour import Labels
from attnscan.results.grid import Head, Heads
from attnscan.results.intervals import false_discovery_rates, p_value
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable
from attnscan.results.shown import lines
from attnscan.results.signature import Signature
from attnscan.results.terms import LEAST, Match

if TYPE_CHECKING:
    import pandas as pd

FALSE_DISCOVERIES = 0.05
"""Of the differences that are beyond chance, the share that may be there by chance."""


@dataclass(frozen=True)
class Comparison:
    """Two models' scores on the same pairs: `a`, and `b` with its heads in the places of those they match."""

    a: Scores
    """Of the first model."""
    b: Scores
    """Of the second model, each head in the place of the one that it is compared with."""
    se: FloatArray
    """Standard error of the difference, paired and clustered by pair. Shape: [layer, head, pattern]."""
    matched: IntArray
    """Which head of b is held against each of a. Shape: [layer, head, 2], its layer and head."""
    divergence: FloatArray
    """From that one, where heads are matched by it: Jensen-Shannon, in nats; else NaN. Shape: [layer, head]."""
    match: Match
    """Which heads belong together: those of one `place`, or the `nearest`."""
    pairs: int
    """That both have read."""
    signatures: tuple[Signature, Signature]
    """Where the two models' results come from."""
    of_models: tuple[Labels, Labels]
    """What the heads of the first model do, and those of the second, each in its own places."""
    least: float = LEAST
    """The least difference of scores that survives: one may be beyond chance and next to nothing."""
    alike: str = ""
    """Which words count as the same one in both models, for `identical` and `cross-sentence`: a sentence."""

    def __repr__(self) -> str:
        changed = sum(map(len, self.changed.values()))
        beyond = f"{int(self.survives.sum())} of {self.survives.size} differences of scores survive"
        other = f"beside {self.signatures[1].model}, heads matched by {self.match}"
        labels = f"{changed} heads change their label"
        return lines(self, self.signatures[0], self.a.grid, other, f"{beyond}, {labels}")

    @property
    def tables(self) -> tuple[ScoreTable, ScoreTable]:
        """The scores of a and b by their reading."""
        among_words = self.signatures[0].reading.among_words
        return self.a.table(among_words), self.b.table(among_words)

    @property
    def patterns(self) -> tuple[str, ...]:
        """What both were scored for."""
        return self.a.patterns

    @cached_property
    def difference(self) -> FloatArray:
        """Score of b minus that of a. Shape: [layer, head, pattern]."""
        a, b = self.tables
        return b.score - a.score

    @cached_property
    def p(self) -> FloatArray:
        """How probable a difference at least so great is where there is none; NaN below two pairs, in [0, 1].

        By t with one degree of freedom fewer than pairs that have an eligible query. Shape: [layer, head, pattern].
        """
        a, b = self.tables
        return p_value(self.difference, self.se, np.minimum(a.pairs, b.pairs))

    @cached_property
    def rate(self) -> FloatArray:
        """The false discovery rate from which each difference survives, among those of all heads and patterns.

        In [0, 1]; NaN below two pairs. Shape: [layer, head, pattern].
        """
        return false_discovery_rates(self.p)

    @property
    def beyond_chance(self) -> NDArray[np.bool_]:
        """Which differences are beyond chance at a false discovery rate of 5 %. Shape: [layer, head, pattern]."""
        return np.asarray(self.rate <= FALSE_DISCOVERIES)  # false for NaN

    @property
    def survives(self) -> NDArray[np.bool_]:
        """Which differences are beyond chance and not below `least`. Shape: [layer, head, pattern]."""
        return np.asarray(self.beyond_chance & (np.abs(self.difference) >= self.least))

    @property
    def labels(self) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """What each head does in a, and the one that it is compared with in b. Shape: [layer, head]."""
        return self.of_models[0].label, self._matched(self.of_models[1].label)

    @property
    def unsure(self) -> NDArray[np.bool_]:
        """Which heads have a label that would not stay, in a or in b. Shape: [layer, head]."""
        return np.asarray(self.of_models[0].unsure | self._matched(self.of_models[1].unsure))

    def _matched(self, of_b: NDArray[Any]) -> NDArray[Any]:
        """Values of b's heads in the places of a's. Shape: [layer, head]."""
        matched: NDArray[Any] = of_b[self.matched[..., 0], self.matched[..., 1]]
        return matched

    @property
    def changed(self) -> dict[tuple[str, str], list[Head]]:
        """The heads whose label is another one, by both labels; most heads first."""
        changed: dict[tuple[str, str], list[Head]] = {}
        a, b = self.labels
        for head in self.a.grid:
            if a[head.place] != b[head.place]:
                changed.setdefault((str(a[head.place]), str(b[head.place])), []).append(head)
        return dict(sorted(changed.items(), key=lambda entry: -len(entry[1])))

    def correlation(self, pattern: str) -> float:
        """Spearman's rank correlation between the two models' scores for a pattern, over heads; NaN without spread."""
        import pandas as pd

        scores = np.stack([table.score[..., self.patterns.index(pattern)].ravel() for table in self.tables], -1)
        return float(pd.DataFrame(scores).corr("spearman").to_numpy()[0, 1])

    def extremes(self, pattern: str) -> tuple[Head | None, Head | None]:
        """Of the heads whose difference survives, those whose score rises and falls most; None where none does."""
        p = self.patterns.index(pattern)
        surviving = np.where(self.survives[..., p], self.difference[..., p], 0)
        up, down = (self.a.grid[number] for number in (surviving.argmax(), surviving.argmin()))
        return up if surviving.max() > 0 else None, down if surviving.min() < 0 else None

    def chosen(self, pattern: str, heads: Heads | None = None, top: int | None = None) -> list[Head]:
        """All heads, or those of `heads`, in order; with `top`, so many with a difference, the greatest first."""
        several = list(self.a.grid) if heads is None else self.a.grid.select(heads)
        if top is None:
            return several
        sizes = np.abs(self.difference[..., self.patterns.index(pattern)])
        different = [head for head in several if not np.isnan(sizes[head.place])]
        return sorted(different, key=lambda head: -sizes[head.place])[:top]

    def to_frame(
        self, patterns: Sequence[str] | None = None, heads: Heads | None = None, top: int | None = None
    ) -> pd.DataFrame:
        """One row for each pattern and `chosen` head: both scores, their difference, what it is worth, both labels."""
        import pandas as pd

        grid, grid_b, (a, b), patterns = self.a.grid, self.of_models[1].grid, self.tables, patterns or self.patterns
        of_a, of_b = (
            np.full(labels.grid.shape, np.nan) if labels.stays is None else labels.stays for labels in self.of_models
        )
        parts = []
        for pattern in patterns:
            p = self.patterns.index(pattern)
            columns: dict[str, Any] = {
                "layer_b": np.array(grid_b.numbers)[self.matched[..., 0]],
                "head_b": self.matched[..., 1],
                "score_a": a.score[..., p],
                "score_b": b.score[..., p],
                "difference": self.difference[..., p],
                "se": self.se[..., p],
                "n": a.n[..., p],
                "pairs": a.pairs[..., p],
                "label_a": self.labels[0],
                "label_b": self.labels[1],
                "divergence": self.divergence,
                "p": self.p[..., p],
                "fdr": self.rate[..., p],
                "label_a_stays": of_a,
                "label_b_stays": self._matched(of_b),
                "survives": self.survives[..., p],
            }
            models = {"model_a": self.signatures[0].model, "model_b": self.signatures[1].model, "pattern": pattern}
            of_heads = {name: values.ravel() for name, values in columns.items()}
            rows = [grid.index(head) for head in self.chosen(pattern, heads, top)]
            parts.append(pd.DataFrame({**models, **grid.columns(), **of_heads}).iloc[rows])
        frame = pd.concat(parts, ignore_index=True)
        correlations = {name: self.correlation(name) for name in patterns}
        frame.attrs = {
            "signature_a": asdict(self.signatures[0]),
            "signature_b": asdict(self.signatures[1]),
            "match": self.match,
            "least": self.least,
            "alike": self.alike,
            "rank_correlation": {name: None if np.isnan(rho) else rho for name, rho in correlations.items()},
        }
        return frame
