"""One input tried on a loaded model with something changed: words hidden, positions, segments, heads switched off.

Attention, scores and labels come first; how sure labels are, habits and predictions come second. What the
model says of the input is told by each of its trained task heads, or by its last hidden states, as before and after:
where `losses.py` asks many inputs what a model is worth, this asks one input, and keeps the answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from attnscan.errors import CaptureError, ModelError, OptionError
from attnscan.hashing import hashed
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.encode import token_texts
from attnscan.inputs.sentence import Pair
from attnscan.model.attention_block import Consumer, OnOutput
from attnscan.model.loaded import LoadedModel
from attnscan.model.running import check_finite, forward, head_sees_only
from attnscan.model.tap import Tap
from attnscan.model.task_heads import TaskHead, task_head
from attnscan.results.change import TOP, Change, Guesses, HiddenToken, Prediction
from attnscan.results.head_weights import check_drawn
from attnscan.results.heads import HeadScores
from attnscan.scan.one_input import InputReading
from attnscan.scan.scanner import Scanner
from attnscan.studies.interventions import Positions, Restore, as_it_comes, shuffled, why_no_segments, with_segments

Run = Callable[[], Any]
"""Runs the model on the input, and returns its output."""

_PROBE = Pair("the cat sat on the mat")  # what is tried before anything is asked for
_NOTHING = Change()
ModelInputs = dict[str, Tensor]


class _Says(Protocol):
    """One way in which a model says something."""

    encoder: Any
    whole: Any
    """The encoder with its task head, if one is needed: what is run."""

    def why_none(self, encoded: EncodedInput, change: Change) -> Prediction | None:
        """Why there is nothing to say of an input under a change, if there is nothing."""

    def answer(self, change: Change, places: Tensor, run: Run) -> Tensor:
        """What is kept of the model's output on the one input, of which each token stands at one of `places`."""

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:
        """The answers of the intact model and of the changed one, told; `encoded` is the input with nothing hidden."""


class Words:
    """A masked-LM head says what stands in place of hidden tokens."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.encoder, self.whole = loaded.model, loaded.masked_lm
        self._tokenizer = loaded.tokenizer

    def why_none(self, encoded: EncodedInput, change: Change) -> Prediction | None:  # noqa: ARG002
        """Where nothing is hidden."""
        why = "hide a word to see what the model puts there: click it"
        return None if change.hidden else Prediction("words", why_none=why)

    def answer(self, change: Change, places: Tensor, run: Run) -> Tensor:
        """Probabilities. Shape: [hidden token, vocabulary]."""
        hidden = places[list(change.hidden)]
        with head_sees_only(self.encoder, (torch.zeros_like(hidden), hidden)):
            return _probabilities(run().logits[0])

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:
        """What the model puts in each place."""
        ids = encoded.model_inputs["input_ids"]
        hidden = [
            HiddenToken(place, encoded.tokens[place], self._guesses(b, ids[place]), self._guesses(a, ids[place]))
            for place, b, a in zip(change.hidden, before, after, strict=True)
        ]
        return Prediction("words", words=tuple(hidden))

    def _guesses(self, probabilities: Tensor, truth: int) -> Guesses:
        top, ids = probabilities.topk(min(TOP, len(probabilities)))
        texts = token_texts(self._tokenizer, ids.tolist())
        return Guesses(tuple(zip(texts, top.tolist(), strict=True)), float(probabilities[truth]))


class Classes:
    """A classifier says how probable its classes are."""

    def __init__(self, whole: Any) -> None:
        self.encoder, self.whole = whole.base_model, whole

    def why_none(self, encoded: EncodedInput, change: Change) -> Prediction | None:  # noqa: ARG002
        """It has something to say of any input."""
        return None

    def answer(self, change: Change, places: Tensor, run: Run) -> Tensor:  # noqa: ARG002
        """Probabilities. Shape: [class]."""
        return _probabilities(run().logits[0])

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:  # noqa: ARG002
        """All classes by name."""
        names = [str(self.whole.config.id2label.get(number, number)) for number in range(len(after))]
        return Prediction("classes", classes=tuple(zip(names, before.tolist(), after.tolist(), strict=True)))


class _SentenceOrder(Classes):
    """A next-sentence head says whether B follows A."""

    def why_none(self, encoded: EncodedInput, change: Change) -> Prediction | None:  # noqa: ARG002
        """Where there is no B."""
        why = "give a second sentence to see whether the model takes it for the next one"
        return None if 1 in encoded.sentence else Prediction("next-sentence", why_none=why)

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:  # noqa: ARG002
        """Whether it does."""
        names = ("B follows A", "B does not follow A")
        return Prediction("next-sentence", classes=tuple(zip(names, before.tolist(), after.tolist(), strict=True)))


class Vectors:
    """A model without a task head says something by its last hidden states: how far a change turns them."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.encoder = self.whole = loaded.model

    def why_none(self, encoded: EncodedInput, change: Change) -> Prediction | None:  # noqa: ARG002
        """Where nothing is changed that could turn them."""
        why = "switch heads off, or change positions or segments, to see how far the tokens' vectors turn"
        return None if change.of_model else Prediction("vectors", why_none=why)

    def answer(self, change: Change, places: Tensor, run: Run) -> Tensor:  # noqa: ARG002
        """The vectors. Shape: [token, dimension]."""
        states: Tensor = run().last_hidden_state[0, places]
        return states.cpu().double()

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:  # noqa: ARG002
        """How far each has turned."""
        turned = (1 - torch.nn.functional.cosine_similarity(before, after, dim=-1)).clip(0)
        return Prediction("vectors", turned=tuple(turned.masked_fill((before == after).all(-1), 0).tolist()))


