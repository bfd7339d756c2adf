"""Tokenized inputs, one by one and side by side: what the patterns and the model read.

A *token* is what the model sees; a *unit* is what is scored: a token, or with `unit="word"` a whole
word with its pieces merged. Every special token is a unit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

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
    """The number of the given word that each token belongs to, from 0 in each sentence, or NO_WORD; empty where no
    words were given."""
    merged: tuple[str, ...] = ()
    """The text of each unit, where that is not its tokens' texts joined: bytes inside a character. Else empty."""
    source: int = 0
    """Of cross attention, how many tokens are the source's, which are keys; those of the target behind ask."""
    truncated: bool = False
    """Whether the input was cut to the model's longest."""
    number: int = 0
    """Which it is in a stream of inputs, from 1; 0 if it is alone."""
    place: Place = Place()
    """Where its own scores belong."""

    @property
    def merges(self) -> bool:
        """Whether any unit has several tokens."""
        return self.unit[-1] + 1 < len(self.unit)

    @property
    def first_tokens(self) -> Sequence[int]:
        """The index of each unit's first token."""
        if not self.merges:
            return range(len(self.unit))
        return [i for i, unit in enumerate(self.unit) if i == 0 or self.unit[i - 1] != unit]

    @property
    def known_pair(self) -> Pair:
        """The pair that was tokenized; not for saved weights."""
        assert self.pair is not None
        return self.pair

    @property
    def sentences(self) -> tuple[str, ...]:
        """The text of sentence A and, of a pair, B; empty for saved weights."""
        return () if self.pair is None else self.pair.texts

    @property
    def units(self) -> tuple[str, ...]:
        """The text of each unit, its pieces joined."""
        if self.merged:
            return self.merged
        if not self.merges:
            return self.tokens
        starts = self.first_tokens
        return tuple(join(self.tokens[a:b]) for a, b in zip(starts, [*starts[1:], None], strict=True))

    def units_between(self, sentence: int, start: int, end: int) -> list[int]:
        """The units with any of the characters from `start` up to `end` of sentence 0 or 1; none if they were cut off.

        Raises: InputError if the tokenizer does not tell what its tokens stand for.
        """
        if not self.spans:
            what = "the characters of tokens are unknown: the tokenizer gives no offsets"
            raise InputError(what, "use a model with a fast tokenizer")
        touched = (
            unit
            for unit, of, (first, last) in zip(self.unit, self.sentence, self.spans, strict=True)
            if of == sentence and first < end and start < last
        )
        return list(dict.fromkeys(touched))

    @property
    def unit_sentence(self) -> tuple[int, ...]:
        """The sentence of each unit: 0, 1, SPECIAL or PADDING."""
        return self.sentence if not self.merges else tuple(self.sentence[i] for i in self.first_tokens)

    @property
    def unit_words(self) -> tuple[int, ...]:
        """The number of the given word that each unit is or is a piece of; NO_WORD for all others."""
        return tuple(self.words[i] for i in self.first_tokens) if self.words else (NO_WORD,) * (self.unit[-1] + 1)

    def tags(self, name: str) -> list[Tag]:
        """What a tag says of each unit: of the given word that it is or is a piece of; None for all others.

        Raises: InputError if the words of a sentence have no such tag.
        """
        values: dict[int, Sequence[Tag]] = {}
        for number, sentence in enumerate(self.pair.sentences if self.pair else [Sentence("")]):
            if name not in sentence.tags:
                which = f"sentence {'AB'[number]}{f' of pair {self.number}' if self.number else ''}"
                known = (
                    f"its tags are {', '.join(sentence.tags)}"
                    if sentence.tags
                    else f'give Sentence(..., tags={{"{name}": ...}})'
                )
                raise InputError(f"{which} has no tag '{name}'", nearest(name, sentence.tags, known))
            values[number] = sentence.tags[name]
        units = zip(self.unit_sentence, self.unit_words, strict=True)
        return [None if word == NO_WORD else values[sentence][word] for sentence, word in units]

    @property
    def segments(self) -> tuple[int, ...]:
        """0 or 1 for every token, special ones too: a sentence's closing delimiter goes with it."""
        if self.source:
            return (0,) * self.source + (1,) * (len(self.tokens) - self.source)
        result, following = list[int](), [*self.sentence]  # the sentence of the word that is or comes next
        for i in reversed(range(len(following) - 1)):
            following[i] = following[i] if following[i] >= 0 else following[i + 1]
        for i, sentence in enumerate(self.sentence):
            closes = sentence < 0 and i > 0 and self.sentence[i - 1] >= 0
            result.append((result or [0])[-1] if closes or following[i] < 0 else following[i])
        return tuple(result)

    def hiding(self, places: Sequence[int], mask_id: int, mask: str) -> EncodedInput:
        """The input with the mask token, of that number and text, at some tokens' places.

        Raises: InputError if one of them is no word's.
        """
        for place in places:
            if not 0 <= place < len(self.tokens):
                what = f"there is no token {place} to hide: the input has {len(self.tokens)}"
                raise InputError(what, "hide words of the input")
            if self.sentence[place] < 0:
                what = f"the special token {self.tokens[place]} ({place}) cannot be hidden"
                raise InputError(what, "hide words of the input")
        tokens, ids, punctuation = list(self.tokens), list(self.model_inputs["input_ids"]), list(self.punctuation)
        for place in places:
            tokens[place], ids[place], punctuation[place] = mask, mask_id, False
        inputs = {**self.model_inputs, "input_ids": ids}
        changed = replace(self, tokens=tuple(tokens), punctuation=tuple(punctuation), model_inputs=inputs, merged=())
        if not self.merged:
            return changed
        touched = {self.unit[place] for place in places}
        texts = zip(changed.units, self.merged, strict=True)
        return replace(changed, merged=tuple(new if unit in touched else old for unit, (new, old) in enumerate(texts)))


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
        place = torch.arange(self.word.shape[1], device=self.word.device)
        return place[None, None, self.keys] - place[None, self.queries, None]

    @property
    def asked(self) -> Tensor:
        """Which queries are words. Shape: [batch, query], bool."""
        return self.word[:, self.queries]

    @property
    def delimiters(self) -> tuple[Tensor, Tensor, Tensor]:
        """Special tokens before the first word, between words, and after the last. Shape: [batch, unit] each, bool."""
        place, keys = torch.arange(self.word.shape[1], device=self.word.device).expand_as(self.word), self.key_word
        first = place.where(keys, self.word.shape[1]).amin(1, keepdim=True)
        last = place.where(keys, -1).amax(1, keepdim=True)
        start, end = self.special & (place < first), self.special & (place > last)
        return start, self.special & ~start & ~end, end

    @cached_property
    def same_sentence(self) -> Tensor:
        """Both are words, of one sentence, and the query may see the key. Shape: [batch, query, key], bool."""
        return self._seen(self._equal(self.sentence, self.word))

    @cached_property
    def alike(self) -> Tensor:
        """Both are words with a letter or digit, identical or related, and the query may see the key.

        Shape: [batch, query, key], bool.
        """
        content = self.word & ~self.punctuation
        alike = self._equal(self.text_id, content)
        if self.related is not None:
            related = self.related[:, self.queries, self.keys]
            alike |= related & content[:, self.queries, None] & content[:, None, self.keys]
        return self._seen(alike)

    @cached_property
    def recurs(self) -> Tensor:
        """Which queries have another word that is identical or related. Shape: [batch, query], bool."""
        return (self.alike & (self.offset != 0)).any(-1)

    @cached_property
    def word_number(self) -> Tensor:
        """The number of the given word that each unit is or is a piece of, from 0 in each sentence; NO_WORD for all
        others: special tokens, padding, and pieces of no word. Shape: [batch, unit].
        """
        width = self.word.shape[1]  # that of a whole batch, of which these inputs may be a part
        rows = [[*encoded.unit_words, *[NO_WORD] * (width - len(encoded.unit_words))] for encoded in self.inputs]
        return torch.tensor(rows, device=self.word.device)

    def tags(self, name: str) -> list[list[Tag]]:
        """What a tag says of each unit: of the given word that it is or is a piece of; None for all others.

        Shape: [batch][unit].
        Raises: InputError if the words of a sentence have no such tag.
        """
        width = self.word.shape[1]
        rows = [encoded.tags(name) for encoded in self.inputs]
        return [[*row, *[None] * (width - len(row))] for row in rows]

    def _seen(self, cells: Tensor) -> Tensor:
        return cells if self.visible is None else cells & self.visible

    def _equal(self, numbers: Tensor, mask: Tensor) -> Tensor:
        """Where query and key are of the mask, and of one number from 0 on: all else is made unequal."""
        queries, keys = (numbers.masked_fill(~mask, other) for other in (-1, -2))
        return queries[:, self.queries, None] == keys[:, None, self.keys]

    def under(self, visible: Tensor) -> EncodedBatch:
        """The batch under a layer's mask. A unit of several tokens sees what any of them sees, any of its tokens.

        Shape: `visible` [batch, query token, key token], bool.
        """
        if self.unit is not None:
            width = self.word.shape[1]
            into = (self.unit[..., None] == torch.arange(width, device=self.unit.device)).float()
            visible = into.transpose(1, 2) @ visible.float() @ into > 0
        return replace(self, visible=visible)

    def units(self, number: int, tokens: slice) -> slice:
        """The units of a range of an input's tokens. The range must cut no word in two."""
        if self.unit is None or tokens == slice(None):
            return tokens
        unit = self.unit[number]
        start, stop = tokens.start or 0, len(unit) if tokens.stop is None else tokens.stop
        assert start == 0 or unit[start - 1] != unit[start]
        assert stop >= len(unit) or unit[stop - 1] != unit[stop]
        return slice(int(unit[start]), int(unit[:stop].max()) + 1)

    def of_range(self, inputs: slice, rows: slice, columns: slice, visible: Tensor) -> EncodedBatch:
        """Some inputs with a range of their tokens for queries, and one for keys, under a layer's mask.

        Shape: `visible` [input, query token of the range, key token of the range], bool. Where words have several
        tokens, it is of one input, and the ranges cut none in two.
        """
        queries, keys = (self.units(inputs.start, tokens) for tokens in (rows, columns))
        if self.unit is not None:
            unit = self.unit[inputs.start]
            of_queries = unit[rows] - queries.start
            of_keys = (unit[columns] - keys.start).clip(0)  # padding, which nothing sees, goes with the first
            seen = torch.zeros(1, visible.shape[1], keys.stop - keys.start, dtype=torch.int32, device=unit.device)
            seen.index_add_(2, of_keys, visible.int())
            visible = seen.new_zeros(1, queries.stop - queries.start, seen.shape[2]).index_add_(1, of_queries, seen) > 0
        own = self._each(lambda values: values[inputs]) | {"visible": visible, "inputs": self.inputs[inputs]}
        return replace(self, **own, queries=queries, keys=keys)

    def _each(self, do: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """What `do` makes of every tensor, by the names of the fields."""
        tensors = {own.name: do(value) for own in fields(self) if isinstance(value := getattr(self, own.name), Tensor)}
        return {**tensors, "model_inputs": {name: do(values) for name, values in self.model_inputs.items()}}

    @property
    def related_pairs(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Of each input, the units that count as related and are not identical, the earlier one first."""
        pairs: list[list[tuple[int, int]]] = [[] for _ in range(len(self))]
        if self.related is not None:
            number, query, key = self.related.nonzero().T
            content = self.word & ~self.punctuation
            both = content[number, query] & content[number, key] & (query < key)
            both &= self.text_id[number, query] != self.text_id[number, key]
            for row, *pair in torch.stack([number, query, key])[:, both].T.tolist():
                pairs[row].append((pair[0], pair[1]))
        return tuple(map(tuple, pairs))

    def to(self, device: torch.device) -> EncodedBatch:
        """The batch on another device."""
        return replace(self, **self._each(lambda values: values.to(device)))


def collate(
    inputs: Sequence[EncodedInput],
    pad_id: int = 0,
    relation: Relation | None = None,
    vocabulary: WholeWords | None = None,
) -> EncodedBatch:
    """Put inputs side by side, padded at the end; units that the words share become their texts' numbers.

    `relation` tells which words are related, `vocabulary` which are frequent.
    """
    sentence = padded([encoded.unit_sentence for encoded in inputs], PADDING)
    punctuation = padded([_unit_punctuation(encoded) for encoded in inputs], 0).bool()
    units = [(encoded.tokens, encoded.sentence, encoded.unit) for encoded in inputs]
    first = torch.tensor([encoded.unit[encoded.source] if encoded.source else 0 for encoded in inputs])
    frequent = None
    if vocabulary is not None:
        frequent = torch.from_numpy(np.isin(vocabulary.of_units(units), list(vocabulary.frequent)))
    return EncodedBatch(
        word=sentence >= 0,
        special=sentence == SPECIAL,
        punctuation=punctuation & (sentence >= 0),
        sentence=sentence,
        text_id=padded(_text_ids(inputs), -1),
        frequent=frequent,
        related=None if relation is None else relation.related(units),
        unit=padded([encoded.unit for encoded in inputs], -1) if any(encoded.merges for encoded in inputs) else None,
        asks=torch.arange(sentence.shape[1]) >= first[:, None] if first.any() else None,
        model_inputs={
            name: padded(
                [encoded.model_inputs[name] for encoded in inputs], pad_id if name.endswith("input_ids") else 0
            )
            for name in inputs[0].model_inputs
        },
        inputs=tuple(inputs),
    )


def _text_ids(inputs: Sequence[EncodedInput]) -> list[list[int]]:
    """Of each input's units, numbers that are equal where their bare texts are."""
    numbers: dict[str, int] = {}
    written = dict.fromkeys(chain.from_iterable(encoded.units for encoded in inputs))
    of_text = {text: numbers.setdefault(bare(text), len(numbers)) for text in written}
    return [[of_text[text] for text in encoded.units] for encoded in inputs]


def _unit_punctuation(encoded: EncodedInput) -> Sequence[int]:
    """A unit is punctuation if all of its tokens are."""
    if not encoded.merges:
        return encoded.punctuation
    result = [1] * (encoded.unit[-1] + 1)
    for unit, punctuation in zip(encoded.unit, encoded.punctuation, strict=True):
        result[unit] &= punctuation
    return result


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows of numbers side by side, as long as the longest. Shape: [row, number]."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    numbers = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    table = np.full((len(rows), lengths.max()), value, np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = numbers
    return torch.from_numpy(table)


@dataclass(frozen=True)
class Room:
    """How much a batch may hold."""

    tokens: int
    """Padding included."""
    cells: int | None = None
    """Of weights [query, key], one head's of every input together; None for any number."""

    def holds(self, inputs: int, length: int) -> bool:
        """Whether that many inputs fit, padded to a length."""
        return inputs * length <= self.tokens and (self.cells is None or inputs * length**2 <= self.cells)


def batches(inputs: Sequence[EncodedInput], room: Room) -> Iterator[list[EncodedInput]]:
    """Batches of inputs of like length, each as many as there is room for.

    A single input for which there is none makes a batch of its own.
    """
    batch: list[EncodedInput] = []
    for encoded in sorted(inputs, key=lambda encoded: len(encoded.tokens), reverse=True):
        if batch and not room.holds(len(batch) + 1, len(batch[0].tokens)):
            yield batch
            batch = []
        batch.append(encoded)
    if batch:
        yield batch
