"""Where every head's attention goes: the share of a word's attention on each class of keys."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnscan.results.behaviour import SPECIAL_CLASSES
from attnscan.results.grid import Grid, HeadLike, Heads
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature, described

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Profile:
    """The mean share of a word's attention on each class of keys, for every head.

    The shares of words sum to 1 among words; with special tokens in, all shares do. The classes `start`, `middle` and
    `end` are always shares of all attention. Shape: each array [layer, head, class]; NaN without such words.
    """

    classes: tuple[str, ...]  # words by class, then patterns of one's own, which overlap these, then special tokens
    share: FloatArray
    se: FloatArray  # the standard error of each share, clustered by pair; NaN of one input
    chance: FloatArray  # the share under even attention
    grid: Grid
    signature: Signature

    __repr__ = described

    @property
    def average(self) -> FloatArray:
        """The average head's share. Shape: [class]; NaN where no head has one."""
        known = (~np.isnan(self.share)).sum((0, 1))
        average: FloatArray = np.nansum(self.share, (0, 1)) / np.where(known, known, np.nan)
        return average

    def strongest(self, named: HeadLike, least: float = 0.0) -> list[tuple[str, float]]:
        """A head's classes with their shares of at least so much, largest first; special tokens are not among them."""
        shares = dict(zip(self.classes, self.share[self.grid.head(named).place].tolist(), strict=True))
        known = {name: share for name, share in shares.items() if name not in SPECIAL_CLASSES and share > 0}
        return sorted(((name, share) for name, share in known.items() if share >= least), key=lambda entry: -entry[1])

    def to_frame(self, heads: Heads | None = None, top: int | None = None) -> pd.DataFrame:
        """One row for each class of each head, of all or some; with `top`, so many of each head, largest first."""
        import pandas as pd

        parts = []
        for head in self.grid if heads is None else self.grid.select(heads):
            share, se, chance = (values[head.place] for values in (self.share, self.se, self.chance))
            about = {"model": self.signature.model, **head.columns, "name": head.table_name, "class": self.classes}
            rows = pd.DataFrame({**about, "share": share, "se": se, "chance": chance, "average": self.average})
            parts.append(rows if top is None else rows.sort_values("share", ascending=False, kind="stable")[:top])
        frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature)}
        return frame
