"""What a page holds of an input's attention: rounded, compressed, and as much as its size allows.

Weights are whole steps, the finest with which every head fits; if none does, the heads that follow a pattern most are
on the page. Queries and keys take what room is left. Each row is held as its sum over words, the shares of words among
themselves, and the weights on special tokens, so that weights among words are as exact as all others.

What a head carries, weight times norm, can be far off if made of rounded weights: where a large weight meets a small
norm, small weights decide (0.3 was seen, at 120 tokens). So the page holds the norms, and how many steps each share is
from what rounded shares make of it. Both sides count in whole numbers and agree.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnscan.results.attention import Attention, carried_shares
from attnscan.results.grid import Grid, Head
from attnscan.results.scores import ScoreTable, best_first

WEIGHT_STEPS = (10_000, 2000, 1000, 500, 250)
"""Into how many steps a weight of 1 is divided, finest first: errors of 0.00005 to 0.002."""
NEURON_STEPS = (4095, 127)
"""Into how many steps a head's largest query or key number is divided."""

_Packed = TypeVar("_Packed")
_WEIGHTS_SHARE = 2 / 3  # of the room, where queries and keys want some, too
_BESIDE = 160  # characters of a page that a head's cargo needs around it
_NORM_STEPS = 65535  # a head's largest norm; weight x norm x weight steps stay far below 2^53, where a browser is exact
_SUM_STEPS = 65535  # a row's sum over words
_LEAST_LEFT = 1e-6  # a row with less than this on words has no shares among them, as in scores
_SIDE = 32
_THUMBNAIL_BYTES = 500_000  # of all heads together, before compression


@dataclass(frozen=True)
class Neurons:
    """One head's queries and keys."""

    packed: str
    """uint16 [query or key, token, neuron], all high bytes before all low ones."""
    zero: int
    """What stands for 0: whole steps are counted from there, up and down."""
    worth: tuple[float, float]
    """What one step of a query, and of a key, is worth."""
    logit_error: float
    """How far a logit made from them is from the model's, at most."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the scripts need to unpack it."""
        return {"zero": self.zero, "worth": self.worth}


@dataclass(frozen=True)
class Weights:
    """One head's weights, and what it carries."""

    packed: str
    """uint16 [query, 1 + key], all high bytes before all low ones: the row's sum over words (65535 is 1), then for each
    word its share of that sum, and for each special token its weight, in steps."""
    carried: str
    """uint16 [1 + query, 1 + key], likewise: nothing and the keys' norms, then rows as above of what is carried, but
    for each word how many steps its share is from what rounded shares and norms make of it (0, -1, 1, -2, … as 0, 1,
    2, 3, …); empty if that cannot be had."""


@dataclass(frozen=True)
class Cargo:
    """Everything numeric of the attention that a page holds. Texts are base64 of deflated bytes."""

    thumbnails: Mapping[str, str] = field(default_factory=dict)
    """By reading, uint8 [layer, head, query, key]: 255 × the square root of the largest weight in each cell. Among
    words, of words alone."""
    sides: Mapping[str, int] = field(default_factory=dict)
    """By reading, of how many cells the longer side of its thumbnails is; the other has as many, or one a token."""
    weight_steps: int = WEIGHT_STEPS[0]
    """Weights, and shares of what is carried, are whole steps of 1 / weight_steps: off by half a step at most."""
    weights: Mapping[Head, Weights] = field(default_factory=dict)
    neurons: Mapping[Head, Neurons] = field(default_factory=dict)
    masks: Sequence[str] = ()
    """uint8 [query, key], 1 where the query sees the key; each different mask once, none if all see all."""
    mask_of_layer: Sequence[int] = ()

    @property
    def texts(self) -> dict[str, str]:
        """What is packed, by the ids under which the scripts find it."""
        texts = {f"thumbnails-of-{name}": packed for name, packed in self.thumbnails.items()}
        texts |= {f"mask-{number}": packed for number, packed in enumerate(self.masks)}
        for head, weights in self.weights.items():
            texts[f"weights-{head.name}"] = weights.packed
            if weights.carried:
                texts[f"carried-{head.name}"] = weights.carried
        return texts | {f"neurons-{head.name}": neurons.packed for head, neurons in self.neurons.items()}

    @property
    def weight_error(self) -> float:
        """How far a weight, or a share of what is carried, is from the model's, at most."""
        return 0.5 / self.weight_steps + 0.5 / _SUM_STEPS

    @property
    def logit_error(self) -> float:
        """How far a logit made from the queries and keys is from the model's, at most."""
        return max((neurons.logit_error for neurons in self.neurons.values()), default=0.0)


