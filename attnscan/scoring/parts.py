"""The parts of a profile, for some inputs under one mask: rows of even weights, and how they are read off a head's.

A part gives every word a row that is even over some keys that the word may see: it sums to 1, or to 0 where there are
none. No part is laid out that need not be: most are one key at a distance, or the same keys for all words of a
sentence, and a whole matrix a part would be a pass each. The others have few cells, which are picked out. Sums are made
in float64, so that an input's do not depend on the inputs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.profile import OFFSETS
from attnscan.scoring.merging import exact

_SENTENCES = 2
_PUNCTUATION = 3  # its place among the kinds of keys


@dataclass
class AllRows:
    """What is added up over all queries of some inputs and heads, key by key, for the part `same-keys`."""

    column: Tensor
    """Words' weights. Shape: [batch, head, key]."""
    parts: Tensor
    """Every part's rows. Shape: [batch, key, part]."""
    seen_by: Tensor
    """How many words may see each key. Shape: [batch, key]."""

    def __iadd__(self, other: AllRows) -> AllRows:
        for name, values in vars(self).items():
            values += getattr(other, name)
        return self

    def same_keys(self, words: Tensor, on_part: Tensor, squares: Tensor) -> SameKeys:
        """What the part `same-keys` needs of heads, without a row of it being laid out.

        Word i's row is m_i = (C - a_i) / (n - 1) over the keys that it may see, with C = Σ_k a_k over all n words. So
        Σ a_i·m_i, Σ m_i·m_i and Σ m_i·t_i follow from C and from sums that are there.
        Shape: `words` [batch, 1], how many there are, `on_part` as `Parts.read` gives it, `squares` [batch, head].
        """
        others, seen_by = (words - 1).clip(1), self.seen_by[..., None]
        square, there = self.column.square(), (words > 1) / others
        whole = square.sum(-1)
        by_square = (square @ seen_by)[..., 0] - 2 * whole + squares
        on_parts = (self.column @ self.parts - on_part) * there[..., None]
        return SameKeys(
            products=torch.cat([on_parts, (by_square * there / others)[..., None]], -1),
            on_part=(whole - squares) * there,
            mass=((self.column @ seen_by)[..., 0] - self.column.sum(-1)) * there,
        )


@dataclass(frozen=True)
class SameKeys:
    """Sums of what the part `same-keys` is made of, head by head: each word's row is the mean of the other words'."""

    products: Tensor
    """Of its rows times every part's, its own the last. Shape: [batch, head, part + 1]."""
    on_part: Tensor
    """Of its rows times the weights. Shape: [batch, head]."""
    mass: Tensor
    """Of its rows. Shape: [batch, head]."""


