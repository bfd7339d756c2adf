"""What ablations are asked: pairs, heads; and models to ask."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from toy import toy_tokenizer

from attnscan.inputs.sentence import Pair, Record
from attnscan.results.ablation import Effect, HeadSet, Quantity
from attnscan.results.terms import Head, Replacement
from attnscan.scan.options import AblationRequest

DRAWS = 8


def reader_of(*pairs: Pair, label: str | None = None) -> Callable[[], Iterator[Record]]:
    return lambda: iter([Record(pair, "here", label) for pair in pairs])


def each_of(*heads: Head, measures: tuple[str, ...] = (), replace: Replacement = "zero") -> AblationRequest:
    return AblationRequest(
        heads=",".join(head.name for head in heads), each=True, draws=DRAWS, measures=measures, replace=replace
    )


NATS = Quantity("masked-lm", "nats a word")


def effect_of(
    ablated: float,
    others: tuple[float, ...],
    name: str = "x",
    possible: int | None = None,
    *,
    se: float = 0.125,
    pairs: int = 5,
    quantity: Quantity = NATS,
) -> Effect:
    """Of one head, with as many controls as are given; `possible` is how many there could be, if that is more."""
    controls = tuple((Head(0, number),) for number in range(1, len(others) + 1))
    heads_off = HeadSet(name, (Head(0, 0),), controls, len(controls) if possible is None else possible)
    return Effect.of(heads_off, quantity, (1.0, ablated, *others), se, 9, pairs)


def saved_with_tokenizer(directory: Path, model: torch.nn.Module) -> str:
    model.save_pretrained(directory)  # type: ignore[operator]
    toy_tokenizer().save_pretrained(directory)
    return str(directory)


PAIRS = [
    Pair("the cat sat", "a dog ran"),
    Pair("i went to the store", "the mat"),
    Pair("the dog", "a cat sat on a mat"),
]
