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
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscan.results.attention import Attention, carried_shares
from attnscan.results.scores import ScoreTable, best_first
from attnscan.results.terms import LEAST_ON_WORDS, Grid, Head, Reading

WEIGHT_STEPS = (10_000, 2000, 1000, 500, 250)
"""Into how many steps a weight of 1 is divided, finest first: errors of 0.00005 to 0.002."""
NEURON_STEPS = (4095, 127)
"""Into how many steps a head's largest query or key number is divided."""
_WEIGHTS_SHARE = 2 / 3  # of the room, where queries and keys want some, too
_BESIDE = 160  # characters of a page around each packed text
_FULL = 65535  # steps of a row's sum over words, and of a head's largest norm: products stay far below 2^53
_SIDE, _THUMBNAIL_BYTES = 32, 500_000  # cells of a thumbnail; bytes of all of them, before compression


class Packed(NamedTuple):
    """Some heads' numbers as a page's texts, and how exact they are."""

    texts: dict[str, str]
    """Packed texts by the ids under which the scripts find them."""
    steps: int
    error: float = 0.0
    """How far a logit made from queries and keys is from the model's, at most."""


def thumbnails_of(attention: Attention, readings: Mapping[str, Reading], inputs: int) -> dict[str, NDArray[np.uint8]]:
    """Every head made small, by each reading: 255 times the square root of the largest number in each cell.

    The more `inputs` a page holds, the smaller they are. Shape: [layer, head, query, key] each.
    """
    rows, words = np.searchsorted(attention.rows, attention.asking), np.array(attention.sentence) >= 0
    room = _THUMBNAIL_BYTES / (len(readings) * inputs * len(attention.grid))
    small: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in readings}
    for layer, weights in enumerate(attention.weights):  # layer by layer, for the memory
        for name, reading in readings.items():
            numbers, queries, keys = weights[:, rows], np.array(attention.asking), np.array(attention.asked)
            if reading.carried and attention.norms is not None:
                numbers = carried_shares(numbers, attention.norms[layer])
            if reading.among_words:
                numbers = _among_words(numbers, words)[:, words[queries]]
                keys = keys[words[keys]]
            small[name].append(_pooled(numbers[..., keys], max(1, min(_SIDE, int(room**0.5)))))
    return {name: np.stack(layers) for name, layers in small.items()}


def _pooled(numbers: NDArray[np.float32], side: int) -> NDArray[np.uint8]:
    """The largest number of each of at most `side` times `side` cells, as a byte. Shape: [head, query, key]."""
    for axis in (1, 2):
        count = numbers.shape[axis]
        if count > side:
            numbers = np.maximum.reduceat(numbers, np.linspace(0, count, side, endpoint=False).astype(int), axis=axis)
    small: NDArray[np.uint8] = np.rint(255 * np.sqrt(numbers)).astype(np.uint8)
    return small


def masks_of(attention: Attention) -> tuple[list[str], list[int]]:
    """Each different mask of queries and keys, and each layer's; none where every query sees every key."""
    assert attention.visible is not None  # whole layers are kept
    visible = attention.visible[:, np.searchsorted(attention.rows, attention.asking)][..., attention.asked]
    if visible.all():
        return [], []
    packed = [compressed(layer.astype(np.uint8)) for layer in visible]
    masks = list(dict.fromkeys(packed))
    return masks, [masks.index(mask) for mask in packed]


def heads_that_fit(
    attention: Attention, order: Sequence[Head], room: float, *, neurons: bool
) -> tuple[Packed, Packed | None]:
    """The weights, and the queries and keys, of the first heads of `order` that go into `room` characters."""
    weights = _finest(
        WEIGHT_STEPS, order, room * (_WEIGHTS_SHARE if neurons else 1), partial(packed_weights, attention)
    )
    if not neurons:
        return weights, None
    held = [head for head in order if f"weights-{head.name}" in weights.texts]
    room -= sum(len(text) + _BESIDE for text in weights.texts.values())
    return weights, _finest(NEURON_STEPS, held, room, partial(packed_neurons, attention))


def _finest(
    all_steps: Sequence[int], order: Sequence[Head], room: float, pack: Callable[[Head, int], Packed]
) -> Packed:
    """With the finest step that lets all heads fit; with the coarsest, those that do."""
    fitting = Packed({}, all_steps[0])
    for steps in all_steps:
        fitting, left = Packed({}, steps), room
        for head in order:
            packed = pack(head, steps)
            left -= sum(len(text) + _BESIDE for text in packed.texts.values())
            if left < 0:
                break
            fitting = Packed(fitting.texts | packed.texts, steps, max(fitting.error, packed.error))
        else:
            break
    return fitting


