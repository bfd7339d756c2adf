"""Tokenized inputs side by side, as the patterns and the model read them; which of their words are related.

Two words are related if each is among the other's nearest in the model's own input embeddings, and near enough: by a
cosine that one of ten thousand pairs of words reaches, so that every model brings its own measure. The mean word is
subtracted first: it makes any two words of some models point the same way. Two of the most frequent words are never
related, for what these have in common is that they are frequent.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize, pad
from torch.nn.utils.rnn import pad_sequence

from attnscan.inputs.encode import WORD_END, WORD_STARTS, bare, continues_word, decode_tokens
from attnscan.inputs.sentence import (
    CONTINUES,
    GOES_ON,
    NO_WORD,
    PADDING,
    SPECIAL,
    EncodedInput,
    Tag,
)

_FREQUENT = 100
_ALPHABETICAL = 0.8  # of neighbours in order; half of them are where ids go by frequency
_START = WORD_STARTS[0]  # stands for every mark of a word's start
_NEIGHBOURS = 10
_MOST_PAIRS = 15_000_000  # of which the threshold is taken: 0.15 s of one core at 384 dimensions, beside 2 s for all
_TOP_SHARE = 0.0001  # at or above the 99.99th percentile
_FEWEST = 1000  # words; of fewer, a ten-thousandth of the pairs is next to nothing
_ROWS, _ROWS_OF_HAND = (
    16_384,
    512,
)  # of the table, and of a hand, that are looked at at once, for memory's sake
_TOGETHER = 16  # words whose neighbours are sought at once, always as many: another number would round otherwise
_ROUNDING = 1e-4  # more than two ways to compute a cosine differ by

Units = tuple[Sequence[str], Sequence[int], Sequence[int]]
"""An input's tokens, and the sentence and the unit that each is of. Shape: all three [token]."""
Relation = Callable[[Sequence[Units]], Tensor]
"""Says which units of some inputs are related. Shape: [input, unit, unit], bool, symmetric."""


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
    is_query: Tensor | None = None
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
        return self.word if self.is_query is None else self.word & self.is_query

    @property
    def key_word(self) -> Tensor:
        """Which units are words that may be looked at. Shape: [batch, unit], bool."""
        return self.word if self.is_query is None else self.word & ~self.is_query

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
        """The value of a tag for each unit: of the given word that it is of; None for others. Shape: [batch][unit]."""
        rows = [encoded.tags(name) for encoded in self.inputs]
        return [[*row, *[None] * (self.word.shape[1] - len(row))] for row in rows]

    def _equal(self, numbers: Tensor) -> Tensor:
        return numbers[:, self.queries, None] == numbers[:, None, self.keys]

    def _both(self, mask: Tensor) -> Tensor:
        """Where query and key are of the mask, and the query may see the key."""
        cells = mask[:, self.queries, None] & mask[:, None, self.keys]
        return cells if self.visible is None else cells & self.visible

    def with_mask(
        self,
        visible: Tensor,
        inputs: slice = slice(None),
        rows: slice = slice(None),
        columns: slice = slice(None),
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
        changed = self._each(lambda values: values[inputs]) | {
            "visible": visible,
            "inputs": self.inputs[inputs],
        }
        return replace(self, **changed, queries=queries, keys=keys)

    def _by_units(self, cells: Tensor, inputs: slice, tokens: slice) -> tuple[Tensor, slice]:
        """Whether any cell of a unit's tokens is true. Shape: [input, any, token] -> [input, any, unit]."""
        assert self.unit is not None
        unit, width = self.unit[inputs, tokens], self.word.shape[1]
        units = (
            slice(None) if tokens == slice(None) else slice(int(unit[0, 0]), int(unit.max()) + 1)
        )
        index = unit.where(unit >= 0, width)[:, None].expand_as(cells)
        counts = cells.new_zeros(*cells.shape[:2], width + 1, dtype=torch.int32).scatter_add_(
            2, index, cells.int()
        )
        return counts[..., :width][..., units] > 0, units

    def _each(self, do: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """Apply `do` to every tensor; return the results by the names of the fields."""
        values = {member.name: getattr(self, member.name) for member in fields(self)}
        tensors = {name: do(value) for name, value in values.items() if isinstance(value, Tensor)}
        return {
            **tensors,
            "model_inputs": {name: do(values) for name, values in self.model_inputs.items()},
        }

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
    first = torch.tensor(
        [encoded.unit[encoded.source] if encoded.source else 0 for encoded in inputs]
    )
    frequent = (
        None
        if vocabulary is None
        else np.isin(vocabulary.word_ids(units), list(vocabulary.frequent))
    )
    merges = any(len(encoded.units) < len(encoded.tokens) for encoded in inputs)
    number_of: dict[str, int] = {}
    texts = [
        [number_of.setdefault(bare(text), len(number_of)) for text in encoded.units]
        for encoded in inputs
    ]
    punctuation = []
    for encoded in inputs:  # a unit is punctuation if all of its tokens are
        content = {
            unit for unit, mark in zip(encoded.unit, encoded.punctuation, strict=True) if not mark
        }
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
        is_query=torch.arange(sentence.shape[1]) >= first[:, None] if first.any() else None,
        model_inputs={
            name: _padded(
                [row.model_inputs[name] for row in inputs],
                pad_id if name.endswith("input_ids") else 0,
            )
            for name in inputs[0].model_inputs
        },
        inputs=tuple(inputs),
    )


def _padded(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> Tensor:
    """Rows of numbers side by side, as long as the longest, or as `width`. Shape: [row, number]."""
    numbers = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], True, value)
    return pad(numbers, (0, max(0, width - numbers.shape[1])), value=value)


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


