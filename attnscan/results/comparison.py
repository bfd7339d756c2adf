"""Heads compared: all heads of one model, by what they attend to, and those of two models, by their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnscan.results.choices import MAX_DIVERGENCE, MIN_DIFFERENCE, Match
from attnscan.results.grid import Grid, Head, Heads
from attnscan.results.intervals import false_discovery_rates, p_value
from attnscan.results.lazy import pd
from attnscan.results.scores import FloatArray, IntArray, Labels
from attnscan.results.signature import Signature, describe, signed_frame
from attnscan.text import plain

FALSE_DISCOVERIES = (
    0.05  # of the differences that are beyond chance, the share that may be there by chance
)


@dataclass(frozen=True)
class Similarity:
    """How far apart all heads of a model are; heads go by their numbers."""

    divergence: (
        FloatArray  # mean Jensen-Shannon divergence in nats, in [0, ln 2]. Shape: [head, head]
    )
    se: FloatArray  # its standard error, clustered by pair. Shape: [head, head]
    labels: Labels  # what heads are called, by the same pairs
    queries: int  # words whose attention was compared
    signature: Signature  # where the result comes from: model, versions, device, input
    within: float = MAX_DIVERGENCE  # how far apart a group's heads may be on average, in nats

    __repr__ = describe

    @property
    def grid(self) -> Grid:
        """The heads, in order."""
        return self.labels.grid

    def nearest(self, head: int, count: int) -> list[int]:
        """The heads that are most like a head, nearest first."""
        order = np.argsort(self.divergence[head], kind="stable").tolist()
        return [neighbour for neighbour in order if neighbour != head][:count]

    def closest(self, count: int) -> list[tuple[int, int]]:
        """The pairs of heads that are most alike, nearest first."""
        a, b = np.triu_indices(len(self.divergence), 1)
        order = np.argsort(self.divergence[a, b], kind="stable")[:count]
        return list(zip(a[order].tolist(), b[order].tolist(), strict=True))

    @cached_property
    def groups(self) -> list[list[int]]:
        """Groups by average linkage: the two that are nearest on average are joined, up to `within`; largest first."""
        from scipy.cluster import hierarchy

        if len(self.divergence) < 2:
            return [[0]]
        steps = hierarchy.linkage(
            self.divergence[np.triu_indices(len(self.divergence), 1)], "average"
        )
        of_heads = hierarchy.fcluster(steps, self.within, "distance")
        groups = [np.flatnonzero(of_heads == group).tolist() for group in set(of_heads)]
        return sorted(groups, key=lambda group: (-len(group), group))

    @cached_property
    def map(self) -> tuple[FloatArray, float]:
        """Places in two dimensions by classical scaling, and the share of all squared distances that they show.

        A mean of Jensen-Shannon divergences is a squared distance in a Hilbert space (Fuglede and Topsøe 2004), so
        classical scaling gives principal components, exactly. Shape: [head, 2].
        """
        distances, places = self.divergence, np.zeros((len(self.divergence), 2))
        centred = distances - distances.mean(0) - distances.mean(1)[:, None] + distances.mean()
        values, vectors = (part[..., :-3:-1] for part in np.linalg.eigh(-centred / 2))
        places[:, : len(values)] = np.sqrt(values.clip(0)) * vectors
        places *= np.sign(
            places[np.abs(places).argmax(0), range(2)]
        )  # an axis could as well point the other way
        total = float(distances.sum()) / (2 * len(distances))
        return places, float(values.clip(0).sum()) / total if total else float("nan")

    def to_frame(self, nearest: int = 3, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, or one for each of `heads`: label, group, place, nearest heads with divergence and error."""
        numbers, columns = range(len(self.grid)), dict[str, Any]()
        for rank, neighbours in enumerate(
            zip(*(self.nearest(head, nearest) for head in numbers), strict=True), 1
        ):
            columns[f"nearest_{rank}"] = [self.grid[neighbour].name for neighbour in neighbours]
            columns[f"divergence_{rank}"] = self.divergence[numbers, neighbours]
            columns[f"se_{rank}"] = self.se[numbers, neighbours]
        return self._frame(columns, heads)

    def to_matrix(self, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, or one for each of `heads`: label, group, place, and its divergence from every head."""
        return self._frame(
            {head.name: self.divergence[:, number] for number, head in enumerate(self.grid)}, heads
        )

    def _frame(self, columns: dict[str, Any], heads: Heads | None) -> pd.DataFrame:
        """The columns that all tables share, these columns, and the signature."""
        group = {head: number for number, members in enumerate(self.groups, 1) for head in members}
        (x, y), share = self.map[0].T, self.map[1]
        about = {**self.grid.columns(), "label": self.labels.label.ravel()}
        about |= {
            "group": [group[head] for head in range(len(self.grid))],
            "x": x,
            "y": y,
            **columns,
        }
        about |= {"label_stays": self.labels.label_stays.ravel()}
        frame = signed_frame(
            about, self.signature, queries=self.queries, within=self.within, map_share=share
        )
        return (
            frame
            if heads is None
            else frame.iloc[[self.grid.index(head) for head in self.grid.select(heads)]]
        )


@dataclass(frozen=True)
class Comparison:
    """Two models' heads by the same pairs: each of the first, a, beside one of the second, b."""

    model_labels: tuple[
        Labels, Labels
    ]  # what the heads of each model do, with their scores, each in its own places
    se: FloatArray  # of the difference of scores, paired and clustered by pair. Shape: [layer, head, pattern]
    matched: IntArray  # the head of b that each head of a is compared with. Shape: [layer, head, 2], its layer and head
    divergence: (
        FloatArray  # from the matched head, in nats; NaN with `match` "place". Shape: [layer, head]
    )
    match: Match  # which heads belong together: those of one `place`, or the `nearest`
    signatures: tuple[Signature, Signature]  # where the two models' results come from
    least: float = MIN_DIFFERENCE  # the least difference of scores that survives: one may be beyond chance and next to nothing
    alike: str = (
        ""  # which words are targets of `identical` in both models, as a sentence of the screen
    )

    def __repr__(self) -> str:
        return plain(
            f"Comparison of {' and '.join(signature.model for signature in self.signatures)}"
        )

    @property
    def grid(self) -> Grid:
        """The heads of a."""
        return self.model_labels[0].grid

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns that both were scored for."""
        return self.model_labels[0].scores.patterns

    @cached_property
    def differences(self) -> pd.DataFrame:
        """One row for each pattern and head: both scores, their difference, what it is worth, both labels.

        `p` is by t over pairs with an eligible query, `fdr` its false discovery rate among all heads and patterns.
        """
        (a, b), shape, at = (
            self.model_labels,
            self.grid.shape,
            (self.matched[..., 0], self.matched[..., 1]),
        )
        difference = b.table.score[at] - a.table.score
        p = p_value(difference, self.se, np.minimum(a.table.pairs, b.table.pairs[at]))
        rates = false_discovery_rates(p)
        columns = {"layer_b": np.array(b.grid.numbers)[at[0]], "head_b": at[1]}
        columns |= {
            "score_a": a.table.score,
            "score_b": b.table.score[at],
            "difference": difference,
            "se": self.se,
        }
        columns |= {
            "n": a.table.n,
            "pairs": a.table.pairs,
            "label_a": a.label,
            "label_b": b.label[at],
        }
        columns |= {"divergence": self.divergence, "p": p, "fdr": rates}
        columns |= {"label_a_stays": a.label_stays, "label_b_stays": b.label_stays[at]}
        columns["survives"] = (rates <= FALSE_DISCOVERIES) & (
            np.abs(difference) >= self.least
        )  # false for NaN
        cells = {
            n: np.broadcast_to(v.reshape(*shape, -1), p.shape)
            for n, v in (self.grid.columns() | columns).items()
        }
        rows = {name: np.moveaxis(values, -1, 0).ravel() for name, values in cells.items()}
        models = {"model_a": self.signatures[0].model, "model_b": self.signatures[1].model}
        return pd.DataFrame({**models, "pattern": np.repeat(self.patterns, len(self.grid)), **rows})

    def of(self, pattern: str, heads: Heads | None = None, top: int | None = None) -> pd.DataFrame:
        """A pattern's rows by heads' numbers: of all or of `heads`, or the `top` greatest differences of these."""
        rows = self.differences[self.differences["pattern"] == pattern].reset_index(drop=True)
        if heads is not None:
            rows = rows.loc[[self.grid.index(head) for head in self.grid.select(heads)]]
        greatest = (
            rows["difference"]
            .abs()
            .dropna()
            .sort_values(ascending=False, kind="stable")
            .index[:top]
        )
        return rows if top is None else rows.loc[greatest]

    @property
    def changed(self) -> dict[tuple[str, str], list[Head]]:
        """The heads whose label is another one, by both labels; most heads first."""
        rows = self.of(self.patterns[0]).query("label_a != label_b")
        by_labels: dict[Any, Any] = rows.groupby(["label_a", "label_b"], sort=False).groups
        order = sorted(by_labels, key=lambda labels: -len(by_labels[labels]))
        return {labels: [self.grid[number] for number in by_labels[labels]] for labels in order}

    def correlation(self, pattern: str) -> float:
        """Spearman's rank correlation between the two models' scores for a pattern, over heads; NaN without spread."""
        rho: Any = self.of(pattern)[["score_a", "score_b"]].corr("spearman").iloc[0, 1]
        return float(rho)

    def to_frame(
        self,
        patterns: Sequence[str] | None = None,
        heads: Heads | None = None,
        top: int | None = None,
    ) -> pd.DataFrame:
        """The rows of some patterns and heads, as `of` chooses them."""
        patterns = patterns or self.patterns
        frame = pd.concat([self.of(name, heads, top) for name in patterns], ignore_index=True)
        frame.attrs = {
            f"signature_{x}": asdict(signature)
            for x, signature in zip("ab", self.signatures, strict=True)
        }
        frame.attrs |= {"match": self.match, "least": self.least, "alike": self.alike}
        correlations = {name: self.correlation(name) for name in patterns}
        frame.attrs["rank_correlation"] = {
            n: None if np.isnan(rho) else rho for n, rho in correlations.items()
        }
        return frame
