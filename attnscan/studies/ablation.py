"""Switches sets of heads off, and measures what the model loses.

Sets that follow patterns are chosen by a scan of one half of the pairs and measured on the other,
so that no head is chosen for what it happens to do on the pairs that judge it. Heads that are
named are measured on all pairs.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedBatch, batches, collate
from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.model.forward import check_finite
from attnscan.model.tap import AttentionTap
from attnscan.model.threads import parallel_map
from attnscan.results.ablation import Ablation, Effect, HeadSet, Quantity
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.label_rules import RESTING
from attnscan.results.scores import FloatArray, followed, resting_on
from attnscan.scan.options import AblationRequest, warn
from attnscan.scan.pair_scan import OnBad, finish_scan, read_batches, scan, sum_over_pairs
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanProgress, half, no_pair
from attnscan.scoring.blocks import error, ratio, residuals
from attnscan.scoring.units import accumulation_dtype
from attnscan.studies.losses import CLASSES, QUANTITIES, Loss, Probe, measures_of, numbered_labels

_MEASURES = 1  # the half of the pairs by which no set was chosen
_ROUNDING = 1e-6  # heads that attend evenly are no farther above chance
_MORE = "give more pairs, or name heads with ``heads``"
HeadTuple = tuple[Head, ...]
LossSums = tuple[FloatArray, FloatArray]
"""Losses and their words or answers. Shape: [pair, quantity, set], [pair, quantity]."""


@dataclass(frozen=True)
class _Piece:
    """A batch of probes, and the sets of heads without which it is run at once."""

    inputs: list[EncodedInput]
    batch: EncodedBatch
    sets: range


def ablate(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
) -> Ablation:
    """Measure what each requested set of heads is worth to the model.

    `read` begins the pairs anew for each pass. The signature counts all pairs, also those that
    chose heads.
    Raises: InputError if no pair can be measured, or none chooses; ModelError if the model lacks a
    head for a measure; CaptureError if its heads cannot be switched off; SelectionError for heads
    that are not there.
    """
    scanner = scanner.exact()
    scanner.tell("trying whether heads can be switched off")  # found out before a long run
    scanner.tap.output(scanner.probe(), lambda _layer, _output: None)
    sets, chosen_by, chose = requested_sets(scanner, read, request, on_bad)
    seed = scanner.options.seed
    labelled: dict[tuple[str, ...], Record] = {}
    losses = measures_of(scanner.loaded, request.measures, seed, labelled, scanner.options.kind)

    def measured() -> Iterator[Record]:
        for record in read():
            if request.names_heads or half(record.pair, seed) == _MEASURES:
                if record.label is not None:
                    labelled[record.pair.texts] = record
                yield record

    words = scanner.with_options(unit="word", by=None)
    means = None
    if request.replace == "mean":
        means = _mean_outputs(words, measured(), on_bad)
    switched = _distinct_sets(sets)
    off = _switch_masks(switched, scanner.grid())
    parts: list[list[LossSums]] = [[] for _ in losses]
    keys: list[str] = []
    seen = chose
    for inputs, now in _windows(words, measured(), on_bad, chose):
        seen = now
        keys += [encoded.known_pair.key for encoded in inputs]
        for loss, loss_parts in zip(losses, parts, strict=True):
            loss_parts.append(_sum_losses(scanner, loss, inputs, off, means))
    pairs_chose = chose.read - chose.skipped
    pairs_measured = seen.read - seen.skipped - pairs_chose
    if not pairs_measured:
        raise InputError("no pair can be measured", _MORE)
    _warn_of_labels(losses, labelled)
    effects: list[Effect] = []
    for loss, loss_parts in zip(losses, parts, strict=True):
        effects += _effects(loss, loss_parts, keys, sets, switched)
    return Ablation(
        effects=tuple(effects),
        grid=scanner.grid(),
        replace=request.replace,
        draws=request.draws,
        chosen_by=chosen_by,
        choosing_pairs=pairs_chose,
        measured_pairs=pairs_measured,
        signature=scanner.signature(**seen.signature_fields),
    )


def _distinct_sets(sets: Sequence[HeadSet]) -> list[HeadTuple]:
    """The sets and their controls, each once, behind none at all: the intact model."""
    distinct: dict[HeadTuple, None] = {(): None}
    for head_set in sets:
        for heads in (head_set.heads, *head_set.controls):
            distinct[heads] = None
    return list(distinct)


def _switch_masks(sets: Sequence[HeadTuple], grid: Grid) -> Tensor:
    """Which heads are off, of each set. Shape: [set, layer, head], bool."""
    off = torch.zeros(len(sets), *grid.shape, dtype=torch.bool)
    for number, heads in enumerate(sets):
        for head in heads:
            off[number, *head.place] = True
    return off


def _windows(
    scanner: Scanner, records: Iterable[Record], on_bad: OnBad | None, start: ScanProgress
) -> Iterator[tuple[list[EncodedInput], ScanProgress]]:
    """The inputs of each window of batches in the order of the stream, and what has been seen."""
    window: list[EncodedInput] = []
    for batch, seen in read_batches(scanner, records, on_bad, start):
        window += batch
        if seen is not None:
            yield sorted(window, key=lambda encoded: encoded.number), seen
            window = []


def _warn_of_labels(losses: Sequence[Loss], labelled: Mapping[tuple[str, ...], Record]) -> None:
    """Say where labels are numbers that are taken as the model's."""
    for loss in losses:
        if loss.name == CLASSES:
            warn(numbered_labels(labelled.values(), loss.whole.config))