@dataclass(frozen=True)
class WholeWords:
    """The tokens that are words of two letters or more, of letters alone, and no pieces of others."""

    ids: dict[str, int]
    """By the word's text without the tokenizer's mark, lowest first."""
    mark: str
    """How the vocabulary marks words or pieces: `##`, `Ġ` (for any mark of a start), `@@` or `</w>`; empty if not."""

    @classmethod
    def from_tokens(cls, texts: Mapping[int, str]) -> WholeWords:
        """The whole words among a vocabulary's tokens, special ones left out."""
        bearing = {
            CONTINUES: sum(text.startswith(CONTINUES) for text in texts.values()),
            _START: sum(text.startswith(WORD_STARTS) for text in texts.values()),
            GOES_ON: sum(text.endswith(GOES_ON) for text in texts.values()),
            WORD_END: sum(text.endswith(WORD_END) for text in texts.values()),
        }
        most = max(bearing, key=bearing.__getitem__)
        words = cls({}, most if bearing[most] else "")
        for number, text in sorted(texts.items()):
            word = (
                ""
                if words.mark == _START and not text.startswith(WORD_STARTS)
                else words.without_mark(text)
            )
            # a letter may be a vowel sign; pieces that bear `##` or `@@` are not of letters alone
            if (
                len(word) > 1
                and word[0].isalpha()
                and all(unicodedata.category(letter)[0] in "LM" for letter in word)
            ):
                words.ids.setdefault(word, number)
        return words

    def without_mark(self, token: str) -> str:
        """What a token that may be a whole word says; empty for one that lacks the mark of a word's end."""
        if self.mark == WORD_END:
            return token.removesuffix(WORD_END) if token.endswith(WORD_END) else ""
        return token.lstrip("".join(WORD_STARTS)) if self.mark == _START else token

    @cached_property
    def frequent(self) -> frozenset[int]:
        """The 100 words of the lowest ids, which are the most frequent; none where ids are in alphabetical order."""
        first = list(self.ids)[:_FREQUENT]
        ascending = sum(
            word.casefold() <= following.casefold() for word, following in pairwise(first)
        )
        is_alphabetical = ascending > _ALPHABETICAL * max(1, len(first) - 1)
        return frozenset(() if is_alphabetical else (self.ids[word] for word in first))

    def word_ids(self, inputs: Sequence[Units]) -> NDArray[np.int64]:
        """Of each unit of some inputs the id of the word that it is, else NO_WORD. Shape: [input, unit]."""
        starts, ends = self.mark == _START, self.mark == WORD_END
        numbers = np.full((len(inputs), 1 + max(unit[-1] for *_, unit in inputs)), NO_WORD)
        for row, (tokens, sentence, unit) in enumerate(inputs):
            pieces = Counter(unit)
            for i, token in enumerate(tokens):
                word = self.ids.get(self.without_mark(token), NO_WORD)
                if word == NO_WORD or sentence[i] < 0 or pieces[unit[i]] > 1:
                    continue
                follows = (
                    i > 0 and sentence[i - 1] == sentence[i]
                )  # else no mark of a start is needed
                if not (follows and continues_word(tokens[i - 1], token, starts, ends)):
                    numbers[row, unit[i]] = word
        return numbers


