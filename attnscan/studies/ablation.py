"""Runs a model with sets of heads switched off, and measures what it loses: a stream of pairs in, effects out.

Every distinct set is one forward over each batch; where inputs are few, several sets share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput, Room, batches, collate
from attnscan.inputs.pairs import Pair, Record
from attnscan.model.output_tap import OnOutput, OutputTap
from attnscan.model.running import check_finite, in_halves
from attnscan.results.ablation import Ablation, Effect, HeadSet
from attnscan.results.heads import Head
from attnscan.results.scores import FloatArray
from attnscan.results.terms import OnStep
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import no_pair
from attnscan.scan.stream import OnBad, Stream, tokens_of
from attnscan.scoring.readout import exact
from attnscan.studies.effects import se_beside_controls, sums_beside_controls
from attnscan.studies.head_sets import AblationRequest, measured, requested_sets
from attnscan.studies.losses import Loss, Question, measures_of


def ablate(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
    on_step: OnStep | None = None,
) -> Ablation:
    """What each requested set of heads is worth to the model.

    `read` begins the pairs anew for each pass: one, one more if heads are chosen by patterns, and one for `by="mean"`,
    which averages heads over the pairs that are measured. The signature counts all pairs, those that chose as well.

    Raises: InputError if there is no pair, none that says anything, or none for the half that chooses or that measures;
    ModelError if the model lacks a head for a measure; CaptureError if its heads cannot be switched off;
    SelectionError if a head that is named is not there.
    """
    check_switchable(scanner)
    asked = requested_sets(scanner, read, request, on_bad, on_step)
    records: dict[int, Record] = {}
    words, seed = scanner.with_options(unit="word"), scanner.options.seed
    measures = measures_of(scanner.loaded, request.measures, seed, records)
    grid = scanner.grid()
    means = _means(words, measured(read(), request, seed), on_bad, on_step) if request.by == "mean" else None
    studies = [_Study(scanner, measure, asked.sets, grid, means) for measure in measures]
    numbered = _noting(measured(read(), request, seed), records, asked.seen.read + 1)
    stream = Stream(words, numbered, on_bad, seen=asked.seen)
    with closing(stream.windows()) as windows:
        for window in windows:
            inputs = sorted((one for batch in window for one in batch), key=lambda one: one.number)
            for study in studies:
                study.take(inputs, scanner.loaded.room(scanner.options.batch_tokens), on_step)
            for one in inputs:
                records.pop(one.number, None)
    effects = tuple(effect for study in studies for effect in study.finish())
    if not any(effect.n for effect in effects):
        raise InputError("there is no pair that says what heads are worth", "give a file with at least one")
    chose, both = (seen.read - seen.skipped for seen in (asked.seen, stream.seen))
    signature = scanner.signature(stream.seen)
    return Ablation(effects, grid, request.by, request.draws, asked.chosen_by, chose, both - chose, signature)


def check_switchable(scanner: Scanner) -> None:
    """Find out before a long run whether the model's heads can be switched off.

    Raises: CaptureError if not.
    """
    inputs = scanner.collate([scanner.encode(Pair("the"))]).model_inputs
    with OutputTap(scanner.loaded.model, scanner.loaded.model) as tap:
        tap.run(inputs, lambda _layer, _output: None)


class _Study:
    """One measure of one model, over windows of inputs."""

    def __init__(
        self, scanner: Scanner, measure: Loss, sets: Sequence[HeadSet], grid: tuple[int, int], means: Tensor | None
    ) -> None:
        self._measure, self._sets, self._means = measure, sets, means
        self._device, self._pad = scanner.loaded.device, scanner.loaded.pad_id
        self._tap = OutputTap(measure.encoder, measure.whole)
        numbers: dict[tuple[Head, ...], int] = {(): 0}
        for one in sets:
            for heads in (one.heads, *one.controls):
                numbers.setdefault(heads, len(numbers))
        self._off = torch.zeros(len(numbers), *grid, dtype=torch.bool)
        for heads, number in numbers.items():
            for head in heads:
                self._off[(number, *head)] = True
        self._compared = [(numbers[one.heads], [numbers[heads] for heads in one.controls]) for one in sets]
        nothing = np.zeros((0, len(measure.quantities), len(numbers)))
        self._sums = sums_beside_controls(nothing, nothing[..., 0], self._compared)

    def take(self, inputs: Sequence[EncodedInput], room: Room, on_step: OnStep | None = None) -> None:
        """Ask all that there is to ask about a window of inputs, with every set switched off in turn."""
        asked = self._measure.questions(inputs)
        numbered = [replace(question.input, number=i) for i, question in enumerate(asked)]
        shape = (len(inputs), len(self._measure.quantities))
        sums, counts = np.zeros((*shape, len(self._off))), np.zeros(shape)
        batched, done = list(batches(numbered, room)), 0
        doing = f"{self._measure.quantities[0].name}: {len(self._off) - 1} sets of heads switched off in turn"
        for batch in batched:
            questions = [asked[one.number] for one in batch]
            for number, value, n in self._run(questions, room):
                if on_step is not None:
                    on_step(doing, done := done + 1, len(batched) * len(self._off))
                for row, question in enumerate(questions):
                    sums[question.pair, :, number] += value[row]
                    if number == 0:
                        counts[question.pair] += n[row]
        more = sums_beside_controls(sums, counts, self._compared)
        self._sums = [before + own for before, own in zip(self._sums, more, strict=True)]

    def _run(self, questions: Sequence[Question], room: Room) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """For each set: its number, and the values and counts [question, quantity] of one batch."""
        inputs = collate([question.input for question in questions], self._pad).model_inputs
        inputs = {name: values.to(self._device) for name, values in inputs.items()}
        length = inputs["input_ids"].shape[1]
        at_once = _most(room, len(questions), length)
        intact = self._answers(questions, inputs, self._off[:1])[:, 0]
        yield (0, *self._measure.values(questions, intact, intact))
        for start in range(1, len(self._off), at_once):
            some = self._off[start : start + at_once]
            answers = self._answers(questions, inputs, some)
            for i in range(len(some)):
                yield (start + i, *self._measure.values(questions, answers[:, i], intact))

    def _answers(self, questions: Sequence[Question], inputs: dict[str, Tensor], off: Tensor) -> Tensor:
        """Every question with every set. Shape: `off` [set, layer, head] -> [question, set, number]."""

        def of_rows(rows: Sequence[int]) -> Tensor:
            asked, sets = (torch.tensor(each) for each in zip(*(divmod(row, len(off)) for row in rows), strict=True))
            repeated = {name: values[asked.to(values.device)] for name, values in inputs.items()}
            edit = _switch(off[sets].to(self._device), self._means)
            every = [questions[number] for number in asked]
            answers = self._measure.answers(every, lambda: self._tap.run(repeated, edit))
            check_finite(answers, "the model's answers")
            return answers

        rows, length = range(len(questions) * len(off)), inputs["input_ids"].shape[1]
        with self._tap:
            answers = torch.cat(list(in_halves(rows, of_rows, lambda _: length, self._device)))
        return answers.view(len(questions), len(off), -1)

    def finish(self) -> Iterator[Effect]:
        """What the sets are worth, quantity by quantity."""
        ratios = np.stack([sums.ratio for sums in self._sums[: len(self._off)]])
        differences, intact = self._sums[len(self._off) :], self._sums[0]
        errors = [
            se_beside_controls(difference, ratios[controls], heads_off.possible)
            for difference, (_, controls), heads_off in zip(differences, self._compared, self._sets, strict=True)
        ]
        for row, quantity in enumerate(self._measure.quantities):
            n, pairs, unharmed = int(intact.n[row]), int(intact.pairs[row]), float(ratios[0, row])
            for heads_off, (own, controls), se in zip(self._sets, self._compared, errors, strict=True):
                ablated = float(ratios[own, row]) if heads_off.heads else float("nan")
                others = tuple(ratios[controls, row].tolist())
                yield Effect(heads_off, quantity, unharmed, ablated, others, float(se[row]), n, pairs)


def _switch(off: Tensor, means: Tensor | None) -> OnOutput:
    """What switches heads off. Shape: `off` [input, layer, head], bool; `means` [layer, head, dimension]."""

    def edit(layer: int, output: Tensor) -> None:
        inputs, heads = off[:, layer].nonzero(as_tuple=True)
        output[inputs, :, heads] = 0 if means is None else means[layer, heads][:, None].to(output)

    return edit


def _most(room: Room, inputs: int, length: int) -> int:
    """How many sets may share a forward over that many inputs."""
    by_cells = room.tokens if room.cells is None else room.cells // (inputs * length**2)
    return max(1, min(room.tokens // (inputs * length), by_cells))


def _means(scanner: Scanner, records: Iterable[Record], on_bad: OnBad | None, on_step: OnStep | None = None) -> Tensor:
    """Each head's output, averaged over the words of all pairs. Shape: [layer, head, dimension].

    Raises: InputError if there is no pair.
    """
    model, device = scanner.loaded.model, scanner.loaded.device
    on_batch = None if on_step is None else partial(on_step, "heads' mean output over pairs")
    total: Tensor | None = None
    count = 0

    def run(inputs: Sequence[EncodedInput]) -> tuple[Tensor, int]:
        """The sum over words, and how many there are."""
        batch = collate(inputs, scanner.loaded.pad_id)
        rows = [torch.tensor(one.sentence) >= 0 for one in inputs]
        word = pad_sequence(rows, batch_first=True).to(device)
        found: list[Tensor] = []

        def keep(_layer: int, output: Tensor) -> None:
            found.append(output[word].to(exact(device)).sum(0))

        tap.run({name: values.to(device) for name, values in batch.model_inputs.items()}, keep)
        return torch.stack(found), int(word.sum())

    with closing(Stream(scanner, records, on_bad, on_batch).batches()) as stream, OutputTap(model, model) as tap:
        for batch in stream:
            for found, words in in_halves(batch, run, tokens_of, device):
                total = found if total is None else total + found
                count += words
    if total is None or not count:
        raise no_pair("to average heads over")
    return total / count


def _noting(records: Iterable[Record], noted: dict[int, Record], first: int) -> Iterator[Record]:
    """The same records, those with labels noted as they pass, by the numbers that a stream gives them."""
    for number, record in enumerate(records, first):
        if record.label is not None:
            noted[number] = record
        yield record
