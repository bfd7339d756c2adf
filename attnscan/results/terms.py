"""What results and options share: words and defaults. No numpy, so that the command line starts quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HelpMeasure = Literal["cpmi", "distance"]
"""How much a word helps to predict another: by the masked-LM head, or by how far the last hidden state moves."""
AttentionName = Literal["encoder", "decoder", "cross"]
"""Which attention of an encoder-decoder is read; that of other models is called an encoder's."""
Side = Literal["A", "B"]
"""Which sentence of a pair."""
Replacement = Literal["zero", "mean"]
"""What takes the place of a switched-off head's output: nothing, or its mean over the words of the measured pairs."""
Match = Literal["place", "nearest"]
"""Which heads of two models belong together: those of one place, or those that attend most alike."""


DELIMITER = "delimiter"  # the pattern whose targets are special tokens
RESTING = (DELIMITER, "first-token")
"""Patterns that are scored over all keys by every reading. A head with more than half of its attention on one rests."""
THRESHOLD = 0.25  # a head whose best pattern is less far above chance than this follows none
DRAWS = 20  # with how many sets of other heads, at most, a set that is switched off is compared
SHUFFLES = 8  # how often the words' positions are shuffled
MEASURES = ("masked-lm", "next-sentence", "classifier", "cls")  # ways to see what an encoder loses
OF_TARGETS = "target"  # the way to see what a model loses that writes a target
QUERIES = 16  # words of an input whose attention is compared between heads
WITHIN = 0.1  # in nats: heads of one group are on average no farther apart than this
LEAST_ON_WORDS = 1e-6  # of a query's weight, on words: with less it has no row among words
LEAST = 0.02  # the least difference between two models' scores that is said to survive, unless another is asked for


def counted(number: int, what: str, several: str = "") -> str:
    """A number of things in words, as `1,200 pairs`; `several` where these are not called `what` and an s."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


@dataclass(frozen=True)
class Scored:
    """A pattern that heads were scored for, and how it takes part in labels."""

    id: str
    part_of: str | None = None  # the wider pattern that this is a part of
    of_others: bool = False  # whether a head that looks at the word itself alone does not follow it
