"""One input, as it is read and as it is tokenized.

These are sentences, perhaps with words and tags, pairs of them, and their tokens. A *token* is what
the model sees; a *unit* is what is scored: a token, or with `unit="word"` a whole word with its
pieces merged. Every special token is a unit of its own.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import index
from typing import Any, Literal, NamedTuple

from attnscan.errors import InputError, PairsError, nearest
from attnscan.text import hashed

Span = tuple[int, int]
"""Which characters of a text: the first, and the one behind the last."""
Tag = str | int | float | None
"""What is said of a word, such as its part of speech, or the number of its head."""
NO_WORD = -1  # in place of a word's number
CONTINUES = "##"  # begins a token that continues a word
GOES_ON = "@@"  # ends a token whose word goes on with the next one
SPECIAL = -1  # in place of a sentence's number
PADDING = -2  # in place of a sentence's number
Unit = Literal["token", "word"]
Words = Literal["tokenizer", "spaces"]
"""Where words end: where the tokenizer says, or at spaces."""
QuerySide = Literal["predicts", "reads"]
"""Which word a query of cross attention stands for: the one its position predicts, or reads."""


@dataclass(frozen=True)
class Sentence:
    """A text whose words are given, each with its annotations.

    Every function that takes a text takes it, too. Raises: InputError if words are no spans of the
    text in order, or tags not a text, number or None for each of them.
    """

    text: str
    """What the model reads."""
    words: Sequence[Span] | None = None
    """Which characters each word is, as a slice of the text, perhaps empty; None if unknown."""
    tags: Mapping[str, Sequence[Tag]] = field(default_factory=dict, hash=False)
    """By their names, each with one value a word."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(
                f"the text of a sentence is of the class {type(self.text).__name__}", "give text"
            )
        if self.words is None and self.tags:
            raise InputError("tags are given and words are not", "give words=[(start, end), ...]")
        if self.words is None:
            return
        try:
            words = tuple((index(first), index(last)) for first, last in self.words)
            tags = _plain_tags(self.tags)
            _check_words(words, tags, len(self.text))
        except (TypeError, ValueError):
            text = f"a text of {len(self.text)} characters"
            raise InputError(
                f"words is {self.words!r:.60}, in {text}, and tags {self.tags!r:.60}",
                "give words=[(start, end), ...], in order and without overlap, "
                "and for each tag a value a word",
            ) from None
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "tags", tags)

    @property
    def by_spaces(self) -> Sentence:
        """The sentence with its words or, if none are given, with those between spaces."""
        return self._split(r"\S+")

    @property
    def by_ascii_spaces(self) -> Sentence:
        """The same, where a no-break space and its like are inside a word, as in alignments."""
        return self._split(r"[^ \t\n\r\f\v]+")

    def _split(self, word: str) -> Sentence:
        if self.words is not None:
            return self
        return Sentence(self.text, [match.span() for match in re.finditer(word, self.text)])

    def word(self, number: int) -> str:
        """The characters of a word, by its number."""
        assert self.words is not None
        return self.text[slice(*self.words[number])]

    def words_of(self, pieces: Sequence[Span]) -> list[int]:
        """Of each piece of the text the word with which it shares most characters, else NO_WORD.

        The first of equals.
        """
        words = self.words or ()
        starts = [start for start, _ in words]
        ends = [end for _, end in words]
        numbers = []
        for first, last in pieces:
            near = range(bisect_right(ends, first), bisect_left(starts, last))
            shared = [min(last, ends[number]) - max(first, starts[number]) for number in near]
            most = max(shared, default=0)
            numbers.append(near[shared.index(most)] if most > 0 else NO_WORD)
        return numbers


