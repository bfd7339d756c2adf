"""How tokenizers write their tokens, what is left when their marks are taken off, and which are whole words.

WordPiece writes a piece that continues a word as `##s`; byte-level BPE and SentencePiece mark the start of a word, with
`Ġ` and `▁` (decoded: a space), which a sentence's first word and punctuation often lack; older BPE marks a piece that
goes on (`straw@@`, as in BERTweet and PhoBERT) or one that ends a word (`berries</w>`, as in XLM).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from attnscan.errors import SelectionError, nearest
from attnscan.inputs.sentence import NO_WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CONTINUES = "##"
WORD_STARTS = ("Ġ", "▁", " ")
_GOES_ON = "@@"
WORD_END = "</w>"

_OF_MASKED_MODELS = "[CLS] [SEP] [BOS] [EOS] <cls> <sep> <bos> <eos> <s> </s>"
DELIMITERS = frozenset(f"{_OF_MASKED_MODELS} <|endoftext|> <|begin_of_text|> <|end_of_text|>".split())
"""Special tokens by spelling, for saved weights that do not say which tokens are special."""
PADDING = frozenset(("[PAD]", "<pad>", "<|pad|>"))
Unit = Literal["token", "word"]
Words = Literal["tokenizer", "spaces"]
"""Where words end: where the tokenizer says, or at spaces."""
QuerySide = Literal["predicts", "reads"]
"""Which word a query of cross attention stands for: the one that its position predicts, or the one that it reads."""

_BYTE_INSIDE = re.compile("<0x[89AB][0-9A-F]>")  # a byte behind the first one of a character, in SentencePiece
_JOINER = "\u200d"
_TIED = frozenset((_JOINER, *map(chr, range(0x1F3FB, 0x1F400))))  # and shades of skin
_FREQUENT = 100
_ALPHABETICAL = 0.8  # of neighbours in order; half of them are where ids go by frequency
_START = WORD_STARTS[0]  # stands for every mark of a word's start

Units = tuple[Sequence[str], Sequence[int], Sequence[int]]
"""An input's tokens, and the sentence and the unit that each is of. Shape: all three [token]."""


def bare(token: str) -> str:
    """`token` without its mark of a word's start or end and without case: what makes two words identical."""
    return token.lstrip("".join(WORD_STARTS)).removesuffix(WORD_END).casefold()


def is_punctuation(text: str) -> bool:
    """Whether `text` has neither letter nor digit."""
    return not any(character.isalnum() for character in bare(text))


def join(pieces: Sequence[str]) -> str:
    """One word from its pieces.

    >>> join(["straw", "##berries"]), join([" straw", "berries"]), join(["straw@@", "berries"])
    ('strawberries', ' strawberries', 'strawberries')
    """
    *before, last = (piece if i == 0 else piece.removeprefix(_CONTINUES) for i, piece in enumerate(pieces))
    return "".join(piece.removesuffix(_GOES_ON) for piece in before) + last


def is_part_of_character(before: str, text: str) -> bool:
    """Whether a text goes on with the character before it: an accent by itself, or what a joiner ties to an emoji."""
    ties = unicodedata.category(text[:1] or "x")[0] == "M" or text[:1] in _TIED
    return before.endswith(_JOINER) or (ties and bool(before.strip()))


def splits_words(previous: str, token: str) -> bool:
    """Whether a word ends between two tokens because one of them is punctuation, as `mat` `.`; a space ends none."""
    return bool(bare(previous)) and any(is_punctuation(text) and bare(text) for text in (previous, token))


def continues_word(previous: str, token: str, marks_starts: bool, marks_ends: bool = False) -> bool:
    """Whether `token` goes on with the word of the token before it, judged by spelling alone."""
    if token.startswith(_CONTINUES):
        return len(token) > len(_CONTINUES)
    if _BYTE_INSIDE.fullmatch(token):
        return True
    if previous.endswith(_GOES_ON) and len(previous) > len(_GOES_ON):
        return True
    if marks_ends:
        return not previous.endswith(WORD_END)
    return marks_starts and not token.startswith(WORD_STARTS) and not splits_words(previous, token)


