"""One input: the scores and labels of every head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, WeightsError
from attnscan.results.behaviour import Behaviours, Labels, Statements, shares, table_columns
from attnscan.results.profile import Fit, Profile
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable, best_first
from attnscan.results.shown import lines, tallied
from attnscan.results.signature import BEHAVIOUR, By, Reading, Signature, Special
from attnscan.results.terms import MOST_PROFILED

if TYPE_CHECKING:
    import pandas as pd

    from attnscan.results.attention import Attention


_Value = TypeVar("_Value")


@dataclass
class Deferred(Generic[_Value]):
    """Something that is worked out when it is first asked for, and then kept."""

    work: Callable[[], _Value]
    """What works it out."""

    def __call__(self) -> _Value:
        """It, worked out."""
        return self._value

    @cached_property
    def _value(self) -> _Value:
        return self.work()


@dataclass(frozen=True)
class Classification:
    """What every head does on one input."""

    units: tuple[str, ...]
    """The tokens, or the words, that were scored."""
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, -1 for a special token, -2 for padding."""
    by_weight: Labels
    """Scores and labels by attention weights."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Patterns that were not looked for and why, as against those that no word of the input was eligible for."""
    notes: tuple[str, ...] = ()
    """What else to know of how the scores were had, a line each."""
    related: tuple[tuple[int, int], ...] = ()
    """Units that counted as related and are not identical, by their places, the earlier one first."""
    links: tuple[tuple[int, int], ...] = ()
    """The gold links of cross attention, if they are known: a unit of the target, and one of the source."""
    carried: Labels | None = field(default=None, repr=False)
    """Scores and labels by what heads carry; None if that could not be measured."""
    output: FloatArray | None = field(default=None, repr=False)
    """The mean length of what each head puts out for a word, as a share of its layer's heads' together; 1/heads is an
    equal part. Shape: [layer, head]; NaN where a whole layer puts out nothing; None if it could not be measured."""
    behaviour: Reading = BEHAVIOUR
    """By what is told what a head does; where what heads carry could not be measured, it is by weight."""
    parts: tuple[str, ...] = ()
    """What profiles are made of."""
    fits: Mapping[By, Callable[[], Fit] | None] = field(default_factory=dict, repr=False, compare=False)
    """What fits every head's profile, by weights and by what heads carry; None of models with too many heads."""
    stated: Mapping[Reading, Callable[[], Statements] | None] = field(default_factory=dict, repr=False, compare=False)
    """What states every head beside the average head, likewise: by the readings `behaviour` and, if the attention was
    kept, by all readings."""
    attention: Attention | None = field(default=None, repr=False, compare=False)
    """The input's weights, queries and keys, if they were kept: what a notebook draws them from."""
    targets: Sequence[NDArray[np.float32]] = field(default=(), repr=False, compare=False)
    """Of each layer, what a head that follows each pattern gives to each key, if the attention was kept.

    Shape: each [pattern, query unit, key unit], in [0, 1]; layers with equal masks share the array."""
    pattern: tuple[str, ...] = ()
    """The patterns that were asked for, which tables show; none for all."""
    html: Callable[[Classification], str] | None = field(default=None, repr=False, compare=False)
    """Writes what a notebook shows of it."""

    @property
    def reading(self) -> Reading:
        """By what scores, labels and tables are."""
        return self.signature.reading

    @property
    def labels(self) -> Labels:
        """What every head is called, by weight or by what it carries as the reading says, and how sure that is."""
        return self.carried if self.carried is not None and self.reading.carried else self.by_weight

    @property
    def scores(self) -> Scores:
        """What labels and tables are of."""
        return self.labels.scores

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.scores.table(self.reading.among_words)

    def known_profile(self) -> Profile:
        """The profile. Raises: WeightsError if there are too many heads for it."""
        if (profile := self.profile) is None:
            raise WeightsError("the profile of so many heads is too large", f"give {MOST_PROFILED} at most")
        return profile

    @cached_property
    def profile(self) -> Profile | None:
        """What every head does in full on this input, without errors; None of models with too many heads.

        It is fitted when it is first asked for.
        """
        fit = self.fits.get(self.reading.by)
        return None if fit is None else Profile(self.parts, fit(), self.signature, self.scores.kind)

    @cached_property
    def statements(self) -> Statements | None:
        """What every head does beside the average head, by the reading `behaviour`.

        Worked out when it is first asked for; None of models with too many heads.
        """
        by = "weight" if self.carried is None else self.behaviour.by
        states = self.stated.get(Reading(by, self.behaviour.special))
        return None if states is None else states()

    @cached_property
    def behaviours(self) -> Behaviours:
        """What every head does by the reading `behaviour`: its label or its statement."""
        return Behaviours(self.mapped, self.statements, not self.behaviour.among_words)

    @property
    def label(self) -> NDArray[np.str_]:
        """The pattern that each head follows. Shape: [layer, head]."""
        return self.labels.called(self.reading.special)

    @property
    def runner_up(self) -> NDArray[np.str_]:
        """The second one. Shape: [layer, head]."""
        return self.labels.called(self.reading.special, 1)

    @property
    def content_label(self) -> NDArray[np.str_]:
        """What each head does when it does not attend to special tokens. Shape: [layer, head]."""
        return self.labels.content_label

    @property
    def map_label(self) -> NDArray[np.str_]:
        """What maps of all heads show: the label by the reading `behaviour`. Shape: [layer, head]."""
        return self.mapped.called(self.behaviour.special)

    @property
    def parking(self) -> FloatArray:
        """How much each head rests on delimiters, in [0, 1]; 0 where the input has none. Shape: [layer, head]."""
        return self.labels.parking

    @property
    def carried_label(self) -> NDArray[np.str_]:
        """Each head's label by what it carries. Shape: [layer, head]. Raises: OptionError if that is not there."""
        return self.with_reading("carried").label

    def with_reading(self, by: By | None = None, special: Special | None = None) -> Classification:
        """Turn scores, labels and tables to another reading; what is None stays as it is.

        Profiles are of `by`, with special tokens as when the input was read.
        Raises: OptionError if what heads carry is not there.
        """
        if by == "carried" and self.carried is None:
            raise OptionError("what heads carry is not in this result", 'leave out by="carried"')
        changes: dict[str, Any] = {"by": by, "special": special}
        changes = {name: value for name, value in changes.items() if value is not None}
        return replace(self, signature=replace(self.signature, **changes))

    @property
    def mapped(self) -> Labels:
        """Labels by what maps of all heads show: by what heads carry, if that was measured and `behaviour` is of it."""
        return self.carried if self.carried is not None and self.behaviour.carried else self.by_weight

    @property
    def shown_attention(self) -> Attention:
        """The kept attention by the reading of labels and tables, unit by unit.

        Raises: OptionError if it was not kept.
        """
        attention = self.kept_attention().carried if self.reading.carried else self.kept_attention()
        attention = attention.in_words(self.units) if self.signature.unit == "word" else attention
        return attention.among_words if self.reading.among_words else attention

    def kept_attention(self) -> Attention:
        """The attention. Raises: OptionError if it was not kept."""
        if self.attention is None:
            raise OptionError("this result has not kept its attention", "keep it: classify(..., keep_attention=True)")
        return self.attention

    def __repr__(self) -> str:
        by = "by what heads carry" if self.mapped.norm else "by attention weight"
        labels = f"labels {by}: {tallied(self.mapped.label)}"
        return lines(self, self.signature, self.scores.grid, " ".join(self.units), labels)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; without `html`, that is the plain text."""
        return self.html(self) if self.html else None

    def ranking(self, pattern: str | None = None) -> IntArray:
        """The heads that have a score, best first: on `pattern`, or without one by how far their best is above chance.

        Shape: [ranked head], heads counted layer by layer.
        """
        if pattern is not None:
            return self.table.ranked(self.scores.patterns.index(pattern))
        return best_first(np.fmax.reduce(self.table.above_chance, axis=-1))

    def to_frame(self, patterns: Sequence[str] | None = None, *, statements: bool = True) -> pd.DataFrame:
        """One row a head: names, labels, scores of `patterns` (or those asked for), entropy, how sure labels are.

        With `statements`, what each head does beside the average head, too, which takes a moment to work out.
        """
        import pandas as pd

        columns = {"model": self.signature.model, **self.columns(patterns, statements=statements)}
        frame = pd.DataFrame(columns).astype({"statement_rank": "Int64"} if statements else {})
        frame.attrs = {
            "signature": asdict(self.signature),
            "units": list(self.units),
            "sentence": list(self.sentence),
            "not_measured": dict(self.not_measured),
            "notes": list(self.notes),
            "related": [list(pair) for pair in self.related],
            "shares": shares(
                {**self._labels_of_columns, "runner_up": (self.labels, self.labels.kind(self.reading.special, 1))}
            ),
        }
        return frame

    @property
    def _labels_of_columns(self) -> dict[str, tuple[Labels | None, str]]:
        """By the column of a table, whose labels stand there, and of which kind."""
        kind = self.labels.kind(self.reading.special)
        return {
            "label": (self.labels, kind),
            "content_label": (self.labels, "content_label"),
            "carried_label": (self.carried, kind),
            "map_label": (self.mapped, self.labels.kind(self.behaviour.special)),
        }

    def columns(self, patterns: Sequence[str] | None = None, *, statements: bool = True) -> dict[str, NDArray[Any]]:
        """The columns of the table that `to_frame` makes, but for the model's name. Shape: [head] each."""
        table = self.table
        columns: dict[str, NDArray[Any]] = self.scores.grid.columns()
        columns |= {name: getattr(self, name).ravel() for name in ("label", "runner_up", "content_label")}
        for pattern in patterns or self.pattern or self.scores.patterns:
            columns[pattern] = table.score[..., self.scores.patterns.index(pattern)].ravel()
        columns["entropy"] = self.scores.entropy.ravel()
        for pattern in (known.id for known in self.scores.scored if known.of_others and known.id in columns):
            columns[f"{pattern}_self"] = table.itself[..., self.scores.patterns.index(pattern)].ravel()
        unknown = np.full(self.scores.grid.shape, np.nan)
        for name, (own, of) in self._labels_of_columns.items():
            stability = None if own is None else own.stability
            columns[f"{name}_stays"] = (unknown if stability is None else getattr(stability, of)).ravel()
        columns["carried_label"] = (unknown if self.carried is None else self.carried_label).ravel()
        columns["map_label"] = self.map_label.ravel()
        columns["output"] = (unknown if self.output is None else self.output).ravel()
        if statements:
            of_statements = table_columns(self.statements, self.scores.grid)
            columns |= {name: values.ravel() for name, values in of_statements.items()}
        return columns
