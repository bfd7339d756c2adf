"""Effects of ablations written out, and models to ask."""

from pathlib import Path

import torch
from support.toy_bert import toy_tokenizer

from attnscan.results.ablation import Effect, HeadSet, Quantity
from attnscan.results.grid import Head

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
    """Of one head, with as many controls as are given; `possible` is how many there could be, if
    that is more.
    """
    controls = tuple((Head(0, number),) for number in range(1, len(others) + 1))
    heads_off = HeadSet(
        name, (Head(0, 0),), controls, len(controls) if possible is None else possible
    )
    return Effect.of(heads_off, quantity, (1.0, ablated, *others), se, 9, pairs, clusters=pairs)


def saved_with_tokenizer(directory: Path, model: torch.nn.Module) -> str:
    model.save_pretrained(directory)  # type: ignore[operator]
    toy_tokenizer().save_pretrained(directory)
    return str(directory)
