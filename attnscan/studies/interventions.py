"""What can be changed in what a model reads: the positions of words, and segment ids.

Where words see each other both ways, positions are shuffled by giving the words in another order and putting their
attention back in its place: so all follows that tells a model of positions, be it embeddings, a table of relative
positions, rotations, windows or convolutions. In a causal model the order of words decides what they see as well. There
position ids are reordered, if that is seen to change all that the model knows of positions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedBatch, EncodedInput
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.results.explanation import SHUFFLED
from attnscan.results.grid import AttentionKind
from attnscan.results.terms import SHUFFLES
from attnscan.scan.scanner import Scanner
from attnscan.studies.passes import generator

_SAME = 1e-5  # weights that differ by less are the same but for rounding
_EVEN = 1e-4
_TEXT = "the cat sat on the mat"
SEGMENTS = {"segments_zeroed": False, "segments_swapped": True}
"""The changes of segment ids, and whether 0 and 1 are exchanged."""
ModelInputs = dict[str, Tensor]
Restore = Callable[[Consumer], Consumer]
"""Lets a consumer see every word at its own place again."""


def as_it_comes(consume: Consumer) -> Consumer:
    """Let a consumer see blocks as they are."""
    return consume


@dataclass(frozen=True)
class Positions:
    """How a model's words are read at other positions; of an encoder-decoder, those of the source."""

    by_words: bool
    """Whether words are given in another order; else their position ids are."""
    kind: AttentionKind = AttentionKind.ONLY

    def moved(self, inputs: ModelInputs, order: Tensor) -> tuple[ModelInputs, Restore]:
        """What the model reads so that the word at place i of the text has the position of place `order[i]`.

        And what lets a consumer of its attention see the words at their own places. Shape: `order` is [batch, token].
        """
        if not self.by_words:
            return {**inputs, "position_ids": order}, as_it_comes
        back = order.argsort(1)
        moved = {n: values if n.startswith("decoder_") else values.gather(1, back) for n, values in inputs.items()}
        return moved, lambda consume: lambda block: consume(self._put_back(block, order))

    def _put_back(self, block: AttentionBlock, order: Tensor) -> AttentionBlock:
        """Put words back to their places; in cross attention those of the source, which are keys alone."""
        places = order[block.inputs, : block.weights.shape[-1]]
        of_keys = {"weights": 3, "logits": 3, "key": 2, "value": 2, "value_norms": 2}
        of_queries = {"weights": 2, "logits": 2, "query": 2, "output": 2, "idle": 2}
        for axes in (of_keys,) if self.kind is AttentionKind.CROSS else (of_keys, of_queries):
            there = {name: getattr(block, name) for name in axes if getattr(block, name) is not None}
            moved: dict[str, Any] = {name: _at(values, places, axes[name]) for name, values in there.items()}
            block = replace(block, **moved)
        return block


def _at(values: Tensor, places: Tensor, axis: int) -> Tensor:
    """Values at other places of an axis, other ones for each input. Shape: `places` is [batch, token]."""
    index = places.view(len(places), *(-1 if a == axis else 1 for a in range(1, values.ndim)))
    return values.take_along_dim(index, axis)


def positions_of(scanner: Scanner) -> Positions:
    """How a scanner's model is read at other positions, found by running it on a few words.

    Raises: ModelError if no change of positions is seen to change attention, or one does not reach all that tells it.
    """
    kind, inputs = scanner.options.kind, scanner.probe(_TEXT)
    ids = inputs["input_ids"]
    in_order = torch.arange(ids.shape[1], device=ids.device)[None]
    other = torch.cat([in_order[:, :1], in_order[:, 1:-1].flip(1), in_order[:, -1:]], 1)

    def attention(inputs: ModelInputs, restore: Restore = as_it_comes) -> list[AttentionBlock]:
        blocks: list[AttentionBlock] = []
        scanner.tap.run(inputs, restore(blocks.append))
        return blocks

    def same(order: Tensor) -> bool:
        both = zip(plain, attention(*positions.moved(inputs, order)), strict=True)
        return all(torch.allclose(a.weights, b.weights, rtol=0, atol=_SAME) for a, b in both)

    plain = attention(inputs)
    both_ways = any(bool(block.visible[:1, :, :].triu(1).any()) for block in plain)
    positions = Positions(both_ways or kind is AttentionKind.CROSS, kind)
    if not positions.by_words:
        parameters = inspect.signature(scanner.loaded.model.forward).parameters
        if kind is not AttentionKind.ONLY or "position_ids" not in parameters:
            raise ModelError("the model takes no position ids")
        if not same(in_order):
            raise ModelError("the model computes its own positions")
        equal = {**inputs, "input_ids": ids[:, :1].expand_as(ids).contiguous()}
        if _unevenness(attention(*positions.moved(equal, torch.zeros_like(in_order)))) > _EVEN:
            raise ModelError("the model knows positions by more than position ids")
    if same(other):
        raise ModelError("attention stays the same wherever words stand")
    return positions