class Parts:
    """The parts of some queries of some inputs of one length, in the order of `results/profile.py`, but `same-keys`."""

    def __init__(self, batch: EncodedBatch, place: slice, block: AttentionBlock, others: Sequence[Tensor]) -> None:
        """`batch` is of the block's queries under its mask; its inputs stand at `place` there.

        Shape: `others` [input, query, key] each, the parts that are neither distances nor kinds of keys.
        """
        rows, self._keys_at = slice(block.weights.shape[2]), block.columns
        own, self._first = (place, rows, block.columns), block.rows.start - block.columns.start
        self._sentence, self._of_keys = batch.sentence[place, block.rows], batch.sentence[place, block.columns]
        self.word = batch.word[place, block.rows]
        """Which queries are words. Shape: [batch, query], bool."""
        assert batch.visible is not None
        visible, same = batch.visible[own], batch.same_sentence[own]
        self._exact, self._shape = exact(same.device), same.shape[1:]
        diagonals = {offset: same.diagonal(self._first + offset, dim1=1, dim2=2) for offset in OFFSETS}
        self._offsets = {offset: near.to(self._exact) for offset, near in diagonals.items()}
        """By each word that has one at that distance before or behind it: 1. Shape: [batch, word] each."""
        alike = batch.alike[own]
        itself = torch.zeros_like(alike[0])
        itself.diagonal(self._first).fill_(True)
        matrices = [alike & same & ~itself, alike & ~same, *(matrix[:, rows, block.columns] for matrix in others)]
        even = torch.stack([self._even(matrix) for matrix in matrices], 1)
        self._pick_cells(even)
        self._keys = self._kinds(batch, place)
        """Which keys are of which kind, those of sentence A and of B at the end. Shape: [batch, key, kind]."""
        seen = self._by_query(visible.float() @ self._keys).to(self._exact)
        self._scale = (seen > 0) * self.word[..., None] / seen.clip(1)
        """What each key of a kind has in a word's row. Shape: [batch, query, kind]."""
        self.gram = self._products(even, visible)
        """Every two parts' rows multiplied and added. Shape: [batch, part, part]."""
        distances = torch.stack([near.sum(1) for near in self._offsets.values()], -1)
        self.mass = torch.cat([distances, even.sum((2, 3)), (self._scale > 0).sum(1)], 1)
        """Every part's rows added. Shape: [batch, part]."""
        self._columns = self._column_sums(even, visible)
        """What each key gets of every part, over these rows. Shape: [batch, key, part]."""
        of_words = (visible & self.word[..., None]).to(self._exact)
        self._seen_by = of_words.sum(1)
        """How many of these words may see each key. Shape: [batch, key]."""
        self._even_rows = self.word / of_words.sum(-1).clip(1)
        """What each word gives each key that it may see, if it spreads evenly. Shape: [batch, query]."""

    def _even(self, matrix: Tensor) -> Tensor:
        """Words' rows in proportion, each of them adding up to 1; one of nothing stays so."""
        rows = (matrix * self.word[..., None]).to(self._exact)
        whole = rows.sum(-1, keepdim=True)
        return rows / torch.where(whole > 0, whole, 1)

    def _pick_cells(self, rows: Tensor) -> None:
        """Find the cells that any of some parts has, and what each is in each. Shape: [batch, part, query, key]."""
        cells = [used.nonzero()[:, 0] for used in (rows != 0).any(1).flatten(1)]
        padded = pad_sequence(cells, batch_first=True, padding_value=-1)
        self._cells = padded.clip(0)  # padding points to the first cell, and weighs nothing
        values = rows.flatten(2).gather(2, self._cells[:, None].expand(-1, rows.shape[1], -1))
        self._values = (values * (padded >= 0)[:, None]).mT  # [batch, cell, part]

    def _kinds(self, batch: EncodedBatch, inputs: slice) -> Tensor:
        word, special, keys = batch.word[inputs], batch.special[inputs], batch.key_word[inputs]
        length = word.shape[1]
        place = torch.arange(length, device=word.device).expand_as(word)
        first, last = (where[:, None] for where in (place.where(keys, length).amin(1), place.where(keys, -1).amax(1)))
        start, end = special & (place < first), special & (place > last)
        kinds = [start, special & ~start & ~end, end, batch.punctuation[inputs]]
        kinds += [word & (batch.sentence[inputs] == sentence) for sentence in range(_SENTENCES)]
        return torch.stack(kinds, -1).float()[:, self._keys_at]

    def _by_query(self, kinds: Tensor) -> Tensor:
        """What each query has of every kind, that of its own sentence before the other one's.

        Shape: [batch, ..., query, kind].
        """
        *others, a, b = kinds.unbind(-1)
        in_b = self._sentence.reshape(len(kinds), *[1] * (kinds.ndim - 3), -1) == 1
        return torch.stack([*others, torch.where(in_b, b, a), torch.where(in_b, a, b)], -1)

    def read(self, weights: Tensor) -> Tensor:
        """The sum of weights times each part's rows. Shape: [batch, head, query, key] -> [batch, head, part]."""
        distances = [
            (weights.diagonal(self._first + offset, dim1=2, dim2=3) * near[:, None]).sum(-1)
            for offset, near in self._offsets.items()
        ]
        picked = weights.flatten(2).gather(2, self._cells[:, None].expand(-1, weights.shape[1], -1))
        on_kinds = (weights.flatten(1, 2) @ self._keys.to(weights)).reshape(*weights.shape[:3], -1)
        of_kinds = self._by_query(on_kinds) * self._scale[:, None]
        return torch.cat([torch.stack(distances, -1), picked.to(self._exact) @ self._values, of_kinds.sum(2)], -1)

    def all_rows(self, weights: Tensor, keys: int) -> AllRows:
        """What these rows add to what `same-keys` needs, at their places among so many keys.

        Shape: `weights` [batch, head, query, key].
        """
        column = (weights * self.word[:, None, :, None]).sum(2, dtype=self._exact)
        if column.shape[-1] == keys:
            return AllRows(column, self._columns.clone(), self._seen_by.clone())
        room = (self._keys_at.start, keys - self._keys_at.stop)
        return AllRows(pad(column, room), pad(self._columns, (0, 0, *room)), pad(self._seen_by, room))

    def on_even(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Heads' weights times even rows over all keys that a word may see; and those rows' own squares.

        Shape: [batch, head] and [batch, 1].
        """
        rows = weights.sum(-1).to(self._exact)
        return (rows @ self._even_rows[..., None])[..., 0], self._even_rows.sum(1, keepdim=True)

    def _column_sums(self, rows: Tensor, visible: Tensor) -> Tensor:
        """Every part's rows added, key by key. Shape: [batch, part, query, key] -> [batch, key, part]."""
        distances = [self._by_keys(offset, cells) for offset, cells in self._offsets.items()]
        same = self._sentence[:, :, None] == self._of_keys[:, None]
        seen = visible.to(self._exact)
        *plain, own, other = range(self._scale.shape[-1])
        is_word = (self._of_keys >= 0)[..., None]
        kinds = torch.cat(
            [
                (seen.mT @ self._scale[..., plain]) * self._keys[..., plain],
                ((seen * same).mT @ self._scale[..., [own]]) * is_word,
                ((seen * ~same).mT @ self._scale[..., [other]]) * is_word,
            ],
            -1,
        )
        return torch.cat([torch.stack(distances, -1), rows.sum(2).mT, kinds], -1)

    def _products(self, rows: Tensor, visible: Tensor) -> Tensor:
        """Every two parts' rows multiplied and added. Shape: [batch, part, query, key] and [batch, query, key].

        A word has no two distances to one key, and no key is of two kinds but punctuation.
        """
        near = torch.stack([self._of_queries(offset, cells) for offset, cells in self._offsets.items()], -1)
        # [batch, distance, query, kind]: what is beyond the keys is not near, so that anything may stand there
        at = (
            torch.arange(self._shape[0], device=near.device)[None] + near.new_tensor(OFFSETS, dtype=torch.long)[:, None]
        )
        nearby = self._keys[:, (at + self._first).clip(0, self._shape[1] - 1)]
        near_kinds = (self._by_query(nearby) * self._scale[:, None] * near.permute(0, 2, 1)[..., None]).sum(2)
        punctuation = self._by_query(visible.float() @ (self._keys * self._keys[..., _PUNCTUATION, None]))
        marked = (punctuation * self._scale * self._scale[..., _PUNCTUATION, None]).sum(1)
        kinds = torch.diag_embed(self._scale.sum(1))
        kinds[:, _PUNCTUATION] = kinds[:, :, _PUNCTUATION] = marked
        on_rows = self.read(rows)
        before, after = on_rows[..., : len(OFFSETS)], on_rows[..., len(OFFSETS) :]
        distances = torch.cat([torch.diag_embed(near.sum(1)), before.mT, near_kinds], 2)
        middle = torch.cat([before, after], 2)
        last = torch.cat([near_kinds.mT, after[..., rows.shape[1] :].mT, kinds], 2)
        return torch.cat([distances, middle, last], 1)

    def _of_queries(self, offset: int, cells: Tensor) -> Tensor:
        """A diagonal's cells by their queries. Shape: [batch, cell] -> [batch, query]."""
        before = min(max(0, -self._first - offset), self._shape[0])
        return pad(cells, (before, self._shape[0] - before - cells.shape[1]))

    def _by_keys(self, offset: int, cells: Tensor) -> Tensor:
        """A diagonal's cells by their keys. Shape: [batch, cell] -> [batch, key]."""
        before = min(max(0, self._first + offset), self._shape[1])
        return pad(cells, (before, self._shape[1] - before - cells.shape[1]))