def token_named(text: str, tokens: Sequence[str]) -> int:
    """The index of a token: by its text without case, `#2` behind it for the second of that text, or by index."""
    if re.fullmatch(r"\d{1,9}", text) and int(text) < len(tokens):
        return int(text)
    start, _, count = text.rpartition("#")  # `#2` can be a token's own end, too
    for name, number in ((text, 1), (start, int(count) if re.fullmatch(r"\d{1,9}", count) else 0)):
        places = [i for i, token in enumerate(tokens) if bare(token) == bare(name)]
        if 0 < number <= len(places):
            return places[number - 1]
    hint = nearest(bare(text), map(bare, tokens), f"give a token's text, or an index from 0 to {len(tokens) - 1}")
    raise SelectionError(f"the input has no token '{text}'", hint)


@dataclass(frozen=True)
class WholeWords:
    """The tokens that are words of two letters or more, of letters alone, and no pieces of others."""

    ids: Mapping[str, int]
    """By the word's text without the tokenizer's mark, lowest first."""
    mark: str
    """How the vocabulary marks words or pieces: `##`, `Ġ` (for any mark of a start), `@@` or `</w>`; empty if not."""

    @classmethod
    def of(cls, texts: Mapping[int, str]) -> WholeWords:
        """The whole words among a vocabulary's tokens, special ones left out."""
        bearing = {
            _CONTINUES: sum(text.startswith(_CONTINUES) for text in texts.values()),
            _START: sum(text.startswith(WORD_STARTS) for text in texts.values()),
            _GOES_ON: sum(text.endswith(_GOES_ON) for text in texts.values()),
            WORD_END: sum(text.endswith(WORD_END) for text in texts.values()),
        }
        most = max(bearing, key=bearing.__getitem__)
        words = cls({}, most if bearing[most] else "")
        ids: dict[str, int] = {}
        for number, text in sorted(texts.items()):
            word = "" if words.mark == _START and not text.startswith(WORD_STARTS) else words.without_mark(text)
            # a letter may be a vowel sign; pieces that bear `##` or `@@` are not of letters alone
            if len(word) > 1 and word[0].isalpha() and all(unicodedata.category(letter)[0] in "LM" for letter in word):
                ids.setdefault(word, number)
        return cls(ids, words.mark)

    def without_mark(self, token: str) -> str:
        """What a token that may be a whole word says; empty for one that lacks the mark of a word's end."""
        if self.mark == WORD_END:
            return token.removesuffix(WORD_END) if token.endswith(WORD_END) else ""
        return token.lstrip("".join(WORD_STARTS)) if self.mark == _START else token

    @cached_property
    def frequent(self) -> frozenset[int]:
        """The 100 words of the lowest ids, which are the most frequent; none where ids are in alphabetical order."""
        first = list(self.ids)[:_FREQUENT]
        ascending = sum(word.casefold() <= following.casefold() for word, following in pairwise(first))
        is_alphabetical = ascending > _ALPHABETICAL * max(1, len(first) - 1)
        return frozenset(() if is_alphabetical else (self.ids[word] for word in first))

    def of_units(self, inputs: Sequence[Units]) -> NDArray[np.int64]:
        """Of each unit of some inputs the id of the word that it is, else NO_WORD. Shape: [input, unit]."""
        import numpy as np  # not above: help reads this module, too

        starts, ends = self.mark == _START, self.mark == WORD_END
        numbers = np.full((len(inputs), 1 + max(unit[-1] for *_, unit in inputs)), NO_WORD)
        for row, (tokens, sentence, unit) in enumerate(inputs):
            pieces = Counter(unit)
            for i, token in enumerate(tokens):
                word = self.ids.get(self.without_mark(token), NO_WORD)
                if word == NO_WORD or sentence[i] < 0 or pieces[unit[i]] > 1:
                    continue
                follows = i > 0 and sentence[i - 1] == sentence[i]  # else no mark of a start is needed
                if not (follows and continues_word(tokens[i - 1], token, starts, ends)):
                    numbers[row, unit[i]] = word
        return numbers
