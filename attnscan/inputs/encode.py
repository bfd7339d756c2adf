"""One input, from its sentences to tokens; spans, a tokenizer or spelling say which tokens make a word.

WordPiece writes a piece that continues a word as `##s`; byte-level BPE and SentencePiece mark the start of a word, with
`Ġ` and `▁` (decoded: a space), which a sentence's first word and punctuation often lack; older BPE marks a piece that
goes on (`straw@@`, as in BERTweet and PhoBERT) or one that ends a word (`berries</w>`, as in XLM).
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, chain, groupby
from typing import Any

from attnscan.errors import InputError, SelectionError, TooLongError, nearest
from attnscan.inputs.sentence import (
    CONTINUES,
    GOES_ON,
    NO_WORD,
    SPECIAL,
    EncodedInput,
    Pair,
    Span,
    Unit,
    join,
)

WORD_STARTS = ("Ġ", "▁", " ")
WORD_END = "</w>"
_BYTE_INSIDE = re.compile(
    "<0x[89AB][0-9A-F]>"
)  # a byte behind the first one of a character, in SentencePiece
_JOINER = "\u200d"
_TIED = frozenset((_JOINER, *map(chr, range(0x1F3FB, 0x1F400))))  # and shades of skin
# scripts that put no space between words: Thai to Khmer, kana, Han
_NO_SPACES = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}"
)
_NAMED, _LONG_WORD = 5, 50  # words in a note, and characters of a token, at most

Tokenized = tuple[dict[str, list[int]], Any]
"""What a tokenizer gives the model of one input, and what a fast one tells of the tokens (None: written in Python)."""


def bare(token: str) -> str:
    """`token` without its mark of a word's start or end and without case: what makes two words identical."""
    return token.lstrip("".join(WORD_STARTS)).removesuffix(WORD_END).casefold()


def is_punctuation(text: str) -> bool:
    """Whether `text` has neither letter nor digit."""
    return not any(character.isalnum() for character in bare(text))


def is_part_of_character(before: str, text: str) -> bool:
    """Whether a text goes on with the character before it: an accent by itself, or what a joiner ties to an emoji."""
    ties = unicodedata.category(text[:1] or "x")[0] == "M" or text[:1] in _TIED
    return before.endswith(_JOINER) or (ties and bool(before.strip()))


def splits_words(previous: str, token: str) -> bool:
    """Whether a word ends between two tokens because one of them is punctuation, as `mat` `.`; a space ends none."""
    return bool(bare(previous)) and any(
        is_punctuation(text) and bare(text) for text in (previous, token)
    )


def continues_word(previous: str, token: str, marks_starts: bool, marks_ends: bool = False) -> bool:
    """Whether `token` goes on with the word of the token before it, judged by spelling alone."""
    if token.startswith(CONTINUES):
        return len(token) > len(CONTINUES)
    if _BYTE_INSIDE.fullmatch(token) or (
        previous.endswith(GOES_ON) and len(previous) > len(GOES_ON)
    ):
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
    hint = nearest(
        bare(text),
        map(bare, tokens),
        f"give a token's text, or an index from 0 to {len(tokens) - 1}",
    )
    raise SelectionError(f"the input has no token '{text}'", hint)


def tokenize(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """What a tokenizer makes of a text or a pair of texts, or of lists of either. Raises: InputError if it fails."""
    try:
        return tokenizer(*texts, verbose=False, **options)
    except BaseException as error:
        is_panic = type(error).__module__ == "pyo3_runtime"  # of Rust; its class cannot be imported
        if isinstance(error, MemoryError) or not (isinstance(error, Exception) or is_panic):
            raise
        reason = f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0][:200]}"
        raise InputError(
            f"the tokenizer {type(tokenizer).__name__} fails on this input: {reason}",
            "rewrite it, or use a model with another tokenizer",
        ) from error


