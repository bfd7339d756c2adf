"""Which heads are switched off together, on which pairs that is measured, and a model's answers without them.

Sets that follow patterns are chosen by a scan of one half of the pairs and measured on the other, so that no head is
chosen for what it happens to do on the pairs that judge it. Heads that are named are measured on all pairs. The
controls of a set are distinct sets of as many heads of the same layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.errors import InputError
from attnscan.inputs.pairs import Record
from attnscan.model.attention_function import OnOutput
from attnscan.model.output_tap import OutputTap
from attnscan.model.running import check_finite, in_halves
from attnscan.results.ablation import HeadSet
from attnscan.results.grid import AttentionKind, Grid, Head
from attnscan.results.scores import MIXED, Scores
from attnscan.scan.events import Steps
from attnscan.scan.local import finished, scanned
from attnscan.scan.options import AblationRequest
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen, half
from attnscan.scan.stream import OnBad
from attnscan.studies.draws import generator
from attnscan.studies.losses import Loss, Probe, replica

_CHOOSES, _MEASURES = 0, 1
_RESTS = "delimiter"
"""A head of this label has nothing to do, so that it may be a control of other patterns' heads."""


@dataclass(frozen=True)
class RequestedSets:
    """The sets of heads that a request describes."""

    sets: list[HeadSet]
    chosen_by: str
    """How they were chosen, in a few words."""
    seen: Seen = field(default_factory=Seen)
    """What was read to choose them; nothing where they were named."""


def requested_sets(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
) -> Steps[RequestedSets]:
    """The sets of heads that a request describes, and their controls.

    Heads that are named are taken as they are; those that follow patterns are found by a scan of the other half of the
    pairs.
    Raises: SelectionError if a head is not there; InputError if there is no pair to scan, or none for the other half.
    """
    options = scanner.options
    if not request.names_heads:
        return (yield from _by_patterns(scanner, read(), request, on_bad))
    grid, text = scanner.grid(), request.heads or "all"
    heads = grid.select(text)
    named = {head.name: [head] for head in heads} if request.each else {text: heads}
    sets = [with_controls(name, own, grid, request.draws, options.seed) for name, own in named.items()]
    return RequestedSets(sets, "by name")


def measured(records: Iterable[Record], request: AblationRequest, seed: int) -> Iterator[Record]:
    """Of all pairs those that a request's sets are measured on: all, or the half that did not choose the sets."""
    return (record for record in records if request.names_heads or half(record.pair, seed) == _MEASURES)


def _by_patterns(
    scanner: Scanner, records: Iterable[Record], request: AblationRequest, on_bad: OnBad | None
) -> Steps[RequestedSets]:
    options, counts = scanner.options, [0, 0]
    chosen = _choosing(records, options.seed, counts)
    state = yield from scanned(scanner, chosen, on_bad, doing="labels: scoring one half of the pairs")
    _check_halves(counts)
    ranking = yield from finished(scanner, state, "labels: pairs asked for predictive words")
    scores = ranking.scores
    known = [pattern.id for pattern in options.patterns if pattern.target is not None or options.predictive != "off"]
    patterns = [name for name in known if not request.patterns or name in request.patterns]
    among_words = options.reading.among_words
    labels = scores.ranked_labels(scores.table(among_words), 0, options.threshold)
    sets = [
        with_controls(name, heads, scores.grid, request.draws, options.seed, _barred(labels, name, options.kind))
        for name, heads in heads_of_patterns(scores, labels, patterns, request.top, among_words).items()
    ]
    by_label, by_top = f"label, {options.threshold:g} above chance", f"the {request.top} most above chance"
    return RequestedSets(sets, by_label if request.top is None else by_top, state.seen)


def _choosing(records: Iterable[Record], seed: int, counts: list[int]) -> Iterator[Record]:
    """The records of the half that chooses; both halves are counted as they pass."""
    for record in records:
        which = half(record.pair, seed)
        counts[which] += 1
        if which == _CHOOSES:
            yield record


