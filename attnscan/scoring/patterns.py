"""The seven patterns that a head is scored against, after Vig, "Deconstructing BERT" (2018/19).

A pattern is a pure function from a batch of inputs to its *target*: for every query the keys that a
head following the pattern would look at. The drawings below are those functions run on one toy pair,
"the cat sat." / "a cat ran": rows are queries, columns are keys, a dot is 0.

    Shape: EncodedBatch -> [batch, query, key], bool or float in [0, 1]. A query whose row is all zero
    is not eligible: it is left out of the score.

This module imports no tensor library; its functions work on whatever the batch is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnscan.errors import OptionError, nearest
from attnscan.results.terms import Scored

if TYPE_CHECKING:
    from torch import Tensor

    from attnscan.inputs.batch import EncodedBatch

PATTERN_SET_VERSION = "3"
"""Rises whenever a pattern's meaning changes, so that old and new results are not compared."""


def next_word(batch: EncodedBatch) -> Tensor:
    """Each word looks at the word after it in its sentence.

    >>> show(next_word)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     1     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     1     ·     ·     ·     ·     ·     ·
      sat     ·     ·     ·     ·     1     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     1     ·     ·
      cat     ·     ·     ·     ·     ·     ·     ·     ·     1     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    return batch.same_sentence & (batch.offset == 1)


def previous_word(batch: EncodedBatch) -> Tensor:
    """Each word looks at the word before it in its sentence.

    >>> show(previous_word)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     1     ·     ·     ·     ·     ·     ·     ·     ·
      sat     ·     ·     1     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     1     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     ·     ·     ·     1     ·     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     1     ·     ·
    """
    return batch.same_sentence & (batch.offset == -1)


def identical(batch: EncodedBatch) -> Tensor:
    """A word that occurs again, itself or a related word, looks at all of those and at itself.

    >>> show(identical)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·     ·     1     ·     ·
      sat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·     ·     1     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    return batch.alike & (batch.alike & (batch.offset != 0)).any(-1)[..., None]


def cross_sentence(batch: EncodedBatch) -> Tensor:
    """A word looks at the same or a related word in the other sentence.

    >>> show(cross_sentence)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     ·     ·     ·     ·     1     ·     ·
      sat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·     ·     ·     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    return batch.alike & ~batch.same_sentence


def delimiter(batch: EncodedBatch) -> Tensor:
    """Each word looks at the special tokens that the tokenizer inserted.

    >>> show(delimiter)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     1     ·     ·     ·     ·     1     ·     ·     ·     1
      cat     1     ·     ·     ·     ·     1     ·     ·     ·     1
      sat     1     ·     ·     ·     ·     1     ·     ·     ·     1
        .     1     ·     ·     ·     ·     1     ·     ·     ·     1
        a     1     ·     ·     ·     ·     1     ·     ·     ·     1
      cat     1     ·     ·     ·     ·     1     ·     ·     ·     1
      ran     1     ·     ·     ·     ·     1     ·     ·     ·     1
    """
    return batch.word[:, :, None] & batch.special[:, None, :]


def bag_of_words(batch: EncodedBatch) -> Tensor:
    """Each word looks evenly at all words of its sentence, itself included.

    >>> show(bag_of_words)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
      cat     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
      sat     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
        .     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·   .33   .33   .33     ·
      cat     ·     ·     ·     ·     ·     ·   .33   .33   .33     ·
      ran     ·     ·     ·     ·     ·     ·   .33   .33   .33     ·
    """
    inside = batch.same_sentence
    return inside / inside.sum(-1)[..., None].clip(1)


TargetFunction = Callable[["EncodedBatch"], "Tensor"]
"""A pattern's function."""


@dataclass(frozen=True)
class Pattern:
    """One pattern: its name, its target, and how weights are measured against it."""

    id: str
    """The name on the command line and in every table, such as `next-word`."""
    letter: str
    """Its mark in maps and narrow tables."""
    target: TargetFunction | None
    """The function that gives the target; None if only the model itself can tell (`predictive`)."""
    counts: str
    """What the score counts, in a few words."""
    even: bool = False
    """Whether the spread matters: weight above the target's share of a key does not count."""
    part_of: str | None = None
    """The wider pattern that this is a part of: the two take one label between them."""
    of_others: bool = False
    """Whether a head must look at others than the word itself to follow it, though that one is a target, too."""
    code: str = ""
    """What the file that it was read from hashes to, if it was: sums by other code do not add to its own."""

    queries: str = ""
    """Which words are asked where they look: the eligible ones."""
    keys: str = ""
    """Which tokens they should look at."""
    source: str = ""
    """Where the pattern comes from."""

    @classmethod
    def of(cls, function: TargetFunction) -> Pattern:
        """A pattern of one's own, called after its function: `subject_verb` is `subject-verb`.

        Raises: OptionError if the function has no name to go by.
        """
        name = getattr(function, "__name__", "<nameless>")
        if "<" in name:
            raise OptionError("a pattern's function has no name", "define it with def, or give Pattern(id=..., ...)")
        about, _, _ = (function.__doc__ or "").strip().partition("\n")
        name = name.strip("_").replace("_", "-")
        return cls(name, name[:1].upper(), function, about.rstrip(".") or f"weight on the targets of {name}")

    @property
    def scored(self) -> Scored:
        """How results call it, and how it takes part in labels."""
        return Scored(self.id, self.part_of, self.of_others)

    @property
    def drawing(self) -> str:
        """The target on the toy pair, as its docstring draws it; empty if it has none."""
        _, drawn, matrix = ((self.target and self.target.__doc__) or "").partition(">>> show(")
        lines = matrix.rstrip().splitlines()[1:] if drawn else []
        return "\n".join(line.removeprefix("    ") for line in lines)

    @property
    def drawn_chance(self) -> float | None:
        """The chance of the target that is drawn, in [0, 1]: its score by even weights. None if it is not drawn."""
        rows = [line.split()[1:] for line in self.drawing.splitlines()[1:]]
        targets = [[0.0 if cell == "·" else float(cell) for cell in row] for row in rows]
        scores = [sum(min(t, 1 / len(row)) if self.even else t / len(row) for t in row) for row in targets if any(row)]
        return sum(scores) / len(scores) if scores else None


