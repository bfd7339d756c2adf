"""Batches of loaders give their pairs as they went in; what may be meant in two ways is refused."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from tiny_checkpoints import refusal
from torch.utils.data import DataLoader, TensorDataset

from attnscan.errors import InputError, PairsError
from attnscan.inputs.columns import Reading
from attnscan.inputs.objects.kinds import objects_in

A, B = ["I went home.", "You sing well.", "A cat sat."], ["He went home.", "You sing.", "The cat sat."]
PAIRS = list(zip(A, B, strict=True))
ROWS = [{"sentence1": a, "sentence2": b, "label": 1} for a, b in PAIRS]
Named = namedtuple("Named", "label sentence1 sentence2")


def texts(pairs: Any, *columns: str) -> list[tuple[str, ...]]:
    return [record.pair.sentences for record in objects_in(pairs, Reading(columns or None)).records()]


def loader(samples: Sequence[Any], size: int | None = 2, **settings: Any) -> DataLoader[Any]:
    return DataLoader(samples, batch_size=size, **settings)  # type: ignore[arg-type]


class TestTorch:
    @pytest.mark.parametrize("size", [1, 2, 3, 8, None])
    def test_what_it_makes_of_samples_by_itself(self, size: int | None) -> None:
        assert texts(loader(PAIRS, size)) == PAIRS
        assert texts(loader(A, size)) == [(a,) for a in A]
        assert texts(loader([list(pair) for pair in PAIRS], size)) == PAIRS
        assert texts(loader(ROWS, size)) == PAIRS
        assert texts(loader([Named(1, *pair) for pair in PAIRS], size)) == PAIRS

    def test_tensors_beside_texts(self) -> None:
        assert texts(loader([(*pair, 1) for pair in PAIRS])) == PAIRS
        assert texts(loader([(1, a) for a in A])) == [(a,) for a in A]
        assert texts(loader([(1, *pair, "entailment") for pair in PAIRS]), "2", "3") == PAIRS
        line = refusal(lambda: texts(loader([(*pair, "neutral") for pair in PAIRS])), InputError)
        assert line.startswith("pair 1 is a tuple of 3; give a text, or two in a tuple, or say which with columns=")

    def test_a_function_that_makes_batches(self) -> None:
        for size in (1, 3):
            assert texts(loader(PAIRS, size, collate_fn=list)) == PAIRS
        assert texts(loader(ROWS, 2, collate_fn=list)) == PAIRS
        assert texts(loader(A, 2, collate_fn=tuple)) == [(a,) for a in A]
        assert texts(loader(A, 3, collate_fn=lambda texts: {"text": texts, "n": 3})) == [(a,) for a in A]

    @pytest.mark.parametrize(
        ("samples", "size", "function"),
        [
            (PAIRS, 2, list),  # [(a, b), (c, d)], as columns are, too
            (PAIRS, 2, lambda batch: list(zip(*batch, strict=True))),
            (PAIRS, 3, lambda batch: list(zip(*batch, strict=True))),
            (PAIRS, 8, list),  # fewer than the size tells
            (PAIRS, 1, lambda batch: batch[0]),
            ([(*pair, "x") for pair in PAIRS], 1, lambda batch: batch[0]),
        ],
    )
    def test_a_function_that_may_mean_two_things(self, samples: Sequence[Any], size: int, function: Any) -> None:
        line = refusal(lambda: texts(loader(samples, size, collate_fn=function)), InputError)
        assert line.startswith("batch 1 is a ") and "which may be" in line and "give pairs one by one" in line

    def test_the_last_batch_is_read_as_the_first(self) -> None:
        five = [*PAIRS, *PAIRS[:2]]
        assert texts(loader(five, 3, collate_fn=list)) == five

    def test_no_texts(self) -> None:
        numbers: DataLoader[Any] = DataLoader(TensorDataset(torch.ones(3, 2), torch.ones(3)), batch_size=2)
        assert "sentence A is of the class Tensor" in refusal(lambda: texts(numbers), InputError)
        assert "pair 1 is a Tensor" in refusal(lambda: texts(loader([1, 2])), InputError)
        ids = loader([{"input_ids": [1, 2], "label": 0}])
        assert "it looks tokenized already" in refusal(lambda: texts(ids), PairsError)


class HuggingFace:
    """What a data set of Hugging Face does, as far as it is asked; examples and notes say what the real one said."""

    def __init__(
        self, rows: Sequence[dict[str, Any]], kind: str | None = None, names: Sequence[str] | None = None
    ) -> None:
        self._rows, self.format = rows, {"type": kind}
        self.column_names = list(rows[0] if names is None else names)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        assert "image" not in self.column_names, "an image is decoded when its row is read"
        return iter({name: row[name] for name in self.column_names} for row in self._rows)

    def select_columns(self, names: Sequence[str]) -> HuggingFace:
        assert set(names) <= set(self.column_names)
        return HuggingFace(self._rows, self.format["type"], names)

    def with_format(self, kind: str | None) -> HuggingFace:
        return HuggingFace(self._rows, kind, self.column_names)


class TestHuggingFace:
    @pytest.mark.parametrize("kind", [None, "torch"])
    def test_no_other_column_is_read(self, kind: str | None) -> None:
        data = HuggingFace([{**row, "image": b"..."} for row in ROWS], kind)
        assert texts(data) == PAIRS and texts(data, "sentence2") == [(b,) for b in B]
        assert objects_in(data).total == 3
        found = objects_in(data, Reading(id="label", labelled=True)).records()
        assert [(each.place.id, each.label, each.place.row) for each in found][2] == ("1", "1", 3)

    def test_a_function_that_makes_rows_is_given_all_columns(self) -> None:
        assert texts(HuggingFace(ROWS, "custom")) == PAIRS

    def test_a_list_in_a_row_is_no_batch(self) -> None:
        words = HuggingFace([{"text": ["a", "word", "each"]}])
        assert "row 1: sentence A is of the class list" in refusal(lambda: texts(words), InputError)

    def test_splits(self) -> None:
        line = refusal(lambda: texts({"train": HuggingFace(ROWS), "test": HuggingFace(ROWS)}), InputError)
        assert line == "pairs is of the class dict, which holds splits; choose one: ['train']"

    def test_other_columns(self) -> None:
        with_others = HuggingFace([{"x": "a", "y": "b"}])
        assert "the columns are 'x', 'y'" in refusal(lambda: texts(with_others), PairsError)
