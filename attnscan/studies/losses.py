"""What a model loses when heads are switched off: questions put to it, and what its answers are worth.

A measure turns inputs into questions, each one sequence to run; reads off the model's output what is kept of an
answer; and compares it with the answer of the intact model. What it returns are sums and counts, not means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Record
from attnscan.model.loaded import LoadedModel
from attnscan.model.running import head_sees_only
from attnscan.model.task_heads import task_head
from attnscan.results.ablation import Quantity
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray
from attnscan.results.terms import MEASURES, OF_TARGETS
from attnscan.studies.passes import drawn

_HIDDEN = 0.15  # of an input's words, as BERT was trained (Devlin et al. 2019)
_NO_LABEL = -1  # what data sets write where a label is withheld

Run = Callable[[], Any]
"""Runs the model on the questions, and returns its output."""


@dataclass(frozen=True)
class Probe:
    """One sequence to run, and what is to be read off it."""

    input: EncodedInput
    pair: int
    """Which of the inputs it is about."""
    places: tuple[int, ...] = ()
    """Where the answer is read."""
    truth: tuple[int, ...] = ()
    """The right tokens there; or the right class, where that is known."""
    n: int = 1
    """How many words, or answers, it counts for."""


class Loss(ABC):
    """One way to see what a model loses."""

    quantities: tuple[Quantity, ...]
    """What is measured."""

    def __init__(self, whole: Any, encoder: Any = None) -> None:
        self.whole = whole
        """What is run: the encoder with its task head, if one is needed."""
        self.encoder = whole.base_model if encoder is None else encoder

    @abstractmethod
    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """What to ask about some inputs."""

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:  # noqa: ARG002
        """What is kept of the model's output; by default its logits. Shape: [question, number]."""
        logits: Tensor = run().logits
        return logits.cpu().double()

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """What answers are worth beside the intact model's, and how many each is of; by default the answers are sums.

        Shape: [question, number] twice -> [question, quantity] twice.
        """
        return answers.numpy(), np.array([[float(question.n)] for question in questions])


class MaskedWords(Loss):
    """With a masked-LM head: 15 % of an input's words, one at least, hidden behind the mask token at once.

    Minus the log-probability of their pieces, in nats a word. Inputs are to be encoded with words as units.
    """

    quantities = (Quantity("masked-lm", "nats a word"),)

    def __init__(self, loaded: LoadedModel, seed: int) -> None:
        super().__init__(loaded.masked_lm, loaded.model)
        self._mask, self._seed = loaded.tokenizer.mask_token_id, seed

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """One for each input that has words."""
        asked = []
        for pair, encoded in enumerate(inputs):
            ids = encoded.model_inputs["input_ids"]
            words = [unit for unit, sentence in enumerate(encoded.unit_sentence) if sentence >= 0]
            if words:
                chosen = drawn(encoded, words, max(1, round(_HIDDEN * len(words))), self._seed)
                hidden = tuple(place for place, unit in enumerate(encoded.unit) if unit in chosen)
                masked = [self._mask if place in hidden else id_ for place, id_ in enumerate(ids)]
                changed = replace(encoded, model_inputs={**encoded.model_inputs, "input_ids": masked})
                asked.append(Probe(changed, pair, hidden, tuple(ids[place] for place in hidden), len(chosen)))
        return asked

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:
        """The loss of each question's words together."""
        rows, places = _all_places(questions, self.encoder)
        with head_sees_only(self.encoder, (rows, places)):
            return _loss(run().logits[0].float(), rows, questions)


class TargetWords(Loss):
    """Of an encoder-decoder's decoder and cross attention: minus the log-probability of the target's tokens.

    Each after those before it, in nats a token; special tokens do not count.
    """

    quantities = (Quantity(OF_TARGETS, "nats a token"),)

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__(loaded.model, loaded.model)
        self._special = set(loaded.tokenizer.all_special_ids)

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """One for each input whose target has a token."""
        asked = []
        for pair, encoded in enumerate(inputs):
            read = encoded.model_inputs["decoder_input_ids"]  # each token is predicted where the one before it is read
            places = tuple(place for place, id_ in enumerate(read[1:]) if id_ not in self._special)
            if places:
                asked.append(Probe(encoded, pair, places, tuple(read[place + 1] for place in places), len(places)))
        return asked

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:
        """The loss of each question's tokens together."""
        rows, places = _all_places(questions, self.encoder)
        return _loss(run().logits[rows, places].float(), rows, questions)


