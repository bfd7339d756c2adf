"""Which heads are alike: divergences between all of them, the nearest of each, groups, and a map of two dimensions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import needs
from attnscan.results.behaviour import Labels
from attnscan.results.grid import Head, Heads
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.shown import lines
from attnscan.results.signature import Signature
from attnscan.results.terms import WITHIN

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Similarity:
    """How far apart all heads of a model are."""

    divergence: FloatArray
    """Mean Jensen-Shannon divergence in nats, in [0, ln 2]. Shape: [head, head]."""
    se: FloatArray
    """Its standard error, clustered by pair. Shape: [head, head]."""
    labels: Labels
    """What heads are called, by the same pairs."""
    queries: int
    """Words whose attention was compared."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""
    within: float = WITHIN
    """How far apart a group's heads may be on average, in nats."""

    @property
    def scores(self) -> Scores:
        """Of the same pairs."""
        return self.labels.scores

    def __repr__(self) -> str:
        near = [
            f"{self.heads[head].name} and {self.heads[other].name} ({self.divergence[head, other]:.3f})"
            for head, other in self.closest(4)
        ]
        return lines(self, self.signature, self.scores.grid, f"most alike, by divergence in nats: {', '.join(near)}")

    @cached_property
    def heads(self) -> list[Head]:
        """All of them, in order."""
        return list(self.scores.grid)

    @property
    def label(self) -> NDArray[np.str_]:
        """What each head does, as `heads` labels it. Shape: [head]."""
        return self.labels.label.ravel()

    def nearest(self, head: int, count: int) -> list[int]:
        """The heads that are most like a head, nearest first; all by their numbers."""
        order = np.argsort(self.divergence[head], kind="stable")
        return [int(other) for other in order if other != head][:count]

    def closest(self, count: int) -> list[tuple[int, int]]:
        """The pairs of heads that are most alike, nearest first."""
        pairs = np.transpose(np.triu_indices(len(self.divergence), 1))
        order = np.argsort(self.divergence[tuple(pairs.T)], kind="stable")[:count]
        return [(int(head), int(other)) for head, other in pairs[order]]

    @cached_property
    def groups(self) -> list[list[int]]:
        """Heads that are alike, largest group first; a head that is like no other stands alone."""
        return sorted(grouped(self.divergence, self.within), key=lambda group: (-len(group), group))

    @cached_property
    def map(self) -> FloatArray:
        """A place for each head, so that near ones are alike. Shape: [head, 2]."""
        return placed(self.divergence)[0]

    @property
    def map_share(self) -> float:
        """How much of all squared distances the map shows, in [0, 1]."""
        return placed(self.divergence)[1]

    def to_frame(self, nearest: int = 3, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, or one for each of `heads`: label, group, place, nearest heads with divergence and error."""
        frame, numbers = self._about_heads(), range(len(self.heads))
        for rank, others in enumerate(zip(*(self.nearest(head, nearest) for head in numbers), strict=True), 1):
            frame[f"nearest_{rank}"] = [self.heads[other].name for other in others]
            frame[f"divergence_{rank}"] = self.divergence[numbers, others]
            frame[f"se_{rank}"] = self.se[numbers, others]
        return self._chosen(frame, heads)

    def to_matrix(self, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, or one for each of `heads`: label, group, place, and its divergence from every head."""
        import pandas as pd

        matrix = pd.DataFrame(self.divergence, columns=[head.name for head in self.heads])
        return self._chosen(self._about_heads().join(matrix), heads)

    def _about_heads(self) -> pd.DataFrame:
        import pandas as pd

        group = np.zeros(len(self.heads), dtype=int)
        for number, members in enumerate(self.groups, 1):
            group[members] = number
        columns = {"model": self.signature.model, **self.scores.grid.columns(), "label": self.label, "group": group}
        return pd.DataFrame({**columns, "x": self.map[:, 0], "y": self.map[:, 1]})

    def _chosen(self, frame: pd.DataFrame, heads: Heads | None) -> pd.DataFrame:
        """The rows of some heads, and where they come from."""
        frame["label_stays"] = np.nan if self.labels.stays is None else self.labels.stays.ravel()
        frame.attrs = {"signature": asdict(self.signature), "queries": self.queries, "within": self.within}
        frame.attrs["map_share"] = self.map_share
        grid = self.scores.grid
        return frame if heads is None else frame.iloc[[grid.index(head) for head in grid.select(heads)]]


def check_heads_can_be_grouped() -> None:
    """Raises: OutputError at once, not after the work, if there is nothing to group and place heads with."""
    with needs("grouping heads needs scikit-learn", "plot"):
        import sklearn  # noqa: F401


def grouped(divergence: FloatArray, within: float) -> list[list[int]]:
    """Groups by average linkage: the two that are nearest on average are joined, while that is below `within`.

    >>> grouped(np.array([[0, 0.01, 0.5], [0.01, 0, 0.5], [0.5, 0.5, 0]]), 0.1)
    [[0, 1], [2]]

    Shape: [head, head], symmetric.
    """
    from sklearn.cluster import AgglomerativeClustering

    if len(divergence) < 2:
        return [[0]]
    method = AgglomerativeClustering(None, metric="precomputed", linkage="average", distance_threshold=within)
    group = method.fit_predict(divergence)
    return [np.flatnonzero(group == number).tolist() for number in dict.fromkeys(group)]


def placed(divergence: FloatArray) -> tuple[FloatArray, float]:
    """Places in two dimensions by classical scaling, and the share of all squared distances that they show.

    A mean of Jensen-Shannon divergences is a squared distance in a Hilbert space (Fuglede and Topsøe 2004), so
    classical scaling gives principal components, exactly. Shape: [head, head] -> [head, 2].
    """
    from sklearn.manifold import ClassicalMDS

    count = len(divergence)
    total = float(divergence.sum()) / (2 * count)
    if count < 2 or total == 0:
        return np.zeros((count, 2)), float("nan")
    method = ClassicalMDS(n_components=2, metric="precomputed")
    places: FloatArray = method.fit_transform(np.sqrt(divergence))
    return np.nan_to_num(places), float(method.eigenvalues_.clip(0).sum() / total)
