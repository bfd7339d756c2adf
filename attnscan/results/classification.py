"""One input: the scores and labels of every head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError
from attnscan.results.behaviour import Labels, columns_of
from attnscan.results.profile import Profile
from attnscan.results.scores import FloatArray, IntArray, Scores, ScoreTable, best_first
from attnscan.results.shown import lines, tallied
from attnscan.results.signature import AS_THEY_ARE, By, Reading, Signature, Special

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
    scores_by: Mapping[By, Scores]
    """Every head's scores by attention weights and, where they were measured, by what heads carry."""
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
    output: FloatArray | None = field(default=None, repr=False)
    """The mean length of what each head puts out for a word, as a share of its layer's heads' together; 1/heads is an
    equal part. Shape: [layer, head]; NaN where a whole layer puts out nothing; None if it could not be measured."""
    shown: Reading = AS_THEY_ARE
    """By what weights are shown and drawn: as they are, special tokens included, unless something else was asked."""
    labels_by: Mapping[Reading, Callable[[], Labels]] = field(default_factory=dict, repr=False, compare=False)
    """What tells what every head does: by the reading that was asked for and, if the attention was kept, by all."""
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
        """What every head does by the reading, and how sure that is; worked out when it is first asked for."""
        return self.labels_by[self.reading]()

    @property
    def scores(self) -> Scores:
        """What labels and tables are of."""
        return self.scores_by[self.reading.by]

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.scores.table(self.reading.among_words)

    @property
    def profile(self) -> Profile:
        """Where every head's attention goes on this input, without errors."""
        return Profile.of(self.labels, self.signature)

    @property
    def label(self) -> NDArray[np.str_]:
        """What each head does: `delimiter` if it rests on special tokens, else `among_words`. Shape: [layer, head]."""
        return self.labels.label

    @property
    def among_words(self) -> NDArray[np.str_]:
        """The pattern that each head follows among words, else its habit, else nothing. Shape: [layer, head]."""
        return self.labels.among_words

    def with_reading(self, by: By | None = None, special: Special | None = None) -> Classification:
        """Turn scores, labels and tables to another reading; what is None stays as it is.

        A result that has kept its attention has every reading.
        Raises: OptionError if the reading is not there.
        """
        reading = Reading(by or self.reading.by, special or self.reading.special)
        if reading not in self.labels_by:
            if reading.carried and "carried" not in self.scores_by:
                raise OptionError("what heads carry is not in this result", 'leave out by="carried"')
            raise OptionError(f"this result is {self.reading}", "keep its attention: classify(keep_attention=True)")
        shown = Reading(by or self.shown.by, special or self.shown.special)
        return replace(self, shown=shown, signature=replace(self.signature, by=reading.by, special=reading.special))

    @property
    def shown_attention(self) -> Attention:
        """The kept attention by what is `shown`, unit by unit. Raises: OptionError if it was not kept."""
        attention = self.kept_attention().carried if self.shown.carried else self.kept_attention()
        attention = attention.in_words(self.units) if self.signature.unit == "word" else attention
        return attention.among_words if self.shown.among_words else attention

    def kept_attention(self) -> Attention:
        """The attention. Raises: OptionError if it was not kept."""
        if self.attention is None:
            raise OptionError("this result has not kept its attention", "keep it: classify(..., keep_attention=True)")
        return self.attention

    def __repr__(self) -> str:
        return lines(self, self.signature, self.scores.grid, " ".join(self.units), f"labels: {tallied(self.label)}")

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

    def to_frame(self, patterns: Sequence[str] | None = None) -> pd.DataFrame:
        """One row a head: what it does and how sure that is, its scores on `patterns` (or those asked for), entropy."""
        import pandas as pd

        frame = pd.DataFrame({"model": self.signature.model, **self.columns(patterns)})
        frame.attrs = {
            "signature": asdict(self.signature),
            "units": list(self.units),
            "sentence": list(self.sentence),
            "not_measured": dict(self.not_measured),
            "notes": list(self.notes),
            "related": [list(pair) for pair in self.related],
        }
        return frame

    def columns(self, patterns: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """The columns of the table that `to_frame` makes, but for the model's name. Shape: [head] each."""
        return columns_of(self.labels, patterns or self.pattern or self.scores.patterns)
