"""What ablations are asked: pairs, sets of heads, options; and models to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from toy import _tokenizer

from attnscan.inputs.pairs import Pair, Record
from attnscan.results.ablation import HeadSet
from attnscan.results.heads import Head
from attnscan.studies.ablation import AblationOptions
from attnscan.studies.head_sets import named_sets

DRAWS = 8


def reader_of(*pairs: Pair, label: str | None = None) -> Callable[[], Iterator[Record]]:
    return lambda: iter([Record(pair, "here", label) for pair in pairs])


def asked_for(*sets: HeadSet, measures: tuple[str, ...] = (), by: str = "zero") -> AblationOptions:
    return AblationOptions(sets, "by name", by, DRAWS, measures)  # type: ignore[arg-type]


def sets_of(*heads: Head, width: int = 4) -> list[HeadSet]:
    return named_sets({f"{layer}-{head}": [(layer, head)] for layer, head in heads}, width, DRAWS, 0)


def saved_with_tokenizer(directory: Path, model: torch.nn.Module) -> str:
    model.save_pretrained(directory)  # type: ignore[operator]
    _tokenizer().save_pretrained(directory)
    return str(directory)


PAIRS = [
    Pair("the cat sat", "a dog ran"),
    Pair("i went to the store", "the mat"),
    Pair("the dog", "a cat sat on a mat"),
]
