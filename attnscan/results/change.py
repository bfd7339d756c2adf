"""What is changed in one input, or in the model that reads it, and what the model says before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from attnscan.errors import OptionError, nearest
from attnscan.results.grid import Head
from attnscan.safe_text import plain

Positions = Literal["kept", "shuffled"]
Segments = Literal["kept", "swapped", "zeroed"]
PredictionKind = Literal["words", "classes", "next-sentence", "vectors"]
TOP = 5
"""How many of the likeliest words are told of each hidden token."""


@dataclass(frozen=True)
class Change:
    """Some changes at once; without any, the input and the model are as they are."""

    hidden: tuple[int, ...] = ()
    """The places of tokens that are hidden behind the mask token, in ascending order."""
    positions: Positions = "kept"
    """Whether words stand where they are written, or at each other's positions, shuffled by the seed."""
    segments: Segments = "kept"
    """The segment ids that the model reads: its own, 0 and 1 exchanged, or all 0."""
    off: tuple[Head, ...] = ()
    """Heads that are switched off: they add nothing to what later layers read. In ascending order."""

    def __post_init__(self) -> None:
        """Raises: OptionError for a value that there is not."""
        for name, values in (("positions", Positions), ("segments", Segments)):
            value, known = getattr(self, name), get_args(values)
            if value not in known:
                either = f"give {', '.join(known[:-1])} or {known[-1]}"
                raise OptionError(f"{name} cannot be {value!r:.60}", nearest(str(value)[:60], known, either))
        if not all(type(place) is int and place >= 0 for place in self.hidden):
            raise OptionError("hidden holds something that is not the index of a token", "give whole numbers from 0 on")
        object.__setattr__(self, "hidden", tuple(sorted(set(self.hidden))))
        object.__setattr__(self, "off", tuple(sorted(set(self.off))))

    @property
    def of_model(self) -> bool:
        """Whether anything but hidden words is changed: what the model says before and after may then differ."""
        return bool(self.off) or (self.positions, self.segments) != ("kept", "kept")

    def notes(self, tokens: tuple[str, ...], seed: int) -> tuple[str, ...]:
        """A line for each change; `tokens` are those of the input as it was."""
        hidden = ", ".join(f"{tokens[place]} ({place})" for place in self.hidden)
        return (
            *([f"hidden behind the mask token: {hidden}"] if self.hidden else []),
            *([f"the words' positions are shuffled, by seed {seed}"] if self.positions == "shuffled" else []),
            *([f"segments are {self.segments}"] if self.segments != "kept" else []),
            *([f"heads switched off: {', '.join(head.name for head in self.off)}"] if self.off else []),
        )


@dataclass(frozen=True)
class Guesses:
    """What a masked-LM head puts in one place."""

    top: tuple[tuple[str, float], ...]
    """The likeliest tokens with their probabilities, most likely first."""
    truth: float
    """The probability of what stands there."""


@dataclass(frozen=True)
class HiddenToken:
    """What the model puts in place of one hidden token."""

    place: int
    truth: str
    """The token that is hidden."""
    before: Guesses
    after: Guesses


@dataclass(frozen=True)
class Prediction:
    """One thing that the model says: by the model and the input as they are but for hidden words, and by the changed.

    Of `words` the hidden tokens, of `classes` and `next-sentence` the classes, of `vectors` how far tokens turned.
    """

    kind: PredictionKind
    words: tuple[HiddenToken, ...] = ()
    classes: tuple[tuple[str, float, float], ...] = ()
    """The names of all classes with their probabilities before and after, in the model's order."""
    turned: tuple[float, ...] = ()
    """Of each token, 1 - cosine between its last hidden states before and after; 0 if they are the same to the bit."""
    why_none: str = ""
    """Why there is nothing to say, and what to do about it; empty where there is."""

    def as_json(self) -> dict[str, Any]:
        """Plain values, whose texts a page can show."""
        return {
            "kind": self.kind,
            "words": [
                {
                    "place": word.place,
                    "truth": plain(word.truth),
                    "truthBefore": word.before.truth,
                    "truthAfter": word.after.truth,
                    "before": [[plain(token), probability] for token, probability in word.before.top],
                    "after": [[plain(token), probability] for token, probability in word.after.top],
                }
                for word in self.words
            ],
            "classes": [{"name": plain(name), "before": b, "after": a} for name, b, a in self.classes],
            "turned": list(self.turned),
            "whyNone": plain(self.why_none),
        }
