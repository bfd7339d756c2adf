"""An input's numbers as packed texts of a page: rounded to whole steps, compressed, base64.

Weights have the finest steps with which every head fits; if none does, the heads that follow a
pattern most are on the page. Queries and keys take the room that is left. A row is its sum over
words, the shares of words among themselves, and the weights on special tokens, so that weights
among words are as exact as all others.

What a head carries, weight times norm, can be far off if made of rounded weights: where a large
weight meets a small norm, small weights decide (0.3 was seen, at 120 tokens). So the page holds the
norms, and how many steps each share is from what rounded shares make of it; with its weights, a
head takes a quarter less so than with the shares themselves. Sums are of whole numbers, so that
both sides agree.
"""

import base64
import math
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attnscan.results.attention import Attention, carried_shares, shares_among_words
from attnscan.results.grid import Head
from attnscan.results.signature import AttentionView

WEIGHT_STEPS = (10_000, 2000, 1000, 500, 250)
"""Into how many steps a weight of 1 is divided, finest first: errors of 0.00005 to 0.002."""
NEURON_STEPS = (4095, 127)
"""Into how many steps a head's largest query or key number is divided."""
SUM_STEPS = 65535
"""Steps of a row's sum over words, and of a head's largest norm: products stay far below 2^53."""
_SIDE = 32  # cells of a thumbnail
_THUMBNAIL_BYTES = 500_000  # of all thumbnails, before compression
_TINY = np.finfo(np.float32).tiny


def pack(values: NDArray[np.uint8] | NDArray[np.uint16]) -> str:
    """Compress numbers as base64.

    Of two bytes, all high ones come first: nearly all are equal, and take no room.
    """
    if values.dtype == np.uint16:
        values = np.stack([values >> 8, values & 0xFF]).astype(np.uint8)
    return base64.b64encode(zlib.compress(values.tobytes(), 7)).decode("ascii")


