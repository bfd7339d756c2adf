"""Changes what a model reads: the positions of words, and segment ids.

Where words see each other both ways, positions are shuffled by giving the words in another order and putting their
attention back in its place, so that all follows that tells a model of positions. In a causal model order decides what
words see as well: there position ids are reordered, if that is seen to change all that the model knows of positions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import EncodedInput
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.forward import named_arguments
from attnscan.results.explanation import SHUFFLED, SHUFFLES
from attnscan.results.grid import AttentionKind
from attnscan.scan.scanner import Scanner

_SAME = 1e-5  # weights that differ by less are the same but for rounding
_EVEN = 1e-4
_TEXT = "the cat sat on the mat"
SEGMENTS = {"segments_zeroed": False, "segments_swapped": True}  # whether 0 and 1 are exchanged
ModelInputs = dict[str, Tensor]
Restore = Callable[[Consumer], Consumer]
"""Lets a consumer see every word at its own place again."""


def as_it_comes(consume: Consumer) -> Consumer:
    """Let a consumer see blocks as they are."""
    return consume


def move_words(
    inputs: ModelInputs, order: Tensor, *, by_words: bool
) -> tuple[ModelInputs, Restore]:
    """Give the word at place i of the text (of the source) the position of `order[i]`.

    This gives words in another order, else position ids; and a function that lets a consumer of attention see the words
    at their own places. Shape: `order` is [batch, token].
    """
    if not by_words:
        return {**inputs, "position_ids": order}, as_it_comes
    back = order.argsort(1)
    changed = {
        n: values if n.startswith("decoder_") else values.gather(1, back)
        for n, values in inputs.items()
    }
    return changed, lambda consume: lambda block: consume(_put_back(block, order))


def _put_back(block: AttentionBlock, order: Tensor) -> AttentionBlock:
    """Put words back to their places; in cross attention those of the source, which are keys alone."""
    places = order[block.inputs, : block.weights.shape[-1]]
    of_keys = {"weights": 3, "logits": 3, "key": 2, "value": 2, "value_norms": 2}
    of_queries = {"weights": 2, "logits": 2, "query": 2, "output": 2, "idle": 2}
    for axes in (of_keys,) if block.grid.kind is AttentionKind.CROSS else (of_keys, of_queries):
        put_back: dict[str, Any] = {}
        for name, axis in axes.items():
            if (values := getattr(block, name)) is not None:
                index = places.view(
                    len(places), *(-1 if a == axis else 1 for a in range(1, values.ndim))
                )
                put_back[name] = values.take_along_dim(index, axis)
        block = replace(block, **put_back)
    return block


def reads_by_words(scanner: Scanner) -> bool:
    """Find out, by a run on a few words, whether positions are shuffled by words, else by position ids.

    Raises: ModelError if no change of positions is seen to change attention, or one does not reach all that tells it.
    """
    kind, inputs = scanner.options.kind, scanner.probe(_TEXT)
    ids = inputs["input_ids"]
    in_order = torch.arange(ids.shape[1], device=ids.device)[None]
    backwards = torch.cat([in_order[:, :1], in_order[:, 1:-1].flip(1), in_order[:, -1:]], 1)

    def attention(inputs: ModelInputs, restore: Restore = as_it_comes) -> list[AttentionBlock]:
        blocks: list[AttentionBlock] = []
        scanner.tap.run(inputs, restore(blocks.append))
        return blocks

    def same(order: Tensor) -> bool:
        blocks = zip(plain, attention(*move_words(inputs, order, by_words=by_words)), strict=True)
        return all(torch.allclose(a.weights, b.weights, rtol=0, atol=_SAME) for a, b in blocks)

    plain = attention(inputs)
    by_words = kind is AttentionKind.CROSS
    by_words |= any(bool(block.visible[:1, :, :].triu(1).any()) for block in plain)
    if not by_words:
        if kind is not AttentionKind.ONLY or "position_ids" not in named_arguments(
            scanner.loaded.model
        ):
            raise ModelError("the model takes no position ids")
        if not same(in_order):
            raise ModelError("the model computes its own positions")
        equal = {**inputs, "input_ids": ids[:, :1].expand_as(ids).contiguous()}
        if not all(map(_is_even, attention({**equal, "position_ids": torch.zeros_like(in_order)}))):
            raise ModelError("the model knows positions by more than position ids")
    if same(backwards):
        raise ModelError("attention stays the same wherever words stand")
    return by_words


def _is_even(block: AttentionBlock) -> bool:
    """Whether every query gives the same to all keys that it sees."""
    hidden = ~block.visible[:1, block.rows, block.columns][:, None]
    most, least = (
        block.weights.masked_fill(hidden, 0).amax(-1),
        block.weights.masked_fill(hidden, 1).amin(-1),
    )
    return float((most - least).max()) <= _EVEN


def shuffle_words(inputs: Sequence[EncodedInput], width: int, seed: int, number: int = 0) -> Tensor:
    """An order of each input's places: its words (of the source) among themselves, everything else where it was.

    It depends on the seed, the shuffle's number and the input's tokens alone. These seed as a list, since sums of
    different seeds and numbers may be equal. Shape: [batch, width].
    """
    order = np.tile(np.arange(width), (len(inputs), 1))
    for row, encoded in zip(order, inputs, strict=True):
        words = np.flatnonzero(np.array(encoded.sentence[: encoded.source or None]) >= 0)
        row[words] = np.random.default_rng(
            [seed, number, *encoded.model_inputs["input_ids"]]
        ).permutation(words)
    return torch.from_numpy(order)


def changed_runs(
    scanner: Scanner, batch: EncodedBatch, by_words: bool | None
) -> Iterator[tuple[str, Callable[[Consumer], None]]]:
    """Each change that is possible, by its name in `CAUSES`, with what shows a consumer the attention under it."""
    inputs = batch.model_inputs
    if by_words is not None:
        for number in range(SHUFFLES):
            order = shuffle_words(
                batch.inputs, inputs["input_ids"].shape[1], scanner.options.seed, number
            )
            yield (
                SHUFFLED,
                partial(
                    _show,
                    scanner,
                    *move_words(inputs, order.to(batch.word.device), by_words=by_words),
                ),
            )
    if not why_no_segments(scanner.loaded.model, inputs):
        for name, swapped in SEGMENTS.items():
            yield name, partial(scanner.run, with_segments(inputs, swapped=swapped))


def _show(scanner: Scanner, inputs: ModelInputs, restore: Restore, consume: Consumer) -> None:
    scanner.run(inputs, restore(consume))


def with_segments(inputs: ModelInputs, *, swapped: bool) -> ModelInputs:
    """A model's inputs with all segment ids 0, or with 0 and 1 exchanged."""
    segments = inputs["token_type_ids"]
    changed = (
        torch.where(segments <= 1, 1 - segments, segments)
        if swapped
        else torch.zeros_like(segments)
    )
    return {**inputs, "token_type_ids": changed}


def why_no_segments(model: Any, inputs: ModelInputs) -> str:
    """Why segments cannot be changed; empty if they can."""
    if "token_type_ids" not in inputs or "token_type_ids" not in named_arguments(model):
        return "the model reads no segment ids"
    kinds = getattr(model.config, "type_vocab_size", 2)
    return (
        ""
        if isinstance(kinds, int) and kinds >= 2
        else "the model has one segment embedding for all"
    )


def changeable(scanner: Scanner) -> tuple[bool | None, dict[str, str]]:
    """Find out whether positions are shuffled by words, None if they cannot be; and why changes cannot be tried."""
    fixed = why_no_segments(scanner.loaded.model, scanner.probe(_TEXT))
    not_available = dict.fromkeys(SEGMENTS, fixed) if fixed else {}
    try:
        return reads_by_words(scanner), not_available
    except ModelError as error:
        return None, {SHUFFLED: error.what, **not_available}
