"""Runs a model with sets of heads switched off, and measures what it loses: a stream of pairs in, effects out.

Sets that follow patterns are chosen by a scan of one half of the pairs and measured on the other, so that no head is
chosen for what it happens to do on the pairs that judge it. Heads that are named are measured on all pairs. The
controls of a set are distinct sets of as many heads of the same layers. Every distinct set is one forward over each
batch; where inputs are few, several sets share one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput, batches, collate
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import OnOutput
from attnscan.model.running import check_finite, side_by_side
from attnscan.model.tap import Tap
from attnscan.results.ablation import Ablation, Effect, HeadSet
from attnscan.results.behaviour import resting_on
from attnscan.results.grid import Grid, Head
from attnscan.results.scores import FloatArray, Scores, followed
from attnscan.results.terms import RESTING
from attnscan.scan.local import OnBad, Stream, finished, scan, tokens_of
from attnscan.scan.options import AblationRequest
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen, half, no_pair
from attnscan.scoring.blocks import error, ratio, residuals
from attnscan.scoring.units import exact
from attnscan.studies.losses import Loss, Probe, measures_of
from attnscan.studies.passes import generator, sums_over

_CHOOSES, _MEASURES = 0, 1


def ablate(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
) -> Ablation:
    """What each requested set of heads is worth to the model.

    `read` begins the pairs anew for each pass: one, one more if heads are chosen by patterns, and one to replace by the
    mean, which averages heads over the pairs that are measured. The signature counts all pairs, also those that chose.

    Raises: InputError if there is no pair, none that says anything, or none for the half that chooses or that measures;
    ModelError if the model lacks a head for a measure; CaptureError if its heads cannot be switched off;
    SelectionError if a head that is named is not there.
    """
    scanner = scanner.exact()
    scanner.tell("trying whether heads can be switched off")  # found out before a long run
    scanner.tap.output(scanner.collate([scanner.encode(scanner.trial)]).model_inputs, lambda _layer, _output: None)
    asked, grid, seed = requested_sets(scanner, read, request, on_bad), scanner.grid(), scanner.options.seed
    words, records = scanner.with_options(unit="word", by=None), dict[int, Record]()
    measures = measures_of(scanner.loaded, request.measures, seed, records, scanner.options.kind)
    means = _means(words, measured(read(), request, seed), on_bad) if request.replace == "mean" else None
    numbers: dict[tuple[Head, ...], int] = {(): 0}
    for heads in chain.from_iterable((off_set.heads, *off_set.controls) for off_set in asked.sets):
        numbers.setdefault(heads, len(numbers))
    off = torch.zeros(len(numbers), *grid.shape, dtype=torch.bool)
    for heads, number in numbers.items():
        for head in heads:
            off[(number, *head.place)] = True
    runs = [_Run(scanner, measure, off, means) for measure in measures]
    stream = Stream(words, _noting(measured(read(), request, seed), records, asked.seen.read + 1), on_bad, asked.seen)
    with closing(stream.windows()) as windows:
        for window in windows:
            inputs = sorted((encoded for batch in window for encoded in batch), key=lambda encoded: encoded.number)
            for run in runs:
                run.take(inputs)
            for encoded in inputs:
                records.pop(encoded.number, None)
    effects = tuple(effect for run in runs for effect in run.effects(asked.sets, numbers))
    if not any(effect.n for effect in effects):
        raise InputError("no pair can be measured", "give a file with at least one")
    chose, both = (seen.read - seen.skipped for seen in (asked.seen, stream.seen))
    signature = scanner.signature(stream.seen)
    return Ablation(effects, grid, request.replace, request.draws, asked.chosen_by, chose, both - chose, signature)


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
) -> RequestedSets:
    """The sets of heads that a request describes, and their controls.

    Heads that are named are taken as they are; those that follow patterns are found by a scan of the other half of the
    pairs.
    Raises: SelectionError if a head is not there; InputError if there is no pair to scan, or none for the other half.
    """
    options, grid = scanner.options, scanner.grid()
    if request.names_heads:
        text = request.heads or "all"
        heads = grid.select(text)
        named = {head.name: [head] for head in heads} if request.each else {text: heads}
        sets = [with_controls(name, own, grid, request.draws, options.seed) for name, own in named.items()]
        return RequestedSets(sets, "by name")
    counts = [0, 0]
    choosing = _choosing(read(), options.seed, counts)
    state = scan(scanner, choosing, None, on_bad, doing="labels: scoring one half of the pairs")
    if sum(counts) and not all(counts):
        empty = "measures them" if counts[_CHOOSES] else "chooses the heads"
        raise InputError(
            f"one half of the pairs chooses the heads and the other measures them, and of {sum(counts)} given "
            f"none fell into the half that {empty}",
            "give more pairs, or name heads with --heads",
        )
    scores = finished(scanner, state, "labels: ").scores
    known = [pattern.id for pattern in options.patterns if pattern.target is not None or options.predictive != "off"]
    patterns = [name for name in known if not request.patterns or name in request.patterns]
    among_words = options.reading.among_words
    names: NDArray[np.str_] = np.asarray([*scores.patterns, ""])
    labels = names[followed(scores.scored, scores.table(among_words), options.threshold, among_words=among_words)]
    sets = []
    for name, own in heads_of_patterns(scores, labels, patterns, request.top, among_words).items():
        # Heads that follow another pattern do work, and are no controls
        barred = {head for head in scores.grid if labels[head.place] not in (name, *RESTING, "")}
        sets.append(with_controls(name, own, scores.grid, request.draws, options.seed, barred))
    by_label, by_top = f"label, {options.threshold:g} above chance", f"the {request.top} most above chance"
    return RequestedSets(sets, by_label if request.top is None else by_top, state.seen)


def measured(records: Iterable[Record], request: AblationRequest, seed: int) -> Iterator[Record]:
    """Of all pairs those that a request's sets are measured on: all, or the half that did not choose the sets."""
    return (record for record in records if request.names_heads or half(record.pair, seed) == _MEASURES)


