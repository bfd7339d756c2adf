"""The patterns of cross attention, from the words of a target to those of its source.

A batch of cross attention has both texts: its queries are the target's units, which stand behind
the source's, its keys the source's. What is drawn below is "le chat noir" / "the black cat" with
the links 0-0 1-2 2-1; the target's own columns stay empty.

    Shape: EncodedBatch -> [batch, query, key], as in `patterns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attnscan.errors import OptionError
from attnscan.inputs.annotations import links_of
from attnscan.scoring.patterns import (
    CAUSAL_PATTERNS,
    DELIMITER,
    IDENTICAL,
    PATTERNS,
    Pattern,
    shipped,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attnscan.inputs.batch import EncodedBatch


def aligned(batch: EncodedBatch) -> Tensor:
    """Weight on the source words that the word is aligned with.

    Head: finds the source words of the word.

    >>> show(aligned)
             le  chat  noir   the black   cat
      the     1     ·     ·     ·     ·     ·
    black     ·     ·     1     ·     ·     ·
      cat     ·     1     ·     ·     ·     ·
    """
    return _linked(batch, lambda words: words)


def before_aligned(batch: EncodedBatch) -> Tensor:
    """Weight on the source word before those.

    Head: finds the word before the aligned one.

    >>> show(before_aligned)
             le  chat  noir   the black   cat
      the     ·     ·     ·     ·     ·     ·
    black     ·     1     ·     ·     ·     ·
      cat     1     ·     ·     ·     ·     ·
    """
    return _linked(batch, lambda words: [min(words) - 1])


def after_aligned(batch: EncodedBatch) -> Tensor:
    """Weight on the source word behind those.

    Head: finds the word behind the aligned one.

    >>> show(after_aligned)
             le  chat  noir   the black   cat
      the     ·     1     ·     ·     ·     ·
    black     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·
    """
    return _linked(batch, lambda words: [max(words) + 1])


def same_place(batch: EncodedBatch) -> Tensor:
    """Weight on the source word at the same place.

    Target word q of D looks at source word q·(S - 1)/(D - 1) of S, rounded, halves up; at the first
    if D is 1.
    Head: finds the source word at the same place.

    >>> show(same_place)
             le  chat  noir   the black   cat
      the     1     ·     ·     ·     ·     ·
    black     ·     1     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·
    """
    is_query = batch.query_word
    is_key = batch.key_word
    last = is_query.sum(1, keepdim=True) - 1
    last_key = is_key.sum(1, keepdim=True) - 1
    place = is_query.cumsum(1) - 1
    place_of_key = is_key.cumsum(1) - 1
    goal = (2 * place * last_key + last) // (2 * last).clip(1)
    words = is_query[:, batch.queries, None] & is_key[:, None, batch.keys]
    return (place_of_key[:, None, batch.keys] == goal[:, batch.queries, None]) & words


def even(batch: EncodedBatch) -> Tensor:
    """How evenly weight spreads over the source words.

    Head: spreads over the source.

    >>> show(even)
             le  chat  noir   the black   cat
      the   .33   .33   .33     ·     ·     ·
    black   .33   .33   .33     ·     ·     ·
      cat   .33   .33   .33     ·     ·     ·
    """
    inside = batch.query_word[:, batch.queries, None] & batch.key_word[:, None, batch.keys]
    return inside / inside.sum(-1)[..., None].clip(1)


def _linked(batch: EncodedBatch, keys: Callable[[list[int]], list[int]]) -> Tensor:
    """What target words are linked to.

    That is what `keys` makes of the numbers of the source words that are linked to each.
    """
    is_query = batch.query_word[:, batch.queries]
    cells = is_query[:, :, None] & batch.key_word[:, None, batch.keys]
    linked = cells & False
    for row, encoded in enumerate(batch.inputs):
        number = batch.word_number[row]
        for word, words in links_of(encoded.known_pair):
            is_target = (number[:, None] == number.new_tensor(keys(words))).any(-1)
            is_word = number[batch.queries] == word
            linked[row] |= is_word[:, None] & is_target[batch.keys]
    return cells & linked


ALIGNED = shipped(aligned, "A", "#0072b2", "same", "the aligned source words")
LINKED_PATTERNS = (
    ALIGNED,
    shipped(before_aligned, "L", "#e69f00", "back", "the word before the aligned one"),
    shipped(after_aligned, "R", "#56b4e9", "ahead", "the word after the aligned one"),
)
"""Those that gold links tell."""
UNALIGNED_PATTERNS = (
    shipped(same_place, "S", "#cc79a7", "around", "the source word at the same place"),
    IDENTICAL,
    DELIMITER,
    shipped(even, "e", "#d55e00", "everywhere", "all words evenly", even=True),
)
CROSS_PATTERNS = (*LINKED_PATTERNS, *UNALIGNED_PATTERNS)
"""All of cross attention, in the order of every table."""
ALL_PATTERNS = tuple(dict.fromkeys((*PATTERNS, *CAUSAL_PATTERNS, *CROSS_PATTERNS)))
"""Of every attention, each once."""


def cross_patterns(
    requested: Sequence[object] = (), *, aligned: bool = False
) -> tuple[Pattern, ...]:
    """The patterns that heads of cross attention are scored for, where gold links are known or not.

    Raises: OptionError if one is asked for that needs links, and there are none.
    """
    if aligned:
        return CROSS_PATTERNS
    for pattern in LINKED_PATTERNS:
        if pattern.id in requested:
            message = f"{pattern.id} needs gold alignments, and there are none"
            raise OptionError(message, "name their file: ``alignments=FILE``")
    return UNALIGNED_PATTERNS