def _plain_tags(tags: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Tags whose scalars of numpy are plain values."""
    plain = {}
    for name, values in dict(tags).items():
        plain[name] = tuple(v.item() if hasattr(v, "item") else v for v in values)
    return plain


def _check_words(words: Sequence[Span], tags: Mapping[str, Sequence[Tag]], length: int) -> None:
    """Raises: ValueError if words overlap or leave the text, or tags are not a value a word."""
    bounds = [0, *chain.from_iterable(words), length]
    if bounds != sorted(bounds):
        raise ValueError
    for values in tags.values():
        if len(values) != len(words) or not all(isinstance(value, Tag) for value in values):
            raise ValueError


Text = str | Sentence
"""What functions take where a text stands."""


class Link(NamedTuple):
    """A relation between two given words, numbered from 0 through both sentences."""

    relation: str
    query: int
    """The word that asks, such as a pronoun, or a dependent."""
    target: int
    """The word that it asks for, such as its antecedent, or its head."""


@dataclass(frozen=True, init=False)
class Pair:
    """One input: sentence A, and sentence B if there are two.

    Raises: InputError if one is blank or no valid text.
    """

    sentences: tuple[Sentence, ...]
    links: tuple[Link, ...] | None
    """Links between its words, as `inputs/links.py` reads them; None if none are given."""

    def __init__(
        self,
        a: Text,
        b: Text | None = None,
        *,
        links: Iterable[tuple[str, int, int]] | None = None,
    ) -> None:
        texts = (a,) if b is None else (a, b)
        sentences = []
        for name, text in zip("AB", texts, strict=False):
            if not isinstance(text, Text):
                raise InputError(
                    f"sentence {name} is of the class {type(text).__name__}, and not text",
                    "give a text; pairs= takes many inputs",
                )
            sentences.append(text if isinstance(text, Sentence) else Sentence(text))
        object.__setattr__(self, "sentences", tuple(sentences))
        given = None if links is None else tuple(Link(*link) for link in links)
        object.__setattr__(self, "links", given)
        for name, text in zip("AB", self.texts, strict=False):
            _check_text(name, text)

    @property
    def source(self) -> Pair:
        """Sentence A alone: of a translation, what the encoder reads."""
        return Pair(self.sentences[0])

    @property
    def by_spaces(self) -> Pair:
        """The pair with what stands between spaces as words, where no words are given."""
        sentences = [sentence.by_spaces for sentence in self.sentences]
        return Pair(*sentences, links=self.links)

    @property
    def by_ascii_spaces(self) -> Pair:
        """The same, where a no-break space and its like are inside a word, as in alignments."""
        sentences = [sentence.by_ascii_spaces for sentence in self.sentences]
        return Pair(*sentences, links=self.links)

    @property
    def a(self) -> str:
        """The text of sentence A."""
        return self.sentences[0].text

    @property
    def b(self) -> str | None:
        """The text of sentence B; None if there is none."""
        return self.sentences[1].text if len(self.sentences) > 1 else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of the one or two sentences."""
        return tuple(sentence.text for sentence in self.sentences)

    @property
    def key(self) -> str:
        """The hash that identifies the pair on every machine: equal pairs have equal keys.

        64 hexadecimal digits.
        """
        return self.key_after()

    def key_after(self, *texts: str) -> str:
        """Hash the pair together with texts before it.

        It is a seed to draw by, or the hash of all pairs read so far.
        """
        parts = [text.encode() for text in texts]
        for sentence in self.sentences:
            parts.append(sentence.text.encode())
            if sentence.words is not None:
                annotations = json.dumps([sentence.words, sentence.tags], sort_keys=True)
                parts.append(b"\0" + annotations.encode())  # no text has a NUL character
        if self.links is not None:
            parts.append(b"\0" + json.dumps(self.links).encode())
        return hashed(*parts)

    def text_key_after(self, *texts: str) -> str:
        """Hash the texts of the sentences, without annotations, together with texts before them.

        It is the same however words and links are written.
        """
        return hashed(*(text.encode() for text in (*texts, *self.texts)))


def _check_text(name: str, text: str) -> None:
    """Raises: InputError if the text of sentence A or B is blank or no valid Unicode."""
    if not text.strip():
        raise InputError(f"sentence {name} is empty", "give it at least one word, in quotes")
    if "\0" in text:
        raise InputError(f"sentence {name} has a NUL character", "leave it out")
    # what Python makes of a byte that is no text (PEP 383)
    wrong = re.search("[\ud800-\udfff]", text)
    if wrong:
        what = f"sentence {name} is not valid Unicode: its character {wrong.start() + 1} is a byte"
        raise InputError(
            f"{what} that is not UTF-8, or half of one",
            "save or paste it as UTF-8, in a locale such as LC_ALL=C.UTF-8",
        )


@dataclass(frozen=True, order=True)
class Place:
    """Where a pair comes from, by which its scores can be joined with the input."""

    file: str = ""
    """The file, as it was named; empty for a pair from no file."""
    row: int = 0
    """The number of the record in it, from 1, bad and skipped records counted."""
    id: str | None = None
    """The cell of the column of ids, if one was named."""
    group: str | None = None
    """The group that the pair is of, such as a genre; None where pairs are in none."""


@dataclass(frozen=True)
class Record:
    """A pair and where it was read."""

    pair: Pair
    where: str
    """Such as `pairs.tsv:12`, the line where it starts, or `pairs.parquet: row 12`.

    Both are counted from 1.
    """
    label: str | None = None
    """The cell of the column `label`, if that was asked for and is there."""
    place: Place = Place()
    class_number: int | None = None
    """The number that the file has for the label, if it names its classes."""

    @property
    def key(self) -> str:
        """The hash that identifies the pair and its group: that of the pair where it is in none."""
        group = self.place.group
        return self.pair.key if group is None else self.pair.key_after(group)


def bad_record(where: str, reason: str) -> PairsError:
    """The error for a record that `--skip-bad` would skip."""
    return PairsError(f"{where}: {reason}", "correct it, or pass ``skip_bad`` to go on without it")


@dataclass(frozen=True)
class EncodedInput:
    """One input, tokenized: plain lists, one entry a token."""

    tokens: tuple[str, ...]
    """Token texts as the tokenizer writes them, byte-level ones decoded."""
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, SPECIAL, or PADDING (only in saved weights)."""
    unit: tuple[int, ...]
    """The unit that each token belongs to, counted from zero; a unit's tokens stand together."""
    punctuation: tuple[bool, ...]
    """Whether the token's surface has neither letter nor digit."""
    model_inputs: dict[str, list[int]] = field(default_factory=dict)
    """`input_ids` and whatever else the tokenizer gives the model; empty for saved weights."""
    pair: Pair | None = None
    """What was tokenized, with the annotations of its words; None for saved weights."""
    spans: tuple[Span, ...] = ()
    """Which characters of its sentence each token stands for, as a slice.

    Empty where the tokenizer does not tell.
    """
    words: tuple[int, ...] = ()
    """The number in its sentence of the given word that each token is of, or NO_WORD.

    Empty without given words.
    """
    units: tuple[str, ...] = ()
    """The text of each unit; where it is not given, its tokens' texts joined."""
    source: int = 0
    """Of cross attention, how many tokens are the source's.

    These are keys; the target's behind them are queries.
    """
    truncated: bool = False
    """Whether the input was cut to the model's longest."""
    number: int = 0
    """Which it is in a stream of inputs, from 1; 0 if it is alone."""
    place: Place = Place()
    """Where its own scores belong."""

    def __post_init__(self) -> None:
        if not self.units:
            object.__setattr__(self, "units", _joined(self.tokens, self.unit))

    @property
    def known_pair(self) -> Pair:
        """The pair that was tokenized; not for saved weights."""
        assert self.pair is not None
        return self.pair

    @property
    def unit_sentence(self) -> tuple[int, ...]:
        """The sentence of each unit: 0, 1, SPECIAL or PADDING."""
        return self._first_tokens(self.sentence)

    @property
    def unit_words(self) -> tuple[int, ...]:
        """The number of the given word that each unit is or is a piece of, else NO_WORD."""
        return self._first_tokens(self.words or (NO_WORD,) * len(self.tokens))

    def _first_tokens(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The number of each unit's first token."""
        unit = self.unit
        return tuple(n for i, n in enumerate(numbers) if i == 0 or unit[i - 1] != unit[i])

    @property
    def segments(self) -> tuple[int, ...]:
        """0 or 1 for every token, special ones too: a sentence's closing delimiter goes with it."""
        if self.source:
            return (0,) * self.source + (1,) * (len(self.tokens) - self.source)
        segments: list[int] = []
        current = 0
        for i, side in enumerate(self.sentence):
            opens = side < 0 and (i == 0 or self.sentence[i - 1] < 0)
            if side >= 0:
                current = side
            elif opens:  # a delimiter that opens what follows
                current = next((later for later in self.sentence[i:] if later >= 0), current)
            segments.append(current)
        return tuple(segments)

    def units_between(self, sentence: int, start: int, end: int) -> list[int]:
        """The units with any of the characters from `start` up to `end` of sentence 0 or 1.

        Raises: InputError.
        """
        if not self.spans:
            raise InputError(
                "the characters of tokens are unknown: the tokenizer gives no offsets",
                "use a model with a fast tokenizer",
            )
        units = set()
        for unit, side, (first, last) in zip(self.unit, self.sentence, self.spans, strict=True):
            if side == sentence and first < end and start < last:
                units.add(unit)
        return sorted(units)

    def tags(self, name: str) -> list[Tag]:
        """The value of a tag for each unit: of the given word that it is or is a piece of.

        None for all others. Raises: InputError.
        """
        sentences = self.pair.sentences if self.pair else (Sentence(""),)
        for letter, sentence in zip("AB", sentences, strict=False):
            if name not in sentence.tags:
                raise self._no_tag(name, letter, sentence)
        values: list[Tag] = []
        for side, word in zip(self.unit_sentence, self.unit_words, strict=True):
            values.append(None if word == NO_WORD else sentences[side].tags[name][word])
        return values

    def _no_tag(self, name: str, letter: str, sentence: Sentence) -> InputError:
        pair = f" of pair {self.number}" if self.number else ""
        hint = "give Sentence(..., tags=...)"
        if sentence.tags:
            hint = f"its tags are {', '.join(sentence.tags)}"
        return InputError(
            f"sentence {letter}{pair} has no tag '{name}'", nearest(name, sentence.tags, hint)
        )

    def hiding(self, places: Sequence[int], mask_id: int, mask: str) -> EncodedInput:
        """The input with the mask token, of that number and text, at some tokens' places.

        Raises: InputError.
        """
        tokens = list(self.tokens)
        ids = list(self.model_inputs["input_ids"])
        punctuation = list(self.punctuation)
        for place in places:
            if not 0 <= place < len(tokens) or self.sentence[place] < 0:
                raise InputError(
                    f"there is no word at token {place} that could be hidden",
                    "hide words of the input",
                )
            tokens[place] = mask
            ids[place] = mask_id
            punctuation[place] = False
        units = list(self.units)
        joined = _joined(tokens, self.unit)
        for place in places:
            unit = self.unit[place]
            units[unit] = joined[unit]
        return replace(
            self,
            tokens=tuple(tokens),
            units=tuple(units),
            punctuation=tuple(punctuation),
            model_inputs={**self.model_inputs, "input_ids": ids},
        )


def _joined(tokens: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    """The text of each unit, joined from its tokens'. Shape: both [token]."""
    groups = groupby(zip(numbers, tokens, strict=True), lambda token: token[0])
    units = []
    for _, pieces in groups:
        units.append(join([text for _, text in pieces]))
    return tuple(units)


def join(pieces: Sequence[str]) -> str:
    """One word from its pieces.

    >>> join(["straw", "##berries"]), join([" straw", "berries"]), join(["straw@@", "berries"])
    ('strawberries', ' strawberries', 'strawberries')
    """
    first, *others = pieces
    *before, last = [first, *(piece.removeprefix(CONTINUES) for piece in others)]
    return "".join(piece.removesuffix(GOES_ON) for piece in before) + last