def _choosing(records: Iterable[Record], seed: int, counts: list[int]) -> Iterator[Record]:
    """The records of the half that chooses; both halves are counted as they pass."""
    for record in records:
        which = half(record.pair, seed)
        counts[which] += 1
        if which == _CHOOSES:
            yield record


def heads_of_patterns(
    scores: Scores, labels: NDArray[np.str_], patterns: Sequence[str], top: int | None, among_words: bool = False
) -> dict[str, list[Head]]:
    """The heads that follow each pattern or, with `top`, so many that are most above chance; `delimiter`: that rest.

    No head at chance or below is among them, so that there may be fewer, or none.
    """
    table, followers = scores.table(among_words), {}
    for pattern in patterns:
        if top is None:
            rests = resting_on(table, scores.patterns) == scores.patterns.index(pattern)
            numbers = np.flatnonzero((labels == pattern) | rests)
        else:
            above = table.above_chance[..., scores.patterns.index(pattern)].ravel()
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

    >>> with_controls("x", [Head(1, 0)], Grid((2, 3)), 20, 0).controls
    ((Head(1-1),), (Head(1-2),))
    """
    chosen = tuple(sorted(heads))
    in_all: list[Head] = []
    """Heads that every control has."""
    pools: list[tuple[list[Head], int]] = []
    """Of each layer, some heads, and how many of them a control takes."""
    has_others = False
    for in_layer in dict.fromkeys(tuple(grid.layer_of(head)) for head in chosen):
        own = [head for head in in_layer if head in chosen]
        others = [head for head in in_layer if head not in own and head not in barred]
        has_others |= bool(others)
        if len(others) >= len(own):
            pools.append((others, len(own)))
        else:
            in_all += others
            pools.append((own, len(own) - len(others)))
    if not has_others:
        return HeadSet(name, chosen)
    possible = math.prod(math.comb(len(pool), count) for pool, count in pools)
    controls: dict[tuple[Head, ...], None] = {}
    if possible <= draws:
        for picks in product(*(combinations(pool, count) for pool, count in pools)):
            controls[tuple(sorted(chain(in_all, *picks)))] = None
    rng = generator(seed, *chain.from_iterable(head.place for head in chosen))
    while len(controls) < min(draws, possible):  # one that was drawn before is drawn again
        drawn = [[pool[place] for place in rng.permutation(len(pool))[:count]] for pool, count in pools]
        controls[tuple(sorted(chain(in_all, *drawn)))] = None
    return HeadSet(name, chosen, tuple(controls), possible)


@dataclass(frozen=True)
class _Piece:
    """A batch of questions, and sets of heads to put them without."""

    questions: Sequence[Probe]
    inputs: dict[str, Tensor]
    first: int
    """The first set's number; 0 is the intact model's."""
    off: Tensor
    """Shape: [set, layer, head], bool."""


class _Run:
    """One measure of a model with every set of heads switched off in turn, over windows of inputs."""

    def __init__(self, scanner: Scanner, measure: Loss, off: Tensor, means: Tensor | None) -> None:
        """Shape: `off` [set, layer, head], bool, first that of the intact model; `means` [layer, head, dimension]."""
        self._scanner, self._measure, self._off, self._means = scanner, measure, off, means
        self._tap = Tap(measure.encoder, kind=scanner.options.kind)
        _ = self._tap.calls  # found out before a measure changes anything inside the model
        nothing = np.zeros((0, len(measure.quantities), len(off)))
        self._sums, self._counts = [nothing], [nothing[..., 0]]

    def take(self, inputs: Sequence[EncodedInput]) -> None:
        """Ask all that there is to ask about a window of inputs, with every set switched off in turn; tells of each."""
        measure, scanner, sets = self._measure, self._scanner, len(self._off)
        asked = measure.questions(inputs)
        numbered = [replace(question.input, number=i) for i, question in enumerate(asked)]
        shape = (len(inputs), len(measure.quantities))
        sums, counts = np.zeros((*shape, sets)), np.zeros(shape)
        room = scanner.loaded.room(scanner.options.batch_tokens)
        batched, done, intact = list(batches(numbered, room)), 0, torch.zeros(0)
        doing = f"{measure.quantities[0].name}: {sets - 1} sets of heads switched off in turn"
        pieces = (piece for batch in batched for piece in self._pieces([asked[encoded.number] for encoded in batch]))
        total, longest = len(batched) * sets, max(map(tokens_of, numbered), default=1)
        workers = scanner.workers(max(total, 1), longest)
        with self._tap, closing(side_by_side(workers, pieces, self._answers)) as answered:
            for piece, answers in answered:
                intact = answers[:, 0] if piece.first == 0 else intact
                for number in range(len(piece.off)):
                    scanner.tell(doing, done := done + 1, total)
                    value, n = measure.values(piece.questions, answers[:, number], intact)
                    for row, question in enumerate(piece.questions):
                        sums[question.pair, :, piece.first + number] += value[row]
                        if piece.first == 0:
                            counts[question.pair] += n[row]
        self._sums.append(sums)
        self._counts.append(counts)

    def _pieces(self, questions: Sequence[Probe]) -> Iterator[_Piece]:
        """The intact model first, then as many sets at a time as there is room for."""
        loaded = self._scanner.loaded
        inputs = collate([question.input for question in questions], loaded.pad_id).model_inputs
        inputs = {name: values.to(loaded.device) for name, values in inputs.items()}
        room, (count, length) = loaded.room(self._scanner.options.batch_tokens), inputs["input_ids"].shape
        by_cells = room.tokens if room.cells is None else room.cells // (count * length**2)
        at_once = max(1, min(room.tokens // (count * length), by_cells))
        yield _Piece(questions, inputs, 0, self._off[:1])
        for first in range(1, len(self._off), at_once):
            yield _Piece(questions, inputs, first, self._off[first : first + at_once])

    def _answers(self, piece: _Piece) -> Tensor:
        """To every question with every set off. Shape: [question, set, number]."""
        shape = len(piece.questions), len(piece.off)
        asked, sets = (places.flatten() for places in torch.meshgrid(*map(torch.arange, shape), indexing="ij"))
        repeated = {name: values[asked.to(values.device)] for name, values in piece.inputs.items()}
        edit = _switch(piece.off[sets].to(self._scanner.loaded.device), self._means)
        questions = [piece.questions[number] for number in asked]
        answers = self._measure.answers(questions, lambda: self._tap.output(repeated, edit, self._measure.whole))
        check_finite(answers, "the model's answers")
        return answers.view(*shape, -1)

    def effects(self, sets: Sequence[HeadSet], numbers: dict[tuple[Head, ...], int]) -> Iterator[Effect]:
        """What the sets are worth, quantity by quantity."""
        sums, counts = np.concatenate(self._sums), np.concatenate(self._counts)
        ratios = ratio(np.moveaxis(sums, -1, 1), counts[:, None])
        for row, quantity in enumerate(self._measure.quantities):
            n, pairs, intact = int(counts[:, row].sum()), int((counts[:, row] > 0).sum()), float(ratios[0, row])
            for off_set in sets:
                own, controls = numbers[off_set.heads], [numbers[heads] for heads in off_set.controls]
                se = se_beside_controls(sums[..., own], sums[..., controls], counts)[row]
                ablated = float(ratios[own, row]) if off_set.heads else float("nan")
                yield Effect(
                    off_set, quantity, intact, ablated, tuple(ratios[controls, row].tolist()), float(se), n, pairs
                )


def _switch(off: Tensor, means: Tensor | None) -> OnOutput:
    """What switches heads off. Shape: `off` [input, layer, head], bool; `means` [layer, head, dimension]."""

    def edit(layer: int, output: Tensor) -> None:
        inputs, heads = off[:, layer].nonzero(as_tuple=True)
        output[inputs, :, heads] = 0 if means is None else means[layer, heads][:, None].to(output)

    return edit


def _means(scanner: Scanner, records: Iterable[Record], on_bad: OnBad | None) -> Tensor:
    """Each head's output, averaged over the words of all pairs. Shape: [layer, head, dimension].

    Raises: InputError if there is no pair.
    """

    def sum_outputs(inputs: Sequence[EncodedInput]) -> dict[str, Tensor]:
        """The sum over words, and how many there are."""
        device = scanner.loaded.device
        batch = collate(inputs, scanner.loaded.pad_id)
        rows = [torch.tensor(encoded.sentence[encoded.source :]) >= 0 for encoded in inputs]
        word = pad_sequence(rows, batch_first=True).to(device)
        of_layers: list[Tensor] = []

        def keep(_layer: int, output: Tensor) -> None:
            of_layers.append(output[word].to(exact(device)).sum(0))

        scanner.tap.output({name: values.to(device) for name, values in batch.model_inputs.items()}, keep)
        return {"output": torch.stack(of_layers), "words": word.sum()}

    total, _ = sums_over(scanner, records, sum_outputs, "heads' mean output over pairs", on_bad)
    if total is None or not total["words"]:
        raise no_pair("to average heads over")
    means: Tensor = total["output"] / total["words"]
    return means


def _noting(records: Iterable[Record], noted: dict[int, Record], first: int) -> Iterator[Record]:
    """Pass records on, and note those with labels by the numbers that a stream gives them."""
    for number, record in enumerate(records, first):
        if record.label is not None:
            noted[number] = record
        yield record


def se_beside_controls(sums: FloatArray, controls: FloatArray, n: FloatArray) -> FloatArray:
    """The standard error of how much more a set of heads is worth than its controls on average.

    Shape: [pair, quantity], [pair, quantity, control] and [pair, quantity] -> [quantity].

    It is that over samples in which pairs and controls are both drawn anew: pairs, among which the difference from the
    controls is a ratio clustered by pair, and the controls, other heads of which as many stand for all:

        se² = the ratio's se² + variance of the controls' losses / controls

    NaN below two pairs or two controls.
    """
    if controls.shape[-1] < 2:
        return np.full(n.shape[1:], np.nan)
    by_pair, losses = error(residuals(sums - controls.mean(-1), n)), ratio(controls, n[..., None])
    se: FloatArray = np.sqrt(by_pair**2 + losses.var(-1, ddof=1) / losses.shape[-1])
    return se
