"""From a pair of sentences to tokens, and which of them make a word: by spans, by a tokenizer, or by spelling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise
from typing import Any

from attnscan.errors import InputError, TooLongError
from attnscan.inputs.batch import PADDING, SPECIAL, EncodedInput
from attnscan.inputs.library_calls import asked, explained
from attnscan.inputs.pairs import Pair
from attnscan.inputs.sentence import NO_WORD, Span
from attnscan.inputs.tokenizing import (
    Tokenized,
    byte_level_decoder,
    decoded,
    sentences_of,
    spelled_spans,
    start_of,
    tokenized,
    tokenized_together,
)
from attnscan.inputs.tokens import WORD_END, WORD_STARTS, Unit, continues_word, is_punctuation, splits_words
from attnscan.inputs.weights import SavedWeights


def encode_pair(tokenizer: Any, pair: Pair, unit: Unit, limit: int, truncate: bool) -> EncodedInput:
    """Tokenize one input for a model that reads at most `limit` tokens.

    Raises: InputError if a sentence has no token, or the tokenizer fails on it; TooLongError if the input is too long
    and not to be cut; ModelError if the tokenizer comes to no end.
    """
    (encoded,) = encode_pairs(tokenizer, [pair], unit, limit, truncate)
    if isinstance(encoded, InputError):
        raise encoded
    return encoded


def encode_pairs(
    tokenizer: Any, pairs: Sequence[Pair], unit: Unit, limit: int, truncate: bool
) -> Iterator[EncodedInput | InputError]:
    """Tokenize some inputs, all at once where the tokenizer can; the error in the place of one that cannot be read.

    Raises: ModelError if the tokenizer comes to no end.
    """

    def failed(why: str) -> InputError:
        return InputError(
            f"the tokenizer {type(tokenizer).__name__} fails on this input: {why}",
            "rewrite it, or use a model with another tokenizer",
        )

    texts: dict[int, str] = {}
    for pair, read in zip(pairs, tokenized_together(tokenizer, pairs, limit, truncate), strict=True):
        try:
            with explained(failed):
                encoded = _encoded(tokenizer, pair, unit, limit, truncate, read, texts)
        except InputError as error:
            yield error
        else:
            yield encoded


def _encoded(
    tokenizer: Any, pair: Pair, unit: Unit, limit: int, truncate: bool, read: Tokenized | None, texts: dict[int, str]
) -> EncodedInput:
    """One input, which may have been `read`; `texts` of tokens that were met are kept, by their numbers."""
    whole, pair = pair, start_of(tokenizer, pair, limit, truncate)
    read = read or tokenized(tokenizer, pair, limit if truncate else None)
    ids = read.ids
    if len(ids) > limit:
        raise TooLongError(
            f"the input is {len(ids)} tokens long and the model reads at most {limit}",
            "shorten it, or pass --on-long truncate to cut it",
        )
    sentence = sentences_of(tokenizer, read, pair)
    for number, (name, text) in enumerate(zip("AB", pair.texts, strict=False)):
        if number not in sentence:
            raise InputError(f"the tokenizer finds no word in sentence {name} ({text[:40]!r})", "write it in words")
    tokens = _texts(tokenizer, ids, texts)
    surfaces: Sequence[str] = tokens
    if read.fast is not None:  # it tells what each token stands for: an unknown `☃` is written `[UNK]`
        of_sentence = {SPECIAL: "", **dict(enumerate(pair.texts))}
        parts = zip(sentence, read.spans, tokens, strict=True)
        surfaces = [of_sentence[own][first:last] or token for own, (first, last), token in parts]
    spans, merges = read.spans, unit == "word"
    if read.fast is None and any(known.words is not None for known in pair.sentences):
        spans = spelled_spans(tokenizer, read, sentence, pair)
    words = given_words(pair, sentence, spans, type(tokenizer).__name__)
    numbers = _units(read, tokens, surfaces, sentence, words, pair) if merges else tuple(range(len(ids)))
    encoded = EncodedInput(
        tokens=tokens,
        sentence=tuple(sentence),
        unit=numbers,
        punctuation=tuple(map(is_punctuation, surfaces)),
        pair=pair,
        spans=spans,
        words=words,
        merged=_merged(tokenizer, ids, numbers) if merges else (),
        model_inputs=read.model_inputs,
        truncated=pair != whole
        or (truncate and len(ids) == limit and len(tokenized(tokenizer, pair, None).ids) > limit),
    )
    if not (words and merges):
        return encoded
    units = zip(encoded.units, encoded.unit_sentence, encoded.unit_words, strict=True)
    written = (text if word == NO_WORD else pair.sentences[own].word(word) for text, own, word in units)
    return replace(encoded, merged=tuple(written))


def unknown_words(tokenizer: Any, encoded: EncodedInput) -> list[str]:
    """What the tokenizer does not know in an input that it encoded: as it was written, where it tells, else `[UNK]`."""
    unknown = getattr(tokenizer, "unk_token", None)  # by text: its number may be looked for without end
    words = zip(encoded.tokens, encoded.sentence, strict=True)
    places = [place for place, (token, sentence) in enumerate(words) if token == unknown and sentence >= 0]
    if not encoded.spans or encoded.pair is None:
        return [encoded.tokens[place] for place in places]
    return [encoded.pair.texts[encoded.sentence[place]][slice(*encoded.spans[place])] for place in places]


def encode_tokens(saved: SavedWeights, unit: Unit) -> EncodedInput:
    """An input whose tokens are known and whose tokenizer is not."""
    tokens = saved.tokens
    sentence = [
        PADDING if pad else SPECIAL if extra else int(segment)
        for segment, extra, pad in zip(saved.segments, saved.special, saved.padding, strict=True)
    ]
    return EncodedInput(
        tokens=tokens,
        sentence=tuple(sentence),
        unit=_by_spelling(sentence, tokens) if unit == "word" else tuple(range(len(tokens))),
        punctuation=tuple(is_punctuation(token) for token in tokens),
        source=saved.source,
    )


def _texts(tokenizer: Any, ids: list[int], known: dict[int, str]) -> tuple[str, ...]:
    """What each token says: byte-level tokens decoded, unless they end inside a character. What is `known` grows."""
    if new := list(set(ids).difference(known)):
        known.update(zip(new, decoded(tokenizer, asked(tokenizer.convert_ids_to_tokens, new)), strict=True))
    return tuple(map(known.__getitem__, ids))


def _merged(tokenizer: Any, ids: list[int], numbers: Sequence[int]) -> tuple[str, ...]:
    """What each unit says, where byte-level tokens end inside characters; nothing of other tokenizers' units."""
    decode = byte_level_decoder(tokenizer)
    if decode is None:
        return ()
    units: list[list[str]] = [[] for _ in range(numbers[-1] + 1)]
    for token, number in zip(asked(tokenizer.convert_ids_to_tokens, ids), numbers, strict=True):
        units[number].append(token)
    return asked(lambda: tuple(decode(pieces) or "".join(pieces) for pieces in units))


