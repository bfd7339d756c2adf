"""What a head does in full: its attention as a sum of simple parts, their shares, and what stays unexplained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from attnscan.results.heads import Head
from attnscan.results.intervals import half_width
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature

if TYPE_CHECKING:
    import pandas as pd

FARTHEST = 8
BLOCKS = 32
"""Into how many the pairs fall, so that standard errors can be had by leaving out each."""
OFFSETS = tuple(range(-FARTHEST, FARTHEST + 1))
"""Distances in words of the own sentence that are parts; 0 is the word itself."""


def parts_of(others: Sequence[str] = ()) -> tuple[str, ...]:
    """All parts by name, in the order of every table; `others` are `predictive` and patterns of one's own.

    >>> parts_of()[6:11], parts_of(["subject-verb"])[-7:]
    (('offset-2', 'offset-1', 'offset+0', 'offset+1', 'offset+2'), \
('subject-verb', 'start', 'middle', 'end', 'punctuation', 'own-sentence', 'other-sentence'))
    """
    distances = (f"offset{offset:+}" for offset in OFFSETS)
    kinds = ("start", "middle", "end", "punctuation", "own-sentence", "other-sentence")
    return (*distances, "identical", "cross-sentence", *others, *kinds)


@dataclass(frozen=True)
class Fit:
    """Heads' attention, fitted by parts."""

    share: FloatArray
    """How much of a word's attention the part takes, on average over words. Shape: [layer, head, part]; NaN where no
    word has such a part."""
    se: FloatArray
    """Its standard error, by the jackknife over blocks of pairs; NaN below two blocks. Shape: the same."""
    explained: FloatArray
    """1 - Σ(a - fit)² / Σa² over all weights a of words: 1 if the parts make the weights exactly. Shape: [layer, head].
    """
    explained_se: FloatArray
    """Its standard error."""
    existing: FloatArray
    """For what share of words there is such a part. Shape: [layer, part]."""


@dataclass(frozen=True)
class Profile:
    """Every head's profile."""

    parts: tuple[str, ...]
    fit: Fit
    signature: Signature

    @property
    def grid(self) -> tuple[int, int]:
        """Layers and heads."""
        layers, heads = self.fit.explained.shape
        return layers, heads

    @cached_property
    def interval(self) -> FloatArray:
        """Half the width of every share's 95 % interval, by t over blocks of pairs; NaN below two. Shape: as shares."""
        return half_width(self.fit.se, min(self.signature.pairs_read, BLOCKS))

    def strongest(self, head: Head) -> Iterator[tuple[str, float]]:
        """A head's parts with their shares, largest first, those without any left out."""
        share = np.nan_to_num(self.fit.share[head])
        for part in np.argsort(-share, kind="stable"):
            if share[part] > 0:
                yield self.parts[part], float(share[part])

    def to_frame(self, heads: Sequence[Head] | None = None) -> pd.DataFrame:
        """One row for each part of each head, of all heads or of some: its share, the share's error, what is explained.

        A part that no word of the layer had is left out.
        """
        import pandas as pd

        layers, width = self.grid
        places = [divmod(flat, width) for flat in range(layers * width)] if heads is None else heads
        rows = [
            (
                self.signature.model,
                *head,
                part,
                self.fit.share[*head, p],
                self.fit.se[*head, p],
                self.fit.explained[head],
            )
            for head in places
            for p, part in enumerate(self.parts)
            if self.fit.existing[head[0], p] > 0
        ]
        frame = pd.DataFrame(rows, columns=["model", "layer", "head", "part", "share", "se", "explained"])
        frame.attrs = {"signature": asdict(self.signature)}
        return frame
