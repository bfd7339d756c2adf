"""Many pairs: heads ranked for patterns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError
from attnscan.results.alignment import AlignmentErrors
from attnscan.results.behaviour import Behaviours, Labels, Statements, shares, table_columns
from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.profile import Profile
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable
from attnscan.results.shown import lines, scored, shaped, tallied
from attnscan.results.signature import BEHAVIOUR, By, Reading, Signature, Special

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
    profile: Profile | None = None
    """What every head does in full, if that was asked for."""
    labels: Labels | None = None
    """What every head is called, and how sure that is, if that was asked for: by weight or by what it carries, as
    `scores` is."""
    carried: Labels | None = None
    """What every head is called by what it carries; None where that was not measured."""
    statements: Statements | None = None
    """What every head does beside the average head, with labels: by the reading `behaviour`."""
    behaviour: Reading = BEHAVIOUR
    """By what is told what a head does."""
    alignment: AlignmentErrors | None = None
    """Of cross attention, how well heads align words; None without gold links."""
    html: Callable[[Ranking], str] | None = field(default=None, repr=False, compare=False)
    """Writes what a notebook shows of it."""

    def __repr__(self) -> str:
        best = []
        for p, pattern in enumerate(self.scores.patterns):
            for number in self.order(pattern)[:1]:
                head = self.scores.grid[number]
                best.append(f"{pattern} {scored(head, float(self.scores.every_key.score[(*head.place, p)]))}")
        labels = [] if self.labels is None else [f"labels: {tallied(self.mapped.label)}"]
        return lines(self, self.signature, self.scores.grid, *labels, f"best heads: {', '.join(best) or 'none'}")

    def _repr_html_(self) -> str | None:
        """What a notebook shows; without `html`, that is the plain text."""
        return self.html(self) if self.html else None

    @property
    def label(self) -> NDArray[np.str_]:
        """The pattern that each head follows. Shape: [layer, head]. Raises: OptionError if labels are not there."""
        return self.known_labels().called(self.reading.special)

    @property
    def runner_up(self) -> NDArray[np.str_]:
        """The second one. Shape: [layer, head]. Raises: OptionError if labels are not there."""
        return self.known_labels().called(self.reading.special, 1)

    @property
    def content_label(self) -> NDArray[np.str_]:
        """What each head does when it does not attend to special tokens. Shape and Raises: as `label`."""
        return self.known_labels().content_label

    @property
    def carried_label(self) -> NDArray[np.str_]:
        """Each head's label by what it carries. Shape: [layer, head]. Raises: OptionError if that is not there."""
        return self.with_reading("carried").label

    @property
    def map_label(self) -> NDArray[np.str_]:
        """What maps of all heads show: the label by the reading `behaviour`. Shape and Raises: as `label`."""
        return self.mapped.called(self.behaviour.special)

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

    def with_reading(self, by: By | None = None, special: Special | None = None) -> Ranking:
        """Turn scores, labels and tables to another reading; what is None stays as it is.

        By what heads carry, if that was counted beside their weights, there is no profile, nor a half to rank by.
        Raises: OptionError for a reading that is not there.
        """
        signature = replace(self.signature, by=by or self.reading.by, special=special or self.reading.special)
        if signature.by == self.reading.by:
            return replace(self, signature=signature)
        if self.carried is None or self.reading.carried:
            raise OptionError(f"this ranking has no scores by={signature.by!r}", f"ask for them: heads(..., by={by!r})")
        return replace(
            self, scores=self.carried.scores, labels=self.carried, signature=signature, ranked_by=None, profile=None
        )

    def known_profile(self) -> Profile:
        """The profile. Raises: OptionError if it is not there."""
        if self.profile is None:
            raise OptionError("this ranking has no profile", "ask for it: heads(..., profile=True)")
        return self.profile

    @property
    def mapped(self) -> Labels:
        """Labels by what maps of all heads show: by what heads carry, if that was measured and `behaviour` is of it.

        Raises: OptionError if there are none.
        """
        return self.carried if self.carried is not None and self.behaviour.carried else self.known_labels()

    @property
    def behaviours(self) -> Behaviours:
        """What every head does by the reading `behaviour`: its label or its statement.

        Raises: OptionError if labels are not there.
        """
        return Behaviours(self.mapped, self.statements, not self.behaviour.among_words)

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
        """One row a head: labels and how sure they are, every score and its chance, what the head does.

        With some `patterns` or `top`, or where there are no labels or heads are ranked by other pairs, one row for each
        head of each pattern, best first, then the heads without a score, which have no rank; with `top`, at most so
        many of the ranked heads of each pattern.
        """
        import pandas as pd

        if not patterns and top is None and self.labels is not None and self.ranked_by is None:
            return self._by_head()
        table, parts = self.table, []
        for pattern in patterns or self.scores.patterns:
            order, leads = self.order(pattern), self.leads(pattern)
            p = self.scores.patterns.index(pattern)
            unranked = np.setdiff1d(np.arange(len(self.scores.grid)), order)
            shown = order[:top] if top else np.concatenate([order, unranked])
            index = pd.RangeIndex(len(shown))
            columns: dict[str, Any] = {"model": self.signature.model, "pattern": pattern}
            columns["rank"] = pd.Series(np.arange(1, len(order) + 1), dtype="Int64").reindex(index)
            columns |= self.scores.grid.columns(shown)
            layer, head = columns["layer"], columns["head"]
            for name in ("score", "chance", "above_chance", "se", "n", "pairs"):
                columns[name] = getattr(table, name)[layer, head, p]
            columns |= {"low": table.interval[0][layer, head, p], "high": table.interval[1][layer, head, p]}
            columns |= {
                "lead": pd.Series(leads.difference).reindex(index),
                "lead_se": pd.Series(leads.se).reindex(index),
            }
            columns["self"] = table.itself[layer, head, p]
            parts.append(pd.DataFrame(columns, index=index))
        frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature), "split": self.ranked_by is not None}
        return frame

    def _by_head(self) -> pd.DataFrame:
        """The labels, and behind them every score and what it would be by chance."""
        frame, after = self.to_labels(), "map_label"
        for kind, values in (("", self.table.score), ("_chance", self.table.chance)):
            for p, pattern in enumerate(self.scores.patterns):
                own = np.broadcast_to(values, self.table.score.shape)[..., p].ravel()
                frame.insert(list(frame.columns).index(after) + 1, after := f"{pattern}{kind}", own)
        return frame

    def to_labels(self) -> pd.DataFrame:
        """One row a head: its labels, how far the first is above chance and above the next, how sure each is.

        Columns that end in `_agree` are shares of pairs, those in `_stays` of bootstrap resamples of pairs.
        Raises: OptionError if labels are not there.
        """
        import pandas as pd

        own, carried, special = self.known_labels(), self.carried, self.reading.special
        kind = own.kind(special)
        told: dict[str, tuple[Labels | None, str]] = {"label": (own, kind), "content_label": (own, "content_label")}
        told |= {"carried_label": (carried, kind), "map_label": (self.mapped, own.kind(self.behaviour.special))}
        columns: dict[str, Any] = {"model": self.signature.model, **self.scores.grid.columns()}
        columns |= {"label": self.label.ravel(), "runner_up": self.runner_up.ravel()}
        columns["content_label"] = own.content_label.ravel()
        unknown = np.full(self.scores.grid.shape, np.nan)
        columns["carried_label"] = (unknown if carried is None else self.carried_label).ravel()
        columns["map_label"] = self.map_label.ravel()
        race = own.race(special)
        columns |= {"above_chance": race.best.ravel(), "margin": race.margin.ravel()}
        for kind, measure in (("agree", "agreement"), ("stays", "stability")):
            for name, (labels, kind_of_label) in told.items():
                known = None if labels is None else getattr(labels, measure)
                columns[f"{name}_{kind}"] = (unknown if known is None else getattr(known, kind_of_label)).ravel()
        if self.alignment is not None:
            errors = self.alignment.overall if self.ranked_by is None else self.alignment.halves[1]
            columns["alignment_error"] = errors.ravel()
        of_statements = table_columns(self.statements, self.scores.grid)
        columns |= {name: values.ravel() for name, values in of_statements.items()}
        frame = pd.DataFrame(columns).astype({"statement_rank": "Int64"})
        frame.attrs = {
            "signature": asdict(self.signature),
            "shares": shares({**told, "runner_up": (own, own.kind(special, 1))}),
        }
        return frame


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
        between = table.se_between
        se: FloatArray = np.full(heads.shape, np.nan) if between is None else between[pattern, heads, others]
        width = half_width(se, np.minimum(effective[heads], effective[others]))
        return cls(difference, se, difference > width)
