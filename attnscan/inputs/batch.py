"""Tokenized inputs side by side, as the patterns and the model read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from attnscan.inputs.sentence import NO_WORD, PADDING, SPECIAL, EncodedInput, Tag
from attnscan.inputs.spelling import bare
from attnscan.inputs.vocabulary import Units, WholeWords

_ALIGNMENT = 16
"""Bytes at which numbers of any format may begin."""
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
    """Bool: words among the 100 most frequent of the model's vocabulary; None if unknown."""
    related: Tensor | None = None
    """Bool [batch, query, key]: near in the model's embeddings; None if that was not asked for."""
    unit: Tensor | None = None
    """[batch, token]: the unit of each token, -1 for padding; None where every token is a unit."""
    visible: Tensor | None = None
    """Bool [batch, query, key]: which units a unit may see; None where every unit may see all."""
    is_query: Tensor | None = None
    """Bool: of cross attention, the target's units; others are keys.

    None where every unit is both.
    """
    queries: slice = field(default_factory=lambda: slice(None))
    """Which units are queries: of long inputs a range, so that no [query, key] is ever whole."""
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
        return self._place[None, None, self.keys] - self._place[None, self.queries, None]

    @property
    def first_key(self) -> Tensor:
        """Which keys are the first unit of their input. Shape: [1, 1, key], bool."""
        return self._place[None, None, self.keys] == 0

    @property
    def _place(self) -> Tensor:
        """The place of each unit. Shape: [unit], int32."""
        return torch.arange(self.word.shape[1], dtype=torch.int32, device=self.word.device)

    @property
    def delimiters(self) -> tuple[Tensor, Tensor, Tensor]:
        """Special tokens before the first word, between words, and after the last.

        Shape: [batch, unit] each, bool.
        """
        words_before = self.key_word.cumsum(1)
        words_after = self.key_word.flip(1).cumsum(1).flip(1)
        start = self.special & (words_before == 0)
        end = self.special & (words_after == 0)
        return start, self.special & ~start & ~end, end

    @property
    def same_sentence(self) -> Tensor:
        """Both are words, of one sentence, and the query may see the key.

        Shape: [batch, query, key], bool.
        """
        return self._both(self.word) & self._equal(self.sentence)

    @property
    def alike(self) -> Tensor:
        """Both are words with a letter or digit, identical or related, and seen.

        Shape: [batch, query, key], bool.
        """
        alike = self._equal(self.text_id)
        if self.related is not None:
            alike |= self.related[:, self.queries, self.keys]
        return self._both(self.word & ~self.punctuation) & alike

    @cached_property
    def recurs(self) -> Tensor:
        """Which queries have another word that is identical or related.

        Shape: [batch, query], bool.
        """
        return (self.alike & (self.offset != 0)).any(-1)

    @property
    def related_pairs(self) -> tuple[tuple[int, int], ...]:
        """Of the only input, the units that count as related and are not identical.

        The earlier one is first.
        """
        (cells,) = self.alike & ~self._equal(self.text_id)
        return tuple((query, key) for query, key in cells.triu(1).nonzero().tolist())

    @cached_property
    def word_number(self) -> Tensor:
        """The number in its sentence of the given word that each unit is of, else NO_WORD.

        Shape: [batch, unit].
        """
        rows = [encoded.unit_words for encoded in self.inputs]
        return _padded(rows, NO_WORD, self.word.shape[1]).to(self.word.device)

    def tags(self, name: str) -> list[list[Tag]]:
        """The value of a tag for each unit: of the given word that it is of; None for others.

        Shape: [batch][unit].
        """
        rows: list[list[Tag]] = []
        for encoded in self.inputs:
            values = encoded.tags(name)
            filling = [None] * (self.word.shape[1] - len(values))
            rows.append([*values, *filling])
        return rows

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
        """Some inputs under a layer's mask, with ranges of their tokens for queries and keys.

        These are all of them by default. A unit of several tokens sees what any of them sees;
        ranges that are not all cut none in two, and are of one input.
        Shape: `visible` [input, query token of the range, key token of the range], bool.
        """
        queries = rows
        keys = columns
        if self.unit is not None:
            visible, keys = self._by_units(visible, inputs, columns)
            visible, queries = self._by_units(visible.mT, inputs, rows)
            visible = visible.mT
        changed = self._map_tensors(lambda values: values[inputs])
        changed |= {"visible": visible, "inputs": self.inputs[inputs]}
        return replace(self, **changed, queries=queries, keys=keys)

    def _by_units(self, cells: Tensor, inputs: slice, tokens: slice) -> tuple[Tensor, slice]:
        """Whether any cell of a unit's tokens is true, and which units the tokens are of.

        Shape: [input, any, token] -> [input, any, unit].
        """
        assert self.unit is not None
        unit = self.unit[inputs, tokens]
        width = self.word.shape[1]
        units = slice(None)
        if tokens != slice(None):
            # By the inputs themselves: the host would wait for the numbers of another device
            ranges = [encoded.unit[tokens] for encoded in self.inputs[inputs]]
            first = min(numbers[0] for numbers in ranges if numbers)
            last = max(numbers[-1] for numbers in ranges if numbers)
            units = slice(first, last + 1)
        index = unit.where(unit >= 0, width)[:, None].expand_as(cells)
        counts = cells.new_zeros(*cells.shape[:2], width + 1, dtype=torch.int32)
        counts.scatter_add_(2, index, cells.int())
        return counts[..., :width][..., units] > 0, units

    def _map_tensors(self, do: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """Apply `do` to every tensor; return the results by the names of the fields."""
        values = {member.name: getattr(self, member.name) for member in fields(self)}
        changed: dict[str, Any] = {
            name: do(value) for name, value in values.items() if isinstance(value, Tensor)
        }
        changed["model_inputs"] = {name: do(value) for name, value in self.model_inputs.items()}
        return changed

    def to(self, device: torch.device) -> EncodedBatch:
        """The batch on another device; what is on the CPU is copied in one piece."""
        if device.type == "cpu":
            return replace(self, **self._map_tensors(lambda values: values.to(device)))
        values_of_fields = [getattr(self, member.name) for member in fields(self)]
        tensors = [value for value in values_of_fields if isinstance(value, Tensor)]
        tensors += self.model_inputs.values()
        local = [values for values in tensors if values.device.type == "cpu"]
        copies = _copy_together(local, device)
        by_id = {id(values): copy for values, copy in zip(local, copies, strict=True)}
        return replace(self, **self._map_tensors(lambda values: by_id.get(id(values), values)))


def _copy_together(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copies of some tensors of a CPU on another device, for which the host waits once."""
    parts = []
    for values in tensors:
        content = values.contiguous().reshape(-1).view(torch.uint8)
        parts.append(pad(content, (0, -len(content) % _ALIGNMENT)))
    moved = torch.cat(parts).to(device)
    lengths = [len(part) for part in parts]
    copies = []
    for values, part in zip(tensors, torch.split(moved, lengths), strict=True):
        content = part[: values.numel() * values.itemsize]
        copies.append(content.view(values.dtype).reshape(values.shape))
    return copies


def collate(
    inputs: Sequence[EncodedInput],
    pad_id: int = 0,
    relation: Relation | None = None,
    vocabulary: WholeWords | None = None,
) -> EncodedBatch:
    """Put inputs side by side, padded at the end; `vocabulary` tells which words are frequent."""
    sentence = _padded([encoded.unit_sentence for encoded in inputs], PADDING)
    units = [(encoded.tokens, encoded.sentence, encoded.unit) for encoded in inputs]
    frequent = None
    if vocabulary is not None:
        is_frequent = np.isin(vocabulary.word_ids(units), list(vocabulary.frequent))
        frequent = torch.from_numpy(is_frequent)
    merges = any(len(encoded.units) < len(encoded.tokens) for encoded in inputs)
    punctuation = _padded([_unit_punctuation(encoded) for encoded in inputs], 0).bool()
    model_inputs = {}
    for name in inputs[0].model_inputs:
        filling = pad_id if name.endswith("input_ids") else 0
        model_inputs[name] = _padded([encoded.model_inputs[name] for encoded in inputs], filling)
    return EncodedBatch(
        word=sentence >= 0,
        special=sentence == SPECIAL,
        punctuation=punctuation & (sentence >= 0),
        sentence=sentence,
        text_id=_padded(_text_ids(inputs), -1),
        frequent=frequent,
        related=None if relation is None else relation(units),
        unit=_padded([encoded.unit for encoded in inputs], -1) if merges else None,
        is_query=_query_units(inputs, sentence.shape[1]),
        model_inputs=model_inputs,
        inputs=tuple(inputs),
    )


def _unit_punctuation(encoded: EncodedInput) -> list[bool]:
    """Which units are punctuation: those all of whose tokens are."""
    marks = zip(encoded.unit, encoded.punctuation, strict=True)
    with_content = {unit for unit, is_mark in marks if not is_mark}
    return [unit not in with_content for unit in range(len(encoded.units))]


def _text_ids(inputs: Sequence[EncodedInput]) -> list[list[int]]:
    """A number for each unit, equal for equal bare texts."""
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(bare(text), len(numbers))

    return [list(map(number, encoded.units)) for encoded in inputs]


def _query_units(inputs: Sequence[EncodedInput], width: int) -> Tensor | None:
    """Which units are the target's, of cross attention; else None. Shape: [input, unit], bool."""
    first = [encoded.unit[encoded.source] if encoded.source else 0 for encoded in inputs]
    if not any(first):
        return None
    return torch.arange(width) >= torch.tensor(first)[:, None]


def _padded(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> Tensor:
    """Rows of numbers side by side, as long as the longest, or as `width`. Shape: [row, number]."""
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    numbers = pad_sequence(tensors, batch_first=True, padding_value=value)
    return pad(numbers, (0, max(0, width - numbers.shape[1])), value=value)


def batches(inputs: Sequence[EncodedInput], tokens: int) -> Iterator[list[EncodedInput]]:
    """Batches of inputs of like length, in tokens and then in units.

    Each is of at most so many tokens with padding, and one input at least.
    """
    batch: list[EncodedInput] = []
    by_length = sorted(
        inputs, key=lambda encoded: (len(encoded.tokens), len(encoded.units)), reverse=True
    )
    for encoded in by_length:
        if batch and (len(batch) + 1) * len(batch[0].tokens) > tokens:
            yield batch
            batch = []
        batch.append(encoded)
    if batch:
        yield batch