def of_every_head(
    attention: Attention,
    strategy: int = zlib.Z_FILTERED,
    *,
    inputs: int = 1,
) -> Cargo:
    """What a page of any size holds: thumbnails of each reading, and masks.

    `strategy` compresses the thumbnails: by the usual one they are small, by `zlib.Z_RLE` they are made in a tenth of
    the time. The more `inputs` a page holds, the smaller they are.
    """
    (rows, keys), words = _passage(attention), _words(attention)
    asking, asked = words[attention.asking], words[keys]
    is_whole = len(rows) == len(attention.rows)
    readings = {"weight": "words"} | ({} if attention.norms is None else {"carried": "carried-words"})
    side = _side(attention, _THUMBNAIL_BYTES // (2 * len(readings) * inputs))
    small: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in chain(*readings.items())}
    for layer, weights in enumerate(attention.weights):  # layer by layer, for the memory
        for name, among in readings.items():
            own = weights if is_whole else weights[:, rows]
            whole = np.ones_like(own[..., 0])
            if name == "carried" and attention.norms is not None:
                own = own * attention.norms[layer][:, None]
                whole = own.sum(-1)
            on_words = (own @ words.astype(own.dtype))[:, asking]
            least = _LEAST_LEFT * whole[:, asking]
            small[name].append(_thumbnails(own[..., keys], whole, side))
            shares = own[:, asking][..., keys[asked]]
            small[among].append(_thumbnails(shares, np.where(on_words < least, np.inf, on_words), side))
    thumbnails = {name: compressed(np.stack(layers), strategy) for name, layers in small.items()}
    sides = {name: max(layers[0].shape[1:]) for name, layers in small.items()}
    assert attention.visible is not None  # whole layers are kept
    masks, mask_of_layer = _masks(attention.visible[:, rows][..., keys])
    return Cargo(thumbnails, sides, masks=masks, mask_of_layer=mask_of_layer)


def load(cargo: Cargo, attention: Attention, order: Sequence[Head], room: float, *, neurons: bool) -> Cargo:
    """Add what goes into `room` more characters, the first heads of `order` first."""
    weights_of, neurons_of = partial(packed_weights, attention), partial(packed_neurons, attention)
    weights_room = room * _WEIGHTS_SHARE if neurons else room
    steps, weights = _finest(WEIGHT_STEPS, order, weights_room, weights_of, _size)
    room -= sum(_size(packed) + _BESIDE for packed in weights.values())
    held: dict[Head, Neurons] = {}
    if neurons:
        _, held = _finest(NEURON_STEPS, list(weights), room, neurons_of, lambda packed: len(packed.packed))
    return replace(cargo, weight_steps=steps, weights=weights, neurons=held)


def strongest_first(table: ScoreTable, grid: Grid) -> list[Head]:
    """All heads: the best one of each pattern, then the second ones, and so on.

    By how far a head is above chance, so that patterns with many targets have no advantage.
    """
    rankings = [best_first(of_heads) for of_heads in np.moveaxis(table.above_chance, -1, 0)]
    ranked = (number for of_rank in zip_longest(*rankings) for number in of_rank if number is not None)
    heads = list(grid)
    return [heads[number] for number in dict.fromkeys([*ranked, *range(len(heads))])]


def _side(attention: Attention, room: int) -> int:
    """How many cells wide thumbnails are at most, so that those of all heads take about `room` bytes."""
    return max(1, min(_SIDE, int((room / len(attention.grid)) ** 0.5)))


def _passage(attention: Attention) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of the kept rows, and which keys, are shown; sums and shares are of all keys."""
    asking, asked = np.array(attention.asking, dtype=np.int64), np.array(attention.asked, dtype=np.int64)
    return np.searchsorted(attention.rows, asking), asked


def _words(attention: Attention) -> NDArray[np.bool_]:
    return np.array([sentence >= 0 for sentence in attention.sentence], dtype=bool)


def _among_words(weights: NDArray[np.float32], words: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Each row's weights on words as shares of their sum, and nothing elsewhere."""
    on_words = np.where(words, weights, 0)
    sums = on_words.sum(-1, keepdims=True)
    shares: NDArray[np.float32] = np.where(sums < _LEAST_LEFT, 0, on_words / np.maximum(sums, _LEAST_LEFT))
    return shares


def _thumbnails(weights: NDArray[np.float32], whole: NDArray[np.float32], side: int) -> NDArray[np.uint8]:
    """Every head of a layer, made small by taking the largest share of each cell, at most so many cells wide.

    Shape: `weights` [head, query, key], each row's `whole`, which shares are of, [head, query].
    """
    if not weights.size:
        return np.zeros(weights.shape, dtype=np.uint8)
    down, across = (np.linspace(0, n, min(side, n), endpoint=False).astype(int) for n in weights.shape[1:])
    by_key = _pooled(weights.swapaxes(1, 2), across)  # the largest of a row stays the largest of its shares
    by_key /= np.where(whole > 0, whole, 1)[:, None]
    small: NDArray[np.uint8] = np.rint(255 * np.sqrt(_pooled(by_key.swapaxes(1, 2), down))).astype(np.uint8)
    return small


