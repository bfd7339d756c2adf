"""One input tried on a loaded model with something changed, and what the model says of it.

Words may be hidden, positions shuffled, segments changed, heads switched off.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import CaptureError, OptionError
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.inputs.spelling import token_texts
from attnscan.model.forward import check_finite, forward
from attnscan.model.tap import AttentionTap
from attnscan.model.task_heads import TaskHead, task_head
from attnscan.results.attention import check_drawn
from attnscan.results.explanation import SHUFFLED
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import LIKELIEST, Change, HiddenToken, Prediction, PredictionKind
from attnscan.results.signature import EVERY_READING
from attnscan.scan.one_input import InputReading
from attnscan.scan.scanner import Scanner
from attnscan.studies.interventions import (
    ModelInputs,
    Restore,
    changeable,
    keep_order,
    move_words,
    shuffle_words,
    with_segments,
)

_NOTHING = Change()
_TASK_HEADS: dict[PredictionKind, TaskHead] = {
    "words": "masked-lm",
    "next-sentence": "next-sentence",
    "classes": "classifier",
}


@dataclass(frozen=True)
class Trial:
    """One input tried."""

    result: HeadScores
    """With its attention kept."""
    predictions: tuple[Prediction, ...]
    tokens: tuple[str, ...]
    """Of the input as it is, hidden ones by their own texts."""


@dataclass(frozen=True)
class _TriedInput:
    """An input that is tried, and how it is changed."""

    written: EncodedInput
    """With nothing hidden."""
    inputs: ModelInputs
    """What the model reads of it, behind the mask token what is hidden."""
    change: Change
    order: Tensor
    """Its places, words shuffled. Shape: [1, token]."""


class Trials:
    """A loaded model, on which inputs are tried one at a time."""

    def __init__(self, scanner: Scanner) -> None:
        """Raises: ModelError if the model cannot be read."""
        self._scanner = scanner
        self._speakers: dict[PredictionKind, tuple[Any, AttentionTap]] = {}
        """What is run to say something, and its encoder's tap."""
        self._by_words: bool | None = None
        self.available = dict.fromkeys(("hidden", "positions", "segments", "off"), "")
        """Of each field of a `Change`, why there can be none; empty where there can."""
        attention = scanner.options.attention
        if attention != "encoder":
            self.available = dict.fromkeys(
                self.available, f"{attention} attention is read as it is"
            )
            return
        exact = scanner.exact()
        self._by_words, not_available = changeable(exact)
        self.available["positions"] = not_available.get(SHUFFLED, "")
        self.available["segments"] = not_available.get("segments_zeroed", "")
        if scanner.loaded.tokenizer.mask_token_id is None:
            self.available["hidden"] = "the model has no mask token"
        try:
            exact.tap.output(scanner.probe(), partial(_switch_off, _NOTHING))
        except CaptureError as error:
            self.available["off"] = error.what
        self._speakers = _find_speakers(scanner)

    def run(self, pair: Pair, change: Change = _NOTHING) -> Trial:
        """Try one input.

        Raises: InputError, ModelError if it cannot be read or hidden; OptionError for a change
        that this model does not allow; SelectionError for heads that it has not got.
        """
        scanner = self._scanner
        change = self._check_change(change)
        written = scanner.encode(pair)
        check_drawn(len(written.tokens), "give a shorter text")
        scanner.check_room(len(written.tokens), copies=2)
        reading = InputReading(
            scanner, pair, self._hide(written, change), keep=True, readings=EVERY_READING
        )
        order = shuffle_words([written], len(written.tokens), scanner.options.seed)
        tried = _TriedInput(
            written=written,
            inputs=reading.batch.model_inputs,
            change=change,
            order=order.to(scanner.loaded.device),
        )
        inputs, restore, _ = self._change_inputs(tried)
        switch = partial(_switch_off, change) if change.off else None
        with scanner.batch_limit().around_one(len(written.tokens)):
            scanner.tap.run(inputs, restore(reading.take), switch)
        result = reading.result()
        notes = change.notes(written.tokens, scanner.options.seed)
        if scanner.measure is not None and change.changes_model:
            notes += ("predictive words are those of the unchanged model",)
        predictions = [self._predict(kind, tried) for kind in self._speakers]
        return Trial(
            result=replace(result, notes=(*notes, *result.notes)),
            predictions=tuple(predictions),
            tokens=written.tokens,
        )

    def _check_change(self, change: Change) -> Change:
        """A change, with the heads of this model.

        Raises: OptionError for a change that this model does not allow; SelectionError for heads
        that it has not got.
        """
        for name, reason in self.available.items():
            if reason and getattr(change, name) != getattr(_NOTHING, name):
                raise OptionError(f"{name} cannot be changed: {reason}", f"leave {name} as it is")
        if not change.off:
            return change
        return replace(change, off=tuple(self._scanner.grid().select(change.off)))

    def _hide(self, written: EncodedInput, change: Change) -> EncodedInput:
        """The input with tokens behind the mask token. Raises: InputError if they are not there."""
        if not change.hidden:
            return written
        tokenizer = self._scanner.loaded.tokenizer
        mask_id = tokenizer.mask_token_id
        (mask,) = token_texts(tokenizer, [mask_id])
        return written.hiding(change.hidden, mask_id, mask)

    def _change_inputs(self, tried: _TriedInput) -> tuple[ModelInputs, Restore, Tensor]:
        """Change what a model reads.

        Returns also what puts its attention back, and where each token stands.
        """
        inputs = tried.inputs
        change = tried.change
        if change.segments != "kept":
            inputs = with_segments(inputs, swapped=change.segments == "swapped")
        in_place = torch.arange(tried.order.shape[1], device=tried.order.device)
        if change.positions == "kept" or self._by_words is None:
            return inputs, keep_order, in_place
        moved, restore = move_words(inputs, tried.order, by_words=self._by_words)
        return moved, restore, tried.order[0] if self._by_words else in_place

    def _predict(self, kind: PredictionKind, tried: _TriedInput) -> Prediction:
        """Ask the intact model and the changed one."""
        change = tried.change
        why_none = _why_no_prediction(kind, tried)
        if why_none:
            return Prediction(kind, why_none=why_none)
        before = self._answer(kind, replace(tried, change=Change(hidden=change.hidden)))
        after = self._answer(kind, tried) if change.changes_model else before
        if kind == "vectors":
            cosine = torch.nn.functional.cosine_similarity(before, after, dim=-1)
            turned = (1 - cosine).clip(0)
            turned = turned.masked_fill((before == after).all(-1), 0)  # but for rounding
            return Prediction(kind, turned=tuple(turned.tolist()))
        if kind == "words":
            return Prediction(kind, words=self._hidden_tokens(tried, before, after))
        names = ["B follows A", "B does not follow A"]
        if kind == "classes":
            classifier, _ = self._speakers[kind]
            labels = classifier.config.id2label
            names = [str(labels.get(number, number)) for number in range(len(after))]
        classes = zip(names, before.tolist(), after.tolist(), strict=True)
        return Prediction(kind, classes=tuple(classes))

    def _hidden_tokens(
        self, tried: _TriedInput, before: Tensor, after: Tensor
    ) -> tuple[HiddenToken, ...]:
        """What the model puts in place of each hidden token. Shape: [hidden token, vocabulary]."""
        ids = tried.written.model_inputs["input_ids"]
        hidden = []
        for row, place in enumerate(tried.change.hidden):
            truth = ids[place]
            hidden.append(
                HiddenToken(
                    place=place,
                    truth=tried.written.tokens[place],
                    truth_before=float(before[row, truth]),
                    truth_after=float(after[row, truth]),
                    before=self._likeliest(before[row]),
                    after=self._likeliest(after[row]),
                )
            )
        return tuple(hidden)

    def _answer(self, kind: PredictionKind, tried: _TriedInput) -> Tensor:
        """Probabilities [hidden token, vocabulary] or [class], or vectors [token, dimension]."""
        whole, tap = self._speakers[kind]
        inputs, _, places = self._change_inputs(tried)
        if self.available["off"]:
            output = forward(whole, inputs)
        else:
            with tap:
                output = tap.output(inputs, partial(_switch_off, tried.change), whole)
        answer: Tensor
        if kind == "vectors":
            answer = output.last_hidden_state[0, places].cpu().double()
        elif kind == "words":
            hidden = places[list(tried.change.hidden)]
            answer = output.logits[0, hidden].cpu().double().softmax(-1)
        else:
            answer = output.logits[0].cpu().double().softmax(-1)
        check_finite(answer, "the model's answers")
        return answer

    def _likeliest(self, probabilities: Tensor) -> tuple[tuple[str, float], ...]:
        top, ids = probabilities.topk(min(LIKELIEST, len(probabilities)))
        texts = token_texts(self._scanner.loaded.tokenizer, ids.tolist())
        return tuple(zip(texts, top.tolist(), strict=True))


