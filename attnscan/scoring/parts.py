"""The parts of a profile, for some inputs under one mask: rows of even weights, and how they are read off a head's.

A part gives every word a row that is even over some keys that the word may see: it sums to 1, or to 0 where there are
none. Rows are laid out once, for their products with each other. Weights are read without them: most parts are the
same keys for all words of a sentence, or one key at a distance, and a whole matrix a part would be a pass each.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.results.profile import OFFSETS
from attnscan.scoring.readout import exact

_SENTENCES = 2


class Parts:
    """The parts of some inputs of one length, in the order that `results/profile.py` names them."""

    def __init__(self, batch: EncodedBatch, inputs: slice, length: int, others: Mapping[str, Tensor]) -> None:
        """Shape: `others` [batch, query, key] each, the parts that are neither distances nor kinds of keys."""
        own = slice(length)
        self._sentence = batch.sentence[inputs, own]
        self.word = batch.word[inputs, own]
        """Shape: [batch, unit], bool."""
        assert batch.visible is not None
        visible = batch.visible[inputs, own, own]
        same = batch.same_sentence[inputs, own, own]
        self._offsets = {
            offset: same.diagonal(offset, dim1=1, dim2=2).float() for offset in OFFSETS if abs(offset) < length
        }
        alike = batch.alike[inputs, own, own]
        itself = torch.eye(length, dtype=torch.bool, device=same.device)
        matrices = {"identical": alike & same & ~itself, "cross-sentence": alike & ~same}
        matrices |= {name: matrix[inputs, own, own] for name, matrix in others.items()}
        self._rows = torch.stack([_even(matrix * self.word[..., None]) for matrix in matrices.values()], 1)
        """Of the parts that have to be multiplied through. Shape: [batch, part, query, key]."""
        self._keys = self._kinds(batch, inputs, length)
        """Which keys are of which kind, those of sentence A and of B at the end. Shape: [batch, key, kind]."""
        seen = self._by_query(visible.float() @ self._keys)
        self._scale = (1 / seen.clip(1)) * (seen > 0) * self.word[..., None]
        self.gram, self.mass = self._sums(visible)
        """Shape: [batch, part, part] and [batch, part]."""

    def _kinds(self, batch: EncodedBatch, inputs: slice, length: int) -> Tensor:
        word, special = self.word, batch.special[inputs, :length]
        place = torch.arange(length, device=word.device).expand_as(word)
        first, last = (where[:, None] for where in (place.where(word, length).amin(1), place.where(word, -1).amax(1)))
        start, end = special & (place < first), special & (place > last)
        kinds = [start, special & ~start & ~end, end, batch.punctuation[inputs, :length]]
        kinds += [word & (self._sentence == sentence) for sentence in range(_SENTENCES)]
        return torch.stack(kinds, -1).float()

    def _by_query(self, kinds: Tensor) -> Tensor:
        """What each query has of every kind, that of its own sentence before the other one's.

        Shape: [batch, ..., query, kind].
        """
        *others, a, b = kinds.unbind(-1)
        in_b = self._sentence.reshape(len(kinds), *[1] * (kinds.ndim - 3), -1) == 1
        return torch.stack([*others, torch.where(in_b, b, a), torch.where(in_b, a, b)], -1)

    def read(self, weights: Tensor) -> Tensor:
        """The sum of weights times each part's rows. Shape: [batch, head, query, key] -> [batch, head, part]."""
        kind = exact(weights.device)
        distances = []
        for offset in OFFSETS:
            if offset in self._offsets:
                cells = weights.diagonal(offset, dim1=2, dim2=3) * self._offsets[offset][:, None]
                distances.append(cells.sum(-1, dtype=kind))
            else:
                distances.append(weights.new_zeros(weights.shape[:2], dtype=kind))
        on_rows = weights.flatten(2) @ self._rows.flatten(2).mT
        of_kinds = self._by_query(weights @ self._keys[:, None]) * self._scale[:, None]
        return torch.cat([torch.stack(distances, -1), on_rows.to(kind), of_kinds.sum(2, dtype=kind)], -1)

    def rows(self, number: int, visible: Tensor) -> Tensor:
        """All parts of one of the inputs, laid out. Shape: `visible` [query, key] -> [part, query, key]."""
        length = len(visible)
        distances = torch.zeros(len(OFFSETS), length, length, device=visible.device)
        for row, offset in zip(distances, OFFSETS, strict=True):
            if offset in self._offsets:
                row.diagonal(offset).copy_(self._offsets[offset][number])
        keys = self._keys[number].T[:, None].expand(-1, length, -1).clone()
        in_b = (self._sentence[number] == 1)[:, None]
        keys[-2], keys[-1] = torch.where(in_b, keys[-1], keys[-2]), torch.where(in_b, keys[-2], keys[-1])
        kinds = keys * visible * self._scale[number].T[..., None]
        return torch.cat([distances, self._rows[number], kinds])

    def _sums(self, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Every two parts' rows multiplied and added, and every part's, input by input: laid out they are large."""
        grams, masses = [], []
        for number, seen in enumerate(visible):
            rows = self.rows(number, seen).flatten(1).to(exact(seen.device))
            grams.append(rows @ rows.T)
            masses.append(rows.sum(1))
        return torch.stack(grams), torch.stack(masses)


def _even(matrix: Tensor) -> Tensor:
    """Rows in proportion, each of them adding up to 1; one of nothing stays so."""
    rows = matrix.float()
    whole = rows.sum(-1, keepdim=True)
    return rows / torch.where(whole > 0, whole, 1)