class NextSentence(Loss):
    """With a next-sentence head: how often it tells a pair from one whose B comes from elsewhere among the inputs."""

    quantities = (Quantity("next-sentence", "accuracy", larger_is_better=True),)

    def __init__(self, loaded: LoadedModel, whole: Any, seed: int) -> None:
        super().__init__(whole)
        self._limit, self._seed = loaded.limit, seed

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Each pair, and its A with the B of the pair after it in one seeded round through all."""
        pairs = [number for number, encoded in enumerate(inputs) if 1 in encoded.sentence]
        around = np.random.default_rng(self._seed).permutation(pairs).tolist()
        asked = [Probe(inputs[pair], pair, truth=(0,)) for pair in pairs]
        for pair, other in zip(around, [*around[1:], *around[:1]], strict=True):
            if other != pair:
                asked.append(Probe(with_second_of(inputs[pair], inputs[other], self._limit), pair, truth=(1,)))
        return asked

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """1 for what was told right; the logits are of B following A, and of its not doing so."""
        truth = torch.tensor([question.truth[0] for question in questions])
        right = (answers.argmax(-1) == truth).double()[:, None].numpy()
        return right, np.ones_like(right)


class Classifier(Loss):
    """With a classifier: how far class probabilities move, KL(intact || changed) in nats, and the accuracy.

    That is how often the likeliest class is right, where labels are known.
    """

    quantities = (Quantity("classifier", "nats of KL"), Quantity("classifier-accuracy", "accuracy", True))

    def __init__(self, whole: Any, records: Mapping[int, Record]) -> None:
        super().__init__(whole)
        self._records = records
        self._classes = {str(name).casefold(): int(number) for name, number in whole.config.label2id.items()}

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Each input as it is. Raises: InputError for a label that names no class of the model."""
        return [Probe(encoded, pair, truth=self._truth(encoded)) for pair, encoded in enumerate(inputs)]

    def _truth(self, encoded: EncodedInput) -> tuple[int, ...]:
        """The class that a label names, or counts."""
        record = self._records.get(encoded.number)
        label = "" if record is None or record.label is None else record.label.strip()
        if record is None or label in ("", "-", str(_NO_LABEL)):  # SNLI writes - where annotators disagree
            return ()
        number = self._classes.get(label.casefold(), int(label) if label.isdecimal() and label.isascii() else -1)
        if not 0 <= number < self.whole.config.num_labels:
            known = ", ".join(sorted(self._classes, key=self._classes.__getitem__))
            raise InputError(
                f"{record.where} has the label '{label}', and the model knows {known}",
                "correct it, or leave the column out",
            )
        return (number,)

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:
        """The divergence from the intact model's, and 1 for what was told right."""
        before, after = intact.log_softmax(-1), answers.log_softmax(-1)
        divergence = (before.exp() * (before - after)).sum(-1).clip(0)
        known = torch.tensor([float(bool(question.truth)) for question in questions], dtype=torch.float64)
        truth = torch.tensor([(*question.truth, -1)[0] for question in questions])
        right = (answers.argmax(-1) == truth).double() * known
        return torch.stack([divergence, right], -1).numpy(), torch.stack([torch.ones_like(known), known], -1).numpy()


