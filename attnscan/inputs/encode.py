"""From a pair of sentences to tokens, and which of them make a word: by spans, by a tokenizer, or by spelling.

First what tokenizers make of inputs, one by one or many at once, what their tokens say, and which are whole words.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from typing import Any

from attnscan.errors import InputError, ModelError, TooLongError
from attnscan.inputs.batch import PADDING, SPECIAL, EncodedInput
from attnscan.inputs.library_calls import TokenizerFailed, asked, explained, hushed, is_panic
from attnscan.inputs.sentence import NO_WORD, Pair, Span
from attnscan.inputs.tokens import (
    WORD_END,
    WORD_STARTS,
    Unit,
    WholeWords,
    continues_word,
    is_part_of_character,
    is_punctuation,
    splits_words,
    surface,
)
from attnscan.inputs.weights import SavedWeights

_PLAIN = "The cat sat on the mat, and I bought 12 fresh strawberries!"
_READS = {
    "boxes": "words with their boxes on a page",
    "xpaths": "words with their places in a web page",
    "table": "questions about a table",
    "notes": "musical notes",
    "titles": "a question with titles and texts",
}
"""What a tokenizer reads that takes a parameter of such a name."""

# Scripts that put no space between words: Thai to Khmer, kana, Han.
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")
_NAMED = 5  # words in a note, at most


@dataclass(frozen=True)
class Tokenized:
    """What a tokenizer makes of one input."""

    model_inputs: dict[str, list[int]]
    """`input_ids` and whatever else it gives the model."""
    fast: Any | None
    """What a fast tokenizer tells of the tokens; None of one that is written in Python."""

    @property
    def ids(self) -> list[int]:
        """The tokens' numbers."""
        return self.model_inputs["input_ids"]

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Which characters of its sentence each token stands for; empty where that is not told."""
        return () if self.fast is None else tuple(self.fast.offsets)


def called(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """What a tokenizer makes of a text or a pair of texts, or of lists of either. Raises: TokenizerFailed."""
    with hushed():
        return asked(tokenizer, *texts, verbose=False, **options)


def tokenized(tokenizer: Any, pair: Pair, max_length: int | None = None) -> Tokenized:
    """One input; a cut takes from the longer sentence first. Raises: as `called`."""
    truncation: Any = "longest_first" if max_length else False
    encoding = called(tokenizer, pair.a, pair.b, truncation=truncation, max_length=max_length)
    inputs = {name: list(encoding[name]) for name in encoding}
    return Tokenized(inputs, encoding.encodings[0] if encoding.is_fast else None)


def _tokenized_together(tokenizer: Any, pairs: Sequence[Pair]) -> list[Tokenized | None]:
    """Some inputs in one call; None in place of each that is to be read by itself.

    That is all of them where the call fails, so that only what cannot be read is an error, or if the tokenizer is
    written in Python.
    """
    together: list[Tokenized | None] = [None] * len(pairs)
    if len(pairs) < 2 or not getattr(tokenizer, "is_fast", False):
        return together
    for places in ([i for i, pair in enumerate(pairs) if pair.b], [i for i, pair in enumerate(pairs) if not pair.b]):
        a, b = ([getattr(pairs[i], name) for i in places] for name in ("a", "b"))
        try:
            encoding = called(tokenizer, a, b if b[0] else None) if places else None
        except TokenizerFailed:
            continue
        if encoding is not None and len(encoding.encodings) == len(places):
            for row, place in enumerate(places):
                inputs = {name: encoding[name][row] for name in encoding}
                together[place] = Tokenized(inputs, encoding.encodings[row])
    return together


def _start_of(pair: Pair, read: Tokenized, sentence: Sequence[int], limit: int) -> Pair:
    """The pair's start, with more tokens than the model reads.

    A fast tokenizer pairs every piece that it cuts off one sentence with every piece that it cuts off the other.
    """
    starts = []
    for number, known in enumerate(pair.sentences):
        ends = [end for own, (_, end) in zip(sentence, read.spans, strict=False) if own == number]
        starts.append(known.start(ends[2 * limit]) if len(ends) > 2 * limit else known)
    return Pair(*starts)


def sentences_of(tokenizer: Any, read: Tokenized, pair: Pair) -> list[int]:
    """Each token's sentence. Never by token_type_ids, which RoBERTa does not have."""
    if read.fast is not None:
        return [SPECIAL if sequence is None else sequence for sequence in read.fast.sequence_ids]
    # A tokenizer written in Python knows no sequence ids, and in its mask of special tokens an unknown word counts as
    # special: what tells is where each sentence's own tokens are.
    ids = read.ids
    a, b = (
        [] if text is None else called(tokenizer, text, add_special_tokens=False)["input_ids"]
        for text in (pair.a, pair.b)
    )
    whole = len(a) + len(b) + asked(tokenizer.num_special_tokens_to_add, pair=pair.b is not None)
    if whole > len(ids):
        cut = {"num_tokens_to_remove": whole - len(ids), "truncation_strategy": "longest_first"}
        a, b, _ = asked(tokenizer.truncate_sequences, a, b if pair.b is not None else None, **cut)
    sentence, start = [SPECIAL] * len(ids), 0
    for number, own in enumerate((a, b or [])):
        at = next((i for i in range(start, len(ids)) if ids[i : i + len(own)] == own), None)
        if at is None:
            raise InputError(
                f"the tokenizer {type(tokenizer).__name__} writes sentence {'AB'[number]} otherwise within a pair",
                "use a model with a fast tokenizer (tokenizer.json)",
            )
        start = at + len(own)
        sentence[at:start] = [number] * len(own)
    return sentence


