"""Switches sets of heads off, and measures what the model loses.

Sets that follow patterns are chosen by a scan of one half of the pairs and measured on the other, so that no head is
chosen for what it happens to do on the pairs that judge it. Heads that are named are measured on all pairs.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, product

import numpy as np
import torch
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
from attnscan.results.label_rules import RESTING
from attnscan.results.scores import FloatArray, followed, resting_on
from attnscan.scan.options import AblationRequest
from attnscan.scan.pair_scan import OnBad, finish_scan, read_batches, scan, sum_over_pairs
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanProgress, half, no_pair
from attnscan.scoring.blocks import error, ratio, residuals
from attnscan.scoring.units import accumulation_dtype
from attnscan.studies.losses import QUANTITIES, Loss, measures_of

_MEASURES = 1  # the half of the pairs by which no set was chosen
_ROUNDING = 1e-6  # heads that attend evenly are no farther above chance
_MORE = "give more pairs, or name heads with --heads"
Piece = tuple[
    list[EncodedInput], EncodedBatch, range
]  # a batch, and the sets without which it is run at once


def ablate(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
) -> Ablation:
    """Measure what each requested set of heads is worth to the model.

    `read` begins the pairs anew for each pass. The signature counts all pairs, also those that chose heads.
    Raises: InputError if no pair can be measured, or none chooses; ModelError if the model lacks a head for a measure;
    CaptureError if its heads cannot be switched off; SelectionError for heads that are not there.
    """
    scanner = scanner.exact()
    scanner.tell("trying whether heads can be switched off")  # found out before a long run
    scanner.tap.output(scanner.probe(), lambda _layer, _output: None)
    sets, chosen_by, seen = requested_sets(scanner, read, request, on_bad)
    grid, seed = scanner.grid(), scanner.options.seed
    words, labelled = scanner.with_options(unit="word", by=None), dict[tuple[str, ...], Record]()
    losses = measures_of(scanner.loaded, request.measures, seed, labelled, scanner.options.kind)

    def measured() -> Iterator[Record]:
        for record in read():
            if request.names_heads or half(record.pair, seed) == _MEASURES:
                labelled.update({record.pair.texts: record} if record.label is not None else {})
                yield record

    means = _means(words, measured(), on_bad) if request.replace == "mean" else None
    distinct = list(
        dict.fromkeys(
            [(), *chain.from_iterable((head_set.heads, *head_set.controls) for head_set in sets)]
        )
    )
    off = torch.tensor([[head in heads for head in grid] for heads in distinct]).view(
        -1, *grid.shape
    )
    parts: list[list[tuple[FloatArray, FloatArray]]] = [[] for _ in losses]
    window, all_seen = list[EncodedInput](), seen
    for batch, now in read_batches(words, measured(), on_bad, seen):
        window += batch
        if now is None:
            continue
        inputs, window, all_seen = sorted(window, key=lambda encoded: encoded.number), [], now
        for loss, of_loss in zip(losses, parts, strict=True):
            of_loss.append(_lost(scanner, loss, inputs, off, means))
    chose, read_in_all = (passed.read - passed.skipped for passed in (seen, all_seen))
    if read_in_all == chose:
        raise InputError("no pair can be measured", _MORE)
    effects = list[Effect]()
    for loss, of_loss in zip(losses, parts, strict=True):
        sums, n = map(np.concatenate, zip(*of_loss, strict=True))
        for (row, quantity), head_set in product(enumerate(QUANTITIES[loss.name]), sets):
            numbers = [distinct.index(heads) for heads in ((), head_set.heads, *head_set.controls)]
            effects.append(_effect(head_set, quantity, sums[:, row, numbers], n[:, row]))
    return Ablation(
        tuple(effects),
        grid,
        request.replace,
        request.draws,
        chosen_by,
        chose,
        read_in_all - chose,
        scanner.signature(**all_seen.signature_fields),
    )


def requested_sets(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
) -> tuple[list[HeadSet], str, ScanProgress]:
    """The sets of heads that a request describes with their controls, how they were chosen, and what was read for that.

    Raises: SelectionError if a head is not there; InputError if no pair is in the half that chooses.
    """
    options, grid, top = scanner.options, scanner.grid(), request.top
    if request.names_heads:
        text = request.heads or "all"
        by_name = (
            {head.name: [head] for head in grid.select(text)}
            if request.each
            else {text: grid.select(text)}
        )
        sets = [
            with_controls(name, heads, grid, request.draws, options.seed)
            for name, heads in by_name.items()
        ]
        return sets, "by name", ScanProgress()
    choosing = (record for record in read() if half(record.pair, options.seed) != _MEASURES)
    on_count = partial(scanner.tell, "labels: scoring one half of the pairs")
    state = scan(scanner, choosing, None, on_bad, on_count=on_count)
    if state.seen.read == state.seen.skipped:
        raise InputError("one half of the pairs chooses the heads, and no pair fell into it", _MORE)
    scores, sets, among_words = (
        finish_scan(scanner, state, "labels: ").scores,
        [],
        options.reading.words_only,
    )
    table, patterns = scores.table(among_words), [*scores.patterns, ""]
    follows = followed(scores.scored, table, options.threshold, words_only=among_words).ravel()
    labels, rests = np.array(patterns)[follows], resting_on(table, scores.patterns).ravel()
    for pattern in (
        candidate.id
        for candidate in options.patterns
        if candidate.target or options.predictive != "off"
    ):
        p = patterns.index(pattern)
        above = np.fmax(table.above_chance[..., p].ravel(), 0)  # 0 for NaN
        best = np.argsort(-above, kind="stable")[:top]
        numbers = (
            best[above[best] > _ROUNDING]
            if top is not None
            else np.flatnonzero((follows == p) | (rests == p))
        )
        # Heads that follow another pattern do work, and are no controls
        barred = [
            head
            for head, label in zip(grid, labels, strict=True)
            if label not in (pattern, *RESTING, "")
        ]
        if not request.patterns or pattern in request.patterns:
            heads = [grid[number] for number in numbers]
            sets.append(with_controls(pattern, heads, grid, request.draws, options.seed, barred))
    by = (
        f"label, {options.threshold:g} above chance"
        if top is None
        else f"the {top} most above chance"
    )
    return sets, by, state.seen


def with_controls(
    name: str,
    heads: Sequence[Head],
    grid: Grid,
    draws: int,
    seed: int,
    barred: Collection[Head] = (),
) -> HeadSet:
    """A set of heads, and its controls: distinct sets of as many heads of each layer, not of the set nor `barred`.

    Where a layer has too few of these, a control has all of them, and the rest from the set itself. `draws` controls
    are drawn, or all that are possible if these are fewer. A set whose layers have no others has none.

    >>> with_controls("x", [Head(1, 0)], Grid((2, 3)), 20, 0).controls
    ((Head(1-1),), (Head(1-2),))
    """
    chosen, in_all = tuple(sorted(heads)), list[Head]()
    pools: list[
        tuple[list[Head], int]
    ] = []  # of each layer, heads, and how many of them a control takes
    for layer in dict.fromkeys(head.layer for head in chosen):
        of_layer = [head for head in chosen if head.layer == layer]
        others = [
            head
            for head in grid.layer_of(of_layer[0])
            if head not in of_layer and head not in barred
        ]
        has_enough = len(others) >= len(of_layer)
        in_all += [] if has_enough else others
        pools.append(
            (others, len(of_layer)) if has_enough else (of_layer, len(of_layer) - len(others))
        )
    possible, controls = (
        math.prod(math.comb(len(pool), count) for pool, count in pools),
        set[tuple[Head, ...]](),
    )
    rng = np.random.default_rng([seed, *chain.from_iterable(head.place for head in chosen)])
    while len(controls) < min(draws, possible):  # one that was drawn before is drawn again
        picks = (
            [pool[place] for place in rng.permutation(len(pool))[:count]] for pool, count in pools
        )
        controls.add(tuple(sorted(chain(in_all, *picks))))
    return (
        HeadSet(name, chosen)
        if chosen in controls
        else HeadSet(name, chosen, tuple(sorted(controls)), possible)
    )


def _lost(
    scanner: Scanner, loss: Loss, inputs: Sequence[EncodedInput], off: Tensor, means: Tensor | None
) -> tuple[FloatArray, FloatArray]:
    """Sum the losses of some inputs with each set of heads switched off, and count the words or answers.

    Shape: `off` [set, layer, head], bool, first that of the intact model; `means` [layer, head, dimension] ->
    [pair, quantity, set], [pair, quantity].
    """
    loaded, probes, tap = (
        scanner.loaded,
        loss.questions(inputs),
        AttentionTap(loss.encoder, kind=scanner.options.kind),
    )
    room, off, pieces = (
        loaded.room(scanner.options.batch_tokens),
        off.to(loaded.device),
        list[Piece](),
    )
    for batch in batches(
        [replace(probe.input, number=at) for at, probe in enumerate(probes)], room
    ):
        of_batch = collate(batch, loaded.pad_id).to(loaded.device)
        at_once = max(1, room // (len(batch) * len(batch[0].tokens)))
        pieces += [
            (batch, of_batch, range(len(off))[at : at + at_once])
            for at in range(0, len(off), at_once)
        ]

    def answer(piece: Piece) -> Tensor:
        batch, of_batch, sets = piece
        repeated = {
            name: values.repeat_interleave(len(sets), 0)
            for name, values in of_batch.model_inputs.items()
        }
        is_off = off[sets.start : sets.stop].repeat(len(batch), 1, 1)

        def switch(layer: int, output: Tensor) -> None:
            rows, heads = is_off[:, layer].nonzero(as_tuple=True)
            output[rows, :, heads] = 0 if means is None else means[layer, heads][:, None].to(output)

        questions = [probes[encoded.number] for encoded in batch for _ in sets]
        answers = loss.answers(questions, lambda: tap.output(repeated, switch, loss.whole))
        check_finite(answers, "the model's answers")
        return answers.view(len(batch), len(sets), -1)

    quantities, answers = QUANTITIES[loss.name], list[Tensor]()
    longest = max((len(encoded.tokens) for encoded in inputs), default=1)
    sums, counts = (
        np.zeros((len(inputs), len(quantities), len(off))),
        np.zeros((len(inputs), len(quantities))),
    )
    doing = f"{quantities[0].name}: {len(off) - 1} sets of heads switched off in turn"
    with (
        tap,
        closing(parallel_map(scanner.workers(len(pieces), longest), pieces, answer)) as answered,
    ):
        for done, ((batch, _, sets), some) in enumerate(answered, 1):
            scanner.tell(doing, done, len(pieces))
            answers.append(some)
            if sets.stop == len(off):
                questions = [probes[encoded.number] for encoded in batch]
                values, n = loss.values(questions, torch.cat(answers, 1))
                np.add.at(sums, [question.pair for question in questions], values)
                np.add.at(counts, [question.pair for question in questions], n)
                answers = []
    return sums, counts


def _means(scanner: Scanner, records: Iterable[Record], on_bad: OnBad | None) -> Tensor:
    """Each head's output, averaged over the words of all pairs. Shape: [layer, head, dimension]."""

    def sum_outputs(inputs: Sequence[EncodedInput]) -> dict[str, Tensor]:
        device, of_layers = scanner.loaded.device, list[Tensor]()
        word = pad_sequence(
            [torch.tensor(encoded.sentence[encoded.source :]) >= 0 for encoded in inputs],
            batch_first=True,
        ).to(device)
        model_inputs = collate(inputs, scanner.loaded.pad_id).to(device).model_inputs
        scanner.tap.output(
            model_inputs,
            lambda _, out: of_layers.append(out[word].to(accumulation_dtype(device)).sum(0)),
        )
        return {"output": torch.stack(of_layers), "words": word.sum()}

    total, _ = sum_over_pairs(
        scanner, records, sum_outputs, "heads' mean output over pairs", on_bad
    )
    if total is None or not total["words"]:
        raise no_pair("to average heads over")
    means: Tensor = total["output"] / total["words"]
    return means


def _effect(off: HeadSet, quantity: Quantity, sums: FloatArray, n: FloatArray) -> Effect:
    """Compare a set with its controls. Shape: `sums` [pair, set]: intact, the set, controls; `n` [pair].

    The standard error is over samples in which pairs and controls are both drawn again. NaN below two of either.
    """
    values, se = ratio(sums, n[:, None]), math.nan
    if len(off.controls) > 1:
        by_pair = error(residuals(sums[:, 1] - sums[:, 2:].mean(1), n))
        se = math.sqrt(by_pair**2 + values[2:].var(ddof=1) / len(off.controls))
    return Effect.of(off, quantity, values.tolist(), se, int(n.sum()), int((n > 0).sum()))
