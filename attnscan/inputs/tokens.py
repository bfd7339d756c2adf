"""How tokenizers write their tokens, what is left when their marks are taken off, and which are whole words.

Five marks are in use: WordPiece writes a piece that continues a word as `##s`; byte-level BPE and
SentencePiece mark the start of a word, with `Ġ` and `▁` (decoded: a space). A sentence's first word
and punctuation often lack that mark, so its absence alone says nothing. Older BPE marks a piece that
goes on (`straw@@`, as in BERTweet and PhoBERT) or one that ends a word (`berries</w>`, as in XLM).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal

from attnscan.errors import SelectionError, nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CONTINUES = "##"
WORD_STARTS = ("Ġ", "▁", " ")
_GOES_ON = "@@"
WORD_END = "</w>"

DELIMITERS = frozenset(
    ("[CLS]", "[SEP]", "[BOS]", "[EOS]", "<cls>", "<sep>", "<bos>", "<eos>", "<s>", "</s>")  # masked models
).union(("<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>"))  # decoders
"""Special tokens by spelling, for saved weights that do not say which tokens are special."""

PADDING = frozenset(("[PAD]", "<pad>", "<|pad|>"))
Unit = Literal["token", "word"]
Words = Literal["tokenizer", "spaces"]
"""Where words end: where the tokenizer says, or at spaces."""
QuerySide = Literal["predicts", "reads"]
"""Which word a query of cross attention stands for: the one that its position predicts, or the one that it reads."""

_BYTE_INSIDE = re.compile(
    "<0x[89AB][0-9A-F]>"
)  # a byte behind the first one of a character, as SentencePiece writes it
_JOINER = "\u200d"
_TIED = frozenset((_JOINER, *map(chr, range(0x1F3FB, 0x1F400))))  # and shades of skin
_FREQUENT = 100
_ALPHABETICAL = 0.8  # of neighbours in order; half of them are where ids go by frequency
NO_WORD = -1
"""In place of a word's id."""
_START = WORD_STARTS[0]  # stands for every mark of a word's start
# What a token says of its neighbours, as bits: that any token goes on with its word, that one without a mark does, and
# that it goes on with the word of one that leaves that open.
_IS_UNFINISHED, _MAY_GO_ON, _MAY_FOLLOW, _FACTS = 1, 2, 4, 3

Units = tuple[Sequence[str], Sequence[int], Sequence[int]]
"""An input's tokens, and the sentence and the unit that each is of. Shape: all three [token]."""


def bare(token: str) -> str:
    """`token` without its mark of a word's start or end and without case: what makes two words identical.

    >>> bare("ĠThe") == bare("▁the") == bare("the</w>") == bare("the"), bare("##s") == bare("s")
    (True, False)
    """
    return token.lstrip("".join(WORD_STARTS)).removesuffix(WORD_END).casefold()


@lru_cache(1 << 16)
def is_punctuation(text: str) -> bool:
    """Whether `text` has neither letter nor digit.

    >>> is_punctuation("..."), is_punctuation("Ġ,"), is_punctuation("##s"), is_punctuation("語")
    (True, True, False, False)
    """
    if text.isalnum() and not text.startswith(WORD_STARTS):
        return False
    return not any(character.isalnum() for character in bare(text))


def join(pieces: Sequence[str]) -> str:
    """One word from its pieces.

    >>> join(["straw", "##berries"]), join([" straw", "berries"]), join(["straw@@", "berries"])
    ('strawberries', ' strawberries', 'strawberries')
    """
    *before, last = (piece if i == 0 else piece.removeprefix(_CONTINUES) for i, piece in enumerate(pieces))
    return "".join(piece.removesuffix(_GOES_ON) for piece in before) + last


def surface(token: str) -> str:
    """A token without its marks, in its own case.

    >>> surface("▁The"), surface("##s"), surface("straw@@"), surface("berries</w>")
    ('The', 's', 'straw', 'berries')
    """
    return token.lstrip("".join(WORD_STARTS)).removeprefix(_CONTINUES).removesuffix(_GOES_ON).removesuffix(WORD_END)


def is_part_of_character(before: str, text: str) -> bool:
    """Whether a text goes on with the character before it: an accent by itself, or what a joiner ties to an emoji.

    >>> is_part_of_character("e", "\u0301"), is_part_of_character("\u200d", "👩"), is_part_of_character("e", "s")
    (True, True, False)
    """
    ties = unicodedata.category(text[:1] or "x")[0] == "M" or text[:1] in _TIED
    return before.endswith(_JOINER) or (ties and bool(before.strip()))