def strongest_first(table: ScoreTable, grid: Grid) -> list[Head]:
    """All heads: the best one of each pattern, then the second ones, and so on.

    By how far a head is above chance, so that patterns with many targets have no advantage.
    """
    rankings = [best_first(of_heads) for of_heads in np.moveaxis(table.above_chance, -1, 0)]
    ranked = (number for of_rank in zip_longest(*rankings) for number in of_rank if number is not None)
    heads = list(grid)
    return [heads[number] for number in dict.fromkeys([*ranked, *range(len(heads))])]


def packed_weights(attention: Attention, head: Head, steps: int) -> Packed:
    """A head's weights, and what it carries, in so many steps.

    `weights` is uint16 [query, 1 + key], all high bytes before all low ones: the row's sum over words, then for each
    word its share of that sum, and for each special token its weight. `carried` is uint16 [1 + query, 1 + key]: nothing
    and the keys' norms, then rows likewise, but for each word how many steps its share is from what rounded shares and
    norms make of it (0, -1, 1, -2, … as 0, 1, 2, 3, …).
    """
    keys, words = np.array(attention.asked), np.array(attention.sentence) >= 0
    columns = np.append(0, 1 + keys)
    weights = attention.weights[head.place][np.searchsorted(attention.rows, attention.asking)]
    split = _split(weights, words, steps)[:, columns]
    texts = {f"weights-{head.name}": compressed(planes(split.astype(np.uint16)))}
    if attention.norms is not None:
        rows = _split(carried_shares(weights, attention.norms[head.place]), words, steps)[:, columns]
        words, norms = words[keys], attention.norms[head.place][keys].astype(np.float64)
        norms = np.rint(norms / max(norms.max(), np.finfo(np.float32).tiny) * _FULL).astype(np.int64)
        products = np.where(words, split[:, 1:] * norms, 0)
        whole = np.maximum(products.sum(-1, keepdims=True), 1)
        off = rows[:, 1:] - (2 * products * steps + whole) // (2 * whole)  # from the nearest step, as scripts find it
        rows[:, 1:] = np.where(words, np.where(off < 0, -2 * off - 1, 2 * off), rows[:, 1:])
        held = np.vstack([np.append(0, norms), rows])
        texts[f"carried-{head.name}"] = compressed(planes(held.astype(np.uint16)))
    return Packed(texts, steps)


def _among_words(weights: NDArray[np.float32], words: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Each row's weights on words as shares of their sum, and nothing elsewhere."""
    on_words = np.where(words, weights, 0)
    sums = on_words.sum(-1, keepdims=True)
    shares: NDArray[np.float32] = np.where(sums < LEAST_ON_WORDS, 0, on_words / np.maximum(sums, LEAST_ON_WORDS))
    return shares


def _split(weights: NDArray[np.float32], words: NDArray[np.bool_], steps: int) -> NDArray[np.int64]:
    """Each row's sum over words, then its shares among words and its weights on special tokens, in whole steps."""
    sums = np.where(words, weights, 0).sum(-1, keepdims=True) * _FULL
    shares = np.where(words, _among_words(weights, words), weights) * steps
    split: NDArray[np.int64] = np.rint(np.hstack([np.minimum(sums, _FULL), shares])).astype(np.int64)
    return split


def packed_neurons(attention: Attention, head: Head, steps: int) -> Packed:
    """A head's queries and keys in so many steps: what stands for 0, what a step of each is worth, and the numbers."""
    assert attention.query is not None and attention.key is not None
    places = attention.passage
    true = np.stack([attention.query[head.place][places], attention.key[head.place][places]]).astype(np.float64)
    worth = np.maximum(np.abs(true).max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny) / steps
    whole = np.rint(true / worth)
    rounded = whole * worth
    error = np.abs((rounded[0] @ rounded[1].T - true[0] @ true[1].T) * attention.scaling[head.row]).max()
    query, key = worth.ravel().tolist()
    text = f"{steps},{query!r},{key!r},{compressed(planes((whole + steps).astype(np.uint16)))}"
    return Packed({f"neurons-{head.name}": text}, steps, float(error))


def planes(values: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """All high bytes, then all low ones: the high ones are nearly all equal, and so take no room."""
    return np.stack([values >> 8, values & 0xFF]).astype(np.uint8)


def compressed(values: NDArray[np.uint8] | bytes) -> str:
    """Deflated by the strategy for numbers, as base64."""
    deflate = zlib.compressobj(6, strategy=zlib.Z_FILTERED)
    return base64.b64encode(deflate.compress(bytes(values)) + deflate.flush()).decode("ascii")
