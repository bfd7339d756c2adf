"""One input, from its sentences to tokens.

Spans, a tokenizer or spelling tell which tokens make a word.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from typing import Any, NamedTuple

from attnscan.errors import InputError, TooLongError
from attnscan.inputs.sentence import (
    NO_WORD,
    SPECIAL,
    EncodedInput,
    Pair,
    Sentence,
    Span,
    Unit,
    join,
)
from attnscan.inputs.spelling import (
    WORD_STARTS,
    byte_level_decoder,
    is_part_of_character,
    is_punctuation,
    number_units,
    spelled_units,
    splits_words,
    token_texts,
)

# scripts that put no space between words: Thai to Khmer, kana, Han
_NO_SPACES = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}"
)
_NAMED_RUNS = 5  # words in a note, at most
_LONG_TOKEN = 50  # characters of a token, at most


class Tokenized(NamedTuple):
    """What a tokenizer makes of one input."""

    inputs: dict[str, list[int]]
    """What it gives the model."""
    fast: Any
    """What a fast one tells of the tokens; None for one that is written in Python."""


def tokenize(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """What a tokenizer makes of a text or a pair of texts, or of lists of either.

    Raises: InputError if it fails.
    """
    try:
        return tokenizer(*texts, verbose=False, **options)
    except BaseException as error:
        is_panic = type(error).__module__ == "pyo3_runtime"  # of Rust; its class cannot be imported
        if isinstance(error, MemoryError) or not (isinstance(error, Exception) or is_panic):
            raise
        reason = (str(error).strip() or "no reason given").splitlines()[0][:200]
        failure = f"fails on this input: {type(error).__name__}: {reason}"
        raise InputError(
            f"the tokenizer {type(tokenizer).__name__} {failure}",
            "rewrite it, or use a model with another tokenizer",
        ) from error


def encode_pairs(
    tokenizer: Any, pairs: Sequence[Pair], unit: Unit, limit: int, truncate: bool
) -> Iterator[EncodedInput | InputError]:
    """Tokenize some inputs, all at once where the tokenizer can.

    The error stands in the place of one that cannot be read.
    """
    for pair, together in zip(pairs, _tokenize_together(tokenizer, pairs), strict=True):
        try:
            tokenized = together or _tokenize(tokenizer, pair)
            length = len(tokenized.inputs["input_ids"])
            if length > limit:
                if not truncate:
                    raise TooLongError(
                        f"the input is {length} tokens long and the model reads at most {limit}",
                        "shorten it, or pass --on-long truncate to cut it",
                    )
                tokenized = _truncate(tokenizer, pair, limit)
            encoded = _encode(tokenizer, pair, unit, tokenized)
            yield replace(encoded, truncated=length > limit)
        except InputError as error:
            yield error


def _tokenize(tokenizer: Any, pair: Pair, max_length: int | None = None) -> Tokenized:
    """One input; a cut takes from the longer sentence first."""
    truncation: Any = "longest_first" if max_length else False
    encoding = tokenize(tokenizer, pair.a, pair.b, truncation=truncation, max_length=max_length)
    inputs = {name: list(encoding[name]) for name in encoding}
    return Tokenized(inputs, encoding.encodings[0] if encoding.is_fast else None)


def _truncate(tokenizer: Any, pair: Pair, limit: int) -> Tokenized:
    """One input that is too long.

    A fast tokenizer pairs every piece that it cuts off A with each off B: most must be cut before.
    """
    texts = [text[: limit * _LONG_TOKEN] for text in pair.texts]
    return _tokenize(tokenizer, Pair(*texts), limit)


def _tokenize_together(tokenizer: Any, pairs: Sequence[Pair]) -> list[Tokenized | None]:
    """Some inputs in one call; None in place of each where that is not possible."""
    separately: list[Tokenized | None] = [None] * len(pairs)
    numbers_of_texts = {len(pair.texts) for pair in pairs}
    is_fast = getattr(tokenizer, "is_fast", False)
    if not is_fast or len(pairs) < 2 or len(numbers_of_texts) > 1:
        return separately
    texts = [pair.texts for pair in pairs]
    sides = [list(side) for side in zip(*texts, strict=True)]
    with suppress(InputError):
        encoding = tokenize(tokenizer, *sides)
        together: list[Tokenized | None] = []
        for row, fast in enumerate(encoding.encodings):
            together.append(Tokenized({name: encoding[name][row] for name in encoding}, fast))
        return together
    return separately


def _encode(tokenizer: Any, pair: Pair, unit: Unit, tokenized: Tokenized) -> EncodedInput:
    ids = tokenized.inputs["input_ids"]
    sides = _sentences_of(tokenizer, tokenized, pair)
    for number, (name, text) in enumerate(zip("AB", pair.texts, strict=False)):
        if number not in sides:
            raise InputError(
                f"the tokenizer finds no word in sentence {name} ({text[:40]!r})",
                "write it in words",
            )
    tokens = token_texts(tokenizer, ids)
    spans: tuple[Span, ...] = ()
    surfaces: Sequence[str] = tokens
    if tokenized.fast is not None:
        spans = tuple(tokenized.fast.offsets)
        surfaces = _surfaces(pair, sides, spans, tokens)
    elif any(sentence.words is not None for sentence in pair.sentences):
        spans = _spans_between_spaces(tokenizer, ids, sides, pair)
    encoded = EncodedInput(
        tokens=tokens,
        sentence=tuple(sides),
        unit=tuple(range(len(tokens))),
        units=tokens,
        punctuation=tuple(map(is_punctuation, surfaces)),
        pair=pair,
        spans=spans,
        words=_given_words(pair, sides, spans, type(tokenizer).__name__),
        model_inputs=tokenized.inputs,
    )
    if unit == "token":
        return encoded
    return _merge_words(tokenizer, tokenized.fast, encoded, surfaces)


def _surfaces(
    pair: Pair, sides: Sequence[int], spans: Sequence[Span], tokens: Sequence[str]
) -> list[str]:
    """What each token stands for in its text: an unknown `☃` is written `[UNK]`."""
    surfaces = []
    for side, (start, end), token in zip(sides, spans, tokens, strict=True):
        text = pair.texts[side][start:end] if side >= 0 else ""
        surfaces.append(text or token)
    return surfaces


def _sentences_of(tokenizer: Any, tokenized: Tokenized, pair: Pair) -> list[int]:
    """Each token's sentence. Never by token_type_ids, which RoBERTa does not have."""
    if tokenized.fast is not None:
        sequence_ids = tokenized.fast.sequence_ids
        return [SPECIAL if sequence is None else sequence for sequence in sequence_ids]
    # A tokenizer written in Python tells no sequence ids: each sentence's own tokens are sought.
    ids = tokenized.inputs["input_ids"]
    parts = [_own_ids(tokenizer, text) for text in pair.texts]
    length = sum(map(len, parts)) + tokenizer.num_special_tokens_to_add(pair=len(parts) > 1)
    if length > len(ids):
        excess = length - len(ids)
        cut = tokenizer.truncate_sequences(
            *parts, num_tokens_to_remove=excess, truncation_strategy="longest_first"
        )
        parts = list(cut[: len(parts)])
    sentence = [SPECIAL] * len(ids)
    start = 0
    for number, part in enumerate(parts):
        places = (i for i in range(start, len(ids)) if ids[i : i + len(part)] == part)
        at = next(places, None)
        if at is None:
            name = f"sentence {'AB'[number]}"
            raise InputError(
                f"the tokenizer {type(tokenizer).__name__} writes {name} otherwise within a pair",
                "use a model with a fast tokenizer (tokenizer.json)",
            )
        start = at + len(part)
        sentence[at:start] = [number] * len(part)
    return sentence


