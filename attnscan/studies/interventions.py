"""Changes what a model reads: the positions of words, and segment ids.

Where words see each other both ways, positions are shuffled by giving the words in another order
and putting their attention back in its place, so that all follows that tells a model of positions.
In a causal model order decides what words see as well: there position ids are reordered, if that
is seen to change all that the model knows of positions.
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
_KEY_AXES = {"weights": 3, "key": 2, "value": 2, "weights_and_even": 3}
_QUERY_AXES = {"weights": 2, "query": 2, "output": 2, "weights_and_even": 2}
"""Along which axis of a block's tensors keys, or queries, stand."""
SEGMENTS = {"segments_zeroed": False, "segments_swapped": True}  # whether 0 and 1 are exchanged
ModelInputs = dict[str, Tensor]
Restore = Callable[[Consumer], Consumer]
"""Lets a consumer see every word at its own place again."""


def keep_order(consume: Consumer) -> Consumer:
    """Let a consumer see blocks as they are."""
    return consume


def move_words(
    inputs: ModelInputs, order: Tensor, *, by_words: bool
) -> tuple[ModelInputs, Restore]:
    """Give the word at place i of the text (of the source) the position of `order[i]`.

    This gives words in another order, else position ids; and a function that lets a consumer of
    attention see the words at their own places. Shape: `order` is [batch, token].
    """
    if not by_words:
        return {**inputs, "position_ids": order}, keep_order
    back = order.argsort(1)
    changed = {
        name: values if name.startswith("decoder_") else values.gather(1, back)
        for name, values in inputs.items()
    }

    def restore(consume: Consumer) -> Consumer:
        put_back = _PutBack(order)
        return lambda block: consume(put_back(block))

    return changed, restore


class _PutBack:
    """Puts the words of blocks back to their places.

    Layers with the same mask go on having the same.
    """

    def __init__(self, order: Tensor) -> None:
        self._order = order
        self._visible: dict[int, tuple[Tensor, Tensor]] = {}
        """By its id a mask, which is kept alive, and what words see at their own places."""

    def __call__(self, block: AttentionBlock) -> AttentionBlock:
        """Put words back; in cross attention those of the source, which are keys."""
        places = self._order[block.inputs, : block.weights.shape[-1]]
        restored = _take_along(block, places, _KEY_AXES)
        if block.grid.kind is AttentionKind.CROSS:
            return restored  # whose queries see all of the source
        restored = _take_along(restored, places, _QUERY_AXES)
        return replace(restored, visible=self._visible_at_places(block.visible))

    def _visible_at_places(self, visible: Tensor) -> Tensor:
        """What words see at their own places. Shape: [batch, token, token], bool."""
        if id(visible) not in self._visible:
            order = self._order[:, : visible.shape[1]]
            # A short batch runs repeated
            moved = visible[: len(order)].take_along_dim(order[:, :, None], 1)
            moved = moved.take_along_dim(order[:, None], 2)
            self._visible[id(visible)] = (visible, moved)
        return self._visible[id(visible)][1]


def _take_along(block: AttentionBlock, places: Tensor, axes: dict[str, int]) -> AttentionBlock:
    """Reorder those tensors of a block that it has, each along its axis."""
    reordered: dict[str, Any] = {}
    for name, axis in axes.items():
        values = getattr(block, name)
        if values is None:
            continue
        shape = [1] * values.ndim
        shape[0] = len(places)
        shape[axis] = -1
        reordered[name] = values.take_along_dim(places.view(shape), axis)
    return replace(block, **reordered)


def reads_by_words(scanner: Scanner) -> bool:
    """Find out whether positions are shuffled by words, else by position ids.

    The model runs on a few words.
    Raises: ModelError if no change of positions is seen to change attention, or one does not reach
    all that tells it.
    """
    inputs = scanner.probe(_TEXT)
    ids = inputs["input_ids"]
    in_order = torch.arange(ids.shape[1], device=ids.device)[None]
    backwards = torch.cat([in_order[:, :1], in_order[:, 1:-1].flip(1), in_order[:, -1:]], 1)

    def attention(inputs: ModelInputs, restore: Restore = keep_order) -> list[AttentionBlock]:
        blocks: list[AttentionBlock] = []
        scanner.tap.run(inputs, restore(blocks.append))
        return blocks

    def is_same_in(order: Tensor) -> bool:
        moved = attention(*move_words(inputs, order, by_words=by_words))
        return all(
            torch.allclose(block.weights, moved_block.weights, rtol=0, atol=_SAME)
            for block, moved_block in zip(plain, moved, strict=True)
        )

    plain = attention(inputs)
    sees_both_ways = any(bool(block.visible[:1, :, :].triu(1).any()) for block in plain)
    by_words = sees_both_ways or scanner.options.kind is AttentionKind.CROSS
    if not by_words:
        takes_ids = "position_ids" in named_arguments(scanner.loaded.model)
        if scanner.options.kind is not AttentionKind.ONLY or not takes_ids:
            raise ModelError("the model takes no position ids")
        if not is_same_in(in_order):
            raise ModelError("the model computes its own positions")
        equal_words = ids[:, :1].expand_as(ids).contiguous()
        equal = {**inputs, "input_ids": equal_words, "position_ids": torch.zeros_like(in_order)}
        if not all(_is_even(block) for block in attention(equal)):
            raise ModelError("the model knows positions by more than position ids")
    if is_same_in(backwards):
        raise ModelError("attention stays the same wherever words stand")
    return by_words


