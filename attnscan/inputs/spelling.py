"""How tokenizers write words: marks of their starts and ends, and which tokens make one word.

WordPiece writes a piece that continues a word as `##s`; byte-level BPE and SentencePiece mark the
start of a word, with `Ġ` and `▁` (decoded: a space), which a sentence's first word and punctuation
often lack; older BPE marks a piece that goes on (`straw@@`, as in BERTweet and PhoBERT) or one that
ends a word (`berries</w>`, as in XLM).
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from attnscan.errors import SelectionError, nearest
from attnscan.inputs.sentence import CONTINUES, GOES_ON

WORD_STARTS = ("Ġ", "▁", " ")
WORD_END = "</w>"
# in SentencePiece, a byte behind the first one of a character
_BYTE_INSIDE = re.compile("<0x[89AB][0-9A-F]>")
_JOINER = "\u200d"
_TIED = frozenset((_JOINER, *map(chr, range(0x1F3FB, 0x1F400))))  # and shades of skin


def bare(token: str) -> str:
    """`token` without its mark of a word's start or end and without case.

    Two words are identical if this is equal.
    """
    return token.lstrip("".join(WORD_STARTS)).removesuffix(WORD_END).casefold()


def unmarked(token: str) -> str:
    """`token` without marks and white space: the text that it spells."""
    text = token.strip("".join(WORD_STARTS)).removesuffix(WORD_END).removesuffix(GOES_ON)
    return text.removeprefix(CONTINUES).strip()


def is_punctuation(text: str) -> bool:
    """Whether `text` has neither letter nor digit."""
    return not any(character.isalnum() for character in bare(text))


def is_part_of_character(before: str, text: str) -> bool:
    """Whether a text goes on with the character before it.

    That is an accent by itself, or what a joiner ties to an emoji.
    """
    if before.endswith(_JOINER):
        return True
    first = text[:1]
    is_accent = first != "" and unicodedata.category(first)[0] == "M"
    return (is_accent or first in _TIED) and bool(before.strip())


def splits_words(previous: str, token: str) -> bool:
    """Whether a word ends between two tokens because one of them is punctuation, as `mat` `.`.

    A space ends none.
    """
    if not bare(previous):
        return False
    return any(is_punctuation(text) and bare(text) for text in (previous, token))


def continues_word(previous: str, token: str, marks_starts: bool, marks_ends: bool = False) -> bool:
    """Whether `token` goes on with the word of the token before it, judged by spelling alone."""
    if token.startswith(CONTINUES):
        return len(token) > len(CONTINUES)
    if _BYTE_INSIDE.fullmatch(token):
        return True
    if previous.endswith(GOES_ON) and len(previous) > len(GOES_ON):
        return True
    if marks_ends:
        return not previous.endswith(WORD_END)
    return marks_starts and not token.startswith(WORD_STARTS) and not splits_words(previous, token)


def spelled_units(sentence: Sequence[int], tokens: Sequence[str]) -> tuple[int, ...]:
    """The unit of each token, by the marks of a word's start or end. Shape: both [token]."""
    marks_starts = any(token.startswith(WORD_STARTS) for token in tokens)
    marks_ends = any(token.endswith(WORD_END) for token in tokens)

    def goes_on(i: int) -> bool:
        return continues_word(tokens[i - 1], tokens[i], marks_starts, marks_ends)

    return number_units(sentence, goes_on)


def number_units(sentence: Sequence[int], goes_on: Callable[[int], bool]) -> tuple[int, ...]:
    """The unit of each token.

    `goes_on` is asked of those whose neighbour before them is of their sentence.
    """
    starts = []
    for i, side in enumerate(sentence):
        follows = i > 0 and side >= 0 and side == sentence[i - 1]
        starts.append(not (follows and goes_on(i)))
    return tuple(count - 1 for count in accumulate(starts))


def token_named(text: str, tokens: Sequence[str]) -> int:
    """The index of a token: by its text without case, or by index.

    `#2` behind the text names the second token of that text. Raises: SelectionError.
    """
    if re.fullmatch(r"\d{1,9}", text) and int(text) < len(tokens):
        return int(text)
    start, _, count = text.rpartition("#")
    number = int(count) if re.fullmatch(r"\d{1,9}", count) else 0
    for name, which in ((text, 1), (start, number)):  # `#2` can be a token's own end, too
        places = [i for i, token in enumerate(tokens) if bare(token) == bare(name)]
        if 0 < which <= len(places):
            return places[which - 1]
    hint = f"give a token's text, or an index from 0 to {len(tokens) - 1}"
    raise SelectionError(
        f"the input has no token '{text}'", nearest(bare(text), map(bare, tokens), hint)
    )


def token_texts(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """The texts of some tokens, by their ids, written as those of inputs are.

    They are `#1` and the like for what is no token.
    """
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    known = [
        f"#{number}" if token is None else token for number, token in zip(ids, tokens, strict=True)
    ]
    return tuple(decode_tokens(tokenizer, known))


def decode_tokens(tokenizer: Any, tokens: list[str]) -> list[str]:
    """The texts of some tokens: byte-level ones decoded, unless they end inside a character."""
    decode = byte_level_decoder(tokenizer)
    if decode is None:
        return tokens
    texts = [decode([token]) for token in tokens]
    is_whole = [bool(text) and "\ufffd" not in text for text in texts]
    return [
        text if whole else token for token, text, whole in zip(tokens, texts, is_whole, strict=True)
    ]


def byte_level_decoder(tokenizer: Any) -> Any:
    """The function that makes text of a list of byte-level tokens.

    None for a tokenizer of another kind.
    """
    decoder: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if decoder is None or b'"ByteLevel"' not in decoder.__getstate__():
        return None
    return decoder.decode
