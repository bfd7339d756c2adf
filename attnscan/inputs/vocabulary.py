"""Which tokens of a vocabulary are whole words, and which of these are the most frequent: by their spelling alone."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from attnscan.inputs.tokens import CONTINUES, GOES_ON, WORD_END, WORD_STARTS, continues_word

_FREQUENT = 100
_ALPHABETICAL = 0.8  # of neighbours in order; half of them are where ids go by frequency
_START = WORD_STARTS[0]  # stands for every mark of a word's start


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
        ascending = sum(one.casefold() <= other.casefold() for one, other in pairwise(first))
        if ascending > _ALPHABETICAL * max(1, len(first) - 1):
            return frozenset()
        return frozenset(self.ids[word] for word in first)

    def of_units(self, tokens: Sequence[str], sentence: Sequence[int], unit: Sequence[int]) -> list[int | None]:
        """Of each unit of an input the id of the word that it is; None if it is none, or not a token of its own.

        A word that lacks the mark of a start because a sentence or a quotation begins with it counts as the marked one.

        Shape: all three [token] -> [unit].
        """
        alone = Counter(unit)
        found: list[int | None] = [None] * (unit[-1] + 1)
        for i, (token, of, number) in enumerate(zip(tokens, sentence, unit, strict=True)):
            if of < 0 or alone[number] > 1 or (i and sentence[i - 1] == of and self._continues(tokens[i - 1], token)):
                continue
            word = token.lstrip("".join(WORD_STARTS)) if self.mark == _START else _without(self.mark, token)
            found[number] = None if word is None else self.ids.get(word)
        return found

    def _continues(self, previous: str, token: str) -> bool:
        return continues_word(previous, token, self.mark == _START, self.mark == WORD_END)


def _mark_of(texts: Collection[str]) -> str:
    """The mark that most tokens bear."""
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
    return text.isalpha() or (text[0].isalpha() and all(unicodedata.category(each)[0] in "LM" for each in text))
