"""A sentence as somebody gives it: its text and, if they are known, its words and what is said of each; pairs of them,
and where these were read.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

from attnscan.errors import InputError, PairsError
from attnscan.hashing import hashed

Span = tuple[int, int]
"""Which characters of a text: the first, and the one behind the last."""
Tag = str | int | float | None
"""What is said of a word: its part of speech, the number of its head, its relation, whether it is a name."""

NO_WORD = -1
"""In place of a word's number."""


@dataclass(frozen=True)
class Sentence:
    """A text whose words are given, each with its annotations; every function that takes a text takes it, too.

    Words have numbers from 0, by which a tag can refer to them, as that of a head does.

    Raises: InputError if words are no spans of the text, in order and without overlap; for tags without words, of
    another number than these, or of values that are neither text nor numbers nor None.
    """

    text: str
    """What the model reads."""
    words: Sequence[Span] | None = None
    """Which characters each word is, as a slice of the text; empty for one without characters of its own, as the second
    of the words that French *au* stands for. None if nobody says what the words are."""
    tags: Mapping[str, Sequence[Tag]] = field(default_factory=dict, hash=False)
    """By their names, each with one value a word."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"the text of a sentence is of the class {type(self.text).__name__}", "give text")
        if self.words is not None:
            object.__setattr__(self, "words", _checked_words(self.words, len(self.text)))
        if self.tags or self.words is not None:
            object.__setattr__(self, "tags", _checked_tags(self.tags, self.words))

    @property
    def parts(self) -> Iterator[bytes]:
        """What equal sentences have alike, for hashes: the text and, if there are words, these with their tags."""
        yield self.text.encode()
        if self.words is not None:  # no text has a NUL character
            yield b"\0" + json.dumps([self.words, self.tags], sort_keys=True).encode()

    @property
    def by_spaces(self) -> Sentence:
        """The sentence with its words or, where none are given, with what stands between spaces as words."""
        if self.words is not None:
            return self
        return Sentence(self.text, [match.span() for match in re.finditer(r"\S+", self.text)])

    def word(self, number: int) -> str:
        """The characters of a word, by its number.

        >>> Sentence("Dogs don't.", [(0, 4), (5, 7), (7, 10), (10, 11)]).word(2)
        "n't"
        """
        assert self.words is not None
        return self.text[slice(*self.words[number])]

    def start(self, end: int) -> Sentence:
        """The sentence as far as a character; a word that is cut there keeps its characters before."""
        if self.words is None:
            return Sentence(self.text[:end])
        words = [(first, min(last, end)) for first, last in self.words if first < end]
        return Sentence(self.text[:end], words, {name: values[: len(words)] for name, values in self.tags.items()})

    def words_of(self, pieces: Sequence[Span]) -> list[int]:
        """Of each piece of the text the word with which it shares most characters, the first of equals; else NO_WORD.

        >>> Sentence("a dog.", [(0, 1), (2, 6)]).words_of([(0, 1), (1, 2), (1, 5), (5, 6)])
        [0, -1, 1, 1]
        """
        starts, ends = zip(*self.words, strict=True) if self.words else ((), ())
        numbers = []
        for first, last in pieces:
            shared = {
                number: min(last, ends[number]) - max(first, starts[number])
                for number in range(bisect_right(ends, first), bisect_left(starts, last))
            }
            best = max(shared, key=shared.__getitem__, default=NO_WORD)
            numbers.append(best if shared.get(best, 0) > 0 else NO_WORD)
        return numbers


Text = str | Sentence
"""What functions take where a text stands."""


@dataclass(frozen=True, init=False)
class Pair:
    """One input: sentence A, and sentence B if there are two.

    Raises: InputError if a sentence is blank, has a NUL character, or is not text that can be written as UTF-8.
    """

    sentences: tuple[Sentence, ...]
    """The one or two sentences."""

    def __init__(self, a: str | Sentence, b: str | Sentence | None = None) -> None:
        given = (a,) if b is None else (a, b)
        sentences = tuple([text if isinstance(text, Sentence) else Sentence(text) for text in given])
        object.__setattr__(self, "sentences", sentences)
        for name, text in zip("AB", self.texts, strict=False):
            if not text.strip():
                raise InputError(f"sentence {name} is empty", "give it at least one word, in quotes")
            if "\0" in text:
                raise InputError(f"sentence {name} has a NUL character", "leave it out")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise _not_unicode(name, text[error.start], error.start + 1) from None

    @property
    def source(self) -> Pair:
        """Sentence A alone: of a translation, what the encoder reads."""
        return Pair(self.sentences[0])

    @property
    def by_spaces(self) -> Pair:
        """The pair with what stands between spaces as words, where no words are given."""
        return Pair(*(sentence.by_spaces for sentence in self.sentences))

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
        return tuple([sentence.text for sentence in self.sentences])

    @property
    def key(self) -> str:
        """The hash that identifies the pair on every machine: equal pairs have equal keys. 64 hexadecimal digits."""
        return self.key_after()

    def key_after(self, *texts: str) -> str:
        """Hash the pair together with texts before it: a seed to draw by, or the hash of all pairs read so far."""
        parts = (part for sentence in self.sentences for part in sentence.parts)
        return hashed(*(text.encode() for text in texts), *parts)


def _not_unicode(name: str, character: str, place: int) -> InputError:
    what = f"sentence {name} is not valid Unicode: its character {place} is"
    if not "\udc80" <= character <= "\udcff":
        return InputError(f"{what} half of a pair", "save or paste the text as UTF-8")
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return InputError(f"{what} a byte that is not UTF-8", "save or paste the text as UTF-8")
    # Python keeps bytes that the locale cannot decode as U+DC80 to U+DCFF (PEP 383)
    return InputError(f"{what} not known to the locale, which is {encoding}", "set LC_ALL=C.UTF-8 or PYTHONUTF8=1")


@dataclass(frozen=True, order=True)
class Place:
    """Where a pair comes from, by which its scores can be joined with the input."""

    file: str = ""
    """The file, as it was named; empty for a pair from no file."""
    row: int = 0
    """The number of the record in it, from 1, bad and skipped records counted."""
    id: str | None = None
    """The cell of the column of ids, if one was named."""


@dataclass(frozen=True)
class Record:
    """A pair and where it was read."""

    pair: Pair
    where: str
    """Such as `pairs.tsv:12`, the line where it starts, or `pairs.parquet: row 12`; both counted from 1."""
    label: str | None = None
    """The cell of the column `label`, if that was asked for and is there."""
    place: Place = Place()


def bad_record(where: str, why: str) -> PairsError:
    """The error for a record that `--skip-bad` would skip."""
    return PairsError(f"{where}: {why}", "correct it, or pass --skip-bad to go on without it")


def _checked_words(words: Any, length: int) -> tuple[Span, ...]:
    """The spans as tuples of numbers. Raises: InputError."""
    spans: list[Span] = []
    try:
        for word in words:
            first, last = map(index, word)
            spans.append((first, last))
    except (TypeError, ValueError):
        where = f"words[{len(spans)}]" if isinstance(words, Sequence) else "words"
        wrong = words[len(spans)] if isinstance(words, Sequence) else words
        raise InputError(f"{where} is {wrong!r:.60}", "give each word as (start, end), two whole numbers") from None
    before = 0
    for number, (first, last) in enumerate(spans):
        if not 0 <= first <= last <= length:
            what = f"words[{number}] is ({first}, {last}), and the text has {length} characters"
            raise InputError(what, "give each word as (start, end), the slice of the text that it is")
        if first < before:
            what = f"words[{number}] starts at {first}, before words[{number - 1}] ends, at {before}"
            raise InputError(what, "give words in the order of the text, without overlap")
        before = last
    return tuple(spans)


def _checked_tags(tags: Any, words: Sequence[Span] | None) -> dict[str, tuple[Tag, ...]]:
    """The values as tuples, scalars of numpy as plain ones. Raises: InputError."""
    if words is None:
        raise InputError("tags are given and words are not", "give words=[(start, end), ...], one value of a tag each")
    if not isinstance(tags, Mapping) or not all(isinstance(name, str) for name in tags):
        raise InputError("tags do not go by their names", 'give a dict: {"upos": [...]}')
    checked: dict[str, tuple[Tag, ...]] = {}
    for name, values in tags.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            raise InputError(f"tags[{name!r}] is {values!r:.60}", "give a list with a value for each word")
        plain = tuple(value.item() if hasattr(value, "item") else value for value in values)
        if len(plain) != len(words):
            raise InputError(f"tags[{name!r}] has {len(plain)} values, and words has {len(words)}", "give one a word")
        if (number := next((i for i, value in enumerate(plain) if not isinstance(value, Tag)), None)) is not None:
            what = f"tags[{name!r}][{number}] is of the class {type(plain[number]).__name__}"
            raise InputError(what, "give text, a number or None")
        checked[name] = plain
    return checked
