"""From sentences to tokens, words and masks. Only this module talks to tokenizers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from attnscan.errors import InputError, ModelError, TooLongError
from attnscan.inputs.batch import PADDING, SPECIAL, EncodedInput
from attnscan.inputs.pairs import Pair
from attnscan.inputs.tokenizer_calls import TokenizerFailed, TokenizerPanicked, asked, called, explained
from attnscan.inputs.tokens import WORD_END, WORD_STARTS, Unit, continues_word, is_punctuation, splits_words
from attnscan.inputs.vocabulary import WholeWords

# Of a text far longer than the model reads, only the start is tokenized: a token takes half a kilobyte, and a
# fast tokenizer pairs every piece that it cuts off one sentence with every piece that it cuts off the other.
_CHARACTERS = 256  # at most that many for each token that the model reads
_TOKENS = 4  # ... and that many tokens, where the text is to be cut


def encode_pair(tokenizer: Any, pair: Pair, unit: Unit, limit: int, truncate: bool) -> EncodedInput:
    """Tokenize one input for a model that reads at most `limit` tokens.

    Raises: InputError if a sentence has no token, or the tokenizer fails on it; TooLongError if the input is too long
    and not to be cut; ModelError if the tokenizer comes to no end.
    """

    def failed(why: str) -> InputError:
        return InputError(
            f"the tokenizer {type(tokenizer).__name__} fails on this input: {why}",
            "write it otherwise, or use a model with another tokenizer",
        )

    with explained(failed):
        return _encoded(tokenizer, pair, unit, limit, truncate)


def _encoded(tokenizer: Any, pair: Pair, unit: Unit, limit: int, truncate: bool) -> EncodedInput:
    whole, pair = pair, _start_of(tokenizer, pair, limit, truncate)
    encoding = _tokenize(tokenizer, pair, limit if truncate else None)
    ids = encoding["input_ids"]
    if len(ids) > limit:
        raise TooLongError(
            f"the input is {len(ids)} tokens long and the model reads at most {limit}",
            "shorten it, or pass --truncate to cut it",
        )
    sentence = _sentences(tokenizer, encoding, pair)
    for number, (name, text) in enumerate(zip("AB", pair.sentences, strict=False)):
        if number not in sentence:
            raise InputError(f"the tokenizer finds no word in sentence {name} ({text[:40]!r})", "write it in words")
    tokens = _texts(tokenizer, ids)
    surfaces = _surfaces(encoding, tokens, sentence, pair)
    numbers = _numbered(_continues(encoding, tokens, surfaces, sentence) if unit == "word" else [False] * len(ids))
    return EncodedInput(
        tokens=tokens,
        sentence=tuple(sentence),
        unit=numbers,
        punctuation=tuple(map(is_punctuation, surfaces)),
        sentences=tuple(pair.sentences),
        spans=tuple(encoding.encodings[0].offsets) if encoding.is_fast else (),
        merged=_merged(tokenizer, ids, numbers) if unit == "word" else (),
        model_inputs={name: list(encoding[name]) for name in encoding},
        truncated=pair != whole
        or (truncate and len(ids) == limit and len(_tokenize(tokenizer, pair, None)["input_ids"]) > limit),
    )


def unknown_words(tokenizer: Any, encoded: EncodedInput) -> list[str]:
    """What the tokenizer does not know in an input that it encoded: as it was written, where it tells, else `[UNK]`."""
    unknown = getattr(tokenizer, "unk_token", None)  # by text: its number may be looked for without end
    words = zip(encoded.tokens, encoded.sentence, strict=True)
    places = [place for place, (token, sentence) in enumerate(words) if token == unknown and sentence >= 0]
    if not encoded.spans:
        return [encoded.tokens[place] for place in places]
    return [encoded.sentences[encoded.sentence[place]][slice(*encoded.spans[place])] for place in places]


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
        unit=_numbered(_spelled_continues(tokens, sentence) if unit == "word" else [False] * len(tokens)),
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
            _tokenize(tokenizer, Pair(_PLAIN), None)
        except TokenizerPanicked:
            raise
        except TokenizerFailed:
            own = [word for word in asked(tokenizer.get_vocab) if word.isalnum()]
            _tokenize(tokenizer, Pair(min(own, default=_PLAIN)), None)


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


def _start_of(tokenizer: Any, pair: Pair, limit: int, truncate: bool) -> Pair:
    """A pair without most of what is to be cut off, if it is far too long. Raises: TooLongError if it must not be."""
    longest = max(map(len, pair.sentences))
    if longest > _CHARACTERS * limit and not truncate:
        raise TooLongError(
            f"a sentence is {longest} characters long and the model reads at most {limit} tokens",
            "shorten it, or pass --truncate to cut it",
        )
    if longest <= _TOKENS * limit or not truncate:
        return pair
    return Pair(*(_start(tokenizer, text[: _CHARACTERS * limit], _TOKENS * limit) for text in pair.sentences))


def _start(tokenizer: Any, text: str, tokens: int) -> str:
    encoding = called(tokenizer, text, add_special_tokens=False)
    if not encoding.is_fast or len(encoding["input_ids"]) <= tokens:
        return text
    return text[: max(end for _, end in encoding.encodings[0].offsets[:tokens])]


def _tokenize(tokenizer: Any, pair: Pair, max_length: int | None) -> Any:
    """One input's encoding; a cut takes from the longer sentence first."""
    cut = "longest_first" if max_length else False
    return called(tokenizer, pair.a, pair.b, truncation=cut, max_length=max_length)


