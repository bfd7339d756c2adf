"""Which tokens of a vocabulary are whole words, and which of these are the most frequent: by their spelling alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from attnscan.inputs.tokens import CONTINUES, GOES_ON, WORD_END, WORD_STARTS, continues_word

_FREQUENT = 100
_ALPHABETICAL = 0.8  # of neighbours in order; half of them are where ids go by frequency
NO_WORD = -1
"""In place of a word's id."""
_START = WORD_STARTS[0]  # stands for every mark of a word's start
# What a token says of its neighbours, as bits: that any token goes on with its word, that one without a mark does, and
# that it goes on with the word of one that leaves that open.
_GOES_ON, _MAY_GO_ON, _MAY_FOLLOW, _FACTS = 1, 2, 4, 3

IntArray = NDArray[np.int64]
Units = tuple[Sequence[str], Sequence[int], Sequence[int]]
"""An input's tokens, and the sentence and the unit that each is of. Shape: all three [token]."""


@dataclass(frozen=True)
class WholeWords:
    """The tokens that are words of two letters or more, of letters alone, and no pieces of others."""

    ids: Mapping[str, int]
    """By the word's text without the tokenizer's mark, lowest first."""
    mark: str
    """How the vocabulary marks words or pieces: `##`, `Ġ` (for any mark of a start), `@@` or `</w>`; empty if not."""

    @classmethod
    def of(cls, texts: Mapping[int, str]) -> WholeWords:
        """The whole words among a vocabulary's tokens, special ones left out.

        >>> WholeWords.of({7: "##s", 5: "the", 6: "cat", 8: "a", 9: "2nd"}).ids
        {'the': 5, 'cat': 6}
        >>> WholeWords.of({7: "▁the", 5: "s", 6: "▁Cat"}).ids
        {'Cat': 6, 'the': 7}
        """
        mark = _mark_of(texts.values())
        ids: dict[str, int] = {}
        for number, text in sorted(texts.items()):
            word = _without(mark, text)
            if word is not None and _is_word(word):
                ids.setdefault(word, number)
        return cls(ids, mark)

    @cached_property
    def frequent(self) -> frozenset[int]:
        """The 100 words of the lowest ids: the most frequent ones, or in byte-pair vocabularies those merged first.

        None where the ids are in alphabetical order, which says nothing of frequency.
        """
        first = list(self.ids)[:_FREQUENT]
        ascending = sum(word.casefold() <= following.casefold() for word, following in pairwise(first))
        if ascending > _ALPHABETICAL * max(1, len(first) - 1):
            return frozenset()
        return frozenset(self.ids[word] for word in first)

    def of_units(self, inputs: Sequence[Units]) -> IntArray:
        """Of each unit of some inputs the id of the word that it is; NO_WORD if it is none, or not a token of its own.

        A word that lacks the mark of a start because a sentence or a quotation begins with it counts as the marked one.

        Shape: [input, unit].
        """
        tokens, sentences, units = zip(*inputs, strict=True)
        row = np.repeat(np.arange(len(inputs)), list(map(len, tokens)))
        known, sentence, unit = (
            np.fromiter(chain.from_iterable(parts), np.int64, len(row))
            for parts in ((map(self._known.__getitem__, own) for own in tokens), sentences, units)
        )
        follows = (np.diff(row, prepend=-1) == 0) & (np.diff(sentence, prepend=0) == 0)
        before = np.roll(known, 1)
        goes_on = (before & _GOES_ON > 0) | ((before & _MAY_GO_ON > 0) & (known & _MAY_FOLLOW > 0))
        alone = np.bincount(place := row * (unit.max() + 1) + unit)[place] == 1
        numbers = np.full((len(inputs), unit.max() + 1), NO_WORD)
        word = np.where(alone & (sentence >= 0) & ~(follows & goes_on), (known >> _FACTS) + NO_WORD, NO_WORD)
        numbers[row[alone], unit[alone]] = word[alone]
        return numbers

    @cached_property
    def _known(self) -> _Known:
        return _Known(self)


class _Known(dict[str, int]):
    """Cache: token → (word id + 1) << 3 | flags, which say what it says of its neighbours."""

    def __init__(self, words: WholeWords) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, token: str) -> int:
        mark, ids = self._words.mark, self._words.ids
        continues = partial(continues_word, marks_starts=mark == _START, marks_ends=mark == WORD_END)
        text = token.lstrip("".join(WORD_STARTS)) if mark == _START else _without(mark, token)
        facts = (
            _GOES_ON * continues(token, f"{_START}x")
            + _MAY_GO_ON * continues(token, "x")
            + _MAY_FOLLOW * continues("x", token)
        )
        known = (ids.get(text or "", NO_WORD) - NO_WORD << _FACTS) + facts
        return self.setdefault(token, known)


def _mark_of(texts: Collection[str]) -> str:
    bearing = {
        CONTINUES: sum(text.startswith(CONTINUES) for text in texts),
        _START: sum(text.startswith(WORD_STARTS) for text in texts),
        GOES_ON: sum(text.endswith(GOES_ON) for text in texts),
        WORD_END: sum(text.endswith(WORD_END) for text in texts),
    }
    most = max(bearing, key=lambda mark: bearing[mark])
    return most if bearing[most] else ""


def _without(mark: str, token: str) -> str | None:
    """What a token that may be a whole word says; None for one that goes on, or goes on with another.

    >>> _without("##", "s"), _without("##", "##s"), _without("Ġ", "▁the"), _without("</w>", "straw")
    ('s', None, 'the', None)
    """
    if mark == _START:
        return token.lstrip("".join(WORD_STARTS)) if token.startswith(WORD_STARTS) else None
    if mark == WORD_END:
        return token.removesuffix(WORD_END) if token.endswith(WORD_END) else None
    piece = token.startswith(CONTINUES) if mark == CONTINUES else token.endswith(GOES_ON) and mark == GOES_ON
    return None if piece else token


def _is_word(text: str) -> bool:
    """Whether a text is of two letters or more, and of nothing else; a letter may be a vowel sign.

    >>> _is_word("the"), _is_word("में"), _is_word("a"), _is_word("2nd"), _is_word("it's")
    (True, True, False, False, False)
    """
    if len(text) < 2:
        return False
    return text.isalpha() or (text[0].isalpha() and all(unicodedata.category(letter)[0] in "LM" for letter in text))
