"""From sentences to tokens, words and masks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from attnscan.errors import InputError, ModelError, TooLongError
from attnscan.inputs.batch import PADDING, SPECIAL, EncodedInput
from attnscan.inputs.pairs import Pair
from attnscan.inputs.sentence import NO_WORD
from attnscan.inputs.tokenized import Tokenized, sentences_of, start_of, tokenized, tokenized_together
from attnscan.inputs.tokenizer_calls import TokenizerFailed, TokenizerPanicked, asked, explained
from attnscan.inputs.tokens import Unit, is_punctuation
from attnscan.inputs.units import by_spans, by_spelling, by_tokenizer, given_words, numbered
from attnscan.inputs.vocabulary import WholeWords


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
    """The same for some inputs, all at once where the tokenizer can; the error in the place of one that cannot be read.

    Raises: ModelError if the tokenizer comes to no end.
    """

    def failed(why: str) -> InputError:
        return InputError(
            f"the tokenizer {type(tokenizer).__name__} fails on this input: {why}",
            "write it otherwise, or use a model with another tokenizer",
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
    surfaces = _surfaces(read, tokens, sentence, pair)
    words, merges = given_words(pair, sentence, read.spans, type(tokenizer).__name__), unit == "word"
    numbers = _units(read, tokens, surfaces, sentence, words, pair) if merges else tuple(range(len(ids)))
    encoded = EncodedInput(
        tokens=tokens,
        sentence=tuple(sentence),
        unit=numbers,
        punctuation=tuple(map(is_punctuation, surfaces)),
        pair=pair,
        spans=read.spans,
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


def token_texts(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """What some tokens say, by their numbers, written as those of inputs are; `#1` and the like of what is no token."""
    known = asked(tokenizer.convert_ids_to_tokens, list(ids))
    texts = iter(_decoded(tokenizer, [token for token in known if token is not None]))
    return tuple(f"#{id_}" if token is None else next(texts) for id_, token in zip(ids, known, strict=True))


def unknown_words(tokenizer: Any, encoded: EncodedInput) -> list[str]:
    """What the tokenizer does not know in an input that it encoded: as it was written, where it tells, else `[UNK]`."""
    unknown = getattr(tokenizer, "unk_token", None)  # by text: its number may be looked for without end
    words = zip(encoded.tokens, encoded.sentence, strict=True)
    places = [place for place, (token, sentence) in enumerate(words) if token == unknown and sentence >= 0]
    if not encoded.spans or encoded.pair is None:
        return [encoded.tokens[place] for place in places]
    return [encoded.pair.texts[encoded.sentence[place]][slice(*encoded.spans[place])] for place in places]


def encode_tokens(
    tokens: Sequence[str], segments: Sequence[int], special: Sequence[bool], padding: Sequence[bool], unit: Unit
) -> EncodedInput:
    """An input whose tokens are known and whose tokenizer is not: saved weights."""
    sentence = [
        PADDING if pad else SPECIAL if extra else int(segment)
        for segment, extra, pad in zip(segments, special, padding, strict=True)
    ]
    return EncodedInput(
        tokens=tuple(tokens),
        sentence=tuple(sentence),
        unit=numbered(by_spelling(sentence, tokens) if unit == "word" else [False] * len(tokens)),
        punctuation=tuple(is_punctuation(token) for token in tokens),
    )


def check_reads_sentences(tokenizer: Any) -> None:
    """Raises: ModelError if a tokenizer is not for sentences, or is damaged so that it fails on any.

    One that gives up inside its library on a plain sentence is damaged; one that raises may only lack its words.
    """

    def failed(why: str) -> ModelError:
        name, takes = type(tokenizer).__name__, inspect.signature(type(tokenizer).__call__).parameters
        reads = next((what for parameter, what in _READS.items() if parameter in takes), None)
        if reads is None:
            return ModelError(
                f"the tokenizer {name} fails on plain sentences: {why}",
                "see that the tokenizer's files belong together: save them again, with tokenizer.save_pretrained()",
            )
        return ModelError(
            f"the tokenizer {name} reads {reads}, and attnscan gives it sentences",
            "use a model of plain text, such as BERT or RoBERTa",
        )

    with explained(failed):
        try:
            tokenized(tokenizer, Pair(_PLAIN), None)
        except TokenizerPanicked:
            raise
        except TokenizerFailed:
            own = [word for word in asked(tokenizer.get_vocab) if word.isalnum()]
            tokenized(tokenizer, Pair(min(own, default=_PLAIN)), None)


_PLAIN = "The cat sat on the mat, and I bought 12 fresh strawberries!"
_READS = {
    "boxes": "words with their boxes on a page",
    "xpaths": "words with their places in a web page",
    "table": "questions about a table",
    "notes": "musical notes",
    "titles": "a question with titles and texts",
}
"""What a tokenizer reads that takes a parameter of such a name."""


def whole_words(tokenizer: Any) -> WholeWords:
    """The whole words that a tokenizer knows, added ones too.

    Raises: ModelError if it cannot tell.
    """

    def failed(why: str) -> ModelError:
        return ModelError(
            f"the tokenizer {type(tokenizer).__name__} cannot list its words: {why}",
            "see that the tokenizer's files belong together, or pass --no-related",
        )

    with explained(failed):
        return _whole_words(tokenizer)


def _whole_words(tokenizer: Any) -> WholeWords:
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {
        *asked(lambda: tokenizer.all_special_tokens),
        *(token.content for token in added.values() if token.special),
    }
    # by text: a damaged tokenizer that lacks its own unknown token has no end of looking for their numbers
    written = {number: token for token, number in asked(tokenizer.get_vocab).items() if token not in special}
    return WholeWords.of(dict(zip(written, _decoded(tokenizer, list(written.values())), strict=True)))


def _texts(tokenizer: Any, ids: list[int], known: dict[int, str]) -> tuple[str, ...]:
    """What each token says: byte-level tokens decoded, unless they end inside a character. What is `known` grows."""
    if new := list(set(ids).difference(known)):
        known.update(zip(new, _decoded(tokenizer, asked(tokenizer.convert_ids_to_tokens, new)), strict=True))
    return tuple(map(known.__getitem__, ids))


def _decoded(tokenizer: Any, written: list[str]) -> tuple[str, ...]:
    decode = _byte_level_decoder(tokenizer)
    if decode is None:
        return tuple(written)
    decoded = asked(lambda: [decode([token]) for token in written])
    return tuple(w if "\ufffd" in d or not d else d for w, d in zip(written, decoded, strict=True))


def _byte_level_decoder(tokenizer: Any) -> Callable[[list[str]], str] | None:
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if decoder is None or b'"ByteLevel"' not in decoder.__getstate__():
        return None
    decode: Callable[[list[str]], str] = decoder.decode
    return decode


def _merged(tokenizer: Any, ids: list[int], numbers: Sequence[int]) -> tuple[str, ...]:
    """What each unit says, where byte-level tokens end inside characters; nothing of other tokenizers' units."""
    decode = _byte_level_decoder(tokenizer)
    if decode is None:
        return ()
    units: list[list[str]] = [[] for _ in range(numbers[-1] + 1)]
    for token, number in zip(asked(tokenizer.convert_ids_to_tokens, ids), numbers, strict=True):
        units[number].append(token)
    return asked(lambda: tuple(decode(pieces) or "".join(pieces) for pieces in units))


def _surfaces(read: Tokenized, tokens: Sequence[str], sentence: Sequence[int], pair: Pair) -> list[str]:
    """The text that each token stands for, where that is known: an unknown `☃` is written `[UNK]`."""
    if read.fast is None:
        return list(tokens)
    texts = {SPECIAL: "", **dict(enumerate(pair.texts))}
    parts = zip(sentence, read.spans, tokens, strict=True)
    return [texts[of][first:last] or token for of, (first, last), token in parts]


def _units(
    read: Tokenized,
    tokens: Sequence[str],
    surfaces: Sequence[str],
    sentence: Sequence[int],
    words: Sequence[int],
    pair: Pair,
) -> tuple[int, ...]:
    """The unit of each token, words merged: those that are given or, in a sentence where none are, the tokenizer's."""
    if read.fast is None:
        return numbered(by_spelling(sentence, tokens))
    continues = by_tokenizer(sentence, read.fast.word_ids, surfaces)
    if words:
        given = by_spans(sentence, words)
        known = [own >= 0 and pair.sentences[own].words is not None for own in sentence]
        continues = [by if is_given else goes_on for by, is_given, goes_on in zip(given, known, continues, strict=True)]
    return numbered(continues)