def pack_thumbnails(
    attention: Attention, readings: Mapping[str, AttentionView], inputs: int
) -> tuple[dict[str, str], int]:
    """Every head made small, by each reading.

    A cell is 255 times the square root of the largest number in it. Returns as well how many cells
    a side has at most: fewer, the more `inputs` a page has.
    Shape: uint8 [layer, head, query, key].
    """
    thumbnails = len(readings) * inputs * len(attention.grid)
    side = max(1, min(_SIDE, math.isqrt(_THUMBNAIL_BYTES // thumbnails)))
    small: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in readings}
    for layer in range(len(attention.weights)):  # layer by layer, for the memory
        for name, reading in readings.items():
            numbers = _shrink(_numbers_of(attention, layer, reading), side)
            small[name].append(np.rint(255 * np.sqrt(numbers)).astype(np.uint8))
    texts = {f"thumbnails-of-{name}": pack(np.stack(layers)) for name, layers in small.items()}
    return texts, side


def _numbers_of(attention: Attention, layer: int, reading: AttentionView) -> NDArray[np.float32]:
    """A layer's numbers by a reading. Shape: [head, query, key]."""
    rows = np.searchsorted(attention.rows, attention.query_tokens)
    numbers = attention.weights[layer][:, rows]
    keys = np.array(attention.key_tokens)
    if reading.carried and attention.norms is not None:
        numbers = carried_shares(numbers, attention.norms[layer])
    if reading.words_only:
        is_word = np.array(attention.sentence) >= 0
        queries = np.array(attention.query_tokens)
        numbers = shares_among_words(numbers, is_word)[:, is_word[queries]]
        keys = keys[is_word[keys]]
    shown: NDArray[np.float32] = numbers[..., keys]
    return shown


def _shrink(numbers: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """The largest number in each of at most `side` × `side` cells. Shape: [head, query, key]."""
    for axis in (1, 2):
        count = numbers.shape[axis]
        cells = np.linspace(0, count, min(side, count), endpoint=False).astype(int)
        numbers = np.asarray(np.maximum.reduceat(numbers, cells, axis=axis))
    return numbers


def pack_masks(attention: Attention) -> tuple[dict[str, str], list[int]]:
    """Which keys each query sees: each mask once, and which each layer has.

    Shape: uint8 [query, key].
    """
    assert attention.visible is not None  # whole layers are kept
    rows = np.searchsorted(attention.rows, attention.query_tokens)
    visible = attention.visible[:, rows][..., attention.key_tokens]
    masks = [pack(layer) for layer in visible.astype(np.uint8)]
    layers = [masks.index(mask) for mask in masks]
    return {f"mask-{layer}": masks[layer] for layer in layers}, layers


def pack_weights(attention: Attention, head: Head, steps: int) -> dict[str, str]:
    """A head's weights, and what it carries, in so many steps.

    `weights` is uint16 [query, 1 + key]: the row's sum over words, then for each word its share of
    that sum, and for each special token its weight. `carried` is uint16 [1 + query, 1 + key]:
    nothing and the keys' norms, then rows likewise, but of each number, modulo 2^16, 128 and how
    many steps it is from what rounded shares of words and norms make of it: so nearly all high
    bytes are 0.
    """
    keys = np.array(attention.key_tokens)
    is_word = np.array(attention.sentence) >= 0
    weights = attention.rows_of(head, attention.query_tokens)
    columns = np.append(0, 1 + keys)
    split = _in_steps(weights, is_word, steps)[:, columns]
    texts = {f"weights-{head.name}": pack(split.astype(np.uint16))}
    if attention.norms is not None:
        norms = attention.norms[head.place]
        carried = _in_steps(carried_shares(weights, norms), is_word, steps)[:, columns]
        largest = max(norms[keys].max(), _TINY)
        norm_steps = np.rint(norms[keys].astype(np.float64) / largest * SUM_STEPS).astype(np.int64)
        products = np.where(is_word[keys], split[:, 1:] * norm_steps, 0)
        sums = products.sum(-1, keepdims=True).clip(1)
        expected = np.floor(products * steps / sums + 0.5)  # as scripts find it
        carried[:, 1:] += 128 - expected.astype(np.int64)
        rows = np.vstack([np.append(0, norm_steps), carried])
        texts[f"carried-{head.name}"] = pack(rows.astype(np.uint16))
    return texts


def _in_steps(
    rows: NDArray[np.float32], is_word: NDArray[np.bool_], steps: int
) -> NDArray[np.int64]:
    """Each row in whole steps: sum over words, shares among words, weights on special tokens."""
    sums = np.where(is_word, rows, 0).sum(-1, keepdims=True).clip(max=1) * SUM_STEPS
    shares = np.where(is_word, shares_among_words(rows, is_word), rows) * steps
    rounded: NDArray[np.int64] = np.rint(np.hstack([sums, shares])).astype(np.int64)
    return rounded


def pack_neurons(attention: Attention, head: Head, steps: int) -> dict[str, str]:
    """A head's queries and keys.

    The text is the largest error of a logit made of them, what stands for 0, their steps, numbers.
    """
    assert attention.query is not None and attention.key is not None
    tokens = attention.passage
    query = attention.query[head.place][tokens]
    key = attention.key[head.place][tokens]
    true = np.stack([query, key]).astype(np.float64)
    largest = np.maximum(np.abs(true).max(axis=(1, 2), keepdims=True), _TINY)
    step = largest / steps
    counts = np.rint(true / step)
    rounded = counts * step
    difference = rounded[0] @ rounded[1].T - true[0] @ true[1].T
    error = np.abs(difference * attention.scaling[head.row]).max()
    numbers = pack((counts + steps).astype(np.uint16))
    parts = [str(error), str(steps), *map(str, step.ravel().tolist()), numbers]
    return {f"neurons-{head.name}": ",".join(parts)}
