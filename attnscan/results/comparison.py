"""Heads compared: of one model by what they attend to, and of two models by their scores."""

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
from attnscan.results.schemas import (
    LABEL_COLUMN,
    LABEL_STAYS_COLUMN,
    MODEL_COLUMN,
    PLACE_COLUMNS,
    Column,
    Table,
)
from attnscan.results.scores import FloatArray, IntArray, Labels
from attnscan.results.signature import Signature, check_top, describe, signed_frame
from attnscan.text import plain

FALSE_DISCOVERIES = 0.05
"""Of the differences that are beyond chance, the share that may be there by chance."""


SIMILARITY_TABLE = Table(
    "similar",
    "a head, with those that attend alike",
    (
        MODEL_COLUMN,
        *PLACE_COLUMNS,
        LABEL_COLUMN,
        Column("group", "the group of heads that attend alike, from 1; 0 for none", "integer"),
        Column("x", "the place on the map of heads"),
        Column("y", "likewise"),
        Column(
            r"nearest_\d+", "a head that attends alike, nearest first", "text", is_numbered=True
        ),
        Column(r"divergence_\d+", "its Jensen-Shannon divergence, nats", is_numbered=True),
        Column(r"se_\d+", "the divergence's standard error", is_numbered=True),
        Column(r"[edc]?\d+-\d+", "the divergence from this head, with --matrix", is_numbered=True),
        LABEL_STAYS_COLUMN,
    ),
)
COMPARISON_TABLE = Table(
    "compare",
    "a head of A beside one of B, by one pattern",
    (
        Column("model_a", "the first model", "text", is_key=True),
        Column("model_b", "the second model", "text", is_key=True),
        Column("pattern", "the pattern", "text", is_key=True),
        *PLACE_COLUMNS,
        Column("layer_b", "the layer of B's head", "integer", is_key=True),
        Column("head_b", "B's head in its layer", "integer", is_key=True),
        Column("score_a", "the score of A's head"),
        Column("score_b", "the score of B's head"),
        Column("difference", "`score_b` less `score_a`"),
        Column("se", "standard error of the difference, paired and clustered by pair"),
        Column("n", "eligible queries", "integer"),
        Column("pairs", "pairs that had any", "integer"),
        Column("label_a", "what A's head does", "text"),
        Column("label_b", "what B's head does", "text"),
        Column("divergence", "of the two heads, nats; missing without --match nearest"),
        Column("p", "of the difference, by t over pairs"),
        Column("fdr", "its false discovery rate over all heads and patterns"),
        Column("label_a_stays", "share of bootstrap resamples in which `label_a` is the same"),
        Column("label_b_stays", "share of bootstrap resamples in which `label_b` is the same"),
        Column("survives", "whether the difference is beyond chance and large enough", "flag"),
    ),
)


