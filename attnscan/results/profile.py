"""What a head does in full: its attention as a sum of simple parts, their shares, and what all of them explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from attnscan.results.grid import AttentionKind, Grid, Head, HeadLike, Heads
from attnscan.results.intervals import half_width
from attnscan.results.scores import FloatArray
from attnscan.results.shown import lines, shaped
from attnscan.results.signature import Signature

if TYPE_CHECKING:
    import pandas as pd

FARTHEST = 8
BLOCKS = 32
"""Of pairs, at most, that are left out in turn for the standard errors: each takes a fit of all heads."""
OFFSETS = tuple(range(-FARTHEST, FARTHEST + 1))
"""Distances in words of the own sentence that are parts; 0 is the word itself."""


def parts_of(others: Sequence[str] = ()) -> tuple[str, ...]:
    """All parts by name, in the order of every table; `others` are `predictive` and patterns of one's own.

    >>> parts_of()[6:11], parts_of(["subject-verb"])[-8:]
    (('offset-2', 'offset-1', 'offset+0', 'offset+1', 'offset+2'), \
('subject-verb', 'start', 'middle', 'end', 'punctuation', 'own-sentence', 'other-sentence', 'same-keys'))
    """
    distances = (f"offset{offset:+}" for offset in OFFSETS)
    kinds = ("start", "middle", "end", "punctuation", "own-sentence", "other-sentence", "same-keys")
    return (*distances, "identical", "cross-sentence", *others, *kinds)


def joint_name(parts: Sequence[str]) -> str:
    """The name of parts that are added up; of neighbouring distances, from the nearest to the farthest.

    >>> joint_name(["offset-1"]), joint_name(["offset+2", "offset+3", "offset+4"]), joint_name(["start", "end"])
    ('offset-1', 'offset+2..+4', 'start + end')
    """
    if len(parts) > 1 and offset_of(parts[0]) is not None:
        return f"{parts[0]}..{offset_of(parts[-1]):+}"
    return " + ".join(parts)


def offset_of(part: str) -> int | None:
    """The distance that a part is; None if it is none.

    >>> offset_of("offset-3"), offset_of("start")
    (-3, None)
    """
    digits = part.removeprefix("offset")
    return int(digits) if digits != part and digits[1:].isdigit() else None


def together(share: Mapping[str, float]) -> list[list[str]]:
    """Parts that are named together, by their shares: largest first, those without any left out.

    Neighbouring distances of one side are together where none has less than half of the largest one's share.
    """
    groups = [[part] for part in share if not offset_of(part)]
    for side in "-+":
        left = {f"offset{side}{distance}" for distance in range(1, FARTHEST + 1)}
        while left:
            largest = max(left, key=lambda part: (share[part], -abs(offset_of(part) or 0)))
            near = far = abs(offset_of(largest) or 0)
            alike = {part for part in left if share[part] >= share[largest] / 2}
            while f"offset{side}{near - 1}" in alike:
                near -= 1
            while f"offset{side}{far + 1}" in alike:
                far += 1
            groups.append([f"offset{side}{distance}" for distance in range(near, far + 1)])
            left -= set(groups[-1])
    totals = [(sum(share[part] for part in parts), parts) for parts in groups]
    return [parts for total, parts in sorted(totals, key=lambda entry: -entry[0]) if total > 0]


FAMILIES = {
    joint_name(parts): parts
    for parts in (
        tuple(f"offset-{distance}" for distance in range(1, FARTHEST + 1)),
        ("offset+0",),
        tuple(f"offset+{distance}" for distance in range(1, FARTHEST + 1)),
        ("identical", "cross-sentence"),
        ("start", "middle", "end"),
        ("punctuation",),
        ("own-sentence",),
        ("other-sentence",),
        ("same-keys",),
    )
}
"""Parts that a summary adds up, by the name of all of them; parts of one's own are the last one, `OTHERS`."""
OTHERS = "others"
_LEAST_SHOWN = 0.005