def _spelled_spans(tokenizer: Any, read: Tokenized, sentence: Sequence[int], pair: Pair) -> tuple[Span, ...]:
    """Which characters of its sentence each token stands for, where that is not told; empty if it cannot be known.

    What stands between spaces is tokenized alone: its tokens must be those of the whole text, in their order. Where
    they do not spell it, as an unknown word's, each stands for all of it, which may then be of one given word.

    Shape: `sentence` as `sentences_of` returns it.
    """
    spans = [(0, 0)] * len(read.ids)
    for number, known in enumerate(pair.sentences):
        places = [place for place, own in enumerate(sentence) if own == number]
        ids, of_text = list[int](), list[Span]()
        for match in re.finditer(r"\S+", known.text):
            if len(ids) >= len(places):  # the rest is cut off
                break
            (first, last), text = match.span(), match[0]
            alone = called(tokenizer, text, add_special_tokens=False)["input_ids"]
            pieces = [surface(token) for token in asked(tokenizer.convert_ids_to_tokens, alone)]
            if "".join(pieces).casefold() == text.casefold() and sum(map(len, pieces)) == len(text):
                stops = list(accumulate(map(len, pieces), initial=first))
                of_text += [(a, b if b > a else a + 1) for a, b in pairwise(stops)]  # `▁` goes with what is behind it
            elif sum(start < last and first < end for start, end in known.words or ()) < 2:
                of_text += [(first, last)] * len(alone)
            else:
                return ()
            ids += alone
        if ids[: len(places)] != [read.ids[place] for place in places]:
            return ()
        for place, span in zip(places, of_text, strict=False):
            spans[place] = span
    return tuple(spans)


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
            tokenized(tokenizer, Pair(_PLAIN))
        except TokenizerFailed as error:
            if error.__cause__ is not None and is_panic(error.__cause__):
                raise
            own = [word for word in asked(tokenizer.get_vocab) if word.isalnum()]
            tokenized(tokenizer, Pair(min(own, default=_PLAIN)))


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
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {
            *asked(lambda: tokenizer.all_special_tokens),
            *(token.content for token in added.values() if token.special),
        }
        # by text: a damaged tokenizer that lacks its own unknown token has no end of looking for their numbers
        written = {number: token for token, number in asked(tokenizer.get_vocab).items() if token not in special}
        return WholeWords.of(dict(zip(written, decoded(tokenizer, list(written.values())), strict=True)))


