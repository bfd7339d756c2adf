"""What a model says of one input by each of its trained task heads, or by its last hidden states, as before and after.

Where `losses.py` asks many inputs what a model is worth, this asks one input, and keeps the answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.encode import token_texts
from attnscan.model.loaded import LoadedModel
from attnscan.model.running import head_sees_only
from attnscan.model.task_heads import TaskHead, task_head
from attnscan.results.change import TOP, Change, Guesses, HiddenToken, Prediction

Run = Callable[[], Any]
"""Runs the model on the input, and returns its output."""


class Says(Protocol):
    """One way in which a model says something."""

    encoder: Any
    whole: Any
    """The encoder with its task head, if one is needed: what is run."""

    def why_none(self, encoded: EncodedInput, change: Change) -> Prediction | None:
        """Why there is nothing to say of an input under a change, if there is nothing."""

    def answer(self, change: Change, run: Run) -> Tensor:
        """What is kept of the model's output on the one input."""

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

    def answer(self, change: Change, run: Run) -> Tensor:
        """Probabilities. Shape: [hidden token, vocabulary]."""
        places = torch.tensor(change.hidden, device=next(self.encoder.parameters()).device)
        with head_sees_only(self.encoder, (torch.zeros_like(places), places)):
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

    def answer(self, change: Change, run: Run) -> Tensor:  # noqa: ARG002
        """Probabilities. Shape: [class]."""
        return _probabilities(run().logits[0])

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:  # noqa: ARG002
        """All classes by name."""
        names = [str(self.whole.config.id2label.get(number, number)) for number in range(len(after))]
        return Prediction("classes", classes=tuple(zip(names, before.tolist(), after.tolist(), strict=True)))


class SentenceOrder(Classes):
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

    def answer(self, change: Change, run: Run) -> Tensor:  # noqa: ARG002
        """The vectors. Shape: [token, dimension]."""
        states: Tensor = run().last_hidden_state[0]
        return states.cpu().double()

    def prediction(self, encoded: EncodedInput, change: Change, before: Tensor, after: Tensor) -> Prediction:  # noqa: ARG002
        """How far each has turned."""
        turned = (1 - torch.nn.functional.cosine_similarity(before, after, dim=-1)).clip(0)
        return Prediction("vectors", turned=tuple(turned.masked_fill((before == after).all(-1), 0).tolist()))


def ways_of(loaded: LoadedModel) -> Sequence[Says]:
    """The ways in which a model says something: by all of its trained task heads or, if it has none, by its vectors."""
    makers: dict[TaskHead, Callable[[Any], Says]] = {
        "masked-lm": lambda _: Words(loaded),
        "next-sentence": SentenceOrder,
        "classifier": Classes,
    }
    heads = {kind: task_head(loaded, kind) for kind in makers}
    return [makers[kind](whole) for kind, whole in heads.items() if not isinstance(whole, str)] or [Vectors(loaded)]


def _probabilities(logits: Tensor) -> Tensor:
    return logits.cpu().double().softmax(-1)