@dataclass(frozen=True)
class Fit:
    """Heads' attention, fitted by parts."""

    __repr__ = shaped

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
    by_even: FloatArray
    """What even attention over all keys that a word may see would explain alone, which has no part of its own. Shape:
    [layer, head]."""

    def placed(self, head: Head, grid: Grid) -> Fit:
        """The fit of a single head at its place in a model; all other heads' numbers are NaN."""

        def at(values: FloatArray) -> FloatArray:
            whole = np.full((*grid.shape, *values.shape[2:]), np.nan)
            whole[head.place] = values[0, 0]
            return whole

        own = {name: at(values) for name, values in vars(self).items() if name != "existing"}
        return Fit(**own, existing=np.repeat(self.existing, grid.shape[0], 0))


@dataclass(frozen=True)
class Profile:
    """Every head's profile."""

    parts: tuple[str, ...]
    """What attention is fitted by, in the order of every table."""
    fit: Fit
    """Shares, their errors, and how much is explained."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""
    kind: AttentionKind = AttentionKind.ONLY
    """Of which attention heads are."""

    def __repr__(self) -> str:
        means = zip((*FAMILIES, OTHERS), self.by_family().mean((0, 1)).tolist(), strict=True)
        spent = ", ".join(f"{family} {mean:.2f}" for family, mean in means if mean >= _LEAST_SHOWN)
        explained, even = (float(np.nanmean(values)) for values in (self.fit.explained, self.fit.by_even))
        told = f"{len(self.parts)} parts explain {explained:.2f} of the weights, even attention alone {even:.2f}"
        return lines(self, self.signature, self.grid, f"on average a word's attention is {spent}", told)

    @property
    def grid(self) -> Grid:
        """The model's heads."""
        return Grid.of(self.fit.explained, self.kind)

    @cached_property
    def interval(self) -> FloatArray:
        """Half the width of every share's 95 % interval, by t over blocks of pairs; NaN below two. Shape: as shares."""
        return half_width(self.fit.se, min(self.signature.pairs_read, BLOCKS))

    def strongest(self, named: HeadLike) -> list[tuple[str, float]]:
        """A head's parts with their shares, largest first, neighbouring distances `together`."""
        share = self.shares(named)
        return [(joint_name(parts), sum(share[part] for part in parts)) for parts in together(share)]

    def shares(self, named: HeadLike) -> dict[str, float]:
        """A head's share of each part; 0 for one that no word had."""
        share = np.nan_to_num(self.fit.share[self.grid.head(named).place]).tolist()
        return dict(zip(self.parts, share, strict=True))

    def by_family(self) -> FloatArray:
        """What each head spends on each of the `FAMILIES`, then on others. Shape: [layer, head, family]."""
        families = [np.isin(self.parts, parts) for parts in FAMILIES.values()]
        families.append(~np.any(families, axis=0))
        return np.stack([np.nan_to_num(self.fit.share[..., parts]).sum(-1) for parts in families], -1)

    def to_frame(self, heads: Heads | None = None, top: int | None = None) -> pd.DataFrame:
        """One row for each part of each head, of all heads or of some: its share, the share's error, what is explained,
        and what even attention alone would explain.

        With `top`, so many parts of each head, largest first. A part that no word of the layer had is left out.
        Raises: SelectionError for heads that the model has not got.
        """
        import pandas as pd

        rows = []
        for head in self.grid if heads is None else self.grid.select(heads):
            share, se = self.fit.share[head.place], self.fit.se[head.place]
            explained = self.fit.explained[head.place], self.fit.by_even[head.place]
            there = np.flatnonzero(self.fit.existing[head.layer] > 0)
            if top is not None:
                there = there[np.argsort(-share[there], kind="stable")][:top]
            about = (self.signature.model, head.kind.word, *head.place)
            rows += [(*about, self.parts[p], share[p], se[p], *explained) for p in there]
        frame = pd.DataFrame(
            rows, columns=["model", "kind", "layer", "head", "part", "share", "se", "explained", "explained_by_even"]
        )
        if self.kind is AttentionKind.ONLY:
            frame = frame.drop(columns="kind")
        frame.attrs = {"signature": asdict(self.signature)}
        return frame
