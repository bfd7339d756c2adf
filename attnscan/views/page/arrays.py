"""An input's numbers as packed texts of a page: rounded to whole steps, compressed, base64.

Weights have the finest steps with which every head fits; if none does, the heads that follow a pattern most are on the
page. Queries and keys take the room that is left. A row is its sum over words, the shares of words among themselves,
and the weights on special tokens, so that weights among words are as exact as all others.

What a head carries, weight times norm, can be far off if made of rounded weights: where a large weight meets a small
norm, small weights decide (0.3 was seen, at 120 tokens). So the page holds the norms, and how many steps each share is
from what rounded shares make of it; with its weights, a head takes a quarter less so than with the shares themselves.
Sums are of whole numbers, so that both sides agree.
"""

import base64
import math
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attnscan.results.attention import MIN_ON_WORDS, Attention, carried_shares
from attnscan.results.grid import Head
from attnscan.results.signature import AttentionView

WEIGHT_STEPS = (10_000, 2000, 1000, 500, 250)
"""Into how many steps a weight of 1 is divided, finest first: errors of 0.00005 to 0.002."""
NEURON_STEPS = (4095, 127)
"""Into how many steps a head's largest query or key number is divided."""
SUM_STEPS = (
    65535  # of a row's sum over words, and of a head's largest norm: products stay far below 2^53
)
_SIDE, _THUMBNAIL_BYTES = (
    32,
    500_000,
)  # cells of a thumbnail; bytes of all of them, before compression


def pack(values: NDArray[np.uint8] | NDArray[np.uint16]) -> str:
    """Compress numbers as base64; of two bytes, all high ones come first: nearly all are equal, and take no room."""
    if values.dtype == np.uint16:
        values = np.stack([values >> 8, values & 0xFF]).astype(np.uint8)
    return base64.b64encode(zlib.compress(values.tobytes(), 7)).decode("ascii")


def pack_thumbnails(
    attention: Attention, readings: Mapping[str, AttentionView], inputs: int
) -> tuple[dict[str, str], int]:
    """Every head made small, by each reading: 255 times the square root of the largest number in each cell.

    Returns as well how many cells a side has at most: fewer, the more `inputs` a page has. Shape: uint8 [layer, head,
    query, key].
    """
    side = max(
        1,
        min(_SIDE, math.isqrt(_THUMBNAIL_BYTES // (len(readings) * inputs * len(attention.grid)))),
    )
    rows, queries = (
        np.searchsorted(attention.rows, attention.query_tokens),
        np.array(attention.query_tokens),
    )
    keys, is_word = np.array(attention.key_tokens), np.array(attention.sentence) >= 0
    small: dict[str, list[NDArray[np.uint8]]] = {name: [] for name in readings}
    for layer, weights in enumerate(attention.weights):  # layer by layer, for the memory
        for name, reading in readings.items():
            numbers, columns = weights[:, rows], keys
            if reading.carried and attention.norms is not None:
                numbers = carried_shares(numbers, attention.norms[layer])
            if reading.words_only:
                numbers, columns = (
                    _among_words(numbers, is_word)[:, is_word[queries]],
                    keys[is_word[keys]],
                )
            numbers = numbers[..., columns]
            for axis in (1, 2):
                count = numbers.shape[axis]
                cells = np.linspace(0, count, min(side, count), endpoint=False).astype(int)
                numbers = np.maximum.reduceat(numbers, cells, axis=axis)
            small[name].append(np.rint(255 * np.sqrt(numbers)).astype(np.uint8))
    return {f"thumbnails-of-{name}": pack(np.stack(layers)) for name, layers in small.items()}, side


def pack_masks(attention: Attention) -> tuple[dict[str, str], list[int]]:
    """Which keys each query sees: each mask once, and which each layer has. Shape: uint8 [query, key]."""
    assert attention.visible is not None  # whole layers are kept
    visible = attention.visible[:, np.searchsorted(attention.rows, attention.query_tokens)][
        ..., attention.key_tokens
    ]
    masks = [pack(layer) for layer in visible.astype(np.uint8)]
    layers = [masks.index(mask) for mask in masks]
    return {f"mask-{layer}": masks[layer] for layer in layers}, layers


def pack_weights(attention: Attention, head: Head, steps: int) -> dict[str, str]:
    """A head's weights, and what it carries, in so many steps.

    `weights` is uint16 [query, 1 + key]: the row's sum over words, then for each word its share of that sum, and for
    each special token its weight. `carried` is uint16 [1 + query, 1 + key]: nothing and the keys' norms, then rows
    likewise, but of each number, modulo 2^16, 128 and how many steps it is from what rounded shares of words and norms
    make of it: so nearly all high bytes are 0.
    """
    keys, is_word = np.array(attention.key_tokens), np.array(attention.sentence) >= 0
    weights, columns = attention.rows_of(head, attention.query_tokens), np.append(0, 1 + keys)
    split = _in_steps(weights, is_word, steps)[:, columns]
    texts = {f"weights-{head.name}": pack(split.astype(np.uint16))}
    if attention.norms is not None:
        norms = attention.norms[head.place]
        carried = _in_steps(carried_shares(weights, norms), is_word, steps)[:, columns]
        largest = max(norms[keys].max(), np.finfo(np.float32).tiny)
        norm_steps = np.rint(norms[keys].astype(np.float64) / largest * SUM_STEPS).astype(np.int64)
        products = np.where(is_word[keys], split[:, 1:] * norm_steps, 0)
        expected = np.floor(
            products * steps / products.sum(-1, keepdims=True).clip(1) + 0.5
        )  # as scripts find it
        carried[:, 1:] += 128 - expected.astype(np.int64)
        texts[f"carried-{head.name}"] = pack(
            np.vstack([np.append(0, norm_steps), carried]).astype(np.uint16)
        )
    return texts


def _in_steps(
    rows: NDArray[np.float32], is_word: NDArray[np.bool_], steps: int
) -> NDArray[np.int64]:
    """Each row's sum over words, then its shares among words and its weights on special tokens, in whole steps."""
    sums = np.where(is_word, rows, 0).sum(-1, keepdims=True).clip(max=1) * SUM_STEPS
    shares = np.where(is_word, _among_words(rows, is_word), rows) * steps
    rounded: NDArray[np.int64] = np.rint(np.hstack([sums, shares])).astype(np.int64)
    return rounded


def _among_words(rows: NDArray[np.float32], is_word: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Each row's weights on words as shares of their sum, and nothing elsewhere."""
    on_words = np.where(is_word, rows, 0)
    sums = on_words.sum(-1, keepdims=True)
    return np.where(sums < MIN_ON_WORDS, 0, on_words / np.maximum(sums, MIN_ON_WORDS)).astype(
        np.float32
    )


def pack_neurons(attention: Attention, head: Head, steps: int) -> dict[str, str]:
    """A head's queries and keys: the largest error of a logit made of them, what stands for 0, their steps, numbers."""
    assert attention.query is not None and attention.key is not None
    tokens = attention.passage
    true = np.stack(
        [attention.query[head.place][tokens], attention.key[head.place][tokens]]
    ).astype(np.float64)
    step = (
        np.maximum(np.abs(true).max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny) / steps
    )
    counts = np.rint(true / step)
    rounded = counts * step
    error = np.abs(
        (rounded[0] @ rounded[1].T - true[0] @ true[1].T) * attention.scaling[head.row]
    ).max()
    numbers = pack((counts + steps).astype(np.uint16))
    return {
        f"neurons-{head.name}": ",".join(
            [str(error), str(steps), *map(str, step.ravel().tolist()), numbers]
        )
    }