def _units(
    read: Tokenized,
    tokens: Sequence[str],
    surfaces: Sequence[str],
    sentence: Sequence[int],
    words: Sequence[int],
    pair: Pair,
) -> tuple[int, ...]:
    """The unit of each token, words merged: those that are given or, in a sentence where none are, the tokenizer's.

    A tokenizer's words end at punctuation.
    """
    given = [bool(words) and own >= 0 and pair.sentences[own].words is not None for own in sentence]
    ids = _by_spelling(sentence, tokens) if read.fast is None else read.fast.word_ids

    def goes_on(i: int) -> bool:
        if given[i]:
            return words[i] == words[i - 1] != NO_WORD
        return ids[i] == ids[i - 1] and (read.fast is None or not splits_words(surfaces[i - 1], surfaces[i]))

    return _numbered(sentence, goes_on)


def _by_spelling(sentence: Sequence[int], tokens: Sequence[str]) -> tuple[int, ...]:
    """The unit of each token, by the marks of a word's start or end. Shape: both [token]."""
    marks_starts = any(token.startswith(WORD_STARTS) for token in tokens)
    marks_ends = any(token.endswith(WORD_END) for token in tokens)
    return _numbered(sentence, lambda i: continues_word(tokens[i - 1], tokens[i], marks_starts, marks_ends))


def _numbered(sentence: Sequence[int], goes_on: Callable[[int], bool]) -> tuple[int, ...]:
    """The unit of each token; `goes_on` is asked of those whose neighbour before them is of their sentence."""
    starts = (i == 0 or own < 0 or own != sentence[i - 1] or not goes_on(i) for i, own in enumerate(sentence))
    return tuple(count - 1 for count in accumulate(starts))


def given_words(pair: Pair, sentence: Sequence[int], spans: Sequence[Span], tokenizer: str) -> tuple[int, ...]:
    """Of each token the number of the given word that it belongs to; NO_WORD if it is of none; nothing without words.

    White space that is a token by itself, such as `▁`, belongs to the word behind it.

    Shape: `sentence` and `spans` [token]; `spans` may be empty.
    Raises: InputError if the tokenizer gives no character offsets for its tokens, or not in their order.
    """
    if all(known.words is None for known in pair.sentences):
        return ()
    remedy = "leave the words out, or use a model with a fast tokenizer (tokenizer.json)"
    if not spans:
        what = f"the tokenizer {tokenizer} gives no character offsets for its tokens, and cuts words otherwise alone"
        raise InputError(what, remedy)
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
