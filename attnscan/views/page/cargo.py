"""What a page carries of a result: rounded, compressed, and as much as its size allows.

Every head's scores come first, with fewer decimals where a model has so many heads that they would not fit. Weights
become whole steps, of the finest step that lets every head fit. If not even the coarsest does, the heads that follow
a pattern most are carried. Queries and keys take what room is left, in the same order of heads.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.results.heads import Head
from attnscan.results.scores import Scores
from attnscan.results.tables import DECIMALS, render

if TYPE_CHECKING:
    import pandas as pd

WEIGHT_STEPS = (10_000, 2000, 1000, 500, 250)
"""Into how many steps a weight of 1 is divided, finest first: errors of 0.00005 to 0.002."""
NEURON_STEPS = (4095, 127)
"""Into how many steps a head's largest query or key number is divided."""

_Packed = TypeVar("_Packed")
_WEIGHTS_SHARE = 2 / 3  # of the room, where queries and keys want some, too
_BESIDE = 160  # characters of a page that a head's cargo needs around it
_SIDE = 32
_THUMBNAIL_BYTES = 500_000  # of all heads together, before compression
_COARSER = (4, 3, 2)  # decimals of scores that do not fit with all of them


@dataclass(frozen=True)
class Table:
    """Every head's labels and scores, as the CSV has them."""

    columns: tuple[str, ...]
    packed: str
    """JSON, base64 of deflated bytes: a list of the cells of each column, and of each on words."""
    decimals: int
    """Of its numbers. The CSV has 6."""


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


@dataclass(frozen=True)
class Cargo:
    """Everything numeric of the attention that a page carries. Texts are base64 of deflated bytes."""

    side: int = 0
    """Thumbnails are squares of that many cells."""
    thumbnails: str = ""
    """uint8 [layer, head, query, key]: 255 × the square root of the largest weight in each cell."""
    weight_steps: int = WEIGHT_STEPS[0]
    """A weight is carried as whole steps of 1 / weight_steps: it is off by half a step at most."""
    weights: Mapping[Head, str] = field(default_factory=dict)
    """uint16 [query, key], all high bytes before all low ones."""
    neurons: Mapping[Head, Neurons] = field(default_factory=dict)
    masks: Sequence[str] = ()
    """uint8 [query, key], 1 where the query sees the key; each different mask once, none if all see all."""
    mask_of_layer: Sequence[int] = ()

    @property
    def weight_error(self) -> float:
        """How far a carried weight is from the model's, at most."""
        return 0.5 / self.weight_steps

    @property
    def logit_error(self) -> float:
        """How far a logit made from the carried queries and keys is from the model's, at most."""
        return max((each.logit_error for each in self.neurons.values()), default=0.0)


def tables(result: Classification) -> Iterator[Table]:
    """The scores of all heads with all decimals, then with ever fewer."""
    counted, on_words = (result.to_frame(without_delimiters=left_out) for left_out in (False, True))
    on_words = on_words[on_words.columns[list(counted.columns).index("content_label") + 1 :]]
    cells = [*_cells(counted), *_cells(on_words)]
    numbers = [
        frame[name].tolist() if kind.kind == "f" else None
        for frame in (counted, on_words)
        for name, kind in frame.dtypes.items()
    ]
    for decimals in (DECIMALS, *_COARSER):
        if decimals < DECIMALS:
            cells = [
                column if values is None else ["" if math.isnan(value) else f"{value:.{decimals}f}" for value in values]
                for column, values in zip(cells, numbers, strict=True)
            ]
        text = json.dumps(cells, separators=(",", ":")).encode()
        yield Table(tuple(counted.columns), _compressed(text, zlib.Z_DEFAULT_STRATEGY), decimals)


def _cells(frame: pd.DataFrame) -> list[Sequence[str]]:
    """The cells of the CSV, column by column."""
    _, *rows = csv.reader(io.StringIO(render(frame, "csv").decode(), newline=""))
    return list(zip(*rows, strict=True))


