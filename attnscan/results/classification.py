"""One input: the scores and labels of every head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, WeightsError
from attnscan.results.behaviour import Behaviours
from attnscan.results.labels import Labels, Stability, shares
from attnscan.results.profile import Fit, Profile
from attnscan.results.scores import FloatArray, IntArray, Scores, best_first
from attnscan.results.shown import counted, lines, shaped
from attnscan.results.signature import Signature
from attnscan.results.statement import Statements, table_columns
from attnscan.results.terms import MOST_PROFILED, THRESHOLD

if TYPE_CHECKING:
    import pandas as pd

    from attnscan.results.attention import Attention


@dataclass(frozen=True)
class Carried:
    """What every head carries on one input, in place of where it looks."""

    __repr__ = shaped

    scores: Scores
    """With what is carried in place of weights."""
    output: FloatArray
    """The mean length of what each head puts out for a word, as a share of its layer's heads' together; 1/heads is an
    equal part. Shape: [layer, head]; NaN where a whole layer puts out nothing."""
    stability: Stability | None = field(default=None, repr=False)
    """How sure the labels are by what is carried."""
    fit: Callable[[], Fit] | None = field(default=None, repr=False, compare=False)
    """Fits every head's profile by what it carries."""
    stated: Callable[[], Statements] | None = field(default=None, repr=False, compare=False)
    """States what every head does beside the average head, by what is carried among words."""