def encode_pairs(
    tokenizer: Any, pairs: Sequence[Pair], unit: Unit, limit: int, truncate: bool
) -> Iterator[EncodedInput | InputError]:
    """Tokenize some inputs, all at once where the tokenizer can; the error in the place of one that cannot be read."""
    for pair, together in zip(pairs, _tokenized_together(tokenizer, pairs), strict=True):
        try:
            tokenized = together or _tokenized(tokenizer, pair)
            if truncated := (length := len(tokenized[0]["input_ids"])) > limit:
                if not truncate:
                    raise TooLongError(
                        f"the input is {length} tokens long and the model reads at most {limit}",
                        "shorten it, or pass --on-long truncate to cut it",
                    )
                # a fast tokenizer pairs every piece that it cuts off A with each off B: most must be cut before
                tokenized = _tokenized(
                    tokenizer, Pair(*(text[: limit * _LONG_WORD] for text in pair.texts)), limit
                )
            yield replace(_encoded(tokenizer, pair, unit, tokenized), truncated=truncated)
        except InputError as error:
            yield error


def _tokenized(tokenizer: Any, pair: Pair, max_length: int | None = None) -> Tokenized:
    """One input; a cut takes from the longer sentence first."""
    truncation: Any = "longest_first" if max_length else False
    encoding = tokenize(tokenizer, pair.a, pair.b, truncation=truncation, max_length=max_length)
    return {name: list(encoding[name]) for name in encoding}, encoding.encodings[
        0
    ] if encoding.is_fast else None


def _tokenized_together(tokenizer: Any, pairs: Sequence[Pair]) -> list[Tokenized | None]:
    """Some inputs in one call; None in place of each where that is not possible."""
    if getattr(tokenizer, "is_fast", False) and len({len(pair.texts) for pair in pairs}) == 1 < len(
        pairs
    ):
        with suppress(InputError):
            encoding = tokenize(
                tokenizer, *map(list, zip(*(pair.texts for pair in pairs), strict=True))
            )
            fast = enumerate(encoding.encodings)
            return [
                ({name: encoding[name][row] for name in encoding}, of_row) for row, of_row in fast
            ]
    return [None] * len(pairs)


def _encoded(tokenizer: Any, pair: Pair, unit: Unit, tokenized: Tokenized) -> EncodedInput:
    (inputs, fast), sides = tokenized, _sentences_of(tokenizer, tokenized, pair)
    for number, (name, text) in enumerate(zip("AB", pair.texts, strict=False)):
        if number not in sides:
            raise InputError(
                f"the tokenizer finds no word in sentence {name} ({text[:40]!r})",
                "write it in words",
            )
    tokens = surfaces = token_texts(tokenizer, inputs["input_ids"])
    spans = tuple[Span, ...]()
    if fast is not None:  # it tells what each token stands for: an unknown `☃` is written `[UNK]`
        spans = tuple(fast.offsets)
        parts = zip(sides, spans, tokens, strict=True)
        surfaces = tuple(
            (pair.texts[side][slice(*span)] if side >= 0 else "") or token
            for side, span, token in parts
        )
    elif any(sentence.words is not None for sentence in pair.sentences):
        spans = _spans_between_spaces(tokenizer, inputs["input_ids"], sides, pair)
    encoded = EncodedInput(
        tokens=tokens,
        sentence=tuple(sides),
        unit=tuple(range(len(tokens))),
        units=tokens,
        punctuation=tuple(map(is_punctuation, surfaces)),
        pair=pair,
        spans=spans,
        words=_given_words(pair, sides, spans, type(tokenizer).__name__),
        model_inputs=inputs,
    )
    return encoded if unit == "token" else _by_words(tokenizer, fast, encoded, surfaces)


