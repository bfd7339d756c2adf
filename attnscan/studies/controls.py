"""The controls of a set of heads: distinct sets of as many heads of the same layers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnscan.results.ablation import HeadSet
from attnscan.results.grid import Grid, Head
from attnscan.studies.draws import generator


def with_controls(
    name: str, heads: Sequence[Head], grid: Grid, draws: int, seed: int, barred: Collection[Head] = ()
) -> HeadSet:
    """A set of a model's heads, and its controls; a set without heads has none.

    A control has as many heads of each layer as the set has there, taken from the layer's other heads that are not
    `barred`. Where a layer has too few of these, a control has all of them, and the rest from the set itself. All
    controls are distinct: `draws` of them are drawn where more are possible, and all are taken where not. They depend
    only on the set's heads, the other heads that may be taken, `draws` and `seed`.

    >>> with_controls("x", [Head(1, 0)], Grid.square(2, 3), 20, 0).controls
    ((Head(1-1),), (Head(1-2),))
    """
    chosen = tuple(sorted(heads))
    layers = [_layer(layer, chosen, barred) for layer in dict.fromkeys(tuple(grid.layer_of(head)) for head in chosen)]
    if not any(layer.has_others for layer in layers):
        return HeadSet(name, chosen)
    possible = math.prod(math.comb(len(layer.pool), layer.picked) for layer in layers)
    if possible <= draws:
        return HeadSet(name, chosen, tuple(_every(layers)), possible)
    rng = generator(seed, *itertools.chain.from_iterable(head.place for head in chosen))
    controls: dict[tuple[Head, ...], None] = {}
    while len(controls) < draws:  # one that was drawn before is drawn again
        controls[_drawn(layers, rng)] = None
    return HeadSet(name, chosen, tuple(controls), possible)


@dataclass(frozen=True)
class _Layer:
    """What controls take of one layer: all of the `fixed` heads, and so many of a pool."""

    fixed: tuple[Head, ...]
    pool: tuple[Head, ...]
    picked: int
    has_others: bool


def _layer(heads: Sequence[Head], chosen: Sequence[Head], barred: Collection[Head]) -> _Layer:
    own = tuple(head for head in chosen if head.layer == heads[0].layer and head.kind == heads[0].kind)
    others = tuple(head for head in heads if head not in own and head not in barred)
    if len(others) >= len(own):
        return _Layer((), others, len(own), True)
    return _Layer(others, own, len(own) - len(others), bool(others))


def _every(layers: Sequence[_Layer]) -> Iterator[tuple[Head, ...]]:
    """Every control that there can be, once."""
    for picks in itertools.product(*(itertools.combinations(layer.pool, layer.picked) for layer in layers)):
        yield _control(layers, picks)


def _drawn(layers: Sequence[_Layer], rng: np.random.Generator) -> tuple[Head, ...]:
    """One control, each that there can be as likely as any other."""
    picks = [[layer.pool[place] for place in rng.permutation(len(layer.pool))[: layer.picked]] for layer in layers]
    return _control(layers, picks)


def _control(layers: Sequence[_Layer], picks: Sequence[Sequence[Head]]) -> tuple[Head, ...]:
    return tuple(sorted(itertools.chain(*(layer.fixed for layer in layers), *picks)))
