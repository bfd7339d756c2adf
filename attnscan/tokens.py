"""How tokenizers write their tokens, and what is left when their marks are taken off.

Three marks are in use: WordPiece writes a piece that continues a word as `##s`; byte-level BPE and
SentencePiece mark the start of a word, with `Ġ` and `▁` (decoded: a space). A sentence's first word
and punctuation often lack that mark, so its absence alone says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

CONTINUES = "##"
WORD_STARTS = ("Ġ", "▁", " ")

DELIMITERS = frozenset(
    ("[CLS]", "[SEP]", "[BOS]", "[EOS]", "<cls>", "<sep>", "<bos>", "<eos>", "<s>", "</s>")  # masked models
).union(("<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>"))  # decoders
"""Special tokens by spelling, for saved weights that do not say which tokens are special."""

PADDING = frozenset(("[PAD]", "<pad>", "<|pad|>"))


def bare(token: str) -> str:
    """`token` without its word-start mark and without case: what makes two words identical.

    >>> bare("ĠThe") == bare("▁the") == bare("the"), bare("##s") == bare("s")
    (True, False)
    """
    return token.lstrip("".join(WORD_STARTS)).casefold()


def is_punctuation(text: str) -> bool:
    """Whether `text` has neither letter nor digit.

    >>> is_punctuation("..."), is_punctuation("Ġ,"), is_punctuation("##s"), is_punctuation("語")
    (True, True, False, False)
    """
    return not any(character.isalnum() for character in bare(text))


def join(pieces: Sequence[str]) -> str:
    """One word from its pieces.

    >>> join(["straw", "##berries"]), join([" straw", "berries"])
    ('strawberries', ' strawberries')
    """
    return pieces[0] + "".join(piece.removeprefix(CONTINUES) for piece in pieces[1:])


def splits_words(previous: str, token: str) -> bool:
    """Whether a word ends between two tokens because one of them is punctuation: `mat` `.`"""
    return any(is_punctuation(text) and bare(text) for text in (previous, token))


def marks_word_starts(tokens: Sequence[str]) -> bool:
    """Whether these tokens come from a tokenizer that marks where words start."""
    return any(token.startswith(WORD_STARTS) for token in tokens)


def continues_word(previous: str, token: str, marks_starts: bool) -> bool:
    """Whether `token` goes on with the word of the token before it, judged by spelling alone.

    >>> continues_word("straw", "##berries", False), continues_word(" mat", ".", True)
    (True, False)
    """
    if token.startswith(CONTINUES):
        return len(token) > len(CONTINUES)
    return marks_starts and not token.startswith(WORD_STARTS) and not splits_words(previous, token)