def _find_speakers(scanner: Scanner) -> dict[PredictionKind, tuple[Any, AttentionTap]]:
    """What says something of an input: the task heads of a checkpoint, else its vectors."""
    model = scanner.loaded.model
    speakers: dict[PredictionKind, tuple[Any, AttentionTap]] = {}
    for kind, name in _TASK_HEADS.items():
        whole = task_head(scanner.loaded, name)
        if isinstance(whole, str):
            continue
        encoder = model if kind == "words" else whole.base_model
        speakers[kind] = (whole, AttentionTap(encoder))
    if not speakers:
        speakers["vectors"] = (model, AttentionTap(model))
    return speakers


def _why_no_prediction(kind: PredictionKind, tried: _TriedInput) -> str:
    """Why there is nothing to say, and what to do about it; empty where there is."""
    if kind == "words" and not tried.change.hidden:
        return "hide a word to see what the model puts there: click it"
    if kind == "next-sentence" and 1 not in tried.written.sentence:
        return "give a second sentence to see whether it follows the first"
    if kind == "vectors" and not tried.change.changes_model:
        return "switch heads off, or change positions or segments, to see what moves"
    return ""


def _switch_off(change: Change, layer: int, output: Tensor) -> None:
    """Zero the outputs of the heads that are off."""
    output[:, :, [head.head for head in change.off if head.row == layer]] = 0