def token_texts(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """What some tokens say, by their numbers, written as those of inputs are; `#1` and the like of what is no token."""
    known = asked(tokenizer.convert_ids_to_tokens, list(ids))
    texts = iter(decoded(tokenizer, [token for token in known if token is not None]))
    return tuple(f"#{id_}" if token is None else next(texts) for id_, token in zip(ids, known, strict=True))


def decoded(tokenizer: Any, written: list[str]) -> tuple[str, ...]:
    """What some tokens say: byte-level ones decoded, unless they end inside a character. Raises: TokenizerFailed."""
    decode = _byte_level_decoder(tokenizer)
    if decode is None:
        return tuple(written)
    decoded = asked(lambda: [decode([token]) for token in written])
    return tuple(w if "\ufffd" in d or not d else d for w, d in zip(written, decoded, strict=True))


def _byte_level_decoder(tokenizer: Any) -> Callable[[list[str]], str] | None:
    """What makes text of byte-level tokens; None for a tokenizer of another kind."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if decoder is None or b'"ByteLevel"' not in decoder.__getstate__():
        return None
    decode: Callable[[list[str]], str] = decoder.decode
    return decode


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
    for pair, read in zip(pairs, _tokenized_together(tokenizer, pairs), strict=True):
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
    read = read or tokenized(tokenizer, pair)
    if truncated := len(read.ids) > limit:
        if not truncate:
            raise TooLongError(
                f"the input is {len(read.ids)} tokens long and the model reads at most {limit}",
                "shorten it, or pass --on-long truncate to cut it",
            )
        start = pair if read.fast is None else _start_of(pair, read, sentences_of(tokenizer, read, pair), limit)
        read = tokenized(tokenizer, start, limit)
    ids = read.ids
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
        spans = _spelled_spans(tokenizer, read, sentence, pair)
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
        truncated=truncated,
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


def notes_of(tokenizer: Any, inputs: Sequence[EncodedInput]) -> list[str]:
    """What to tell of how inputs were read: special tokens that were typed, and runs without spaces as one word."""
    special = {*tokenizer.all_special_tokens} - {getattr(tokenizer, "unk_token", None)}
    typed: dict[str, None] = {}
    runs: dict[str, None] = {}
    for encoded in inputs:
        tokens = zip(encoded.tokens, encoded.sentence, strict=True)
        typed |= dict.fromkeys(token for token, own in tokens if own >= 0 and token in special)
        if encoded.merges and not encoded.words:
            counts, units = Counter(encoded.unit), enumerate(encoded.units)
            runs |= dict.fromkeys(text for unit, text in units if counts[unit] > 1 and _NO_SPACES.search(text))
    notes = []
    if typed:
        are, words = ("is a special token", "a word") if len(typed) == 1 else ("are special tokens", "words")
        notes.append(f"{', '.join(typed)} in the text {are} to the model and {words} to attnscan")
    if runs:
        named = ", ".join(text.strip("".join(WORD_STARTS))[:20] for text in list(runs)[:_NAMED])
        how = "put spaces between words and pass --words spaces"
        notes.append(f"scored as one word, since no space divides it: {named} ({how})")
    return notes


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
    decode = _byte_level_decoder(tokenizer)
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

    A tokenizer's words end at punctuation. Tokens that share a character, as the bytes of an emoji do, share its word.
    """
    given = [bool(words) and own >= 0 and pair.sentences[own].words is not None for own in sentence]
    ids = _by_spelling(sentence, tokens) if read.fast is None else read.fast.word_ids
    spans = read.spans

    def goes_on(i: int) -> bool:
        if (spans and spans[i][0] < spans[i - 1][1] and spans[i - 1][0] < spans[i][1]) or (
            read.fast is not None and is_part_of_character(surfaces[i - 1], surfaces[i])
        ):
            return True
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