@dataclass(frozen=True)
class Classification:
    """What every head does on one input."""

    units: tuple[str, ...]
    """The tokens, or the words, that were scored."""
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, -1 for a special token, -2 for padding."""
    by_weight: Scores
    """Of attention weights as they are."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Patterns that were not looked for and why, as against those that no word of the input was eligible for."""
    notes: tuple[str, ...] = ()
    """What else to know of how the scores were had, a line each."""
    related: tuple[tuple[int, int], ...] = ()
    """Units that counted as related and are not identical, by their places, the earlier one first."""
    threshold: float = THRESHOLD
    """How far above chance a label's pattern must be."""
    carried: Carried | None = field(default=None, repr=False)
    """Scores and labels of what heads carry; None if that could not be measured."""
    stability_by_weight: Stability | None = field(default=None, repr=False)
    """How sure the labels are by weight, if that was measured."""
    parts: tuple[str, ...] = ()
    """What profiles are made of."""
    fit_by_weight: Callable[[], Fit] | None = field(default=None, repr=False, compare=False)
    """Fits every head's profile by its weights."""
    stated_by_weight: Callable[[], Statements] | None = field(default=None, repr=False, compare=False)
    """States what every head does beside the average head, by weights among words."""
    attention: Attention | None = field(default=None, repr=False, compare=False)
    """The input's weights, queries and keys, if they were kept: what a notebook draws them from."""
    pattern: tuple[str, ...] = ()
    """The patterns that were asked for, which tables show; none for all."""
    html: Callable[[Classification], str] | None = field(default=None, repr=False, compare=False)
    """Writes what a notebook shows of it."""

    @property
    def scores(self) -> Scores:
        """What labels and tables are of: weights or, if the signature says `norm`, what is carried."""
        if self.carried is None or not self.signature.norm:
            return self.by_weight
        return self.carried.scores

    @cached_property
    def labels(self) -> Labels:
        """What every head is called, by weight or by what it carries as `scores` are, and how sure that is."""
        by_norm = self.carried is not None and self.signature.norm
        stability = self.carried.stability if self.carried is not None and by_norm else self.stability_by_weight
        return Labels(self.scores, self.signature.norm, self.threshold, stability)

    def known_profile(self) -> Profile:
        """The profile. Raises: WeightsError if there are too many heads for it."""
        if (profile := self.profile) is None:
            raise WeightsError("so many heads are too many to be profiled", f"give {MOST_PROFILED} at most")
        return profile

    @cached_property
    def profile(self) -> Profile | None:
        """What every head does in full on this input, without errors; None of models with too many heads.

        It is fitted when it is first asked for.
        """
        by_norm = self.carried is not None and self.signature.norm
        fit = self.carried.fit if self.carried is not None and by_norm else self.fit_by_weight
        return None if fit is None else Profile(self.parts, fit(), self.signature)

    @cached_property
    def statements(self) -> Statements | None:
        """What every head does beside the average head: by what is carried among words, where that was measured.

        Worked out when it is first asked for; None of models with too many heads.
        """
        states = self.stated_by_weight if self.carried is None else self.carried.stated
        return None if states is None else states()

    @cached_property
    def behaviours(self) -> Behaviours:
        """What every head does: its label by what it carries among words, where that was measured, or its statement."""
        return Behaviours(self.mapped.labels, self.statements)

    @property
    def label(self) -> NDArray[np.str_]:
        """The pattern that each head follows. Shape: [layer, head]."""
        return self.labels.label

    @property
    def runner_up(self) -> NDArray[np.str_]:
        """The second one. Shape: [layer, head]."""
        return self.labels.runner_up

    @property
    def content_label(self) -> NDArray[np.str_]:
        """What each head does when it does not attend to special tokens. Shape: [layer, head]."""
        return self.labels.content_label

    @property
    def parking(self) -> FloatArray:
        """How much each head rests on delimiters, in [0, 1]; 0 where the input has none. Shape: [layer, head]."""
        return self.labels.parking

    @cached_property
    def carried_label(self) -> NDArray[np.str_]:
        """Each head's label by what it carries. Shape: [layer, head]. Raises: OptionError if that is not there."""
        return self.with_norm(True).label

    def with_norm(self, norm: bool) -> Classification:
        """Turn the result to what heads carry, or to their weights: labels and tables are then of that.

        Raises: OptionError if what heads carry is not there.
        """
        if norm == self.signature.norm:
            return self
        if self.carried is None:
            raise OptionError("what heads carry is not in this result", "leave out norm")
        return replace(self, signature=replace(self.signature, norm=norm))

    @property
    def mapped(self) -> Classification:
        """What maps of all heads show: this result by what heads carry, if that was measured."""
        return self if self.carried is None else self.with_norm(True)

    @property
    def shown_attention(self) -> Attention:
        """The kept attention, with what heads carry in place of weights if labels and tables are of that.

        Raises: OptionError if it was not kept.
        """
        return self.kept_attention().carried if self.signature.norm else self.kept_attention()

    def kept_attention(self) -> Attention:
        """The attention. Raises: OptionError if it was not kept."""
        if self.attention is None:
            raise OptionError("this result has not kept its attention", "keep it: classify(..., keep_attention=True)")
        return self.attention

    def __repr__(self) -> str:
        by = "by attention weight" if self.carried is None else "by what heads carry"
        labels = f"labels {by}: {counted(self.mapped.label)}"
        return lines(self, self.signature, self.scores.grid, " ".join(self.units), labels)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; without `html`, that is the plain text."""
        return self.html(self) if self.html else None

    def ranking(self, pattern: str | None = None, *, without_delimiters: bool = False) -> IntArray:
        """The heads that have a score, best first: on `pattern`, or without one by how far their best is above chance.

        Shape: [ranked head], heads counted layer by layer.
        """
        table = self.scores.table(without_delimiters)
        if pattern is not None:
            return table.ranked(self.scores.patterns.index(pattern))
        return best_first(np.fmax.reduce(table.above_chance, axis=-1))

    def to_frame(
        self, patterns: Sequence[str] | None = None, *, without_delimiters: bool = False, statements: bool = True
    ) -> pd.DataFrame:
        """One row a head: names, labels, scores of `patterns` (or those asked for), entropy, how sure labels are.

        With `statements`, what each head does beside the average head, too, which takes a moment to work out.
        """
        import pandas as pd

        table = self.scores.table(without_delimiters)
        columns: dict[str, Any] = {"model": self.signature.model, **self.scores.grid.columns()}
        columns |= {name: getattr(self, name).ravel() for name in ("label", "runner_up", "content_label")}
        for pattern in patterns or self.pattern or self.scores.patterns:
            columns[pattern] = table.score[..., self.scores.patterns.index(pattern)].ravel()
        columns["entropy"] = self.scores.entropy.ravel()
        for pattern in (known.id for known in self.scores.scored if known.of_others and known.id in columns):
            columns[f"{pattern}_self"] = table.itself[..., self.scores.patterns.index(pattern)].ravel()
        unknown = np.full(self.scores.grid.shape, np.nan)
        stability, carried = self.labels.stability, None if self.carried is None else self.carried.stability
        columns["label_stays"] = (unknown if stability is None else stability.label).ravel()
        columns["content_label_stays"] = (unknown if stability is None else stability.content_label).ravel()
        columns["carried_label_stays"] = (unknown if carried is None else carried.label).ravel()
        columns["carried_label"] = (unknown if self.carried is None else self.carried_label).ravel()
        columns["output"] = (unknown if self.carried is None else self.carried.output).ravel()
        if statements:
            of_statements = table_columns(self.statements, self.scores.grid)
            columns |= {name: values.ravel() for name, values in of_statements.items()}
        frame = pd.DataFrame(columns)
        frame.attrs = {
            "signature": asdict(self.signature),
            "units": list(self.units),
            "sentence": list(self.sentence),
            "not_measured": dict(self.not_measured),
            "notes": list(self.notes),
            "related": [list(pair) for pair in self.related],
            "shares": shares(
                {name: (self.labels, name) for name in ("label", "runner_up", "content_label")}
                | {"carried_label": (None if self.carried is None else self.with_norm(True).labels, "label")}
            ),
        }
        return frame