def splits_words(previous: str, token: str) -> bool:
    """Whether a word ends between two tokens because one of them is punctuation, as `mat` `.`; a space ends none.

    >>> splits_words("mat", "."), splits_words("▁", "."), splits_words("straw", "berries")
    (True, False, False)
    """
    return bool(bare(previous)) and any(is_punctuation(text) and bare(text) for text in (previous, token))


def continues_word(previous: str, token: str, marks_starts: bool, marks_ends: bool = False) -> bool:
    """Whether `token` goes on with the word of the token before it, judged by spelling alone.

    >>> continues_word("straw", "##berries", False), continues_word(" mat", ".", True)
    (True, False)
    >>> continues_word("straw@@", "berries", False), continues_word("straw", "berries</w>", False, True)
    (True, True)
    """
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
    """The index of a token: by its text, `#2` behind it for the second of the same text, or by index itself.

    Case and marks of word starts do not count. What can be read as an index is one.

    >>> token_named("store", ["[CLS]", "the", "ĠStore"]), token_named("1", ["[CLS]", "the"])
    (2, 1)

    Raises: SelectionError if there is none.
    """
    if re.fullmatch(r"\d{1,9}", text) and int(text) < len(tokens):
        return int(text)
    for name, number in _readings(text):
        places = [i for i, token in enumerate(tokens) if bare(token) == bare(name)]
        if places and number > len(places):
            raise SelectionError(f"there is no {name}#{number}: the input has {len(places)} of them", f"try {name}#1")
        if places and number:
            return places[number - 1]
    hint = nearest(bare(text), map(bare, tokens), f"give a token's text, or an index from 0 to {len(tokens) - 1}")
    raise SelectionError(f"the input has no token '{text}'", hint)


def _readings(text: str) -> list[tuple[str, int]]:
    """A token's text and which of that text; `#2` can be a token's own end, too."""
    match = re.fullmatch(r"(.+)#(\d{1,9})", text, re.DOTALL)
    return [(text, 1), *([(match[1], int(match[2]))] if match else [])]


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

    def of_units(self, inputs: Sequence[Units]) -> NDArray[np.int64]:
        """Of each unit of some inputs the id of the word that it is; NO_WORD if it is none, or not a token of its own.

        A word that lacks the mark of a start because a sentence or a quotation begins with it counts as the marked one.

        Shape: [input, unit].
        """
        import numpy as np  # not above: help reads this module, too

        tokens, sentences, units = zip(*inputs, strict=True)
        row = np.repeat(np.arange(len(inputs)), list(map(len, tokens)))
        known, sentence, unit = (
            np.fromiter(chain.from_iterable(parts), np.int64, len(row))
            for parts in ((map(self._known.__getitem__, own) for own in tokens), sentences, units)
        )
        follows = (np.diff(row, prepend=-1) == 0) & (np.diff(sentence, prepend=0) == 0)
        before = np.roll(known, 1)
        goes_on = (before & _IS_UNFINISHED > 0) | ((before & _MAY_GO_ON > 0) & (known & _MAY_FOLLOW > 0))
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
            _IS_UNFINISHED * continues(token, f"{_START}x")
            + _MAY_GO_ON * continues(token, "x")
            + _MAY_FOLLOW * continues("x", token)
        )
        known = (ids.get(text or "", NO_WORD) - NO_WORD << _FACTS) + facts
        return self.setdefault(token, known)


def _mark_of(texts: Collection[str]) -> str:
    bearing = {
        _CONTINUES: sum(text.startswith(_CONTINUES) for text in texts),
        _START: sum(text.startswith(WORD_STARTS) for text in texts),
        _GOES_ON: sum(text.endswith(_GOES_ON) for text in texts),
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
    piece = token.startswith(_CONTINUES) if mark == _CONTINUES else token.endswith(_GOES_ON) and mark == _GOES_ON
    return None if piece else token


def _is_word(text: str) -> bool:
    """Whether a text is of two letters or more, and of nothing else; a letter may be a vowel sign.

    >>> _is_word("the"), _is_word("में"), _is_word("a"), _is_word("2nd"), _is_word("it's")
    (True, True, False, False, False)
    """
    if len(text) < 2:
        return False
    return text.isalpha() or (text[0].isalpha() and all(unicodedata.category(letter)[0] in "LM" for letter in text))
