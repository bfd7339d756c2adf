"""One input tried on a loaded model with something changed: words hidden, positions, segments, heads switched off."""

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
from attnscan.scan.one_input import InputReading
from attnscan.scan.scanner import Scanner
from attnscan.studies.interventions import (
    ModelInputs,
    Restore,
    as_it_comes,
    changeable,
    move_words,
    shuffle_words,
    with_segments,
)

_NOTHING = Change()
_HEADS: dict[PredictionKind, TaskHead] = {
    "words": "masked-lm",
    "next-sentence": "next-sentence",
    "classes": "classifier",
}


@dataclass(frozen=True)
class Trial:
    """One input tried."""

    result: HeadScores  # with its attention kept
    predictions: tuple[Prediction, ...]
    tokens: tuple[str, ...]  # of the input as it is, hidden ones by their own texts


class Trials:
    """A loaded model, on which inputs are tried one at a time."""

    def __init__(self, scanner: Scanner) -> None:
        """Raises: ModelError if the model cannot be read."""
        self._scanner, loaded = scanner, scanner.loaded
        self._ways: dict[
            PredictionKind, tuple[Any, AttentionTap]
        ] = {}  # what is run to say something, and its encoder's tap
        # Of each field of a `Change`, why there can be none; empty where there can
        self.available = dict.fromkeys(("hidden", "positions", "segments", "off"), "")
        if scanner.options.attention != "encoder":
            self.available = dict.fromkeys(
                self.available, f"{scanner.options.attention} attention is read as it is"
            )
            return
        self._by_words, fixed = changeable(scanner.exact())
        self.available |= {
            "positions": fixed.get(SHUFFLED, ""),
            "segments": fixed.get("segments_zeroed", ""),
        }
        if loaded.tokenizer.mask_token_id is None:
            self.available["hidden"] = "the model has no mask token"
        try:
            scanner.exact().tap.output(scanner.probe(), partial(_switch_off, _NOTHING))
        except CaptureError as error:
            self.available["off"] = error.what
        for kind, name in _HEADS.items():
            whole = task_head(loaded, name)
            if not isinstance(whole, str):
                self._ways[kind] = (
                    whole,
                    AttentionTap(loaded.model if kind == "words" else whole.base_model),
                )
        self._ways = self._ways or {"vectors": (loaded.model, AttentionTap(loaded.model))}

    def run(self, pair: Pair, change: Change = _NOTHING) -> Trial:
        """Try one input.

        Raises: InputError, ModelError if it cannot be read or hidden; OptionError for a change that this model does not
        allow; SelectionError for heads that it has not got.
        """
        scanner, tokenizer = self._scanner, self._scanner.loaded.tokenizer
        for name, reason in self.available.items():
            if getattr(change, name) != getattr(_NOTHING, name) and reason:
                raise OptionError(f"{name} cannot be changed: {reason}", f"leave {name} as it is")
        if change.off:
            change = replace(change, off=tuple(scanner.grid().select(change.off)))
        written = encoded = scanner.encode(pair)
        check_drawn(len(written.tokens), "give a shorter text")
        scanner.check_room(len(written.tokens), copies=2)
        if change.hidden:
            mask = tokenizer.mask_token_id
            encoded = encoded.hiding(change.hidden, mask, *token_texts(tokenizer, [mask]))
        order = shuffle_words([written], len(written.tokens), scanner.options.seed).to(
            scanner.loaded.device
        )
        reading = InputReading(scanner, pair, encoded, keep=True)
        inputs, restore, _ = self._changed(reading.batch.model_inputs, change, order)
        scanner.tap.run(
            inputs, restore(reading.take), partial(_switch_off, change) if change.off else None
        )
        result, notes = reading.result(), change.notes(written.tokens, scanner.options.seed)
        if scanner.measure is not None and change.changes_model:
            notes += ("predictive words are those of the unchanged model",)
        result = replace(result, notes=(*notes, *result.notes))
        return Trial(
            result,
            tuple(
                self._prediction(kind, written, reading.batch.model_inputs, change, order)
                for kind in self._ways
            ),
            written.tokens,
        )

    def _changed(
        self, inputs: ModelInputs, change: Change, order: Tensor
    ) -> tuple[ModelInputs, Restore, Tensor]:
        """Change what a model reads; return also what puts its attention back, and where each token stands."""
        if change.segments != "kept":
            inputs = with_segments(inputs, swapped=change.segments == "swapped")
        in_place = torch.arange(order.shape[1], device=order.device)
        if change.positions == "kept" or self._by_words is None:
            return inputs, as_it_comes, in_place
        return *move_words(inputs, order, by_words=self._by_words), order[
            0
        ] if self._by_words else in_place

    def _prediction(
        self,
        kind: PredictionKind,
        written: EncodedInput,
        inputs: ModelInputs,
        change: Change,
        order: Tensor,
    ) -> Prediction:
        """Ask the intact model and the changed one; `written` is the input with nothing hidden."""
        if kind == "words" and not change.hidden:
            return Prediction(
                kind, why_none="hide a word to see what the model puts there: click it"
            )
        if kind == "next-sentence" and 1 not in written.sentence:
            return Prediction(
                kind, why_none="give a second sentence to see whether it follows the first"
            )
        if kind == "vectors" and not change.changes_model:
            return Prediction(
                kind,
                why_none="switch heads off, or change positions or segments, to see what moves",
            )
        before = self._answer(kind, inputs, Change(hidden=change.hidden), order)
        after = self._answer(kind, inputs, change, order) if change.changes_model else before
        if kind == "vectors":
            turned = (1 - torch.nn.functional.cosine_similarity(before, after, dim=-1)).clip(0)
            return Prediction(
                kind, turned=tuple(turned.masked_fill((before == after).all(-1), 0).tolist())
            )
        if kind == "words":
            ids = written.model_inputs["input_ids"]
            words = [
                HiddenToken(
                    place,
                    written.tokens[place],
                    float(b[ids[place]]),
                    float(a[ids[place]]),
                    self._likeliest(b),
                    self._likeliest(a),
                )
                for place, b, a in zip(change.hidden, before, after, strict=True)
            ]
            return Prediction(kind, words=tuple(words))
        names = ["B follows A", "B does not follow A"]
        if kind == "classes":
            labels = self._ways[kind][0].config.id2label
            names = [str(labels.get(number, number)) for number in range(len(after))]
        return Prediction(
            kind, classes=tuple(zip(names, before.tolist(), after.tolist(), strict=True))
        )

    def _answer(
        self, kind: PredictionKind, inputs: ModelInputs, change: Change, order: Tensor
    ) -> Tensor:
        """Probabilities [hidden token, vocabulary] or [class], or vectors [token, dimension]."""
        (whole, tap), (inputs, _, places) = self._ways[kind], self._changed(inputs, change, order)
        if self.available["off"]:
            output = forward(whole, inputs)
        else:
            with tap:
                output = tap.output(inputs, partial(_switch_off, change), whole)
        at = {"vectors": places, "words": places[list(change.hidden)]}.get(kind, ...)
        answer: Tensor = (
            (output.last_hidden_state if kind == "vectors" else output.logits)[0, at].cpu().double()
        )
        answer = answer if kind == "vectors" else answer.softmax(-1)
        check_finite(answer, "the model's answers")
        return answer

    def _likeliest(self, probabilities: Tensor) -> tuple[tuple[str, float], ...]:
        top, ids = probabilities.topk(min(LIKELIEST, len(probabilities)))
        return tuple(
            zip(
                token_texts(self._scanner.loaded.tokenizer, ids.tolist()), top.tolist(), strict=True
            )
        )


def _switch_off(change: Change, layer: int, output: Tensor) -> None:
    """Zero the outputs of the heads that are off."""
    output[:, :, [head.head for head in change.off if head.row == layer]] = 0