def _check_halves(counts: Sequence[int]) -> None:
    """Raises: InputError if one half of the pairs is empty, and the other is not."""
    if sum(counts) and not all(counts):
        empty = "measures them" if counts[_CHOOSES] else "chooses the heads"
        raise InputError(
            f"one half of the pairs chooses the heads and the other measures them, and of {sum(counts)} given "
            f"none fell into the half that {empty}",
            "give more pairs, or name heads with --heads",
        )


def _barred(labels: NDArray[np.str_], pattern: str, kind: AttentionKind) -> frozenset[Head]:
    """The heads that may not be controls of a pattern's: those that are labelled with another one, which does work."""
    barred = ~np.isin(labels, [pattern, _RESTS, MIXED])
    return frozenset(head for head in Grid.of(labels, kind) if barred[head.place])


def heads_of_patterns(
    scores: Scores, labels: NDArray[np.str_], patterns: Sequence[str], top: int | None, among_words: bool = False
) -> dict[str, list[Head]]:
    """The heads that follow each pattern: those with its label or, with `top`, so many that are most above chance.

    No head at chance or below is among them, so that there may be fewer, or none.
    """
    followers = {}
    for pattern in patterns:
        if top is None:
            numbers = np.flatnonzero(labels == pattern)
        else:
            above = scores.table(among_words).above_chance[..., scores.patterns.index(pattern)].ravel()
            best = np.argsort(-above, kind="stable")[:top]
            numbers = best[above[best] > 0]  # NaN is not
        followers[pattern] = [scores.grid[number] for number in numbers]
    return followers


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


@dataclass(frozen=True)
class Piece:
    """A batch of questions, and sets of heads to put them without."""

    questions: Sequence[Probe]
    inputs: dict[str, Tensor]
    first: int
    """The first set's number; 0 is the intact model's."""
    off: Tensor
    """Shape: [set, layer, head], bool."""


class Answerer:
    """A model, or a replica of it, that answers with heads switched off."""

    def __init__(
        self, measure: Loss, means: Tensor | None, device: torch.device, kind: AttentionKind = AttentionKind.ONLY
    ) -> None:
        self._measure, self._means, self._device, self._kind = measure, means, device, kind
        self.tap = OutputTap(measure.encoder, measure.whole, kind)
        self.whole: torch.nn.Module = measure.whole

    def replica(self) -> Answerer:
        """Another one, with the same weights."""
        return Answerer(replica(self._measure), self._means, self._device, self._kind)

    def answers(self, piece: Piece) -> Tensor:
        """To every question with every set off. Shape: [question, set, number]."""

        def of_rows(rows: Sequence[int]) -> Tensor:
            asked, sets = (
                torch.tensor(numbers) for numbers in zip(*(divmod(row, len(piece.off)) for row in rows), strict=True)
            )
            repeated = {name: values[asked.to(values.device)] for name, values in piece.inputs.items()}
            edit = _switch(piece.off[sets].to(self._device), self._means)
            every = [piece.questions[number] for number in asked]
            answers = self._measure.answers(every, lambda: self.tap.run(repeated, edit))
            check_finite(answers, "the model's answers")
            return answers

        rows, length = range(len(piece.questions) * len(piece.off)), piece.inputs["input_ids"].shape[1]
        answers = torch.cat(list(in_halves(rows, of_rows, lambda _: length, self._device)))
        return answers.view(len(piece.questions), len(piece.off), -1)


def _switch(off: Tensor, means: Tensor | None) -> OnOutput:
    """What switches heads off. Shape: `off` [input, layer, head], bool; `means` [layer, head, dimension]."""

    def edit(layer: int, output: Tensor) -> None:
        inputs, heads = off[:, layer].nonzero(as_tuple=True)
        output[inputs, :, heads] = 0 if means is None else means[layer, heads][:, None].to(output)

    return edit