def _unevenness(blocks: Sequence[AttentionBlock]) -> float:
    """The largest difference between two weights of a query on keys that it sees."""
    spread = 0.0
    for block in blocks:
        hidden = ~block.visible[:1, block.rows, block.columns][:, None]
        most, least = block.weights.masked_fill(hidden, 0).amax(-1), block.weights.masked_fill(hidden, 1).amin(-1)
        spread = max(spread, float((most - least).max()))
    return spread


def shuffled(inputs: Sequence[EncodedInput], width: int, seed: int, number: int = 0) -> Tensor:
    """An order of each input's places: its words among themselves, everything else where it was.

    Of cross attention, those of the source. The order of an input depends on the seed, the shuffle's number and its
    tokens alone. Shape: [batch, width].
    """
    order = np.tile(np.arange(width), (len(inputs), 1))
    for row, encoded in zip(order, inputs, strict=True):
        words = np.flatnonzero(np.array(encoded.sentence[: encoded.source or None]) >= 0)
        row[words] = generator(seed, number, *encoded.model_inputs["input_ids"]).permutation(words)
    return torch.from_numpy(order)


def changed_runs(
    scanner: Scanner, batch: EncodedBatch, positions: Positions | None
) -> Iterator[tuple[str, Callable[[Consumer], None]]]:
    """Each change that is possible, by its name in `CAUSES`, and each shuffle again.

    With what shows a consumer the model's attention under it, with words at their own places.
    """
    inputs = batch.model_inputs
    if positions is not None:
        for number in range(SHUFFLES):
            order = shuffled(batch.inputs, inputs["input_ids"].shape[1], scanner.options.seed, number)
            yield SHUFFLED, partial(_show, scanner, *positions.moved(inputs, order.to(batch.word.device)))
    if not why_no_segments(scanner.loaded.model, inputs):
        for name, swapped in SEGMENTS.items():
            yield name, partial(scanner.run, with_segments(inputs, swapped=swapped))


def _show(scanner: Scanner, inputs: ModelInputs, restore: Restore, consume: Consumer) -> None:
    scanner.run(inputs, restore(consume))


def with_segments(inputs: ModelInputs, *, swapped: bool) -> ModelInputs:
    """A model's inputs with all segment ids 0, or with 0 and 1 exchanged."""
    segments = inputs["token_type_ids"]
    changed = torch.where(segments <= 1, 1 - segments, segments) if swapped else torch.zeros_like(segments)
    return {**inputs, "token_type_ids": changed}


def why_no_segments(model: Any, inputs: ModelInputs) -> str:
    """Why segments cannot be changed; empty if they can."""
    if "token_type_ids" not in inputs or "token_type_ids" not in inspect.signature(model.forward).parameters:
        return "the model reads no segment ids"
    kinds = getattr(model.config, "type_vocab_size", 2)
    return "" if isinstance(kinds, int) and kinds >= 2 else "the model has one segment embedding for all"


def changeable(scanner: Scanner) -> tuple[Positions | None, dict[str, str]]:
    """How a scanner's model is read at other positions, and why not all of `CAUSES` can be tried, by their names."""
    fixed = why_no_segments(scanner.loaded.model, scanner.probe(_TEXT))
    not_available = dict.fromkeys(SEGMENTS, fixed) if fixed else {}
    try:
        return positions_of(scanner), not_available
    except ModelError as error:
        return None, {SHUFFLED: error.what, **not_available}
