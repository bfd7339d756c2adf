"""What a model says of one input, before something is changed and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from attnscan.safe_text import plain

PredictionKind = Literal["words", "classes", "next-sentence", "vectors"]
TOP = 5
"""How many of the likeliest words are told of each hidden token."""


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
                    "place": each.place,
                    "truth": plain(each.truth),
                    "truthBefore": each.before.truth,
                    "truthAfter": each.after.truth,
                    "before": [[plain(token), probability] for token, probability in each.before.top],
                    "after": [[plain(token), probability] for token, probability in each.after.top],
                }
                for each in self.words
            ],
            "classes": [{"name": plain(name), "before": b, "after": a} for name, b, a in self.classes],
            "turned": list(self.turned),
            "whyNone": plain(self.why_none),
        }