class ClsVector(Loss):
    """1 - cosine of the last hidden state at the [CLS] token, or at the last token of a tokenizer without one."""

    quantities = (Quantity("cls", "1 − cosine"),)

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__(loaded.model, loaded.model)
        self._cls = loaded.tokenizer.cls_token_id

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Each input as it is."""
        asked = []
        for pair, encoded in enumerate(inputs):
            ids = encoded.model_inputs["input_ids"]
            place = ids.index(self._cls) if self._cls in ids else len(ids) - 1
            asked.append(Probe(encoded, pair, (place,)))
        return asked

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:
        """The vectors."""
        states: Tensor = run().last_hidden_state
        return states[range(len(questions)), [question.places[0] for question in questions]].cpu().double()

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """One minus the cosine; 0 for a vector that is the same to the last bit."""
        turned = 1 - torch.nn.functional.cosine_similarity(answers, intact, dim=-1)
        sums = turned.clip(0).masked_fill((answers == intact).all(-1), 0)[:, None].numpy()
        return sums, np.ones_like(sums)


def measures_of(
    loaded: LoadedModel,
    wanted: Sequence[str],
    seed: int,
    records: Mapping[int, Record],
    kind: AttentionKind = AttentionKind.ONLY,
) -> list[Loss]:
    """The measures that are wanted; without any, one for each task head, or `cls` where there is none.

    Of an encoder-decoder's decoder and cross attention there is `target` alone. `records` are those with labels, by
    their inputs' numbers; it may be filled later.

    Raises: ModelError if the checkpoint lacks the head for a measure that is wanted.
    """
    writes = kind is not AttentionKind.ONLY
    if other := next((name for name in wanted if (name == OF_TARGETS) != writes), None):
        why = f"{kind.word} attention is measured by target" if writes else "it is for decoder and cross attention"
        raise ModelError(f"{other} cannot be measured: {why}", "leave --measure out")
    if writes:
        return [TargetWords(loaded)]
    measures = {name: _measure(loaded, name, seed, records) for name in wanted or MEASURES if wanted or name != "cls"}
    for name, why_none in measures.items() if wanted else ():
        if isinstance(why_none, str):
            raise ModelError(
                f"{name} cannot be measured with {loaded.source.name}: {why_none}",
                "leave --measure out to take what it has, or measure cls",
            )
    return [measure for measure in measures.values() if not isinstance(measure, str)] or [ClsVector(loaded)]


def not_measured(loaded: LoadedModel) -> dict[str, str]:
    """The measures that a checkpoint does not allow, and why."""
    measures = {name: _measure(loaded, name, 0, {}) for name in MEASURES}
    return {name: why for name, why in measures.items() if isinstance(why, str)}


def _measure(loaded: LoadedModel, name: str, seed: int, records: Mapping[int, Record]) -> Loss | str:
    """A measure, or why it is not available."""
    if name == "cls":
        return ClsVector(loaded)
    whole = task_head(loaded, name)  # type: ignore[arg-type]
    if isinstance(whole, str):
        return whole
    if name == "masked-lm":
        return MaskedWords(loaded, seed)
    return Classifier(whole, records) if name == "classifier" else NextSentence(loaded, whole, seed)


def with_second_of(encoded: EncodedInput, other: EncodedInput, limit: int) -> EncodedInput:
    """An input with the sentence B of another one in place of its own, cut to what the model reads."""
    inside = [place for place, sentence in enumerate(encoded.sentence) if sentence == 1]
    start, stop = inside[0], inside[-1] + 1
    theirs = [place for place, sentence in enumerate(other.sentence) if sentence == 1]
    theirs = theirs[: max(1, limit - (len(encoded.sentence) - (stop - start)))]

    def splice(own: Sequence[Any], others: Sequence[Any]) -> tuple[Any, ...]:
        return (*own[:start], *(others[place] for place in theirs), *own[stop:])

    inputs = {name: list(splice(values, other.model_inputs[name])) for name, values in encoded.model_inputs.items()}
    tokens = splice(encoded.tokens, other.tokens)
    sentence, punctuation = (splice(getattr(encoded, n), getattr(other, n)) for n in ("sentence", "punctuation"))
    return EncodedInput(tokens, sentence, tuple(range(len(tokens))), punctuation, inputs)


def _all_places(questions: Sequence[Probe], encoder: Any) -> Tensor:
    """The question and the place of each answer. Shape: [2, place]."""
    every = [(row, place) for row, question in enumerate(questions) for place in question.places]
    return torch.tensor(every, device=next(encoder.parameters()).device).T


def _loss(logits: Tensor, rows: Tensor, questions: Sequence[Probe]) -> Tensor:
    """The loss of each question's tokens together. Shape: `logits` [token, vocabulary] -> [question, 1]."""
    truth = torch.tensor([id_ for question in questions for id_ in question.truth], device=logits.device)
    loss = torch.nn.functional.cross_entropy(logits, truth, reduction="none").cpu().double()
    return torch.zeros(len(questions), dtype=torch.float64).index_add_(0, rows.cpu(), loss)[:, None]