def requested_sets(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
) -> tuple[list[HeadSet], str, ScanProgress]:
    """The sets of heads that a request describes, with their controls.

    Returns also how they were chosen, and what was read for that.
    Raises: SelectionError if a head is not there; InputError if no pair is in the half that
    chooses.
    """
    seed = scanner.options.seed
    if request.names_heads:
        named = _named_sets(scanner.grid(), request, seed)
        return named, "by name", ScanProgress()
    choosing = (record for record in read() if half(record.pair, seed) != _MEASURES)
    on_count = partial(scanner.tell, "labels: scoring one half of the pairs")
    state = scan(scanner, choosing, None, on_bad, on_count=on_count)
    if state.seen.read == state.seen.skipped:
        raise InputError("one half of the pairs chooses the heads, and no pair fell into it", _MORE)
    ranking = finish_scan(scanner, state, "labels: ")
    if request.top is None:
        chosen_by = f"label, {scanner.options.threshold:g} above chance"
    else:
        chosen_by = f"the {request.top} most above chance"
    return _followers(scanner, ranking, request), chosen_by, state.seen


def _named_sets(grid: Grid, request: AblationRequest, seed: int) -> list[HeadSet]:
    """The heads that a request names, together or each by itself."""
    text = request.heads or "all"
    heads = grid.select(text)
    by_name = {head.name: [head] for head in heads} if request.each else {text: heads}
    return [
        with_controls(name, members, grid, request.draws, seed) for name, members in by_name.items()
    ]


def _followers(scanner: Scanner, ranking: HeadScores, request: AblationRequest) -> list[HeadSet]:
    """Of each pattern, the heads that follow it, or the best of them; controls follow no other."""
    options = scanner.options
    grid = scanner.grid()
    scores = ranking.scores
    among_words = options.reading.words_only
    table = scores.table(among_words)
    follows = followed(scores.scored, table, options.threshold).ravel()
    rests_on = resting_on(table, scores.patterns).ravel()
    labels = np.array([*scores.patterns, ""])[follows]
    sets = []
    for pattern in options.patterns:
        is_scored = pattern.target is not None or options.predictive != "off"
        if not is_scored or (request.patterns and pattern.id not in request.patterns):
            continue
        place = scores.patterns.index(pattern.id)
        if request.top is None:
            numbers = np.flatnonzero((follows == place) | (rests_on == place))
        else:
            numbers = _best(table.above_chance[..., place].ravel(), request.top)
        # Heads that follow another pattern do work, and are no controls
        barred = [
            head
            for head, label in zip(grid, labels, strict=True)
            if label not in (pattern.id, *RESTING, "")
        ]
        heads = [grid[number] for number in numbers]
        sets.append(with_controls(pattern.id, heads, grid, request.draws, options.seed, barred))
    return sets


def _best(above_chance: FloatArray, count: int) -> NDArray[np.int64]:
    """The numbers of so many heads that are most above chance, of those that are."""
    above = np.fmax(above_chance, 0)  # 0 for NaN
    best = np.argsort(-above, kind="stable")[:count]
    return best[above[best] > _ROUNDING]