def _is_even(block: AttentionBlock) -> bool:
    """Whether every query gives the same to all keys that it sees."""
    hidden = ~block.visible[:1, block.rows, block.columns][:, None]
    most = block.weights.masked_fill(hidden, 0).amax(-1)
    least = block.weights.masked_fill(hidden, 1).amin(-1)
    return float((most - least).max()) <= _EVEN


def shuffle_words(inputs: Sequence[EncodedInput], width: int, seed: int, number: int = 0) -> Tensor:
    """An order of each input's places: its words among themselves, everything else where it was.

    Of two texts, the words are the source's. The order depends on the seed, the shuffle's number
    and the input's tokens alone. These seed as a list, since sums of different seeds and numbers
    may be equal. Shape: [batch, width].
    """
    order = np.tile(np.arange(width), (len(inputs), 1))
    for row, encoded in zip(order, inputs, strict=True):
        words = np.flatnonzero(np.array(encoded.sentence[: encoded.source or None]) >= 0)
        rng = np.random.default_rng([seed, number, *encoded.model_inputs["input_ids"]])
        row[words] = rng.permutation(words)
    return torch.from_numpy(order)


def changed_runs(
    scanner: Scanner, batch: EncodedBatch, by_words: bool | None, shuffles: int = SHUFFLES
) -> Iterator[tuple[str, Callable[[Consumer], None]]]:
    """Each change that is possible, by its name in `CAUSES`.

    With it comes what shows a consumer the attention under that change.
    """
    inputs = batch.model_inputs
    if by_words is not None:
        width = inputs["input_ids"].shape[1]
        for number in range(shuffles):
            order = shuffle_words(batch.inputs, width, scanner.options.seed, number)
            order = order.to(batch.word.device)
            moved, restore = move_words(inputs, order, by_words=by_words)
            yield SHUFFLED, partial(_show, scanner, moved, restore)
    if not why_no_segments(scanner.loaded.model, inputs):
        for name, swapped in SEGMENTS.items():
            yield name, partial(scanner.run, with_segments(inputs, swapped=swapped))


def _show(scanner: Scanner, inputs: ModelInputs, restore: Restore, consume: Consumer) -> None:
    scanner.run(inputs, restore(consume))


def with_segments(inputs: ModelInputs, *, swapped: bool) -> ModelInputs:
    """A model's inputs with all segment ids 0, or with 0 and 1 exchanged."""
    segments = inputs["token_type_ids"]
    changed = torch.zeros_like(segments)
    if swapped:
        changed = torch.where(segments <= 1, 1 - segments, segments)
    return {**inputs, "token_type_ids": changed}


def why_no_segments(model: Any, inputs: ModelInputs) -> str:
    """Why segments cannot be changed; empty if they can."""
    if "token_type_ids" not in inputs or "token_type_ids" not in named_arguments(model):
        return "the model reads no segment ids"
    kinds = getattr(model.config, "type_vocab_size", 2)
    if isinstance(kinds, int) and kinds >= 2:
        return ""
    return "the model has one segment embedding for all"


def changeable(scanner: Scanner) -> tuple[bool | None, dict[str, str]]:
    """Find out whether positions are shuffled by words; None if they cannot be.

    Returns also, by their names, why changes cannot be tried.
    """
    reason = why_no_segments(scanner.loaded.model, scanner.probe(_TEXT))
    not_available = dict.fromkeys(SEGMENTS, reason) if reason else {}
    try:
        return reads_by_words(scanner), not_available
    except ModelError as error:
        return None, {SHUFFLED: error.what, **not_available}
