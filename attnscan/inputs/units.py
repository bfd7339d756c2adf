"""Which tokens make a word: by spans that somebody gives, by the words that a tokenizer cuts, or by spelling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

from attnscan.errors import InputError
from attnscan.inputs.pairs import Pair
from attnscan.inputs.sentence import NO_WORD, Span
from attnscan.inputs.tokens import WORD_END, WORD_STARTS, continues_word, splits_words


def given_words(pair: Pair, sentence: Sequence[int], spans: Sequence[Span], tokenizer: str) -> tuple[int, ...]:
    """Of each token the number of the given word that it belongs to; NO_WORD if it is of none; nothing without words.

    White space that is a token by itself, such as `▁`, belongs to the word behind it.

    Shape: `sentence` and `spans` [token]; `spans` may be empty.
    Raises: InputError if the tokenizer does not tell which characters its tokens stand for, or not in their order.
    """
    if all(known.words is None for known in pair.sentences):
        return ()
    remedy = "leave the words out, or use a model with a fast tokenizer (tokenizer.json)"
    if not spans:
        raise InputError(f"the tokenizer {tokenizer} does not tell which characters its tokens stand for", remedy)
    numbers = [NO_WORD] * len(sentence)
    for name, known in zip("AB", pair.sentences, strict=False):
        places = [place for place, own in enumerate(sentence) if own == "AB".index(name)]
        pieces = [spans[place] for place in places]
        own = known.words_of(pieces)
        for i in range(len(own) - 2, -1, -1):  # white space alone, such as `▁`, is the start of the word behind it
            if own[i] == NO_WORD and not known.text[slice(*pieces[i])].strip():
                own[i] = own[i + 1]
        for place, number in zip(places, own, strict=True):
            numbers[place] = number
        met = [number for number, _ in groupby(own) if number != NO_WORD]
        if known.words and not met:
            raise InputError(f"no token of sentence {name} shares a character with one of its words", remedy)
        if any(number >= later for number, later in pairwise(met)):
            raise InputError(f"the tokenizer {tokenizer} does not cut sentence {name} from left to right", remedy)
    return tuple(numbers)


def by_spans(sentence: Sequence[int], words: Sequence[int]) -> list[bool]:
    """Whether each token goes on with the given word of the token before it; one of no word stands alone.

    Shape: both [token].
    """
    named = list(zip(sentence, words, strict=True))
    return [i > 0 and named[i][1] != NO_WORD and named[i] == named[i - 1] for i in range(len(named))]


def by_tokenizer(sentence: Sequence[int], words: Sequence[int | None], surfaces: Sequence[str]) -> list[bool]:
    """Whether each token goes on with the word of the token before it, as a tokenizer numbers words; not punctuation.

    Shape: all [token]; `surfaces` are the texts that the tokens stand for.
    """
    return [
        i > 0
        and sentence[i] >= 0
        and (sentence[i], words[i]) == (sentence[i - 1], words[i - 1])
        and not splits_words(surfaces[i - 1], surfaces[i])
        for i in range(len(sentence))
    ]


def by_spelling(sentence: Sequence[int], tokens: Sequence[str]) -> list[bool]:
    """Whether each token goes on with the word of the token before it, by the marks of a word's start or end.

    Shape: both [token].
    """
    marks_starts = any(token.startswith(WORD_STARTS) for token in tokens)
    marks_ends = any(token.endswith(WORD_END) for token in tokens)
    return [
        i > 0
        and sentence[i] >= 0
        and sentence[i - 1] == sentence[i]
        and continues_word(tokens[i - 1], tokens[i], marks_starts, marks_ends)
        for i in range(len(tokens))
    ]


def numbered(continues: Sequence[bool]) -> tuple[int, ...]:
    """The unit of each token; the first token goes on with none."""
    return tuple(count - 1 for count in accumulate(not goes_on for goes_on in continues))
