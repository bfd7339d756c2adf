"""Tokenized inputs, one by one and side by side: what the patterns and the model read.

A *token* is what the model sees; a *unit* is what is scored: a token, or with `unit="word"` a whole word with its
pieces merged. Every special token is a unit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnscan.errors import InputError, nearest
from attnscan.inputs.sentence import NO_WORD, Pair, Place, Sentence, Span, Tag
from attnscan.inputs.tokens import bare, join

if TYPE_CHECKING:
    from attnscan.inputs.related import Relation
    from attnscan.inputs.tokens import WholeWords

SPECIAL, PADDING = -1, -2  # in place of a sentence's number


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
    """Which characters of its sentence each token stands for, as a slice; empty where the tokenizer does not tell."""
    words: tuple[int, ...] = ()
    """The number in its sentence of the given word that each token is of, or NO_WORD; empty without given words."""
    units: tuple[str, ...] = ()
    """The text of each unit; where it is not given, its tokens' texts joined."""
    source: int = 0
    """Of cross attention, how many tokens are the source's, which are keys; those of the target behind ask."""
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
        return self._of_units(self.sentence)

    @property
    def unit_words(self) -> tuple[int, ...]:
        """The number of the given word that each unit is or is a piece of; NO_WORD for all others."""
        return self._of_units(self.words or (NO_WORD,) * len(self.tokens))

    def _of_units(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The number of each unit's first token."""
        return tuple(number for i, number in enumerate(numbers) if i == 0 or self.unit[i - 1] != self.unit[i])

    @property
    def segments(self) -> tuple[int, ...]:
        """0 or 1 for every token, special ones too: a sentence's closing delimiter goes with it."""
        if self.source:
            return (0,) * self.source + (1,) * (len(self.tokens) - self.source)
        segments: list[int] = []
        for i, own in enumerate(self.sentence):
            if own < 0 and (i == 0 or self.sentence[i - 1] < 0):  # a delimiter that opens what follows
                own = next((sentence for sentence in self.sentence[i:] if sentence >= 0), own)
            segments.append(own if own >= 0 else (segments or [0])[-1])
        return tuple(segments)

    def units_between(self, sentence: int, start: int, end: int) -> list[int]:
        """The units with any of the characters from `start` up to `end` of sentence 0 or 1. Raises: InputError."""
        if not self.spans:
            what = "the characters of tokens are unknown: the tokenizer gives no offsets"
            raise InputError(what, "use a model with a fast tokenizer")
        places = zip(self.unit, self.sentence, self.spans, strict=True)
        return sorted({unit for unit, own, (first, last) in places if own == sentence and first < end and start < last})

    def tags(self, name: str) -> list[Tag]:
        """What a tag says of each unit: of the given word that it is or is a piece of; None for all others."""
        sentences = self.pair.sentences if self.pair else (Sentence(""),)
        for letter, sentence in zip("AB", sentences, strict=False):
            if name not in sentence.tags:
                what = f"sentence {letter}{f' of pair {self.number}' if self.number else ''} has no tag '{name}'"
                known = f"its tags are {', '.join(sentence.tags)}" if sentence.tags else "give Sentence(..., tags=...)"
                raise InputError(what, nearest(name, sentence.tags, known))
        units = zip(self.unit_sentence, self.unit_words, strict=True)
        return [None if word == NO_WORD else sentences[own].tags[name][word] for own, word in units]

    def hiding(self, places: Sequence[int], mask_id: int, mask: str) -> EncodedInput:
        """The input with the mask token, of that number and text, at some tokens' places. Raises: InputError."""
        tokens, ids, punctuation = list(self.tokens), list(self.model_inputs["input_ids"]), list(self.punctuation)
        for place in places:
            if not 0 <= place < len(tokens) or self.sentence[place] < 0:
                raise InputError(f"there is no word at token {place} that could be hidden", "hide words of the input")
            tokens[place], ids[place], punctuation[place] = mask, mask_id, False
        hidden, joined = {self.unit[place] for place in places}, _joined(tokens, self.unit)
        return replace(
            self,
            tokens=tuple(tokens),
            units=tuple(joined[unit] if unit in hidden else text for unit, text in enumerate(self.units)),
            punctuation=tuple(punctuation),
            model_inputs={**self.model_inputs, "input_ids": ids},
        )


def _joined(tokens: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    """The text of each unit, joined from its tokens'. Shape: both [token]."""
    units = groupby(zip(numbers, tokens, strict=True), lambda token: token[0])
    return tuple(join([text for _, text in pieces]) for _, pieces in units)


@dataclass(frozen=True)
class EncodedBatch:
    """Several inputs side by side, padded at the end to the longest. Masks are per unit.

    Shape: the masks are [batch, unit]; `query` and `key` below both run over units.
    """

    word: Tensor
    """Bool: tokens of the sentences, neither special nor padding."""
    special: Tensor
    """Bool: tokens that the tokenizer inserted."""
    punctuation: Tensor
    """Bool: words without a letter or digit."""
    sentence: Tensor
    """0 for A, 1 for B, SPECIAL or PADDING."""
    text_id: Tensor
    """Equal numbers in one input mean identical words, by their bare text."""
    frequent: Tensor | None = None
    """Bool: words among the 100 most frequent of the model's vocabulary; None where that is not known."""
    related: Tensor | None = None
    """Bool [batch, query, key]: near in the model's embeddings; None if that was not asked for."""
    unit: Tensor | None = None
    """[batch, token]: the unit of each token, -1 for padding; None where every token is a unit."""
    visible: Tensor | None = None
    """Bool [batch, query, key]: which units a unit may see; None where every unit may see all."""
    asks: Tensor | None = None
    """Bool: of cross attention, the target's units; others are keys. None where every unit is both."""
    queries: slice = field(default_factory=lambda: slice(None))
    """Which units are queries: of long inputs a range, so that what is [query, key] is never whole."""
    keys: slice = field(default_factory=lambda: slice(None))
    """Which units are keys; masks are of all units."""
    model_inputs: dict[str, Tensor] = field(default_factory=dict)
    """What the model's forward takes; each [batch, token]."""
    inputs: tuple[EncodedInput, ...] = ()
    """The inputs themselves, with their texts."""

    def __len__(self) -> int:
        return len(self.word)

    @property
    def query_word(self) -> Tensor:
        """Which units are words that look. Shape: [batch, unit], bool."""
        return self.word if self.asks is None else self.word & self.asks

    @property
    def key_word(self) -> Tensor:
        """Which units are words that may be looked at. Shape: [batch, unit], bool."""
        return self.word if self.asks is None else self.word & ~self.asks

    @property
    def offset(self) -> Tensor:
        """How far the key stands after the query. Shape: [1, query, key]."""
        place = torch.arange(self.word.shape[1], dtype=torch.int32, device=self.word.device)
        return place[None, None, self.keys] - place[None, self.queries, None]

    @property
    def delimiters(self) -> tuple[Tensor, Tensor, Tensor]:
        """Special tokens before the first word, between words, and after the last. Shape: [batch, unit] each, bool."""
        before, after = self.key_word.cumsum(1), self.key_word.flip(1).cumsum(1).flip(1)
        start, end = self.special & (before == 0), self.special & (after == 0)
        return start, self.special & ~start & ~end, end

    @property
    def same_sentence(self) -> Tensor:
        """Both are words, of one sentence, and the query may see the key. Shape: [batch, query, key], bool."""
        return self._both(self.word) & self._equal(self.sentence)

    @property
    def alike(self) -> Tensor:
        """Both are words with a letter or digit, identical or related, and seen. Shape: [batch, query, key], bool."""
        alike = self._equal(self.text_id)
        if self.related is not None:
            alike |= self.related[:, self.queries, self.keys]
        return self._both(self.word & ~self.punctuation) & alike

    @cached_property
    def recurs(self) -> Tensor:
        """Which queries have another word that is identical or related. Shape: [batch, query], bool."""
        return (self.alike & (self.offset != 0)).any(-1)

    @property
    def related_pairs(self) -> tuple[tuple[int, int], ...]:
        """Of the only input, the units that count as related and are not identical, the earlier one first."""
        (cells,) = self.alike & ~self._equal(self.text_id)
        return tuple((query, key) for query, key in cells.triu(1).nonzero().tolist())

    @cached_property
    def word_number(self) -> Tensor:
        """The number in its sentence of the given word that each unit is of, else NO_WORD. Shape: [batch, unit]."""
        rows = [encoded.unit_words for encoded in self.inputs]
        return _padded(rows, NO_WORD, self.word.shape[1]).to(self.word.device)

    def tags(self, name: str) -> list[list[Tag]]:
        """What a tag says of each unit: of the given word that it is of; None for others. Shape: [batch][unit]."""
        rows = [encoded.tags(name) for encoded in self.inputs]
        return [[*row, *[None] * (self.word.shape[1] - len(row))] for row in rows]

    def _equal(self, numbers: Tensor) -> Tensor:
        return numbers[:, self.queries, None] == numbers[:, None, self.keys]

    def _both(self, mask: Tensor) -> Tensor:
        """Where query and key are of the mask, and the query may see the key."""
        both = mask[:, self.queries, None] & mask[:, None, self.keys]
        return both if self.visible is None else both & self.visible

    def under(
        self, visible: Tensor, inputs: slice = slice(None), rows: slice = slice(None), columns: slice = slice(None)
    ) -> EncodedBatch:
        """Some inputs under a layer's mask, with ranges of their tokens for queries and keys; all of them by default.

        A unit of several tokens sees what any of them sees; ranges that are not all cut none in two, and are of one
        input. Shape: `visible` [input, query token of the range, key token of the range], bool.
        """
        queries, keys = rows, columns
        if self.unit is not None:
            visible, keys = self._by_units(visible, inputs, columns)
            visible, queries = self._by_units(visible.mT, inputs, rows)
            visible = visible.mT
        own = self._each(lambda values: values[inputs]) | {"visible": visible, "inputs": self.inputs[inputs]}
        return replace(self, **own, queries=queries, keys=keys)

    def _by_units(self, cells: Tensor, inputs: slice, tokens: slice) -> tuple[Tensor, slice]:
        """Whether any cell of a unit's tokens is true. Shape: [input, any, token] -> [input, any, unit]."""
        assert self.unit is not None
        unit, width = self.unit[inputs, tokens], self.word.shape[1]
        units = slice(None) if tokens == slice(None) else slice(int(unit[0, 0]), int(unit.max()) + 1)
        index = unit.where(unit >= 0, width)[:, None].expand_as(cells)
        counts = cells.new_zeros(*cells.shape[:2], width + 1, dtype=torch.int32).scatter_add_(2, index, cells.int())
        return counts[..., :width][..., units] > 0, units

    def _each(self, do: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """What `do` makes of every tensor, by the names of the fields."""
        tensors = {own.name: do(value) for own in fields(self) if isinstance(value := getattr(self, own.name), Tensor)}
        return {**tensors, "model_inputs": {name: do(values) for name, values in self.model_inputs.items()}}

    def to(self, device: torch.device) -> EncodedBatch:
        """The batch on another device."""
        return replace(self, **self._each(lambda values: values.to(device)))


def collate(
    inputs: Sequence[EncodedInput],
    pad_id: int = 0,
    relation: Relation | None = None,
    vocabulary: WholeWords | None = None,
) -> EncodedBatch:
    """Put inputs side by side, padded at the end; `vocabulary` tells which words are frequent."""
    sentence = _padded([encoded.unit_sentence for encoded in inputs], PADDING)
    units = [(encoded.tokens, encoded.sentence, encoded.unit) for encoded in inputs]
    first = torch.tensor([encoded.unit[encoded.source] if encoded.source else 0 for encoded in inputs])
    frequent = None if vocabulary is None else np.isin(vocabulary.of_units(units), list(vocabulary.frequent))
    merges = any(len(encoded.units) < len(encoded.tokens) for encoded in inputs)
    number_of: dict[str, int] = {}
    texts = [[number_of.setdefault(bare(text), len(number_of)) for text in encoded.units] for encoded in inputs]
    punctuation = []
    for encoded in inputs:  # a unit is punctuation if all of its tokens are
        content = {unit for unit, mark in zip(encoded.unit, encoded.punctuation, strict=True) if not mark}
        punctuation.append([unit not in content for unit in range(len(encoded.units))])
    return EncodedBatch(
        word=sentence >= 0,
        special=sentence == SPECIAL,
        punctuation=_padded(punctuation, 0).bool() & (sentence >= 0),
        sentence=sentence,
        text_id=_padded(texts, -1),
        frequent=None if frequent is None else torch.from_numpy(frequent),
        related=None if relation is None else relation(units),
        unit=_padded([encoded.unit for encoded in inputs], -1) if merges else None,
        asks=torch.arange(sentence.shape[1]) >= first[:, None] if first.any() else None,
        model_inputs={
            name: _padded([own.model_inputs[name] for own in inputs], pad_id if name.endswith("input_ids") else 0)
            for name in inputs[0].model_inputs
        },
        inputs=tuple(inputs),
    )


def _padded(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> Tensor:
    """Rows of numbers side by side, as long as the longest, or as `width`. Shape: [row, number]."""
    numbers = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], True, value)
    return torch.nn.functional.pad(numbers, (0, max(0, width - numbers.shape[1])), value=value)


def batches(inputs: Sequence[EncodedInput], tokens: int) -> Iterator[list[EncodedInput]]:
    """Batches of inputs of like length, each of at most so many tokens with padding, and one input at least."""
    batch: list[EncodedInput] = []
    for encoded in sorted(inputs, key=lambda encoded: len(encoded.tokens), reverse=True):
        if batch and (len(batch) + 1) * len(batch[0].tokens) > tokens:
            yield batch
            batch = []
        batch.append(encoded)
    if batch:
        yield batch
