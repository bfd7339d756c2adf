"""Many pairs: heads ranked for patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from attnscan.results.scores import IntArray, Scores
from attnscan.results.signature import Signature

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Ranking:
    """Heads ranked for patterns, by many pairs."""

    scores: Scores
    signature: Signature
    html: Callable[[Ranking], str] | None = field(default=None, repr=False, compare=False)
    """Writes what a notebook shows of it."""

    def _repr_html_(self) -> str | None:
        """What a notebook shows; without `html`, that is the plain text."""
        return self.html(self) if self.html else None

    def order(self, pattern: str, *, without_delimiters: bool = False) -> IntArray:
        """All heads, best first by score on `pattern`. Shape: [layer x head], heads counted layer by layer."""
        return self.scores.table(without_delimiters).ranked(self.scores.patterns.index(pattern))

    def to_frame(
        self, patterns: Sequence[str] | None = None, top: int | None = None, *, without_delimiters: bool = False
    ) -> pd.DataFrame:
        """One row for each head of each pattern, ranked; at most `top` heads a pattern."""
        import pandas as pd

        table, heads = self.scores.table(without_delimiters), self.scores.grid[1]
        parts = []
        for pattern in patterns or self.scores.patterns:
            order = self.order(pattern, without_delimiters=without_delimiters)[:top]
            p = self.scores.patterns.index(pattern)
            layer, head = np.divmod(order, heads)
            columns = {"model": self.signature.model, "pattern": pattern, "rank": np.arange(1, len(order) + 1)}
            columns |= {"layer": layer, "head": head}
            for name in ("score", "chance", "above_chance", "se", "n", "pairs"):
                columns[name] = getattr(table, name)[layer, head, p]
            parts.append(pd.DataFrame(columns))
        frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature)}
        return frame
