"""The seven patterns that a head is scored against, after Vig, "Deconstructing BERT" (2018/19).

A pattern is a pure function from a batch of inputs to its *target*: for every query the keys that a
head following the pattern would look at. The drawings below are those functions run on one toy pair,
"the cat sat." / "a cat ran": rows are queries, columns are keys, a dot is 0.

    Shape: EncodedBatch -> [batch, query, key], bool or float in [0, 1]. A query whose row is all zero
    is not eligible: it is left out of the score.

Below each function stands all that is said of its pattern. A new pattern is one of both, and its name in `PATTERNS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from attnscan.errors import OptionError, nearest
from attnscan.scoring.pattern import Pattern, TargetFunction

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from attnscan.inputs.batch import EncodedBatch

PATTERN_SET_VERSION = "3"
"""Rises whenever a pattern's meaning changes, so that old and new results are not compared."""

_VIG = 'Jesse Vig, "Deconstructing BERT" (2018/19)'


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


NEXT_WORD = Pattern(
    "next-word",
    "N",
    next_word,
    "weight on the next word of the sentence",
    color="#3d8fd6",
    clause="finds the next word",
    queries="words that are followed by a word of the same sentence",
    keys="that next word",
    source=_VIG,
)


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


PREVIOUS_WORD = Pattern(
    "previous-word",
    "P",
    previous_word,
    "weight on the previous word of the sentence",
    color="#e69f00",
    clause="finds the previous word",
    queries="words that come after a word of the same sentence",
    keys="that previous word",
    source=_VIG,
)


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
    return batch.alike & batch.recurs[..., None]


IDENTICAL = Pattern(
    "identical",
    "I",
    identical,
    "weight on identical or related words, the word itself included",
    color="#009e73",
    clause="finds identical words",
    of_others=True,
    queries="words, not punctuation, that have another identical or related word anywhere",
    keys="those words, and the word itself",
    source=_VIG,
)


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


CROSS_SENTENCE = Pattern(
    "cross-sentence",
    "X",
    cross_sentence,
    "weight on identical or related words of the other sentence",
    color="#cc79a7",
    clause="finds identical words in the other sentence",
    part_of="identical",
    queries="words, not punctuation, that have an identical or related word in the other sentence",
    keys="those words",
    source=_VIG,
)


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
    return batch.asked[:, :, None] & batch.special[:, None, batch.keys]


DELIMITER = Pattern(
    "delimiter",
    "D",
    delimiter,
    "weight on special tokens such as [CLS] and [SEP]",
    color="#8a8a8a",
    clause="attends to special tokens",
    queries="all words",
    keys="all special tokens that the tokenizer inserted",
    source=_VIG,
)


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


BAG_OF_WORDS = Pattern(
    "bag-of-words",
    "B",
    bag_of_words,
    "how evenly weight spreads over the words of the sentence",
    color="#d55e00",
    clause="spreads over its own sentence",
    even=True,
    queries="all words",
    keys="all words of the same sentence, itself included, evenly: what a key gets beyond that does not count",
    source=_VIG,
)


# Its target is what the model itself says: `predictive.py` asks it.
PREDICTIVE = Pattern(
    "predictive",
    "W",
    None,
    "weight on the words that help to predict the word",
    color="#a6761d",
    clause="finds the words that predict a word",
    queries="words, not punctuation, that some other word helps to predict",
    keys="the words that help, each weighted by how much, the best one at 1",
    source=f"{_VIG}; measured as Hoover et al. (2021) do or, without a masked-LM head, Wu et al. (2020)",
)


PATTERNS: tuple[Pattern, ...] = (
    NEXT_WORD,
    PREVIOUS_WORD,
    IDENTICAL,
    CROSS_SENTENCE,
    PREDICTIVE,
    DELIMITER,
    BAG_OF_WORDS,
)
"""The seven patterns, in the order of every table."""

_COLUMNS = ("mixed", "model", "layer", "head", "label", "entropy", "output", "pattern", "score", "input")

PatternLike = Pattern | TargetFunction | str
"""What stands for a pattern: itself, the function of one's own that gives its target, or the name or letter of one of
ours."""


def chosen(patterns: Iterable[PatternLike] | PatternLike, ours: Sequence[Pattern] = PATTERNS) -> tuple[Pattern, ...]:
    """The patterns that are meant; one may stand alone. Names are those of `ours`.

    Raises: OptionError if there is none, none of such a name, or there are two of one name.
    """
    several = [patterns] if isinstance(patterns, str | Pattern) or not isinstance(patterns, Iterable) else patterns
    result = tuple(_pattern(wanted, ours) for wanted in several)
    names = [pattern.id for pattern in result]
    if not names:
        raise OptionError("there is no pattern to score by", "leave `patterns` out for all seven")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"two patterns are called '{name}'", "give each a name of its own")
        if name in _COLUMNS:
            raise OptionError(f"a pattern is called '{name}', as a column of tables is", "give it another name")
    return result


def pattern_frame(patterns: Sequence[Pattern]) -> pd.DataFrame:
    """What some patterns are, a row each."""
    import pandas as pd

    columns = ("letter", "id", "counts", "queries", "keys", "source")
    rows = [[getattr(pattern, column) for column in columns] for pattern in patterns]
    return pd.DataFrame(rows, columns=["letter", "pattern", *columns[2:]])


def called(name: str, ours: Sequence[Pattern] = PATTERNS) -> Pattern | None:
    """The one of ours that is meant by its name or its letter, in capitals or not; None if none is.

    >>> called("D").id, called("next-word") is called("n"), called("delimiters")
    ('delimiter', True, None)
    """
    either = name.casefold()
    return next((pattern for pattern in ours if either in (pattern.id, pattern.letter.casefold())), None)


def _pattern(wanted: PatternLike, ours: Sequence[Pattern]) -> Pattern:
    if isinstance(wanted, Pattern):
        return wanted
    if callable(wanted):
        return Pattern.of(wanted)
    if not isinstance(wanted, str):
        raise OptionError(
            f"{wanted!r:.60} is not a pattern", "give names, such as 'next-word', or functions of your own"
        )
    if (pattern := called(wanted, ours)) is None:
        known = [pattern.id for pattern in ours]
        raise OptionError(f"there is no pattern '{wanted}'", nearest(wanted, known, f"there are {', '.join(known)}"))
    return pattern
