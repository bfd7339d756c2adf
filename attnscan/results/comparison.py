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
        difference: FloatArray = b.score - a.score
        return difference

    @cached_property
    def p(self) -> FloatArray:
        """How probable a difference at least so great is where there is none; NaN below two pairs, in [0, 1].

        By t with one degree of freedom fewer than pairs that have an eligible query. Shape: [layer, head, pattern].
        """
        a, b = self.tables
        p: FloatArray = p_value(self.difference, self.se, np.minimum(a.pairs, b.pairs))
        return p

    @cached_property
    def rate(self) -> FloatArray:
        """The false discovery rate from which each difference survives, among those of all heads and patterns.

        In [0, 1]; NaN below two pairs. Shape: [layer, head, pattern].
        """
        rate: FloatArray = false_discovery_rates(self.p)
        return rate

    @cached_property
    def beyond_chance(self) -> NDArray[np.bool_]:
        """Which differences are beyond chance at a false discovery rate of 5 %. Shape: [layer, head, pattern]."""
        beyond: NDArray[np.bool_] = self.rate <= FALSE_DISCOVERIES  # false for NaN
        return beyond

    @cached_property
    def survives(self) -> NDArray[np.bool_]:
        """Which differences are beyond chance and not below `least`. Shape: [layer, head, pattern]."""
        survives: NDArray[np.bool_] = self.beyond_chance & (np.abs(self.difference) >= self.least)
        return survives

    @cached_property
    def labels(self) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """What each head does in a, and the one that it is compared with in b. Shape: [layer, head]."""
        return self.of_models[0].label, self._matched(self.of_models[1].label)

    @property
    def unsure(self) -> NDArray[np.bool_]:
        """Which heads have a label that would not stay, in a or in b. Shape: [layer, head]."""
        unsure: NDArray[np.bool_] = self.of_models[0].unsure | self._matched(self.of_models[1].unsure)
        return unsure

    def _matched(self, of_b: NDArray[Any]) -> NDArray[Any]:
        """Values of b's heads in the places of a's. Shape: [layer, head]."""
        matched: NDArray[Any] = of_b[self.matched[..., 0], self.matched[..., 1]]
        return matched

    @property
    def changed(self) -> dict[tuple[str, str], list[Head]]:
        """The heads whose label is another one, by both labels; most heads first."""
        changed: dict[tuple[str, str], list[Head]] = {}
        a, b = self.labels
        for number in np.flatnonzero(a != b):
            both = str(a.flat[number]), str(b.flat[number])
            changed.setdefault(both, []).append(self.a.grid[number])
        return dict(sorted(changed.items(), key=lambda entry: -len(entry[1])))

    def correlation(self, pattern: str) -> float:
        """Spearman's rank correlation between the two models' scores for a pattern, over heads; NaN without spread."""
        import pandas as pd

        p = self.patterns.index(pattern)
        a, b = (table.score[..., p].ravel() for table in self.tables)
        return float(pd.DataFrame({"a": a, "b": b}).corr("spearman").to_numpy()[0, 1])

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

        grid, (a, b) = self.a.grid, self.tables
        labels, unknown = [label.ravel() for label in self.labels], np.full(grid.shape, np.nan)
        a_stays, b_stays = (unknown if own.stays is None else own.stays for own in self.of_models)
        stays = {"a": a_stays.ravel(), "b": self._matched(b_stays).ravel()}
        parts = []
        for pattern in patterns or self.patterns:
            p = self.patterns.index(pattern)
            columns: dict[str, Any] = {
                "model_a": self.signatures[0].model,
                "model_b": self.signatures[1].model,
                "pattern": pattern,
            }
            columns |= grid.columns()
            grid_b = self.of_models[1].grid
            numbers_b = np.array(grid_b.numbers)
            columns |= {"layer_b": numbers_b[self.matched[..., 0]].ravel(), "head_b": self.matched[..., 1].ravel()}
            columns |= {"score_a": a.score[..., p].ravel(), "score_b": b.score[..., p].ravel()}
            columns |= {"difference": self.difference[..., p].ravel(), "se": self.se[..., p].ravel()}
            columns |= {"n": a.n[..., p].ravel(), "pairs": a.pairs[..., p].ravel()}
            columns |= {"label_a": labels[0], "label_b": labels[1], "divergence": self.divergence.ravel()}
            columns |= {"p": self.p[..., p].ravel(), "fdr": self.rate[..., p].ravel()}
            columns |= {f"label_{name}_stays": values for name, values in stays.items()}
            columns |= {"survives": self.survives[..., p].ravel()}
            rows = [grid.index(head) for head in self.chosen(pattern, heads, top)]
            parts.append(pd.DataFrame(columns).iloc[rows])
        correlations = ((name, self.correlation(name)) for name in patterns or self.patterns)
        frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {
            "signature_a": asdict(self.signatures[0]),
            "signature_b": asdict(self.signatures[1]),
            "match": self.match,
            "least": self.least,
            "alike": self.alike,
            "rank_correlation": {name: None if np.isnan(rho) else rho for name, rho in correlations},
        }
        return frame