def of_every_head(attention: Attention) -> Cargo:
    """What a page of any size carries: thumbnails, and which keys each query sees."""
    side, thumbnails = _thumbnails(attention.weights)
    masks, mask_of_layer = _masks(attention.visible)
    return Cargo(side, thumbnails, masks=masks, mask_of_layer=mask_of_layer)


def load(cargo: Cargo, attention: Attention, order: Sequence[Head], room: float, *, neurons: bool) -> Cargo:
    """The same and what goes into `room` more characters, the first heads of `order` first."""
    neurons = neurons and attention.query is not None
    weights_of, neurons_of = partial(_packed_weights, attention), partial(_packed_neurons, attention)
    steps, weights = _finest(WEIGHT_STEPS, order, room * _WEIGHTS_SHARE if neurons else room, weights_of, len)
    room -= sum(len(each) + _BESIDE for each in weights.values())
    carried: dict[Head, Neurons] = {}
    if neurons:
        _, carried = _finest(NEURON_STEPS, list(weights), room, neurons_of, lambda each: len(each.packed))
    return replace(cargo, weight_steps=steps, weights=weights, neurons=carried)


def strongest_first(scores: Scores) -> list[Head]:
    """All heads: the best one of each pattern, then the second ones, and so on.

    By how far a head is above chance, so that patterns with many targets have no advantage.
    """
    layers, heads = scores.grid
    above = scores.every_key.above_chance.reshape(layers * heads, -1)
    above = np.nan_to_num(above[:, ~np.isnan(above).all(axis=0)], nan=-np.inf)
    ranked: list[int] = np.argsort(-above, axis=0, kind="stable").ravel().tolist()
    return [divmod(flat, heads) for flat in dict.fromkeys([*ranked, *range(layers * heads)])]


def _thumbnails(weights: NDArray[np.float32]) -> tuple[int, str]:
    """Every head, made small by taking the largest weight of each cell."""
    layers, heads, length, _ = weights.shape
    side = max(1, min(_SIDE, int((_THUMBNAIL_BYTES / (layers * heads)) ** 0.5)))
    side = min(side, length)
    edges = np.linspace(0, length, side, endpoint=False).astype(int)
    small = np.empty((layers, heads, side, side), dtype=np.uint8)
    for layer, each in enumerate(weights):  # layer by layer, for the memory
        pooled = np.maximum.reduceat(np.maximum.reduceat(each, edges, axis=1), edges, axis=2)
        small[layer] = np.rint(255 * np.sqrt(pooled))
    return side, _compressed(small)


def _masks(visible: NDArray[np.bool_]) -> tuple[list[str], list[int]]:
    if visible.all():
        return [], []
    packed = [_compressed(layer.astype(np.uint8)) for layer in visible]
    masks = list(dict.fromkeys(packed))
    return masks, [masks.index(each) for each in packed]


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


def _packed_weights(attention: Attention, head: Head, steps: int) -> str:
    return _compressed(_planes(np.rint(attention.weights[head] * steps).astype(np.uint16)))


def _packed_neurons(attention: Attention, head: Head, steps: int) -> Neurons:
    assert attention.query is not None and attention.key is not None
    true = np.stack([attention.query[head], attention.key[head]]).astype(np.float64)
    worth = np.maximum(np.abs(true).max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny) / steps
    whole = np.rint(true / worth)
    carried, scaling = whole * worth, attention.scaling[head[0]]
    error = np.abs((carried[0] @ carried[1].T - true[0] @ true[1].T) * scaling).max()
    query, key = (float(each) for each in worth.ravel())
    return Neurons(_compressed(_planes((whole + steps).astype(np.uint16))), steps, (query, key), float(error))


def _planes(values: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """All high bytes, then all low ones: the high ones are nearly all equal, and so take no room."""
    return np.stack([values >> 8, values & 0xFF]).astype(np.uint8)


def _compressed(values: NDArray[np.uint8] | bytes, strategy: int = zlib.Z_FILTERED) -> str:
    """By the strategy for numbers, unless it is told another: it makes them 8 % smaller than the one for text."""
    deflate = zlib.compressobj(6, strategy=strategy)
    return base64.b64encode(deflate.compress(bytes(values)) + deflate.flush()).decode("ascii")