def _sentences_of(tokenizer: Any, tokenized: Tokenized, pair: Pair) -> list[int]:
    """Each token's sentence. Never by token_type_ids, which RoBERTa does not have."""
    inputs, fast = tokenized
    if fast is not None:
        return [SPECIAL if sequence is None else sequence for sequence in fast.sequence_ids]
    # A tokenizer written in Python tells no sequence ids: what tells is where each sentence's own tokens are.
    ids = inputs["input_ids"]
    parts = [
        tokenize(tokenizer, text, add_special_tokens=False)["input_ids"] for text in pair.texts
    ]
    length = sum(map(len, parts)) + tokenizer.num_special_tokens_to_add(pair=len(parts) > 1)
    if length > len(ids):
        cut = {"num_tokens_to_remove": length - len(ids), "truncation_strategy": "longest_first"}
        parts = list(tokenizer.truncate_sequences(*parts, **cut)[: len(parts)])
    sentence, start = [SPECIAL] * len(ids), 0
    for number, part in enumerate(parts):
        at = next((i for i in range(start, len(ids)) if ids[i : i + len(part)] == part), None)
        if at is None:
            raise InputError(
                f"the tokenizer {type(tokenizer).__name__} writes sentence {'AB'[number]} otherwise within a pair",
                "use a model with a fast tokenizer (tokenizer.json)",
            )
        start = at + len(part)
        sentence[at:start] = [number] * len(part)
    return sentence


def _spans_between_spaces(
    tokenizer: Any, ids: Sequence[int], sides: Sequence[int], pair: Pair
) -> tuple[Span, ...]:
    """What stands between the spaces around each token, if tokenized alone it is the same, and has one given word."""
    spans = [(0, 0)] * len(ids)
    for number, sentence in enumerate(pair.sentences):
        places = [place for place, side in enumerate(sides) if side == number]
        parts = [match.span() for match in re.finditer(r"\S+", sentence.text)]
        texts = [sentence.text[slice(*part)] for part in parts]
        ids_of_parts = [
            tokenize(tokenizer, text, add_special_tokens=False)["input_ids"] for text in texts
        ]
        words_in = [
            sum(first < end and start < last for first, last in sentence.words or ())
            for start, end in parts
        ]
        pieces = [
            (piece, part)
            for part_ids, part in zip(ids_of_parts, parts, strict=True)
            for piece in part_ids
        ]
        if max(words_in, default=0) > 1 or [piece for piece, _ in pieces[: len(places)]] != [
            ids[i] for i in places
        ]:
            return ()
        for place, (_, part) in zip(places, pieces, strict=False):
            spans[place] = part
    return tuple(spans)


def _given_words(
    pair: Pair, sides: Sequence[int], spans: Sequence[Span], tokenizer: str
) -> tuple[int, ...]:
    """Of each token the number of the given word that it belongs to, or NO_WORD; nothing without given words."""
    if all(sentence.words is None for sentence in pair.sentences):
        return ()
    numbers = [NO_WORD] * len(sides)
    for side, sentence in enumerate(pair.sentences):
        places = [place for place, token_side in enumerate(sides) if token_side == side and spans]
        following = NO_WORD  # to this belongs white space that is a token by itself, such as `▁`
        words = sentence.words_of([spans[place] for place in places])
        for place, number in reversed(list(zip(places, words, strict=True))):
            is_space = number == NO_WORD and not sentence.text[slice(*spans[place])].strip()
            following = numbers[place] = following if is_space else number
        if sentence.words and all(numbers[place] == NO_WORD for place in places):
            raise InputError(
                f"the tokenizer {tokenizer} gives no character offsets for its tokens that lead to the given words",
                "leave the words out, or use a model with a fast tokenizer (tokenizer.json)",
            )
    return tuple(numbers)


