"""One input tried on a loaded model with something changed: words hidden, positions, segments, heads switched off.

Attention, scores and labels come first; how sure labels are, habits and predictions come second. What the
model says of the input is told by each of its trained task heads, or by its last hidden states, as before and after:
where `losses.py` asks many inputs what a model is worth, this asks one input, and keeps the answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import CaptureError, ModelError, OptionError
from attnscan.hashing import hashed
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.encode import token_texts
from attnscan.inputs.sentence import Pair
from attnscan.model.attention_block import Consumer, OnOutput
from attnscan.model.loading import task_head
from attnscan.model.running import check_finite, forward, head_sees_only
from attnscan.model.tap import Tap
from attnscan.results.change import TOP, Change, HiddenToken, Prediction, PredictionKind
from attnscan.results.head_weights import check_drawn
from attnscan.results.heads import HeadScores
from attnscan.scan.one_input import InputReading
from attnscan.scan.scanner import Scanner
from attnscan.studies.interventions import Positions, Restore, as_it_comes, shuffled, why_no_segments, with_segments

_PROBE = Pair("the cat sat on the mat")  # what is tried before anything is asked for
_NOTHING = Change()
_NOTHING_TO_SAY: dict[PredictionKind, str] = {
    "words": "hide a word to see what the model puts there: click it",
    "next-sentence": "give a second sentence to see whether the model takes it for the next one",
    "vectors": "switch heads off, or change positions or segments, to see how far the tokens' vectors turn",
}
ModelInputs = dict[str, Tensor]


@dataclass(frozen=True)
class Way:
    """One way in which a model says something: by a trained task head or, if it has none, by its vectors."""

    kind: PredictionKind
    whole: Any
    """What is run: the encoder with its task head, if one is needed."""
    encoder: Any
    tokenizer: Any

    def has_something_to_say(self, encoded: EncodedInput, change: Change) -> bool:
        """Of an input under a change."""
        if self.kind == "words":
            return bool(change.hidden)
        if self.kind == "next-sentence":
            return 1 in encoded.sentence
        return self.kind == "classes" or change.of_model

    def answer(self, change: Change, places: Tensor, run: Callable[[], Any]) -> Tensor:
        """What is kept of the model's output on the one input, of which each token stands at one of `places`.

        Shape: probabilities [hidden token, vocabulary] or [class], or vectors [token, dimension].
        """
        if self.kind == "vectors":
            states: Tensor = run().last_hidden_state[0, places]
            return states.cpu().double()
        if self.kind != "words":
            logits: Tensor = run().logits[0]
        else:
            hidden = places[list(change.hidden)]
            with head_sees_only(self.encoder, (torch.zeros_like(hidden), hidden)):
                logits = run().logits[0]
        return logits.cpu().double().softmax(-1)

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:
        """The answers of the intact model and of the changed one, told; `encoded` is the input with nothing hidden."""
        if self.kind == "vectors":
            turned = (1 - torch.nn.functional.cosine_similarity(before, after, dim=-1)).clip(0)
            return Prediction("vectors", turned=tuple(turned.masked_fill((before == after).all(-1), 0).tolist()))
        if self.kind == "words":
            ids = encoded.model_inputs["input_ids"]
            hidden = [
                HiddenToken(
                    place,
                    encoded.tokens[place],
                    truth_before=float(was[ids[place]]),
                    truth_after=float(now[ids[place]]),
                    before=self._guesses(was),
                    after=self._guesses(now),
                )
                for place, was, now in zip(change.hidden, before, after, strict=True)
            ]
            return Prediction("words", words=tuple(hidden))
        names = ["B follows A", "B does not follow A"]
        if self.kind == "classes":
            names = [str(self.whole.config.id2label.get(number, number)) for number in range(len(after))]
        return Prediction(self.kind, classes=tuple(zip(names, before.tolist(), after.tolist(), strict=True)))

    def _guesses(self, probabilities: Tensor) -> tuple[tuple[str, float], ...]:
        """The likeliest tokens with their probabilities."""
        top, ids = probabilities.topk(min(TOP, len(probabilities)))
        return tuple(zip(token_texts(self.tokenizer, ids.tolist()), top.tolist(), strict=True))


def _ways_of(scanner: Scanner) -> list[Way]:
    """All of a model's trained task heads or, if it has none, its vectors."""
    loaded, ways = scanner.loaded, []
    kinds: dict[Any, PredictionKind] = {"masked-lm": "words", "next-sentence": "next-sentence", "classifier": "classes"}
    for name, kind in kinds.items():
        whole = task_head(loaded, name)
        if not isinstance(whole, str):
            encoder = loaded.model if kind == "words" else whole.base_model
            ways.append(Way(kind, loaded.masked_lm if kind == "words" else whole, encoder, loaded.tokenizer))
    return ways or [Way("vectors", loaded.model, loaded.model, loaded.tokenizer)]


class Trials:
    """A loaded model, on which inputs are tried one at a time."""

    def __init__(self, scanner: Scanner) -> None:
        """Raises: ModelError if the model cannot be read."""
        self._scanner = scanner
        self._positions: dict[int, Positions] = {}
        """By the id of a model: a task head may stand around modules of its own."""
        self._taps: dict[int, Tap] = {}
        self._grid = scanner.grid()
        self.ways: list[Way] = []
        """The ways in which the model says something."""
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
        self.ways = _ways_of(scanner)
        self._taps |= {id(way.encoder): Tap(way.encoder) for way in self.ways}
        for tap in self._taps.values() if not self.available["off"] else ():
            _ = tap.calls  # found out before anything is changed inside the model

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

    def output(self, way: Way, inputs: ModelInputs, change: Change) -> Any:
        """The model's output."""
        if self.available["off"]:
            return forward(way.whole, inputs)
        with self._taps[id(way.encoder)] as tap:
            return tap.output(inputs, _switch_off(change) or (lambda _layer, _output: None), way.whole)


class Trial:
    """One input tried: the result at once, and the rest when it is asked for."""

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
        reading = InputReading(scanner, pair, encoded, scanner.helps([encoded]), keep=True)
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

    def _predicted(self, way: Way) -> Prediction:
        change = self._change
        if not way.has_something_to_say(self._written, change):
            return Prediction(way.kind, why_none=_NOTHING_TO_SAY[way.kind])
        before = self._answer(way, Change(hidden=change.hidden))
        after = self._answer(way, change) if change.of_model else before
        return way.prediction(self._written, change, before, after)

    def _answer(self, way: Way, change: Change) -> Tensor:
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
