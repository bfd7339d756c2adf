"""One input, from its sentences to tokens.

Spans, a tokenizer or spelling tell which tokens make a word.
"""

import json
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
    unmarked,
)

# scripts that put no space between words: Thai to Khmer, kana, Han
_NO_SPACES = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}"
)
_SPACE = re.compile(r"[ \n]")
_NAMED_RUNS = 5  # words in a note, at most
_LONG_TEXT = 16  # characters for each token that the model reads, from which a text is cut early
_MOST_CHARACTERS = 10_000_000  # that are tokenized at once: more take gigabytes
_BY_CHARACTERS = frozenset(
    ("BertNormalizer", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD")
)
"""Normalizers that change no character by what stands behind a space."""
_AT_SPACES = frozenset(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"))
"""Pre-tokenizers that split at white space."""


class FastTokens(NamedTuple):
    """What a fast tokenizer tells of its tokens. Shape: each [token]."""

    offsets: Sequence[Span]
    sequence_ids: list[int | None]
    word_ids: Sequence[int | None]


class Tokenized(NamedTuple):
    """What a tokenizer makes of one input."""

    inputs: dict[str, list[int]]
    """What it gives the model."""
    fast: FastTokens | None
    """None for a tokenizer that is written in Python."""


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

    The error stands in the place of one that cannot be read. What is cut has the tokens of
    `tokenizer(a, b, truncation=True, max_length=limit)`.
    """
    texts = [_texts_to_read(tokenizer, pair, limit, truncate) for pair in pairs]
    for pair, to_read, together in zip(
        pairs, texts, _tokenize_together(tokenizer, texts), strict=True
    ):
        try:
            if isinstance(to_read, InputError):
                raise to_read
            tokenized = together or _tokenize(tokenizer, to_read)
            length = len(tokenized.inputs["input_ids"])
            if length > limit:
                if not truncate:
                    raise _too_long(f"{length} tokens", limit)
                tokenized = _truncate(tokenizer, to_read, tokenized, limit)
            encoded = _encode(tokenizer, pair, unit, tokenized)
            yield replace(encoded, truncated=length > limit)
        except InputError as error:
            yield error


def _too_long(length: str, limit: int) -> TooLongError:
    return TooLongError(
        f"the input is {length} long and the model reads at most {limit}",
        "shorten it, or pass ``on_long=truncate`` to cut it",
    )


def _texts_to_read(
    tokenizer: Any, pair: Pair, limit: int, truncate: bool
) -> tuple[str, ...] | InputError:
    """The texts of a pair, cut early where that is proved to change nothing of the tokens.

    A text that cannot be cut so, and is too large to be tokenized whole, is an error.
    """
    texts = list(pair.texts)
    sizes = [len(text) for text in texts]
    is_huge = max(sizes) > _MOST_CHARACTERS
    is_long = truncate and max(sizes) > _LONG_TEXT * limit
    if (is_huge or is_long) and _splits_at_spaces(tokenizer):
        parts = [_first_words(tokenizer, text, limit) for text in texts]
        if not truncate and parts != texts:
            return _too_long(f"more than {limit} tokens", limit)
        is_cut = [part != text for part, text in zip(parts, texts, strict=True)]
        if _halves_are_equal(tokenizer, limit):
            texts = parts
        elif is_cut.count(True) == 1:
            texts = _cut_longer_than_the_other(tokenizer, texts, is_cut.index(True), limit)
    for name, text in zip("AB", texts, strict=False):
        if len(text) > _MOST_CHARACTERS:
            return TooLongError(
                f"sentence {name} has {len(text):,} characters, and at most "
                f"{_MOST_CHARACTERS:,} are read at once",
                "cut it before, or divide it into several records",
            )
    return tuple(texts)


def _halves_are_equal(tokenizer: Any, limit: int) -> bool:
    """Whether two long sentences are cut to equal lengths; else the longer one keeps one more."""
    return (limit - int(tokenizer.num_special_tokens_to_add(pair=True))) % 2 == 0


def _cut_longer_than_the_other(
    tokenizer: Any, texts: Sequence[str], long: int, limit: int
) -> list[str]:
    """The texts, that of number `long` cut where it still has more tokens than the other one.

    So the longer one stays the longer one, which may keep one token more.
    """
    parts = list(texts)
    n_tokens = limit
    for number, text in enumerate(texts):
        if number != long and len(text) <= _MOST_CHARACTERS:
            n_tokens = max(limit, len(_own_ids(tokenizer, text)))
    parts[long] = _first_words(tokenizer, texts[long], n_tokens)
    return parts


def _first_words(tokenizer: Any, text: str, limit: int) -> str:
    """The text up to a space behind more tokens than the model reads, else all of it.

    It is for a tokenizer that splits at spaces, whose tokens before one are those of the whole.
    """
    size = _LONG_TEXT * limit
    while size < min(len(text), _MOST_CHARACTERS):
        space = _SPACE.search(text, size, _MOST_CHARACTERS)
        if space is None:
            break
        part = text[: space.start()]
        if len(_own_ids(tokenizer, part)) > limit:
            return part
        size = 4 * space.start()
    return text


def _splits_at_spaces(tokenizer: Any) -> bool:
    """Whether it is proved that a tokenizer splits at spaces, cuts at the end, and is fast.

    Its first step changes characters one by one, the second splits at white space, and no token
    that was added spans a space.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or tokenizer.truncation_side != "right":
        return False
    functions = (getattr(type(tokenizer), name, None) for name in ("__call__", "_encode_plus"))
    if not all(getattr(f, "__module__", "").startswith("transformers.") for f in functions):
        return False
    normalizers = _steps(backend.normalizer, "normalizers")
    splitters = _steps(backend.pre_tokenizer, "pretokenizers")
    if not _BY_CHARACTERS.issuperset(normalizers) or not splitters:
        return False
    added = tokenizer.added_tokens_decoder.values()
    spans_spaces = any(re.search(r"\s", token.content) for token in added)
    return splitters[0] in _AT_SPACES and not spans_spaces


def _steps(part: Any, several: str) -> list[str]:
    """The types of the steps of a tokenizer's normalizer or pre-tokenizer."""
    if part is None:
        return []
    state = json.loads(part.__getstate__())
    return [step["type"] for step in state.get(several, [state])]


def _tokenize(tokenizer: Any, texts: Sequence[str], max_length: int | None = None) -> Tokenized:
    """One input of one or two texts, cut if there is a `max_length`."""
    options: dict[str, Any] = {}
    if max_length is not None:
        options = {"truncation": True, "max_length": max_length}
    encoding = tokenize(tokenizer, *texts, **options)
    inputs = {name: list(encoding[name]) for name in encoding}
    return Tokenized(inputs, _fast_tokens(encoding.encodings[0]) if encoding.is_fast else None)


def _fast_tokens(encoding: Any) -> FastTokens:
    return FastTokens(encoding.offsets, encoding.sequence_ids, encoding.word_ids)


def _truncate(tokenizer: Any, texts: Sequence[str], whole: Tokenized, limit: int) -> Tokenized:
    """One input that is too long, as the tokenizer cuts it.

    A fast tokenizer makes an input of every piece that it cuts off A with each off B, so where both
    are long they are cut before: to parts that the tokenizer writes as it does in the whole text.
    """
    if whole.fast is None or len(texts) < 2:
        return _tokenize(tokenizer, texts, limit)
    n_first = whole.fast.sequence_ids.count(0)
    n_second = whole.fast.sequence_ids.count(1)
    if min(n_first, n_second) <= 4 * limit:
        return _tokenize(tokenizer, texts, limit)
    # the longer one may keep one token more, so its part is the longer one, too
    first = _long_part(tokenizer, texts[0], limit, 4 if n_first > n_second else 2)
    second = _long_part(tokenizer, texts[1], limit, 2 if n_first > n_second else 4)
    if (first.n_tokens > second.n_tokens) != (n_first > n_second):
        return _tokenize(tokenizer, texts, limit)
    cut = _tokenize(tokenizer, [first.text, second.text], limit)
    assert cut.fast is not None
    starts = {None: 0, 0: first.start, 1: second.start}
    offsets = []
    for (start, end), side in zip(cut.fast.offsets, cut.fast.sequence_ids, strict=True):
        offsets.append((starts[side] + start, starts[side] + end))
    return Tokenized(cut.inputs, cut.fast._replace(offsets=offsets))


class _Part(NamedTuple):
    """A part of a text, the place of its first character, and how many tokens it has."""

    text: str
    start: int
    n_tokens: int


def _long_part(tokenizer: Any, text: str, limit: int, times: int) -> _Part:
    """The part of a text that a fast tokenizer keeps when it cuts, some times as long as it keeps.

    Its tokens are those of the whole text, which is tried; if there is no such part, it is all.
    """
    is_left = tokenizer.truncation_side == "left"
    whole = tokenize(tokenizer, text, add_special_tokens=False).encodings[0]
    kept = slice(-limit - 1, None) if is_left else slice(limit + 1)
    n_tokens = times * (limit + 1)
    while n_tokens < len(whole.ids):
        start = whole.offsets[-n_tokens][0] if is_left else 0
        end = None if is_left else whole.offsets[n_tokens][0]
        part = tokenize(tokenizer, text[start:end], add_special_tokens=False).encodings[0]
        offsets = [(start + first, start + last) for first, last in part.offsets[kept]]
        if part.ids[kept] == whole.ids[kept] and offsets == whole.offsets[kept]:
            return _Part(text[start:end], start, len(part.ids))
        n_tokens *= 2
    return _Part(text, 0, len(whole.ids))


def _tokenize_together(
    tokenizer: Any, inputs: Sequence[tuple[str, ...] | InputError]
) -> list[Tokenized | None]:
    """Some inputs in one call; None in place of each where that is not possible."""
    separately: list[Tokenized | None] = [None] * len(inputs)
    texts = [texts for texts in inputs if not isinstance(texts, InputError)]
    is_fast = getattr(tokenizer, "is_fast", False)
    if not is_fast or len(texts) < max(2, len(inputs)) or len(set(map(len, texts))) > 1:
        return separately
    sides = [list(side) for side in zip(*texts, strict=True)]
    with suppress(InputError):
        encoding = tokenize(tokenizer, *sides)
        together: list[Tokenized | None] = []
        for row, fast in enumerate(encoding.encodings):
            inputs_of_row = {name: encoding[name][row] for name in encoding}
            together.append(Tokenized(inputs_of_row, _fast_tokens(fast)))
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
        spans = _spans(pair, sides, tokenized.fast.offsets, tokens)
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


def _spans(
    pair: Pair, sides: Sequence[int], offsets: Sequence[Span], tokens: Sequence[str]
) -> tuple[Span, ...]:
    """Which characters each token is, by its offsets or, where these are white space, by its text.

    Offsets of post-processors that do not know of the prefix space lie before the first character.
    """
    spans = list(offsets)
    for i, (side, (start, end)) in enumerate(zip(sides, offsets, strict=True)):
        if side < 0 or pair.texts[side][start:end].strip():
            continue
        text = pair.texts[side]
        spelled = unmarked(tokens[i])
        first = spans[i - 1][1] if i > 0 and sides[i - 1] == side else 0
        later = (offsets[j] for j in range(i + 1, len(sides)) if sides[j] == side)
        last = next((first for first, end in later if text[first:end].strip()), len(text))
        at = text.find(spelled, first, last)
        if spelled and at >= 0:
            spans[i] = (at, at + len(spelled))
    return tuple(spans)


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
    tokenizer: Any, fast: FastTokens | None, encoded: EncodedInput, surfaces: Sequence[str]
) -> EncodedInput:
    """Merge the pieces of given words, or of the tokenizer's, and those of one character.

    The tokenizer's words end at punctuation.
    """
    sentences = encoded.known_pair.sentences
    word_ids: Sequence[int | None] = spelled_units(encoded.sentence, encoded.tokens)
    if fast is not None:
        word_ids = fast.word_ids

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