def _ways_of(loaded: LoadedModel) -> Sequence[_Says]:
    """The ways in which a model says something: by all of its trained task heads or, if it has none, by its vectors."""
    makers: dict[TaskHead, Callable[[Any], _Says]] = {
        "masked-lm": lambda _: Words(loaded),
        "next-sentence": _SentenceOrder,
        "classifier": Classes,
    }
    heads = {kind: task_head(loaded, kind) for kind in makers}
    return [makers[kind](whole) for kind, whole in heads.items() if not isinstance(whole, str)] or [Vectors(loaded)]


def _probabilities(logits: Tensor) -> Tensor:
    return logits.cpu().double().softmax(-1)


class Trials:
    """A loaded model, on which inputs are tried one at a time."""

    def __init__(self, scanner: Scanner) -> None:
        """Raises: ModelError if the model cannot be read."""
        self._scanner = scanner
        self._positions: dict[int, Positions] = {}
        """By the id of a model: a task head may stand around modules of its own."""
        self._taps: dict[int, Tap] = {}
        self._grid = scanner.grid()
        self._ways: list[_Says] = []
        if scanner.options.attention != "encoder":
            why = f"{scanner.options.attention} attention is read as it is"
            self.available = dict.fromkeys(("hidden", "positions", "segments", "off"), why)
            return
        self._probe = scanner.collate([scanner.encode(_PROBE)]).model_inputs
        self.available = {
            "hidden": "" if scanner.loaded.tokenizer.mask_token_id is not None else "the model has no mask token",
            "positions": self._why_no_positions(),
            "segments": why_no_segments(scanner.loaded.model, self._probe) or "",
            "off": self._why_no_switch(),
        }
        """Of each field of a `Change`, why there can be none; empty where there can."""
        self._ways = list(_ways_of(scanner.loaded))
        self._taps |= {id(way.encoder): Tap(way.encoder) for way in self._ways}
        for tap in self._taps.values() if not self.available["off"] else ():
            with tap:
                tap.check_switchable()  # found out before anything is changed inside the model

    def _why_no_positions(self) -> str:
        try:
            self._positions_of(self._scanner.loaded.scored)
        except ModelError as error:
            return error.what
        return ""

    def _why_no_switch(self) -> str:
        try:
            self._scanner.exact().tap.output(self._probe, lambda _layer, _output: None)
        except CaptureError as error:
            return error.what
        return ""

    def run(self, pair: Pair, change: Change = _NOTHING) -> Trial:
        """Try one input.

        Raises: InputError, ModelError if the model cannot read it; InputError for what cannot be hidden; OptionError
        for a change that this model does not allow; SelectionError for heads that it has not got.
        """
        for name in ("hidden", "positions", "segments", "off"):
            if getattr(change, name) != getattr(_NOTHING, name) and (why := self.available[name]):
                raise OptionError(f"{name} cannot be changed: {why}", f"leave {name} as it is")
        if change.off:
            change = replace(change, off=tuple(self._grid.select(change.off)))
        return Trial(self, self._scanner, pair, change)

    @property
    def ways(self) -> tuple[_Says, ...]:
        """The ways in which the model says something."""
        return tuple(self._ways)

    @contextmanager
    def changed(
        self, model: Any, inputs: ModelInputs, change: Change, order: Tensor
    ) -> Iterator[tuple[ModelInputs, Restore, Tensor]]:
        """What a model reads in place of one input; what puts its attention back, and where each token stands."""
        if change.segments != "kept":
            inputs = with_segments(inputs, swapped=change.segments == "swapped")
        if change.positions == "kept":
            yield inputs, as_it_comes, torch.arange(order.shape[1], device=order.device)
            return
        positions = self._positions_of(model)
        with positions.moved(inputs, order) as (moved, restore):
            yield moved, restore, positions.places(order)[0]

    def _positions_of(self, model: Any) -> Positions:
        if id(model) not in self._positions:
            own = next((tap for tap in self._taps.values() if tap.model is model), None)
            run = self._scanner.exact().tap.run if own is None else partial(_run_in, own)
            self._positions[id(model)] = Positions(model, run, self._probe)
        return self._positions[id(model)]

    def output(self, way: _Says, inputs: ModelInputs, change: Change) -> Any:
        """The model's output."""
        if self.available["off"]:
            return forward(way.whole, inputs)
        with self._taps[id(way.encoder)] as tap:
            return tap.output(inputs, _switch_off(change) or (lambda _layer, _output: None), way.whole)


