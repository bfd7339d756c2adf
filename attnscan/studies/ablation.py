"""Runs a model with sets of heads switched off, and measures what it loses: a stream of pairs in, effects out.

Sets that follow patterns are chosen by a scan of one half of the pairs and measured on the other, so that no head is
chosen for what it happens to do on the pairs that judge it. Heads that are named are measured on all pairs. The
controls of a set are distinct sets of as many heads of the same layers. Every distinct set is one forward over each
batch; where inputs are few, several sets share one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput, Room, batches, collate
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import OnOutput
from attnscan.model.running import check_finite, in_halves, side_by_side
from attnscan.model.tap import Tap
from attnscan.results.ablation import Ablation, Effect, HeadSet
from attnscan.results.behaviour import are_resting
from attnscan.results.grid import AttentionKind, Grid, Head
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.terms import DELIMITER
from attnscan.scan.local import OnBad, Stream, finished, scan, tokens_of
from attnscan.scan.options import AblationRequest
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen, half, no_pair
from attnscan.scoring.blocks import error, ratio, residuals
from attnscan.scoring.units import exact
from attnscan.studies.losses import Loss, Probe, measures_of
from attnscan.studies.passes import generator

_CHOOSES, _MEASURES = 0, 1

Compared = Sequence[tuple[int, list[int]]]
"""Of each set of heads that is judged, its number among those that are run, and its controls'."""


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
    options = scanner.options
    if not request.names_heads:
        return _by_patterns(scanner, read(), request, on_bad)
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
) -> RequestedSets:
    options, counts = scanner.options, [0, 0]
    chosen = _choosing(records, options.seed, counts)
    state = scan(scanner, chosen, None, on_bad, doing="labels: scoring one half of the pairs")
    _check_halves(counts)
    ranking = finished(scanner, state, "labels: ")
    scores = ranking.scores
    known = [pattern.id for pattern in options.patterns if pattern.target is not None or options.predictive != "off"]
    patterns = [name for name in known if not request.patterns or name in request.patterns]
    among_words = options.reading.among_words
    names: NDArray[np.str_] = np.asarray([*scores.patterns, ""])
    labels = names[scores.followed(options.threshold, among_words=among_words)]
    sets = [
        with_controls(name, heads, scores.grid, request.draws, options.seed, _barred(labels, name, scores.grid))
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


def _barred(labels: NDArray[np.str_], pattern: str, grid: Grid) -> frozenset[Head]:
    """The heads that may not be controls of a pattern's: those that follow another one, which does work."""
    barred = ~np.isin(labels, [pattern, DELIMITER, ""])
    return frozenset(head for head in grid if barred[head.place])


def heads_of_patterns(
    scores: Scores, labels: NDArray[np.str_], patterns: Sequence[str], top: int | None, among_words: bool = False
) -> dict[str, list[Head]]:
    """The heads that follow each pattern or, with `top`, so many that are most above chance; `delimiter`: that rest.

    No head at chance or below is among them, so that there may be fewer, or none.
    """
    followers = {}
    for pattern in patterns:
        if top is None:
            rests = are_resting(scores.table(among_words), scores.patterns) & (pattern == DELIMITER)
            numbers = np.flatnonzero((labels == pattern) | rests)
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

    >>> with_controls("x", [Head(1, 0)], Grid((2, 3)), 20, 0).controls
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
class _Piece:
    """A batch of questions, and sets of heads to put them without."""

    questions: Sequence[Probe]
    inputs: dict[str, Tensor]
    first: int
    """The first set's number; 0 is the intact model's."""
    off: Tensor
    """Shape: [set, layer, head], bool."""


class _Answerer:
    """A model that answers with heads switched off."""

    def __init__(
        self, measure: Loss, means: Tensor | None, device: torch.device, kind: AttentionKind = AttentionKind.ONLY
    ) -> None:
        self._measure, self._means, self._device = measure, means, device
        self.tap = Tap(measure.encoder, kind=kind)
        self.whole: torch.nn.Module = measure.whole

    def answers(self, piece: _Piece) -> Tensor:
        """To every question with every set off. Shape: [question, set, number]."""

        def of_rows(rows: Sequence[int]) -> Tensor:
            asked, sets = (
                torch.tensor(numbers) for numbers in zip(*(divmod(row, len(piece.off)) for row in rows), strict=True)
            )
            repeated = {name: values[asked.to(values.device)] for name, values in piece.inputs.items()}
            edit = _switch(piece.off[sets].to(self._device), self._means)
            every = [piece.questions[number] for number in asked]
            answers = self._measure.answers(every, lambda: self.tap.output(repeated, edit, self.whole))
            check_finite(answers, "the model's answers")
            return answers

        rows, length = range(len(piece.questions) * len(piece.off)), piece.inputs["input_ids"].shape[1]
        answers = torch.cat(in_halves(rows, of_rows, lambda _: length, self._device))
        return answers.view(len(piece.questions), len(piece.off), -1)


def _switch(off: Tensor, means: Tensor | None) -> OnOutput:
    """What switches heads off. Shape: `off` [input, layer, head], bool; `means` [layer, head, dimension]."""

    def edit(layer: int, output: Tensor) -> None:
        inputs, heads = off[:, layer].nonzero(as_tuple=True)
        output[inputs, :, heads] = 0 if means is None else means[layer, heads][:, None].to(output)

    return edit


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
    scanner.tell("trying whether heads can be switched off")
    _check_switchable(scanner)
    asked = requested_sets(scanner, read, request, on_bad)
    records: dict[int, Record] = {}
    words, seed = scanner.with_options(unit="word", by=None), scanner.options.seed
    measures = measures_of(scanner.loaded, request.measures, seed, records, scanner.options.kind)
    grid = scanner.grid()
    means = None
    if request.replace == "mean":
        means = _means(words, measured(read(), request, seed), on_bad)
    studies = [_Study(scanner, measure, asked.sets, grid, means) for measure in measures]
    numbered = _noting(measured(read(), request, seed), records, asked.seen.read + 1)
    stream = Stream(words, numbered, on_bad, asked.seen)
    with closing(stream.windows()) as windows:
        for window in windows:
            inputs = sorted((encoded for batch in window for encoded in batch), key=lambda encoded: encoded.number)
            for study in studies:
                study.take(inputs)
            for encoded in inputs:
                records.pop(encoded.number, None)
    effects = tuple(effect for study in studies for effect in study.finish())
    if not any(effect.n for effect in effects):
        raise InputError("no pair can be measured", "give a file with at least one")
    chose, both = (seen.read - seen.skipped for seen in (asked.seen, stream.seen))
    signature = scanner.signature(stream.seen)
    return Ablation(effects, grid, request.replace, request.draws, asked.chosen_by, chose, both - chose, signature)


def _check_switchable(scanner: Scanner) -> None:
    """Find out before a long run whether the model's heads can be switched off. Raises: CaptureError if not."""
    inputs = scanner.collate([scanner.encode(scanner.trial)]).model_inputs
    scanner.tap.output(inputs, lambda _layer, _output: None)


class _Study:
    """One measure of one model, over windows of inputs."""

    def __init__(
        self, scanner: Scanner, measure: Loss, sets: Sequence[HeadSet], grid: Grid, means: Tensor | None
    ) -> None:
        self._scanner, self._measure, self._sets = scanner, measure, sets
        self._answerer = _Answerer(measure, means, scanner.loaded.device, scanner.options.kind)
        with self._answerer.tap as tap:
            tap.check_switchable()  # found out before a measure changes anything inside the model
        numbers: dict[tuple[Head, ...], int] = {(): 0}
        for heads_off in sets:
            for heads in (heads_off.heads, *heads_off.controls):
                numbers.setdefault(heads, len(numbers))
        self._off = torch.zeros(len(numbers), *grid.shape, dtype=torch.bool)
        for heads, number in numbers.items():
            for head in heads:
                self._off[(number, *head.place)] = True
        self._compared = [(numbers[off.heads], [numbers[heads] for heads in off.controls]) for off in sets]
        nothing = np.zeros((0, len(measure.quantities), len(numbers)))
        self._sums, self._counts = [nothing], [nothing[..., 0]]

    def take(self, inputs: Sequence[EncodedInput]) -> None:
        """Ask all that there is to ask about a window of inputs, with every set switched off in turn; tells of each."""
        asked = self._measure.questions(inputs)
        numbered = [replace(question.input, number=i) for i, question in enumerate(asked)]
        shape = (len(inputs), len(self._measure.quantities))
        sums, counts = np.zeros((*shape, len(self._off))), np.zeros(shape)
        room = self._scanner.loaded.room(self._scanner.options.batch_tokens)
        batched, done, intact = list(batches(numbered, room)), 0, torch.zeros(0)
        every = len(batched) * len(self._off)
        doing = f"{self._measure.quantities[0].name}: {len(self._off) - 1} sets of heads switched off in turn"
        of_batches = ([asked[encoded.number] for encoded in batch] for batch in batched)
        pieces = (piece for of_batch in of_batches for piece in self._pieces(of_batch, room))
        longest = max((tokens_of(encoded) for encoded in numbered), default=1)
        workers, answerer = self._scanner.workers(max(every, 1), longest), self._answerer
        with (
            answerer.tap,
            closing(side_by_side(workers, pieces, answerer.answers)) as answered,
        ):
            for piece, answers in answered:
                intact = answers[:, 0] if piece.first == 0 else intact
                for number in range(len(piece.off)):
                    self._scanner.tell(doing, done := done + 1, every)
                    value, n = self._measure.values(piece.questions, answers[:, number], intact)
                    for row, question in enumerate(piece.questions):
                        sums[question.pair, :, piece.first + number] += value[row]
                        if piece.first == 0:
                            counts[question.pair] += n[row]
        self._sums.append(sums)
        self._counts.append(counts)

    def _pieces(self, questions: Sequence[Probe], room: Room) -> Iterator[_Piece]:
        """The intact model first, then as many sets at a time as there is room for."""
        inputs = collate([question.input for question in questions], self._scanner.loaded.pad_id).model_inputs
        inputs = {name: values.to(self._scanner.loaded.device) for name, values in inputs.items()}
        at_once = _most(room, *inputs["input_ids"].shape)
        yield _Piece(questions, inputs, 0, self._off[:1])
        for first in range(1, len(self._off), at_once):
            yield _Piece(questions, inputs, first, self._off[first : first + at_once])

    def finish(self) -> Iterator[Effect]:
        """What the sets are worth, quantity by quantity."""
        sums, counts = np.concatenate(self._sums), np.concatenate(self._counts)
        ratios = ratio(np.moveaxis(sums, -1, 1), counts[:, None])
        errors = [se_beside_controls(sums[..., own], sums[..., controls], counts) for own, controls in self._compared]
        for row, quantity in enumerate(self._measure.quantities):
            n, pairs, unharmed = int(counts[:, row].sum()), int((counts[:, row] > 0).sum()), float(ratios[0, row])
            for heads_off, (own, controls), se in zip(self._sets, self._compared, errors, strict=True):
                ablated = float(ratios[own, row]) if heads_off.heads else float("nan")
                others = tuple(ratios[controls, row].tolist())
                yield Effect(heads_off, quantity, unharmed, ablated, others, float(se[row]), n, pairs)


def _most(room: Room, inputs: int, length: int) -> int:
    """How many sets may share a forward over that many inputs."""
    by_cells = room.tokens if room.cells is None else room.cells // (inputs * length**2)
    return max(1, min(room.tokens // (inputs * length), by_cells))


def _means(scanner: Scanner, records: Iterable[Record], on_bad: OnBad | None) -> Tensor:
    """Each head's output, averaged over the words of all pairs. Shape: [layer, head, dimension].

    Raises: InputError if there is no pair.
    """
    total: Tensor | None = None
    count = 0

    def summed(inputs: Sequence[EncodedInput]) -> tuple[Tensor, int]:
        """The sum over words, and how many there are."""
        device = scanner.loaded.device
        batch = collate(inputs, scanner.loaded.pad_id)
        rows = [torch.tensor(encoded.sentence[encoded.source :]) >= 0 for encoded in inputs]
        word = pad_sequence(rows, batch_first=True).to(device)
        output_sums: list[Tensor] = []

        def keep(_layer: int, output: Tensor) -> None:
            output_sums.append(output[word].to(exact(device)).sum(0))

        scanner.tap.output({name: values.to(device) for name, values in batch.model_inputs.items()}, keep)
        return torch.stack(output_sums), int(word.sum())

    stream = Stream(scanner, records, on_bad)
    with closing(stream.worked(summed)) as worked:
        for sums, _ in worked:
            for own, words in sums:
                total = own if total is None else total + own
                count += words
            scanner.tell("heads' mean output over pairs", stream.done)
    if total is None or not count:
        raise no_pair("to average heads over")
    return total / count


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
