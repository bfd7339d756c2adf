"""A sentence as somebody gives it, perhaps with its words and what is said of each; pairs, and where they were read."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import index
from typing import Any

from attnscan.errors import InputError, PairsError
from attnscan.text import hashed

Span = tuple[int, int]
"""Which characters of a text: the first, and the one behind the last."""
Tag = str | int | float | None
"""What is said of a word: its part of speech, the number of its head, its relation, whether it is a name."""
NO_WORD = -1  # in place of a word's number


@dataclass(frozen=True)
class Sentence:
    """A text whose words are given, each with its annotations; every function that takes a text takes it, too.

    Raises: InputError if words are no spans of the text in order, or tags not a text, number or None for each of them.
    """

    text: str
    """What the model reads."""
    words: Sequence[Span] | None = None
    """Which characters each word is, as a slice of the text, perhaps an empty one; None if nobody says."""
    tags: Mapping[str, Sequence[Tag]] = field(default_factory=dict, hash=False)
    """By their names, each with one value a word."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"the text of a sentence is of the class {type(self.text).__name__}", "give text")
        if self.words is None and self.tags:
            raise InputError("tags are given and words are not", "give words=[(start, end), ...]")
        if self.words is None:
            return
        what = f"words is {self.words!r:.60}, in a text of {len(self.text)} characters, and tags {self.tags!r:.60}"
        try:
            words = tuple((index(first), index(last)) for first, last in self.words)
            tags = {  # scalars of numpy become plain values
                name: tuple(value.item() if hasattr(value, "item") else value for value in values)
                for name, values in dict[str, Any](self.tags).items()
            }
            bounds = [0, *chain.from_iterable(words), len(self.text)]
            if bounds != sorted(bounds):
                raise ValueError
            if any(len(tag) != len(words) or not all(isinstance(value, Tag) for value in tag) for tag in tags.values()):
                raise ValueError
        except (TypeError, ValueError):
            remedy = "give words=[(start, end), ...], in order and without overlap, and for each tag a value a word"
            raise InputError(what, remedy) from None
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "tags", tags)

    @property
    def by_spaces(self) -> Sentence:
        """The sentence with its words or, where none are given, with what stands between spaces as words."""
        if self.words is not None:
            return self
        return Sentence(self.text, [match.span() for match in re.finditer(r"\S+", self.text)])

    def word(self, number: int) -> str:
        """The characters of a word, by its number."""
        assert self.words is not None
        return self.text[slice(*self.words[number])]

    def words_of(self, pieces: Sequence[Span]) -> list[int]:
        """Of each piece of the text the word with which it shares most characters, first of equals; else NO_WORD."""
        starts, ends = zip(*self.words, strict=True) if self.words else ((), ())
        numbers = []
        for first, last in pieces:
            near = range(bisect_right(ends, first), bisect_left(starts, last))
            shared = [min(last, ends[number]) - max(first, starts[number]) for number in near]
            most = max(shared, default=0)
            numbers.append(near[shared.index(most)] if most > 0 else NO_WORD)
        return numbers


Text = str | Sentence
"""What functions take where a text stands."""


@dataclass(frozen=True, init=False)
class Pair:
    """One input: sentence A, and sentence B if there are two. Raises: InputError if one is blank or no valid text."""

    sentences: tuple[Sentence, ...]

    def __init__(self, a: Text, b: Text | None = None) -> None:
        given = (a,) if b is None else (a, b)
        for name, text in zip("AB", given, strict=False):
            if not isinstance(text, Text):
                what = f"sentence {name} is of the class {type(text).__name__}, and not text"
                raise InputError(what, "give a text; pairs= takes many inputs")
        sentences = tuple(text if isinstance(text, Sentence) else Sentence(text) for text in given)
        object.__setattr__(self, "sentences", sentences)
        for name, text in zip("AB", self.texts, strict=False):
            if not text.strip():
                raise InputError(f"sentence {name} is empty", "give it at least one word, in quotes")
            if "\0" in text:
                raise InputError(f"sentence {name} has a NUL character", "leave it out")
            if wrong := re.search("[\ud800-\udfff]", text):  # what Python makes of a byte that is no text (PEP 383)
                what = f"sentence {name} is not valid Unicode: its character {wrong.start() + 1} is a byte"
                remedy = "save or paste it as UTF-8, in a locale such as LC_ALL=C.UTF-8"
                raise InputError(f"{what} that is not UTF-8, or half of one", remedy)

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
        return tuple(sentence.text for sentence in self.sentences)

    @property
    def key(self) -> str:
        """The hash that identifies the pair on every machine: equal pairs have equal keys. 64 hexadecimal digits."""
        return self.key_after()

    def key_after(self, *texts: str) -> str:
        """Hash the pair together with texts before it: a seed to draw by, or the hash of all pairs read so far."""
        parts = [text.encode() for text in texts]
        for sentence in self.sentences:
            parts.append(sentence.text.encode())
            if sentence.words is not None:  # no text has a NUL character
                parts.append(b"\0" + json.dumps([sentence.words, sentence.tags], sort_keys=True).encode())
        return hashed(*parts)


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
