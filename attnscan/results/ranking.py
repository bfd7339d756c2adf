"""Many pairs: heads ranked for patterns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError
from attnscan.results.alignment import AlignmentErrors
from attnscan.results.behaviour import Labels, columns_of
from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.profile import Profile
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable
from attnscan.results.shown import lines, scored, shaped, tallied
from attnscan.results.signature import Reading, Signature

if TYPE_CHECKING:
    import pandas as pd

_MOST_PAIRS = 1e9  # what would take more is not said


@dataclass(frozen=True)
class Ranking:
    """Heads ranked for patterns, by many pairs."""

    scores: Scores
    """Over all pairs or, with `split`, over the half that heads are not ranked by."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""
    ranked_by: Scores | None = None
    """What heads are ranked by, where that is not `scores`: scores by the other half of the pairs."""
    labels: Labels | None = None
    """What every head does, and how sure that is, if that was asked for."""
    alignment: AlignmentErrors | None = None
    """Of cross attention, how well heads align words; None without gold links."""
    html: Callable[[Ranking], str] | None = field(default=None, repr=False, compare=False)
    """Writes what a notebook shows of it."""

    def __repr__(self) -> str:
        best = []
        for p, pattern in enumerate(self.scores.patterns):
            for number in self.order(pattern)[:1]:
                head = self.scores.grid[number]
                best.append(f"{pattern} {scored(head, float(self.table.score[(*head.place, p)]))}")
        labels = [] if self.labels is None else [f"labels: {tallied(self.label)}"]
        return lines(self, self.signature, self.scores.grid, *labels, f"best heads: {', '.join(best) or 'none'}")

    def _repr_html_(self) -> str | None:
        """What a notebook shows; without `html`, that is the plain text."""
        return self.html(self) if self.html else None

    @property
    def label(self) -> NDArray[np.str_]:
        """What each head does: `delimiter` if it rests on special tokens, else `among_words`.

        Shape: [layer, head]. Raises: OptionError if labels are not there.
        """
        return self.known_labels().label

    @property
    def among_words(self) -> NDArray[np.str_]:
        """The pattern that each head follows among words, else its habit, else nothing.

        Shape: [layer, head]. Raises: as `label`.
        """
        return self.known_labels().among_words

    @property
    def reading(self) -> Reading:
        """By what scores, labels and tables are."""
        return self.signature.reading

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.scores.table(self.reading.among_words)

    def known_labels(self) -> Labels:
        """The labels. Raises: OptionError if they are not there."""
        if self.labels is None:
            raise OptionError("this ranking has no labels", "score all patterns of pairs: leave out pattern")
        return self.labels

    @property
    def profile(self) -> Profile:
        """Where every head's attention goes. Raises: OptionError if labels are not there."""
        return Profile.of(self.known_labels(), self.signature)

    def order(self, pattern: str) -> IntArray:
        """The numbers of the heads that have a score on `pattern`, best first. Shape: [ranked head]."""
        p = self.scores.patterns.index(pattern)
        order = (self.ranked_by or self.scores).table(self.reading.among_words).ranked(p)
        return order[~np.isnan(self.table.score[..., p].ravel()[order])]

    def leads(self, pattern: str) -> Leads:
        """By how much the head of each rank is above the next, with errors of that difference's own."""
        order = self.order(pattern)
        table, p = self.table, self.scores.patterns.index(pattern)
        return Leads.of(table, p, order[:-1], order[1:])

    def close_to_best(self, pattern: str) -> list[Head]:
        """The heads that these pairs do not distinguish from the best, best first; none where leads have no error."""
        order = self.order(pattern)
        table, p = self.table, self.scores.patterns.index(pattern)
        leads = Leads.of(table, p, order[:1].repeat(len(order[1:])), order[1:])
        return [self.scores.grid[number] for number in order[1:][~leads.sure & ~np.isnan(leads.se)]]

    def pairs_to_tell(self, pattern: str) -> int | None:
        """About how many pairs would tell the best head from the next, if both score as they do on these.

        None where these pairs tell them already, or it is not known: below two pairs, or where the two score alike.
        """
        lead = self.leads(pattern)
        if not len(lead.se) or lead.sure[0] or not lead.difference[0] > 0 or not lead.se[0] > 0:
            return None
        table, p = self.table, self.scores.patterns.index(pattern)
        pairs, effective = table.pairs[..., p].max(), np.nanmax(table.effective_pairs[..., p])
        more = np.unique(np.concatenate([pairs + np.arange(1, 1_000), np.geomspace(pairs + 1, _MOST_PAIRS, 5_000)]))
        would = half_width(lead.se[0] * np.sqrt(pairs / more), more * effective / pairs) < lead.difference[0]
        return math.ceil(more[would][0]) if would.any() else None

    def to_frame(self, patterns: Sequence[str] | None = None, top: int | None = None) -> pd.DataFrame:
        """One row a head: what it does and how sure that is, its scores, entropy.

        With some `patterns` or `top`, or where there are no labels or heads are ranked by other pairs, one row for each
        head of each pattern, best first, then the heads without a score, which have no rank; with `top`, at most so
        many of the ranked heads of each pattern.
        """
        import pandas as pd

        if not patterns and top is None and self.labels is not None and self.ranked_by is None:
            frame = pd.DataFrame({"model": self.signature.model, **columns_of(self.labels, self.scores.patterns)})
            if self.alignment is not None:
                frame["alignment_error"] = self.alignment.overall.ravel()
        else:
            parts = [self._by_pattern(pattern, top) for pattern in patterns or self.scores.patterns]
            frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature), "split": self.ranked_by is not None}
        return frame

    def _by_pattern(self, pattern: str, top: int | None) -> pd.DataFrame:
        """A row for each head, best first, then those without a score; or for the `top` heads."""
        import pandas as pd

        table, order, p = self.table, self.order(pattern), self.scores.patterns.index(pattern)
        unranked = np.setdiff1d(np.arange(len(self.scores.grid)), order)
        shown = order[:top] if top else np.concatenate([order, unranked])
        index = pd.RangeIndex(len(shown))
        columns: dict[str, Any] = {"model": self.signature.model, "pattern": pattern}
        columns["rank"] = pd.Series(np.arange(1, len(order) + 1), dtype="Int64").reindex(index)
        columns |= self.scores.grid.columns(shown)
        columns["name"] = [self.scores.grid[number].table_name for number in shown]
        place = columns["layer"], columns["head"], p
        columns |= {name: getattr(table, name)[place] for name in ("score", "chance", "above_chance", "se")}
        columns |= {"low": table.interval[0][place], "high": table.interval[1][place]}
        columns |= {"n": table.n[place], "pairs": table.pairs[place]}
        return pd.DataFrame(columns, index=index)


@dataclass(frozen=True)
class Leads:
    """By how much some heads are above others. Shape: each [comparison]."""

    __repr__ = shaped

    difference: FloatArray
    """Of scores; NaN where one has none."""
    se: FloatArray
    """Its standard error, paired and clustered by pair; NaN below two pairs, or where it was not kept."""
    sure: NDArray[np.bool_]
    """Whether the difference is farther from 0 than half its 95 % interval is wide, by t over effective pairs."""

    @classmethod
    def of(cls, table: ScoreTable, pattern: int, heads: IntArray, others: IntArray) -> Leads:
        """Of some heads above as many others, by their numbers."""
        score, effective = table.score[..., pattern].ravel(), table.effective_pairs[..., pattern].ravel()
        difference: FloatArray = score[heads] - score[others]
        se = table.se_between(pattern, heads, others)
        width = half_width(se, np.minimum(effective[heads], effective[others]))
        return cls(difference, se, difference > width)