def _by_words(
    tokenizer: Any, fast: Any, read: EncodedInput, surfaces: Sequence[str]
) -> EncodedInput:
    """Merge the pieces of given words, or of the tokenizer's, which end at punctuation, and those of one character."""
    sentences = read.known_pair.sentences
    ids = spelled_units(read.sentence, read.tokens) if fast is None else fast.word_ids

    def goes_on(i: int) -> bool:
        if fast is not None:
            (before, end), (first, last) = read.spans[i - 1 : i + 1]
            if (first < end and before < last) or is_part_of_character(
                surfaces[i - 1], surfaces[i]
            ):
                return True
        if read.words and sentences[read.sentence[i]].words is not None:
            return read.words[i] == read.words[i - 1] != NO_WORD
        return ids[i] == ids[i - 1] and (
            fast is None or not splits_words(surfaces[i - 1], surfaces[i])
        )

    numbers = _numbered(read.sentence, goes_on)
    decode = _byte_level_decoder(tokenizer)
    written = (
        read.tokens
        if decode is None
        else tokenizer.convert_ids_to_tokens(read.model_inputs["input_ids"])
    )
    texts = []
    for _, (first, *following) in groupby(range(len(numbers)), numbers.__getitem__):
        pieces = [written[place] for place in (first, *following)]
        if read.words and read.words[first] != NO_WORD:
            texts.append(sentences[read.sentence[first]].word(read.words[first]))
        else:
            texts.append(join(pieces) if decode is None else decode(pieces) or "".join(pieces))
    return replace(read, unit=numbers, units=tuple(texts))


def spelled_units(sentence: Sequence[int], tokens: Sequence[str]) -> tuple[int, ...]:
    """The unit of each token, by the marks of a word's start or end. Shape: both [token]."""
    marks_starts = any(token.startswith(WORD_STARTS) for token in tokens)
    marks_ends = any(token.endswith(WORD_END) for token in tokens)
    return _numbered(
        sentence, lambda i: continues_word(tokens[i - 1], tokens[i], marks_starts, marks_ends)
    )


def _numbered(sentence: Sequence[int], goes_on: Callable[[int], bool]) -> tuple[int, ...]:
    """The unit of each token; `goes_on` is asked of those whose neighbour before them is of their sentence."""
    starts = (
        i == 0 or side < 0 or side != sentence[i - 1] or not goes_on(i)
        for i, side in enumerate(sentence)
    )
    return tuple(count - 1 for count in accumulate(starts))


def token_texts(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """The texts of some tokens, by their ids, written as those of inputs are; `#1` and the like of what is no token."""
    tokens = zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True)
    return tuple(
        decode_tokens(
            tokenizer, [f"#{number}" if token is None else token for number, token in tokens]
        )
    )


def decode_tokens(tokenizer: Any, tokens: list[str]) -> list[str]:
    """The texts of some tokens: byte-level ones decoded, unless they end inside a character."""
    if (decode := _byte_level_decoder(tokenizer)) is None:
        return tokens
    texts = [decode([token]) for token in tokens]
    return [
        token if "\ufffd" in text or not text else text
        for token, text in zip(tokens, texts, strict=True)
    ]


def _byte_level_decoder(tokenizer: Any) -> Any:
    """The function that makes text of a list of byte-level tokens; None for a tokenizer of another kind."""
    decoder: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    return (
        decoder.decode if decoder is not None and b'"ByteLevel"' in decoder.__getstate__() else None
    )


def notes_of(tokenizer: Any, inputs: Sequence[EncodedInput]) -> list[str]:
    """Note how inputs were read: special tokens that were typed, and runs without spaces as one word."""
    special = {*tokenizer.all_special_tokens} - {getattr(tokenizer, "unk_token", None)}
    words = (zip(encoded.tokens, encoded.sentence, strict=True) for encoded in inputs)
    typed = dict.fromkeys(
        token for token, side in chain.from_iterable(words) if side >= 0 and token in special
    )
    runs = dict.fromkeys(
        text
        for encoded in inputs
        if len(encoded.units) < len(encoded.tokens) and not encoded.words
        for unit, text in enumerate(encoded.units)
        if _NO_SPACES.search(text) and encoded.unit.count(unit) > 1
    )
    notes = []
    if typed:
        notes.append(
            f"special tokens to the model, and words to attnscan: {', '.join(typed)} in the text"
        )
    if runs:
        texts = ", ".join(text.strip("".join(WORD_STARTS))[:20] for text in list(runs)[:_NAMED])
        notes.append(
            f"one word, since no space divides it: {texts} (put spaces between words and pass --words spaces)"
        )
    return notes