def with_controls(
    name: str,
    heads: Sequence[Head],
    grid: Grid,
    draws: int,
    seed: int,
    barred: Collection[Head] = (),
) -> HeadSet:
    """A set of heads, and its controls.

    These are distinct sets of as many heads of each layer, not of the set nor `barred`. Where a
    layer has too few of these, a control has all of them, and the rest from the set itself.
    `draws` controls are drawn, or all that are possible if these are fewer. A set whose layers
    have no others has none.

    >>> with_controls("x", [Head(1, 0)], Grid((2, 3)), 20, 0).controls
    ((Head(1-1),), (Head(1-2),))
    """
    chosen = tuple(sorted(heads))
    in_all: list[Head] = []
    pools: list[tuple[list[Head], int]] = []  # of each layer, and how many of them a control takes
    for layer in dict.fromkeys(head.layer for head in chosen):
        members = [head for head in chosen if head.layer == layer]
        others = [
            head for head in grid.layer_of(members[0]) if head not in members and head not in barred
        ]
        if len(others) >= len(members):
            pools.append((others, len(members)))
        else:
            in_all += others
            pools.append((members, len(members) - len(others)))
    possible = math.prod(math.comb(len(pool), count) for pool, count in pools)
    rng = np.random.default_rng([seed, *chain.from_iterable(head.place for head in chosen)])
    controls: set[HeadTuple] = set()
    while len(controls) < min(draws, possible):  # one that was drawn before is drawn again
        control = list(in_all)
        for pool, count in pools:
            control += [pool[place] for place in rng.permutation(len(pool))[:count]]
        controls.add(tuple(sorted(control)))
    if chosen in controls:
        return HeadSet(name, chosen)
    return HeadSet(name=name, heads=chosen, controls=tuple(sorted(controls)), possible=possible)


def _sum_losses(
    scanner: Scanner, loss: Loss, inputs: Sequence[EncodedInput], off: Tensor, means: Tensor | None
) -> LossSums:
    """Sum the losses of some inputs with each set of heads switched off, and count the words.

    Shape: `off` [set, layer, head], bool, first that of the intact model; `means` [layer, head,
    dimension].
    """
    quantities = QUANTITIES[loss.name]
    sums = np.zeros((len(inputs), len(quantities), len(off)))
    counts = np.zeros((len(inputs), len(quantities)))
    probes = loss.questions(inputs)
    pieces = _pieces(scanner, probes, len(off))
    tap = AttentionTap(loss.encoder, kind=scanner.options.kind)
    off = off.to(scanner.loaded.device)
    answer = partial(_answer, loss, tap, probes, off, means)
    longest = max((len(encoded.tokens) for encoded in inputs), default=1)
    workers = scanner.workers(len(pieces), longest)
    doing = f"{quantities[0].name}: {len(off) - 1} sets of heads switched off in turn"
    answers: list[Tensor] = []
    with tap, closing(parallel_map(workers, pieces, answer)) as answered:
        for done, (piece, some_answers) in enumerate(answered, 1):
            scanner.tell(doing, done, len(pieces))
            answers.append(some_answers)
            if piece.sets.stop < len(off):
                continue
            questions = [probes[encoded.number] for encoded in piece.inputs]
            values, n = loss.values(questions, torch.cat(answers, 1))
            numbers = [question.pair for question in questions]
            np.add.at(sums, numbers, values)
            np.add.at(counts, numbers, n)
            answers = []
    return sums, counts


