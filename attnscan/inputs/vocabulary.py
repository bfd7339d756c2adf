"""A vocabulary's whole words, and which of them are the most frequent."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.inputs.sentence import CONTINUES, GOES_ON, NO_WORD
from attnscan.inputs.spelling import WORD_END, WORD_STARTS, continues_word, decode_tokens

_FREQUENT = 100
_ALPHABETICAL = 0.8  # of neighbours in order; half of them are where ids go by frequency
_START = WORD_STARTS[0]  # stands for every mark of a word's start

Units = tuple[Sequence[str], Sequence[int], Sequence[int]]
"""An input's tokens, and the sentence and the unit that each is of. Shape: all three [token]."""


@dataclass(frozen=True)
class WholeWords:
    """The tokens that are words of two letters or more, of letters alone, and no pieces."""

    ids: dict[str, int]
    """By the word's text without the tokenizer's mark, lowest first."""
    mark: str
    """How the vocabulary marks words or pieces; empty if not.

    It is `##`, `Ġ` (for any mark of a start), `@@` or `</w>`.
    """

    @classmethod
    def from_tokens(cls, texts: Mapping[int, str]) -> WholeWords:
        """The whole words among a vocabulary's tokens, special ones left out."""
        counts = {
            CONTINUES: sum(text.startswith(CONTINUES) for text in texts.values()),
            _START: sum(text.startswith(WORD_STARTS) for text in texts.values()),
            GOES_ON: sum(text.endswith(GOES_ON) for text in texts.values()),
            WORD_END: sum(text.endswith(WORD_END) for text in texts.values()),
        }
        mark = max(counts, key=counts.__getitem__)
        words = cls({}, mark if counts[mark] else "")
        for number, text in sorted(texts.items()):
            has_start = words.mark != _START or text.startswith(WORD_STARTS)
            word = words.without_mark(text) if has_start else ""
            if _is_whole_word(word):
                words.ids.setdefault(word, number)
        return words

    def without_mark(self, token: str) -> str:
        """A token's text without its mark; empty if it lacks the mark of a word's end."""
        if self.mark == WORD_END:
            return token.removesuffix(WORD_END) if token.endswith(WORD_END) else ""
        if self.mark == _START:
            return token.lstrip("".join(WORD_STARTS))
        return token

    @cached_property
    def frequent(self) -> frozenset[int]:
        """The 100 words of the lowest ids, which are the most frequent.

        None where ids are in alphabetical order.
        """
        first = list(self.ids)[:_FREQUENT]
        ascending = sum(word.casefold() <= after.casefold() for word, after in pairwise(first))
        if ascending > _ALPHABETICAL * max(1, len(first) - 1):
            return frozenset()
        return frozenset(self.ids[word] for word in first)

    def word_ids(self, inputs: Sequence[Units]) -> NDArray[np.int64]:
        """Of each unit of some inputs the id of the word that it is, else NO_WORD.

        Shape: [input, unit].
        """
        width = 1 + max(unit[-1] for *_, unit in inputs)
        numbers = np.full((len(inputs), width), NO_WORD)
        for row, (tokens, sentence, unit) in enumerate(inputs):
            pieces = Counter(unit)
            for i, token in enumerate(tokens):
                word = self.ids.get(self.without_mark(token), NO_WORD)
                if word == NO_WORD or sentence[i] < 0 or pieces[unit[i]] > 1:
                    continue
                # the first token of a sentence needs no mark of a start
                follows = i > 0 and sentence[i - 1] == sentence[i]
                if not follows or not self._continues(tokens[i - 1], token):
                    numbers[row, unit[i]] = word
        return numbers

    def _continues(self, previous: str, token: str) -> bool:
        return continues_word(previous, token, self.mark == _START, self.mark == WORD_END)


def _is_whole_word(word: str) -> bool:
    """Whether a token's text has letters alone, which pieces that bear `##` or `@@` do not.

    A letter behind the first may be a vowel sign.
    """
    if len(word) < 2 or not word[0].isalpha():
        return False
    return all(unicodedata.category(letter)[0] in "LM" for letter in word)


def whole_words(tokenizer: Any) -> WholeWords:
    """The whole words that a tokenizer knows, added ones too."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    special = {*tokenizer.all_special_tokens, *(token.content for token in added if token.special)}
    vocabulary = tokenizer.get_vocab().items()
    tokens = {number: token for token, number in vocabulary if token not in special}
    texts = decode_tokens(tokenizer, list(tokens.values()))
    return WholeWords.from_tokens(dict(zip(tokens, texts, strict=True)))