def _sentences(tokenizer: Any, encoding: Any, pair: Pair) -> list[int]:
    """Each token's sentence. Never by token_type_ids, which RoBERTa does not have."""
    if encoding.is_fast:
        return [SPECIAL if sequence is None else sequence for sequence in encoding.sequence_ids(0)]
    # A tokenizer written in Python knows no sequence ids, and in its mask of special tokens an unknown word counts as
    # special: what tells is where each sentence's own tokens are.
    ids = encoding["input_ids"]
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


def _texts(tokenizer: Any, ids: list[int]) -> tuple[str, ...]:
    """What each token says: byte-level tokens decoded, unless they end inside a character."""
    return _decoded(tokenizer, asked(tokenizer.convert_ids_to_tokens, ids))


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


def _surfaces(encoding: Any, tokens: Sequence[str], sentence: Sequence[int], pair: Pair) -> list[str]:
    """The text that each token stands for, where that is known: an unknown `☃` is written `[UNK]`."""
    if not encoding.is_fast:
        return list(tokens)
    spans = encoding.encodings[0].offsets
    surfaces = ["" if s < 0 else pair.sentences[s][a:b] for s, (a, b) in zip(sentence, spans, strict=True)]
    return [surface or token for surface, token in zip(surfaces, tokens, strict=True)]


def _continues(encoding: Any, tokens: Sequence[str], surfaces: Sequence[str], sentence: Sequence[int]) -> list[bool]:
    """Whether each token goes on with the word of the token before it."""
    if not encoding.is_fast:
        return _spelled_continues(tokens, sentence)
    words = encoding.word_ids(0)
    return [
        i > 0
        and sentence[i] >= 0
        and (sentence[i], words[i]) == (sentence[i - 1], words[i - 1])
        and not splits_words(surfaces[i - 1], surfaces[i])
        for i in range(len(tokens))
    ]


def _spelled_continues(tokens: Sequence[str], sentence: Sequence[int]) -> list[bool]:
    marks_starts = any(token.startswith(WORD_STARTS) for token in tokens)
    marks_ends = any(token.endswith(WORD_END) for token in tokens)
    return [
        i > 0
        and sentence[i] >= 0
        and sentence[i - 1] == sentence[i]
        and continues_word(tokens[i - 1], tokens[i], marks_starts, marks_ends)
        for i in range(len(tokens))
    ]


def _numbered(continues: Sequence[bool]) -> tuple[int, ...]:
    """The unit of each token; the first token goes on with none."""
    return tuple(count - 1 for count in accumulate(not goes_on for goes_on in continues))