class Trial:
    """One input tried."""

    def __init__(self, trials: Trials, scanner: Scanner, pair: Pair, change: Change) -> None:
        self._trials, self._change = trials, change
        self._written = scanner.encode(pair)
        check_drawn(len(self._written.tokens), "give a shorter text")
        scanner.check_room(len(self._written.tokens), copies=2)
        self.tokens = self._written.tokens
        """Of the input as it is, hidden ones by their own texts."""
        tokenizer, seed = scanner.loaded.tokenizer, scanner.options.seed
        encoded = self._written
        if change.hidden:
            mask = tokenizer.mask_token_id
            encoded = encoded.hiding(change.hidden, mask, *token_texts(tokenizer, [mask]))
        self._order = shuffled([self._written], len(encoded.tokens), seed).to(scanner.loaded.device)
        self._notes = change.notes(self._written.tokens, seed)
        if scanner.measure is not None and change.of_model:
            self._notes += ("predictive words are those of the unchanged model",)
        helps = scanner.helps([encoded])
        reading = InputReading(scanner, pair, encoded, helps, keep=True)
        self._inputs = reading.batch.model_inputs
        with trials.changed(scanner.loaded.scored, self._inputs, change, self._order) as (inputs, restore, _):
            reading.run(inputs, _switch_off(change), restore)
        self.result = self._told(reading.result())
        """With its attention kept."""

    def finished(self) -> tuple[HeadScores, tuple[Prediction, ...]]:
        """The result with all that `classify` says, and what the model predicts. Raises: ModelError if it fails."""
        return self.result, tuple(map(self._predicted, self._trials.ways))

    def _told(self, result: HeadScores) -> HeadScores:
        """A result that says what was changed."""
        if not self._notes:
            return result
        digest = hashed(result.signature.input_hash.encode(), *(note.encode() for note in self._notes))
        signature = replace(result.signature, input_hash=digest)
        return replace(result, notes=(*self._notes, *result.notes), signature=signature)

    def _predicted(self, way: _Says) -> Prediction:
        change = self._change
        if (nothing := way.why_none(self._written, change)) is not None:
            return nothing
        after = before = self._answer(way, Change(hidden=change.hidden))
        if change.of_model:
            after = self._answer(way, change)
        return way.prediction(self._written, change, before, after)

    def _answer(self, way: _Says, change: Change) -> Tensor:
        with self._trials.changed(way.encoder, self._inputs, change, self._order) as (inputs, _, places):
            answer = way.answer(change, places, lambda: self._trials.output(way, inputs, change))
        check_finite(answer, "the model's answers")
        return answer


def _run_in(tap: Tap, inputs: ModelInputs, consume: Consumer) -> None:
    """Show attention by a tap that is opened for it."""
    with tap:
        tap.run(inputs, consume)


def _switch_off(change: Change) -> OnOutput | None:
    """What zeroes the outputs of the heads that are off, if any is."""
    if not change.off:
        return None

    def edit(layer: int, output: Tensor) -> None:
        output[:, :, [head.head for head in change.off if head.row == layer]] = 0

    return edit
