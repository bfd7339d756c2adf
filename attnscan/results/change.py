"""What is changed in one input, or in the model that reads it, and what the model says before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from attnscan.results.grid import Head
from attnscan.safe_text import plain

Positions = Literal["kept", "shuffled"]
Segments = Literal["kept", "swapped", "zeroed"]
PredictionKind = Literal["words", "classes", "next-sentence", "vectors"]
TOP = 5  # how many of the likeliest words are told of each hidden token


@dataclass(frozen=True)
class Change:
    """Some changes at once; without any, the input and the model are as they are."""

    hidden: tuple[int, ...] = ()  # the places of tokens that are hidden behind the mask token, in ascending order
    positions: Positions = "kept"
    """Whether words stand where they are written, or at each other's positions, shuffled by the seed."""
    segments: Segments = "kept"  # the segment ids that the model reads: its own, 0 and 1 exchanged, or all 0
    off: tuple[Head, ...] = ()
    """Heads that are switched off: they add nothing to what later layers read. In ascending order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(sorted(set(self.hidden))))
        object.__setattr__(self, "off", tuple(sorted(set(self.off))))

    @property
    def of_model(self) -> bool:
        """Whether anything but hidden words is changed: what the model says before and after may then differ."""
        return bool(self.off) or (self.positions, self.segments) != ("kept", "kept")

    def notes(self, tokens: tuple[str, ...], seed: int) -> tuple[str, ...]:
        """A line for each change; `tokens` are those of the input as it was."""
        hidden = ", ".join(f"{tokens[place]} ({place})" for place in self.hidden)
        lines = {
            f"hidden behind the mask token: {hidden}": bool(hidden),
            f"the words' positions are shuffled, by seed {seed}": self.positions == "shuffled",
            f"segments are {self.segments}": self.segments != "kept",
            f"heads switched off: {', '.join(head.name for head in self.off)}": bool(self.off),
        }
        return tuple(line for line, is_so in lines.items() if is_so)


@dataclass(frozen=True)
class HiddenToken:
    """What a masked-LM head puts in place of one hidden token: probabilities, before and after a change."""

    place: int
    truth: str  # the token that is hidden
    truth_before: float
    truth_after: float
    before: tuple[tuple[str, float], ...]  # the likeliest tokens, most likely first
    after: tuple[tuple[str, float], ...]


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
    why_none: str = ""  # why there is nothing to say, and what to do about it; empty where there is

    def as_json(self) -> dict[str, Any]:
        """Plain values, whose texts a page can show."""
        words = [
            {
                "place": word.place,
                "truth": plain(word.truth),
                "truthBefore": word.truth_before,
                "truthAfter": word.truth_after,
                "before": [[plain(token), probability] for token, probability in word.before],
                "after": [[plain(token), probability] for token, probability in word.after],
            }
            for word in self.words
        ]
        classes = [{"name": plain(name), "before": before, "after": after} for name, before, after in self.classes]
        told = {"kind": self.kind, "words": words, "classes": classes, "turned": list(self.turned)}
        return told | {"whyNone": plain(self.why_none)}