def whole_words(tokenizer: Any) -> WholeWords:
    """The whole words that a tokenizer knows, added ones too."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    special = {*tokenizer.all_special_tokens, *(token.content for token in added if token.special)}
    written = {
        number: token for token, number in tokenizer.get_vocab().items() if token not in special
    }
    return WholeWords.from_tokens(
        dict(zip(written, decode_tokens(tokenizer, list(written.values())), strict=True))
    )


@dataclass(frozen=True)
class Relatedness:
    """A model's embedding rows, and which of its words are related by them."""

    embedding: Tensor
    """Shape: [vocabulary, dimension], as in the model, on any device."""
    words: WholeWords
    _nearest: dict[int, dict[int, float]] = field(default_factory=dict, repr=False, compare=False)
    """Of each word that was asked for so far, its nearest ones and their cosines."""

    def related(self, inputs: Sequence[Units]) -> Tensor:
        """Which units of each input are related, none to itself. A word of several tokens is related to none.

        Shape: [input, unit, unit], bool, symmetric, where the embeddings are.
        """
        device = self.embedding.device
        ids, places = torch.unique(
            torch.from_numpy(self.words.word_ids(inputs)).to(device), return_inverse=True
        )
        related = torch.zeros(len(ids), len(ids), dtype=torch.bool, device=device)
        if self.threshold <= 1:
            directions = self._directions(ids.clip(0))
            frequent = torch.isin(ids, self._ids[: len(self.words.frequent)])
            # only words that are near enough, by all but rounding, have their neighbours sought
            near = directions @ directions.T >= self.threshold - _ROUNDING
            near &= (ids != NO_WORD) & (ids != NO_WORD)[:, None] & ~(frequent & frequent[:, None])
            inside = torch.zeros(len(ids), len(places), device=device)
            inside[places, torch.arange(len(places), device=device)[:, None]] = 1
            pairs = (near & (inside @ inside.T > 0)).triu(1).nonzero()
            self._seek(set(ids[pairs].flatten().tolist()))
            for (first, second), (word, other) in zip(
                pairs.tolist(), ids[pairs].tolist(), strict=True
            ):
                forth, back = (
                    self._nearest[word].get(other, -2.0),
                    self._nearest[other].get(word, -2.0),
                )
                if min(forth, back) >= self.threshold:
                    related[first, second] = related[second, first] = True
        return related[places[:, :, None], places[:, None, :]]

    @cached_property
    def threshold(self) -> float:
        """The cosine in [-1, 1] from which two words are near enough; infinity if no pair of them stands out."""
        size = len(self._ids)
        if size < _FEWEST:
            return math.inf
        order = torch.randperm(size, generator=torch.Generator().manual_seed(0)).to(
            self._ids.device
        )
        count = math.ceil(
            size**2 / 2 / _MOST_PAIRS
        )  # of hands, the pairs inside which stand for all
        hands = [self._ids[order[first::count]] for first in range(count)]
        pairs = sum(math.comb(len(hand), 2) for hand in hands)
        top, total = (
            self.embedding.new_full((math.ceil(pairs * _TOP_SHARE),), -1, dtype=torch.float32),
            0.0,
        )
        for directions in map(self._directions, hands):
            total += (directions.sum(0).square().sum() - directions.square().sum()).item() / 2
            for start in range(0, len(directions), _ROWS_OF_HAND):
                cosine = (directions[start : start + _ROWS_OF_HAND] @ directions[start:].T).triu(
                    1
                )  # each pair once
                top = torch.cat([top, cosine[cosine > top[-1].clamp_min(0)]]).topk(len(top)).values
        high, usual = top[-1].item(), total / pairs
        return (
            high if high > usual + 1e-3 else math.inf
        )  # all alike, or all at right angles; so it is with NaN

    def _seek(self, words: Collection[int]) -> None:
        """Find the nearest words of those that were not asked for before."""
        waiting = sorted(word for word in words if word not in self._nearest)
        for start in range(0, len(waiting), _TOGETHER):
            block = waiting[start : start + _TOGETHER]
            filled = torch.tensor(
                [*block, *[block[-1]] * (_TOGETHER - len(block))], device=self.embedding.device
            )
            cosine = self._cosines(self._directions(filled))
            cosine[torch.arange(_TOGETHER, device=filled.device), filled] = -2
            nearest = cosine.topk(_NEIGHBOURS)
            for word, ids, cosines in zip(
                block, nearest.indices.tolist(), nearest.values.tolist(), strict=False
            ):
                self._nearest[word] = dict(zip(ids, cosines, strict=True))

    def _cosines(self, directions: Tensor) -> Tensor:
        """Of directions with every row; -2 with what is no word. Shape: [direction, dimension] -> [., vocabulary]."""
        mean, scale = self._centre
        parts = [
            rows.float() @ directions.T for rows in torch.split(self.embedding, _ROWS)
        ]  # the faster way round
        cosine = torch.cat(parts).T.contiguous().sub_((directions @ mean)[:, None]).mul_(scale)
        return cosine.masked_fill_(
            torch.ones_like(scale, dtype=torch.bool).index_fill(0, self._ids, False), -2
        )

    def _directions(self, ids: Tensor) -> Tensor:
        mean, _ = self._centre
        return normalize(self.embedding[ids].float() - mean, dim=-1)

    @cached_property
    def _ids(self) -> Tensor:
        ids = [number for number in self.words.ids.values() if number < len(self.embedding)]
        return torch.tensor(ids, dtype=torch.long, device=self.embedding.device)

    @cached_property
    def _centre(self) -> tuple[Tensor, Tensor]:
        """The mean word, and one over every row's distance from it. Shape: [dimension] and [vocabulary]."""
        parts = [self.embedding[ids].float().sum(0) for ids in torch.split(self._ids, _ROWS)]
        mean = torch.stack(parts).sum(0) / len(self._ids)
        lengths = [
            (rows.float() - mean).norm(dim=-1) for rows in torch.split(self.embedding, _ROWS)
        ]
        return mean, 1 / torch.cat(lengths).clamp_min(1e-12)