@dataclass(frozen=True)
class Similarity:
    """How far apart all heads of a model are; heads go by their numbers."""

    divergence: FloatArray
    """Mean Jensen-Shannon divergence in nats, in [0, ln 2]. Shape: [head, head]."""
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

    @property
    def groups(self) -> list[list[int]]:
        """Groups by average linkage, largest first.

        The two groups that are nearest on average are joined, up to `within`.
        """
        from scipy.cluster import hierarchy

        heads = len(self.divergence)
        if heads < 2:
            return [[0]]
        steps = hierarchy.linkage(self.divergence[np.triu_indices(heads, 1)], "average")
        group_of_head = hierarchy.fcluster(steps, self.within, "distance")
        groups = [np.flatnonzero(group_of_head == group).tolist() for group in set(group_of_head)]
        return sorted(groups, key=lambda group: (-len(group), group))

    @property
    def map(self) -> tuple[FloatArray, float]:
        """Places in two dimensions, and the share of all squared distances that they show.

        A mean of Jensen-Shannon divergences is a squared distance in a Hilbert space (Fuglede and
        Topsøe 2004), so classical scaling gives principal components, exactly. Shape: [head, 2].
        """
        distances = self.divergence
        centred = distances - distances.mean(0) - distances.mean(1)[:, None] + distances.mean()
        values, vectors = np.linalg.eigh(-centred / 2)
        values = values[:-3:-1].clip(0)  # the two largest
        places = np.zeros((len(distances), 2))
        places[:, : len(values)] = np.sqrt(values) * vectors[:, :-3:-1]
        # An axis could as well point the other way: its farthest place is above 0
        places *= np.sign(places[np.abs(places).argmax(0), range(2)])
        total = float(distances.sum()) / (2 * len(distances))
        share = float(values.sum()) / total if total else float("nan")
        return places, share

    def to_frame(self, nearest: int = 3, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, of all or of some, with its label, group and place.

        And the nearest heads, with divergence and standard error.
        """
        numbers = range(len(self.grid))
        neighbours = np.array([self.nearest(head, nearest) for head in numbers], dtype=int)
        columns: dict[str, Any] = {}
        for rank, of_rank in enumerate(neighbours.T, 1):
            columns[f"nearest_{rank}"] = [self.grid[neighbour].name for neighbour in of_rank]
            columns[f"divergence_{rank}"] = self.divergence[numbers, of_rank]
            columns[f"se_{rank}"] = self.se[numbers, of_rank]
        return self._frame(columns, heads)

    def to_matrix(self, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, of all or of some, with its label, group and place.

        And its divergence from every head.
        """
        columns = {head.name: self.divergence[:, n] for n, head in enumerate(self.grid)}
        return self._frame(columns, heads)

    def _frame(self, columns: dict[str, Any], heads: Heads | None) -> pd.DataFrame:
        """The columns that all tables share, these columns, and the signature."""
        group = np.zeros(len(self.grid), int)
        for number, members in enumerate(self.groups, 1):
            group[members] = number
        places, share = self.map
        about = {
            **self.grid.columns(),
            "label": self.labels.label.ravel(),
            "group": group,
            "x": places[:, 0],
            "y": places[:, 1],
            **columns,
            "label_stays": self.labels.label_stays.ravel(),
        }
        frame = signed_frame(
            about,
            self.signature,
            SIMILARITY_TABLE,
            queries=self.queries,
            within=self.within,
            map_share=share,
        )
        if heads is None:
            return frame
        return frame.iloc[[self.grid.index(head) for head in self.grid.select(heads)]]


@dataclass(frozen=True)
class Comparison:
    """Two models' heads by the same pairs: each of the first, a, beside one of the second, b."""

    model_labels: tuple[Labels, Labels]
    """What the heads of each model do, with their scores, each in its own places."""
    se: FloatArray
    """Of the difference of scores, paired and clustered by pair. Shape: [layer, head, pattern]."""
    matched: IntArray
    """The head of b that each head of a is compared with, by its place. Shape: [layer, head, 2]."""
    divergence: FloatArray
    """From the matched head, in nats; NaN with `match` "place". Shape: [layer, head]."""
    match: Match  # which heads belong together: those of one `place`, or the `nearest`
    signatures: tuple[Signature, Signature]  # where the two models' results come from
    least: float = MIN_DIFFERENCE
    """The least difference of scores that survives: one may be beyond chance, and tiny."""
    alike: str = ""
    """Which words are targets of `identical` in both models, as a sentence of the screen."""

    def __repr__(self) -> str:
        a, b = self.signatures
        return plain(f"Comparison of {a.model} and {b.model}")

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
        """One row for each pattern and head: both scores and labels, and their difference.

        `p` is by t over distinct pairs with an eligible query, or blocks or groups of these, and
        `fdr` its false discovery rate among all heads and patterns.
        """
        a, b = self.model_labels
        rows = self.matched[..., 0]
        heads = self.matched[..., 1]
        score_b = b.table.score[rows, heads]
        difference = score_b - a.table.score
        clusters = np.minimum(a.table.clusters, b.table.clusters[rows, heads])
        p = p_value(difference, self.se, clusters)
        rates = false_discovery_rates(p)
        is_large = np.abs(difference) >= self.least  # false for NaN, as the next
        columns = {
            **self.grid.columns(),
            "layer_b": np.array(b.grid.numbers)[rows],
            "head_b": heads,
            "score_a": a.table.score,
            "score_b": score_b,
            "difference": difference,
            "se": self.se,
            "n": a.table.n,
            "pairs": a.table.pairs,
            "label_a": a.label,
            "label_b": b.label[rows, heads],
            "divergence": self.divergence,
            "p": p,
            "fdr": rates,
            "label_a_stays": a.label_stays,
            "label_b_stays": b.label_stays[rows, heads],
            "survives": (rates <= FALSE_DISCOVERIES) & is_large,
        }
        table: dict[str, Any] = {
            "model_a": self.signatures[0].model,
            "model_b": self.signatures[1].model,
            "pattern": np.repeat(self.patterns, len(self.grid)),
        }
        for name, values in columns.items():
            cells = np.broadcast_to(values.reshape(*self.grid.shape, -1), p.shape)
            table[name] = np.moveaxis(cells, -1, 0).ravel()
        return pd.DataFrame(table)

    def of(self, pattern: str, heads: Heads | None = None, top: int | None = None) -> pd.DataFrame:
        """A pattern's rows by heads' numbers, of all or of `heads`.

        With `top`, so many with the greatest differences. Raises: OptionError for less than one.
        """
        check_top(top)
        rows = self.differences[self.differences["pattern"] == pattern].reset_index(drop=True)
        if heads is not None:
            rows = rows.loc[[self.grid.index(head) for head in self.grid.select(heads)]]
        if top is None:
            return rows
        sizes = rows["difference"].abs().dropna()
        return rows.loc[sizes.sort_values(ascending=False, kind="stable").index[:top]]

    @property
    def changed(self) -> dict[tuple[str, str], list[Head]]:
        """The heads whose label is another one, by both labels; most heads first."""
        changed: dict[tuple[str, str], list[Head]] = {}
        rows = self.of(self.patterns[0])
        for number, (a, b) in enumerate(zip(rows["label_a"], rows["label_b"], strict=True)):
            if a != b:
                changed.setdefault((a, b), []).append(self.grid[number])
        return dict(sorted(changed.items(), key=lambda entry: -len(entry[1])))

    def correlation(self, pattern: str) -> float:
        """Spearman's correlation between the two models' scores for a pattern, over heads.

        NaN where scores do not differ.
        """
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
        correlations: dict[str, float | None] = {}
        for name in patterns:
            correlation = self.correlation(name)
            correlations[name] = None if np.isnan(correlation) else correlation
        frame.attrs = {
            "schema": COMPARISON_TABLE.id,
            "signature_a": asdict(self.signatures[0]),
            "signature_b": asdict(self.signatures[1]),
            "match": self.match,
            "least": self.least,
            "alike": self.alike,
            "rank_correlation": correlations,
        }
        return frame