def _own_ids(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text by itself, without special tokens."""
    return list(tokenize(tokenizer, text, add_special_tokens=False)["input_ids"])


def _spans_between_spaces(
    tokenizer: Any, ids: Sequence[int], sides: Sequence[int], pair: Pair
) -> tuple[Span, ...]:
    """Spans for a tokenizer that gives none: what stands between the spaces around each token.

    Empty unless tokenized by itself that is the same, and has one given word at most.
    """
    spans = [(0, 0)] * len(ids)
    for number, sentence in enumerate(pair.sentences):
        places = [place for place, side in enumerate(sides) if side == number]
        pieces: list[int] = []
        parts: list[Span] = []  # of each piece what stands between the spaces around it
        for match in re.finditer(r"\S+", sentence.text):
            if _words_within(sentence, match.span()) > 1:
                return ()
            part_ids = _own_ids(tokenizer, match[0])
            pieces += part_ids
            parts += [match.span()] * len(part_ids)
        if pieces[: len(places)] != [ids[place] for place in places]:
            return ()
        for place, part in zip(places, parts, strict=False):
            spans[place] = part
    return tuple(spans)


def _words_within(sentence: Sentence, part: Span) -> int:
    """How many given words share a character with a part of the text."""
    start, end = part
    return sum(first < end and start < last for first, last in sentence.words or ())


def _given_words(
    pair: Pair, sides: Sequence[int], spans: Sequence[Span], tokenizer: str
) -> tuple[int, ...]:
    """Of each token the number of the given word that it belongs to, or NO_WORD.

    Nothing without given words.
    """
    if all(sentence.words is None for sentence in pair.sentences):
        return ()
    numbers = [NO_WORD] * len(sides)
    for side, sentence in enumerate(pair.sentences):
        places = [place for place, token_side in enumerate(sides) if token_side == side and spans]
        words = sentence.words_of([spans[place] for place in places])
        following = NO_WORD  # to this belongs white space that is a token by itself, such as `▁`
        for place, number in reversed(list(zip(places, words, strict=True))):
            start, end = spans[place]
            is_space = number == NO_WORD and not sentence.text[start:end].strip()
            following = following if is_space else number
            numbers[place] = following
        if sentence.words and all(numbers[place] == NO_WORD for place in places):
            no_offsets = "gives no character offsets for its tokens that lead to the given words"
            raise InputError(
                f"the tokenizer {tokenizer} {no_offsets}",
                "leave the words out, or use a model with a fast tokenizer (tokenizer.json)",
            )
    return tuple(numbers)


def _merge_words(
    tokenizer: Any, fast: Any, encoded: EncodedInput, surfaces: Sequence[str]
) -> EncodedInput:
    """Merge the pieces of given words, or of the tokenizer's, and those of one character.

    The tokenizer's words end at punctuation.
    """
    sentences = encoded.known_pair.sentences
    word_ids = spelled_units(encoded.sentence, encoded.tokens) if fast is None else fast.word_ids

    def goes_on(i: int) -> bool:
        if fast is not None and _shares_character(encoded.spans, surfaces, i):
            return True
        if encoded.words and sentences[encoded.sentence[i]].words is not None:
            return encoded.words[i] == encoded.words[i - 1] != NO_WORD
        if word_ids[i] != word_ids[i - 1]:
            return False
        return fast is None or not splits_words(surfaces[i - 1], surfaces[i])

    numbers = number_units(encoded.sentence, goes_on)
    return replace(encoded, unit=numbers, units=_unit_texts(tokenizer, encoded, numbers))


def _shares_character(spans: Sequence[Span], surfaces: Sequence[str], i: int) -> bool:
    """Whether a token and the one before it are of one character."""
    before, end = spans[i - 1]
    first, last = spans[i]
    if first < end and before < last:
        return True
    return is_part_of_character(surfaces[i - 1], surfaces[i])


def _unit_texts(tokenizer: Any, encoded: EncodedInput, numbers: Sequence[int]) -> tuple[str, ...]:
    """The text of each unit: its given word, or its pieces joined as the tokenizer does."""
    sentences = encoded.known_pair.sentences
    decode = byte_level_decoder(tokenizer)
    written: Sequence[str] = encoded.tokens
    if decode is not None:
        written = tokenizer.convert_ids_to_tokens(encoded.model_inputs["input_ids"])
    texts = []
    for _, group in groupby(range(len(numbers)), numbers.__getitem__):
        places = list(group)
        first = places[0]
        pieces = [written[place] for place in places]
        if encoded.words and encoded.words[first] != NO_WORD:
            texts.append(sentences[encoded.sentence[first]].word(encoded.words[first]))
        elif decode is None:
            texts.append(join(pieces))
        else:
            texts.append(decode(pieces) or "".join(pieces))
    return tuple(texts)


def notes_of(tokenizer: Any, inputs: Sequence[EncodedInput]) -> list[str]:
    """Notes on special tokens in texts, and on runs without spaces that are read as one word."""
    unknown = getattr(tokenizer, "unk_token", None)
    special = {*tokenizer.all_special_tokens} - {unknown}
    typed = dict.fromkeys(chain.from_iterable(_typed_tokens(each, special) for each in inputs))
    runs = dict.fromkeys(chain.from_iterable(_runs_without_spaces(each) for each in inputs))
    notes = []
    if typed:
        listed = ", ".join(typed)
        notes.append(f"special tokens to the model, and words to attnscan: {listed} in the text")
    if runs:
        marks = "".join(WORD_STARTS)
        texts = ", ".join(text.strip(marks)[:20] for text in list(runs)[:_NAMED_RUNS])
        advice = "put spaces between words and pass --words spaces"
        notes.append(f"one word, since no space divides it: {texts} ({advice})")
    return notes


def _typed_tokens(encoded: EncodedInput, special: set[str]) -> Iterator[str]:
    """Special tokens that stand in a sentence, because they were typed."""
    for token, side in zip(encoded.tokens, encoded.sentence, strict=True):
        if side >= 0 and token in special:
            yield token


def _runs_without_spaces(encoded: EncodedInput) -> Iterator[str]:
    """Units of several tokens in a script that puts no space between words."""
    merges = len(encoded.units) < len(encoded.tokens)
    if not merges or encoded.words:
        return
    for unit, text in enumerate(encoded.units):
        if _NO_SPACES.search(text) and encoded.unit.count(unit) > 1:
            yield text
