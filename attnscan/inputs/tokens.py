"""How tokenizers write their tokens, and what is left when their marks are taken off.

Five marks are in use: WordPiece writes a piece that continues a word as `##s`; byte-level BPE and
SentencePiece mark the start of a word, with `Ġ` and `▁` (decoded: a space). A sentence's first word
and punctuation often lack that mark, so its absence alone says nothing. Older BPE marks a piece that
goes on (`straw@@`, as in BERTweet and PhoBERT) or one that ends a word (`berries</w>`, as in XLM).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from attnscan.errors import SelectionError, nearest

CONTINUES = "##"
WORD_STARTS = ("Ġ", "▁", " ")
GOES_ON = "@@"
WORD_END = "</w>"

DELIMITERS = frozenset(
    ("[CLS]", "[SEP]", "[BOS]", "[EOS]", "<cls>", "<sep>", "<bos>", "<eos>", "<s>", "</s>")  # masked models
).union(("<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>"))  # decoders
"""Special tokens by spelling, for saved weights that do not say which tokens are special."""

PADDING = frozenset(("[PAD]", "<pad>", "<|pad|>"))
Unit = Literal["token", "word"]
QuerySide = Literal["predicts", "reads"]
"""Which word a query of cross attention stands for: the one that its position predicts, or the one that it reads."""


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
    *before, last = (piece if i == 0 else piece.removeprefix(CONTINUES) for i, piece in enumerate(pieces))
    return "".join(piece.removesuffix(GOES_ON) for piece in before) + last


def surface(token: str) -> str:
    """A token without its marks, in its own case.

    >>> surface("▁The"), surface("##s"), surface("straw@@"), surface("berries</w>")
    ('The', 's', 'straw', 'berries')
    """
    return token.lstrip("".join(WORD_STARTS)).removeprefix(CONTINUES).removesuffix(GOES_ON).removesuffix(WORD_END)


def splits_words(previous: str, token: str) -> bool:
    """Whether a word ends between two tokens because one of them is punctuation: `mat` `.`"""
    return any(is_punctuation(text) and bare(text) for text in (previous, token))


def continues_word(previous: str, token: str, marks_starts: bool, marks_ends: bool = False) -> bool:
    """Whether `token` goes on with the word of the token before it, judged by spelling alone.

    >>> continues_word("straw", "##berries", False), continues_word(" mat", ".", True)
    (True, False)
    >>> continues_word("straw@@", "berries", False), continues_word("straw", "berries</w>", False, True)
    (True, True)
    """
    if token.startswith(CONTINUES):
        return len(token) > len(CONTINUES)
    if previous.endswith(GOES_ON) and len(previous) > len(GOES_ON):
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