def _pieces(scanner: Scanner, probes: Sequence[Probe], sets: int) -> list[_Piece]:
    """The probes in batches, each for as many sets of heads as there is room to run at once."""
    loaded = scanner.loaded
    room = loaded.room(scanner.options.batch_tokens)
    inputs = [replace(probe.input, number=number) for number, probe in enumerate(probes)]
    pieces = []
    for batch in batches(inputs, room):
        collated = collate(batch, loaded.pad_id).to(loaded.device)
        at_once = max(1, room // (len(batch) * len(batch[0].tokens)))
        for start in range(0, sets, at_once):
            some_sets = range(sets)[start : start + at_once]
            pieces.append(_Piece(batch, collated, some_sets))
    return pieces


def _answer(
    loss: Loss,
    tap: AttentionTap,
    probes: Sequence[Probe],
    off: Tensor,
    means: Tensor | None,
    piece: _Piece,
) -> Tensor:
    """The model's answers to the probes of a piece, without each of its sets of heads.

    Shape: [probe, set, number].
    """
    count = len(piece.sets)
    repeated = {
        name: values.repeat_interleave(count, 0)
        for name, values in piece.batch.model_inputs.items()
    }
    is_off = off[piece.sets.start : piece.sets.stop].repeat(len(piece.inputs), 1, 1)

    def switch(layer: int, output: Tensor) -> None:
        rows, heads = is_off[:, layer].nonzero(as_tuple=True)
        if means is None:
            output[rows, :, heads] = 0
        else:
            output[rows, :, heads] = means[layer, heads][:, None].to(output)

    questions: list[Probe] = []
    for encoded in piece.inputs:
        questions += [probes[encoded.number]] * count
    answers = loss.answers(questions, lambda: tap.output(repeated, switch, loss.whole))
    check_finite(answers, "the model's answers")
    return answers.view(len(piece.inputs), count, -1)


def _mean_outputs(scanner: Scanner, records: Iterable[Record], on_bad: OnBad | None) -> Tensor:
    """Each head's output, averaged over the words of all pairs. Shape: [layer, head, dimension]."""
    work = partial(_sum_outputs, scanner)
    total, _ = sum_over_pairs(scanner, records, work, "heads' mean output over pairs", on_bad)
    if total is None or not total["words"]:
        raise no_pair("to average heads over")
    means: Tensor = total["output"] / total["words"]
    return means


def _sum_outputs(scanner: Scanner, inputs: Sequence[EncodedInput]) -> dict[str, Tensor]:
    """The sum of each head's output over the words of some inputs, and how many there are."""
    device = scanner.loaded.device
    is_word = [torch.tensor(encoded.sentence[encoded.source :]) >= 0 for encoded in inputs]
    word = pad_sequence(is_word, batch_first=True).to(device)
    sums: list[Tensor] = []

    def add(_layer: int, output: Tensor) -> None:
        sums.append(output[word].to(accumulation_dtype(device)).sum(0))

    model_inputs = collate(inputs, scanner.loaded.pad_id).to(device).model_inputs
    scanner.tap.output(model_inputs, add)
    return {"output": torch.stack(sums), "words": word.sum()}


def _effects(
    loss: Loss,
    parts: Sequence[LossSums],
    keys: Sequence[str],
    sets: Sequence[HeadSet],
    switched: Sequence[HeadTuple],
) -> Iterator[Effect]:
    """What each set is worth by each quantity of a loss.

    `keys` are the pairs' own, `switched` all sets in order.
    """
    sums = sum_repeated(keys, np.concatenate([part_sums for part_sums, _ in parts]))
    n_by_pair = np.concatenate([part_n for _, part_n in parts])
    n = sum_repeated(keys, n_by_pair)
    pairs = (n_by_pair > 0).sum(0)
    for row, quantity in enumerate(QUANTITIES[loss.name]):
        for head_set in sets:
            compared = ((), head_set.heads, *head_set.controls)
            numbers = [switched.index(heads) for heads in compared]
            set_sums = sums[:, row, numbers]
            yield _effect(head_set, quantity, set_sums, n[:, row], int(pairs[row]))


def sum_repeated(keys: Sequence[str], values: FloatArray) -> FloatArray:
    """Add up the values of pairs that are given again, which are one pair of a sample.

    Shape: [pair, ...] -> [distinct pair, ...], in the order in which they first stand.
    """
    numbers: dict[str, int] = {}
    distinct = [numbers.setdefault(key, len(numbers)) for key in keys]
    sums = np.zeros((len(numbers), *values.shape[1:]))
    np.add.at(sums, distinct, values)
    return sums


def _effect(
    off: HeadSet, quantity: Quantity, sums: FloatArray, n: FloatArray, pairs: int
) -> Effect:
    """Compare a set with its controls. Shape: `sums` [pair, set]: intact, the set, controls.

    The standard error is over samples in which distinct pairs and controls are both drawn again.
    NaN below two of either. `pairs` also counts those that are given again. Shape: `n` [pair].
    """
    values = ratio(sums, n[:, None])
    se = math.nan
    if len(off.controls) > 1:
        by_pair = error(residuals(sums[:, 1] - sums[:, 2:].mean(1), n))
        drawn_controls = values[2:].var(ddof=1) / len(off.controls)
        se = math.sqrt(by_pair**2 + drawn_controls)
    return Effect.of(
        off,
        quantity,
        values.tolist(),
        se,
        n=int(n.sum()),
        pairs=pairs,
        clusters=int((n > 0).sum()),
    )