def _pooled(weights: NDArray[np.float32], first: NDArray[np.int_]) -> NDArray[np.float32]:
    """The largest of each run of rows, by the runs' first ones; numpy's `reduceat` takes five times as long.

    Shape: from [head, row, column] to [head, run, column].
    """
    last = np.append(first[1:], weights.shape[1]) - 1
    largest = weights[:, first]
    for offset in range(1, int((last - first).max()) + 1):
        np.maximum(largest, weights[:, np.minimum(first + offset, last)], out=largest)
    return largest


def _masks(visible: NDArray[np.bool_]) -> tuple[list[str], list[int]]:
    if visible.all():
        return [], []
    packed = [compressed(layer.astype(np.uint8)) for layer in visible]
    masks = list(dict.fromkeys(packed))
    return masks, [masks.index(mask) for mask in packed]


def _finest(
    every_steps: Sequence[int],
    order: Sequence[Head],
    room: float,
    pack: Callable[[Head, int], _Packed],
    size: Callable[[_Packed], int],
) -> tuple[int, dict[Head, _Packed]]:
    """With the finest step that lets all heads fit; with the coarsest, those that do."""
    steps, fitting = every_steps[0], dict[Head, _Packed]()
    for steps in every_steps:
        fitting, left = {}, room
        for head in order:
            packed = pack(head, steps)
            left -= size(packed) + _BESIDE
            if left < 0:
                break
            fitting[head] = packed
        else:
            break
    return steps, fitting


def _size(weights: Weights) -> int:
    return len(weights.packed) + (len(weights.carried) + _BESIDE if weights.carried else 0)


def packed_weights(attention: Attention, head: Head, steps: int) -> Weights:
    """A head's weights, and what it carries, in so many steps."""
    (places, keys), words = _passage(attention), _words(attention)
    columns, weights = np.append(0, 1 + keys), attention.weights[head.place][places]
    split = _split(weights, words, steps)[:, columns]
    packed = compressed(planes(split.astype(np.uint16)))
    if attention.norms is None:
        return Weights(packed, "")
    rows = _split(carried_shares(weights, attention.norms[head.place]), words, steps)[:, columns]
    words, norms = words[keys], attention.norms[head.place][keys].astype(np.float64)
    norms = np.rint(norms / max(norms.max(), np.finfo(np.float32).tiny) * _NORM_STEPS).astype(np.int64)
    shares = rows[:, 1:]  # a view
    off = shares - _carried_steps(np.where(words, split[:, 1:], 0), norms, steps)
    shares[:] = np.where(words, np.where(off < 0, -2 * off - 1, 2 * off), shares)
    return Weights(packed, compressed(planes(np.vstack([np.append(0, norms), rows]).astype(np.uint16))))


def _split(weights: NDArray[np.float32], words: NDArray[np.bool_], steps: int) -> NDArray[np.int64]:
    """Each row's sum over words, then its shares among words and its weights on special tokens, in whole steps."""
    sums = np.where(words, weights, 0).sum(-1, keepdims=True) * _SUM_STEPS
    shares = np.where(words, _among_words(weights, words), weights) * steps
    split: NDArray[np.int64] = np.rint(np.hstack([np.minimum(sums, _SUM_STEPS), shares])).astype(np.int64)
    return split


def _carried_steps(weights: NDArray[np.int64], norms: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """What rounded weights and norms make of the shares, to the nearest step, a half upwards: as the page does it."""
    carried = weights * norms
    whole = np.maximum(carried.sum(-1, keepdims=True), 1)
    nearest: NDArray[np.int64] = (2 * carried * steps + whole) // (2 * whole)
    return nearest


def packed_neurons(attention: Attention, head: Head, steps: int) -> Neurons:
    """A head's queries and keys, in so many steps. Raises: AssertionError if they are not there."""
    assert attention.query is not None and attention.key is not None
    places = attention.passage
    true = np.stack([attention.query[head.place][places], attention.key[head.place][places]]).astype(np.float64)
    worth = np.maximum(np.abs(true).max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny) / steps
    whole = np.rint(true / worth)
    rounded, scaling = whole * worth, attention.scaling[head.row]
    error = np.abs((rounded[0] @ rounded[1].T - true[0] @ true[1].T) * scaling).max()
    query, key = map(float, worth.ravel())
    return Neurons(compressed(planes((whole + steps).astype(np.uint16))), steps, (query, key), float(error))


def planes(values: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """All high bytes, then all low ones: the high ones are nearly all equal, and so take no room."""
    return np.stack([values >> 8, values & 0xFF]).astype(np.uint8)


def compressed(values: NDArray[np.uint8] | bytes, strategy: int = zlib.Z_FILTERED) -> str:
    """By the strategy for numbers, unless it is told another: it makes them 8 % smaller than the one for text."""
    deflate = zlib.compressobj(6, strategy=strategy)
    return base64.b64encode(deflate.compress(bytes(values)) + deflate.flush()).decode("ascii")