_VIG = 'Jesse Vig, "Deconstructing BERT" (2018/19)'
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "next-word",
        "N",
        next_word,
        "weight on the next word of the sentence",
        queries="words that are followed by a word of the same sentence",
        keys="that next word",
        source=_VIG,
    ),
    Pattern(
        "previous-word",
        "P",
        previous_word,
        "weight on the previous word of the sentence",
        queries="words that come after a word of the same sentence",
        keys="that previous word",
        source=_VIG,
    ),
    Pattern(
        "identical",
        "I",
        identical,
        "weight on identical or related words, the word itself included",
        of_others=True,
        queries="words, not punctuation, that have another identical or related word anywhere",
        keys="those words, and the word itself",
        source=_VIG,
    ),
    Pattern(
        "cross-sentence",
        "X",
        cross_sentence,
        "weight on identical or related words of the other sentence",
        part_of="identical",
        queries="words, not punctuation, that have an identical or related word in the other sentence",
        keys="those words",
        source=_VIG,
    ),
    Pattern(
        "predictive",
        "W",
        None,
        "weight on the words that help to predict the word",
        queries="words, not punctuation, that some other word helps to predict",
        keys="the words that help, each weighted by how much, the best one at 1",
        source=f"{_VIG}; measured as Hoover et al. (2021) do or, without a masked-LM head, Wu et al. (2020)",
    ),
    Pattern(
        "delimiter",
        "D",
        delimiter,
        "weight on special tokens such as [CLS] and [SEP]",
        queries="all words",
        keys="all special tokens that the tokenizer inserted",
        source=_VIG,
    ),
    Pattern(
        "bag-of-words",
        "B",
        bag_of_words,
        "how evenly weight spreads over the words of the sentence",
        even=True,
        queries="all words",
        keys="all words of the same sentence, itself included, evenly: what a key gets beyond that does not count",
        source=_VIG,
    ),
)
"""The seven patterns, in the order of every table."""

_COLUMNS = ("mixed", "model", "layer", "head", "label", "entropy", "output", "pattern", "score", "input")

PatternLike = Pattern | TargetFunction | str
"""What stands for a pattern: itself, the function of one's own that gives its target, or the name or letter of one of
ours."""


def chosen(patterns: Iterable[PatternLike] | PatternLike) -> tuple[Pattern, ...]:
    """The patterns that are meant; one may stand alone.

    Raises: OptionError if there is none, none of such a name, or there are two of one name.
    """
    several = [patterns] if isinstance(patterns, str | Pattern) or not isinstance(patterns, Iterable) else patterns
    result = tuple(map(_pattern, several))
    names = [pattern.id for pattern in result]
    if not names:
        raise OptionError("there is no pattern to score by", "leave `patterns` out for all seven")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"two patterns are called '{name}'", "give each a name of its own")
        if name in _COLUMNS:
            raise OptionError(f"a pattern is called '{name}', as a column of tables is", "give it another name")
    return result


def called(name: str) -> Pattern | None:
    """The one of ours that is meant by its name or its letter, in capitals or not; None if none is.

    >>> called("D").id, called("next-word") is called("n"), called("delimiters")
    ('delimiter', True, None)
    """
    either = name.casefold()
    return next((pattern for pattern in PATTERNS if either in (pattern.id, pattern.letter.casefold())), None)


def _pattern(one: PatternLike) -> Pattern:
    if isinstance(one, Pattern):
        return one
    if callable(one):
        return Pattern.of(one)
    if not isinstance(one, str):
        raise OptionError(f"{one!r:.60} is no pattern", "give names, such as 'next-word', or functions of your own")
    if (pattern := called(one)) is None:
        known = [pattern.id for pattern in PATTERNS]
        raise OptionError(f"there is no pattern '{one}'", nearest(one, known, f"there are {', '.join(known)}"))
    return pattern
