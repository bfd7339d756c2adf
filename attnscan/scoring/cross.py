"""The patterns of cross attention, from the words of a target to those of its source.

A batch of cross attention has both texts: its queries are the target's units, which stand behind the source's, its
keys the source's. What is drawn below is "le chat noir" / "the black cat" with the links 0-0 1-2 2-1; the target's own
columns stay empty.

    Shape: EncodedBatch -> [batch, query, key], as in `patterns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attnscan.errors import OptionError
from attnscan.inputs.alignments import links_of
from attnscan.results.terms import AttentionName
from attnscan.scoring.patterns import CAUSAL_PATTERNS, DELIMITER, IDENTICAL, PATTERNS, Pattern

if TYPE_CHECKING:
    from torch import Tensor

    from attnscan.inputs.batch import EncodedBatch

_BY_HAND = "gold links of --alignments"


def aligned(batch: EncodedBatch) -> Tensor:
    """Each target word looks at the source words that it is linked to.

    >>> show(aligned)
             le  chat  noir   the black   cat
      the     1     ·     ·     ·     ·     ·
    black     ·     ·     1     ·     ·     ·
      cat     ·     1     ·     ·     ·     ·
    """
    return _linked(batch, lambda words: words)


def before_aligned(batch: EncodedBatch) -> Tensor:
    """Each target word looks at the source word before the first that it is linked to.

    >>> show(before_aligned)
             le  chat  noir   the black   cat
      the     ·     ·     ·     ·     ·     ·
    black     ·     1     ·     ·     ·     ·
      cat     1     ·     ·     ·     ·     ·
    """
    return _linked(batch, lambda words: [min(words) - 1])


def after_aligned(batch: EncodedBatch) -> Tensor:
    """Each target word looks at the source word behind the last that it is linked to.

    >>> show(after_aligned)
             le  chat  noir   the black   cat
      the     ·     1     ·     ·     ·     ·
    black     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·
    """
    return _linked(batch, lambda words: [max(words) + 1])


def same_place(batch: EncodedBatch) -> Tensor:
    """Target word q of D looks at source word q·(S - 1)/(D - 1) of S, rounded, halves up; at the first if D is 1.

    >>> show(same_place)
             le  chat  noir   the black   cat
      the     1     ·     ·     ·     ·     ·
    black     ·     1     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·
    """
    ask, key = batch.query_word, batch.key_word
    last, last_key = (words.sum(1, keepdim=True) - 1 for words in (ask, key))
    place, place_of_key = (words.cumsum(1) - 1 for words in (ask, key))
    goal = (2 * place * last_key + last) // (2 * last).clip(1)
    words = ask[:, batch.queries, None] & key[:, None, batch.keys]
    return (place_of_key[:, None, batch.keys] == goal[:, batch.queries, None]) & words


def even(batch: EncodedBatch) -> Tensor:
    """Each target word looks evenly at all source words.

    >>> show(even)
             le  chat  noir   the black   cat
      the   .33   .33   .33     ·     ·     ·
    black   .33   .33   .33     ·     ·     ·
      cat   .33   .33   .33     ·     ·     ·
    """
    inside = batch.query_word[:, batch.queries, None] & batch.key_word[:, None, batch.keys]
    return inside / inside.sum(-1)[..., None].clip(1)


def _linked(batch: EncodedBatch, keys: Callable[[list[int]], list[int]]) -> Tensor:
    """What target words are linked to, or what `keys` makes of the numbers of the source words linked to each."""
    asks, sources = batch.query_word[:, batch.queries], batch.key_word
    cells = asks[:, :, None] & sources[:, None, batch.keys]
    linked = cells & False
    for row, encoded in enumerate(batch.inputs):
        number = batch.word_number[row]
        for word, words in links_of(encoded.known_pair):
            of_words = (number[:, None] == number.new_tensor(keys(words))).any(-1)
            linked[row] |= (number[batch.queries] == word)[:, None] & of_words[batch.keys]
    return cells & linked


ALIGNED = Pattern(
    "aligned",
    "A",
    aligned,
    "weight on the source words that the word is aligned with",
    words="the aligned source words",
    group="same",
    color="#0072b2",
    clause="finds the source words of the word",
    queries="target words with a link",
    keys="the source words that they are linked to",
    source=_BY_HAND,
)
BEFORE_ALIGNED = Pattern(
    "before-aligned",
    "L",
    before_aligned,
    "weight on the source word before those",
    words="the word before the aligned one",
    group="back",
    color="#e69f00",
    clause="finds the word before the aligned one",
    queries="target words with a link that is not to the first source word",
    keys="the source word before the first that they are linked to",
    source=_BY_HAND,
)
AFTER_ALIGNED = Pattern(
    "after-aligned",
    "R",
    after_aligned,
    "weight on the source word behind those",
    words="the word after the aligned one",
    group="ahead",
    color="#56b4e9",
    clause="finds the word behind the aligned one",
    queries="target words with a link that is not to the last source word",
    keys="the source word behind the last that they are linked to",
    source=_BY_HAND,
)
SAME_PLACE = Pattern(
    "same-place",
    "S",
    same_place,
    "weight on the source word at the same place",
    words="the source word at the same place",
    group="around",
    color="#cc79a7",
    clause="finds the source word at the same place",
    queries="all target words",
    keys="the source word as far from the source's start, in proportion",
)
EVEN = Pattern(
    "even",
    "e",
    even,
    "how evenly weight spreads over the source words",
    even=True,
    words="all words evenly",
    group="everywhere",
    color="#d55e00",
    clause="spreads over the source",
    queries="all target words",
    keys="all source words, evenly: what a key gets beyond that does not count",
)

UNALIGNED_PATTERNS: tuple[Pattern, ...] = (SAME_PLACE, IDENTICAL, DELIMITER, EVEN)
"""The patterns of cross attention that need no links."""
LINKED_PATTERNS: tuple[Pattern, ...] = (ALIGNED, BEFORE_ALIGNED, AFTER_ALIGNED)
"""Those that gold links tell."""
CROSS_PATTERNS: tuple[Pattern, ...] = (*LINKED_PATTERNS, *UNALIGNED_PATTERNS)
"""All patterns of cross attention, in the order of every table."""
ALL_PATTERNS = tuple(dict.fromkeys((*PATTERNS, *CAUSAL_PATTERNS, *CROSS_PATTERNS)))
"""Those of every attention, each once."""


def patterns_of(
    attention: AttentionName, asked: Sequence[object] = (), *, aligned: bool = False
) -> tuple[Pattern, ...]:
    """The patterns that heads of an attention are scored for, where gold links are known or not.

    Raises: OptionError if one is asked for that needs links, and there are none.
    """
    if attention != "cross":
        return PATTERNS
    if not aligned and (named := next((linked.id for linked in LINKED_PATTERNS if linked.id in asked), None)):
        raise OptionError(
            f"{named} is told by gold alignments, and none are given", "name their file: --alignments FILE"
        )
    return CROSS_PATTERNS if aligned else UNALIGNED_PATTERNS
