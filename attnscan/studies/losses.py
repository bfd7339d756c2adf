"""What a model loses when heads are switched off: questions put to it, and what its answers are worth.

A measure turns inputs into questions, each one sequence to run; reads off the model's output what is kept of an
answer; and compares it with the answer of the intact model. What it returns are sums and counts, not means.

- `masked-lm`, with a masked-LM head: 15 % of an input's words, one at least, hidden behind the mask token at once,
  as BERT was trained (Devlin et al. 2019); minus the log-probability of their pieces, in nats a word.
- `next-sentence`, with that head: each pair as it is, and A with another pair's B; the share that it tells right.
- `classifier`, with that head: KL(intact || changed) of the class probabilities in nats and, where the file has
  labels, accuracy.
- `target`, of an encoder-decoder's decoder and cross attention: minus the log-probability of the target's tokens, each
  after those before it, in nats a token; special tokens do not count.
- `cls`: 1 - cosine of the last hidden state at the [CLS] token, or at the last token of a tokenizer without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Record
from attnscan.model.loaded import LoadedModel
from attnscan.model.running import head_sees_only
from attnscan.model.task_heads import TaskHead, task_head
from attnscan.results.ablation import Quantity
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray
from attnscan.results.terms import MEASURES, OF_TARGETS
from attnscan.studies.passes import drawn

_HIDDEN = 0.15  # of an input's words
_NO_LABEL = -1  # what data sets write where a label is withheld

Run = Callable[[], Any]
"""Runs the model on the questions, and returns its output."""


@dataclass(frozen=True)
class Probe:
    """One sequence to run, and what is to be read off it."""

    input: EncodedInput
    pair: int
    """Which of the inputs it is about."""
    hidden: tuple[int, ...] = ()
    """The places of tokens that were replaced by the mask token."""
    truth: tuple[int, ...] = ()
    """What stood there; or the right class, where that is known."""
    n: int = 1
    """How many words, or answers, it counts for."""


class Loss(Protocol):
    """One way to see what a model loses."""

    encoder: Any
    whole: Any
    """The encoder with its task head, if one is needed: what is run."""

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What is measured."""

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """What to ask about some inputs."""

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:
        """What is kept of the model's output. Shape: [question, number]."""

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:
        """What answers are worth beside the intact model's: sums, and how many each is of.

        Shape: [question, number] twice -> [question, quantity] twice.
        """


class MaskedWords:
    """The loss on hidden words. Inputs are to be encoded with words as units."""

    quantities = (Quantity("masked-lm", "nats a word"),)

    def __init__(self, loaded: LoadedModel, seed: int) -> None:
        self.encoder, self.whole = loaded.model, loaded.masked_lm
        self._mask, self._seed = loaded.tokenizer.mask_token_id, seed

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Shape: one for each input that has words."""
        return [self._hiding(encoded, pair) for pair, encoded in enumerate(inputs) if max(encoded.unit_sentence) >= 0]

    def _hiding(self, encoded: EncodedInput, pair: int) -> Probe:
        ids = encoded.model_inputs["input_ids"]
        words = [unit for unit, sentence in enumerate(encoded.unit_sentence) if sentence >= 0]
        chosen = drawn(encoded, words, max(1, round(_HIDDEN * len(words))), self._seed)
        hidden = tuple(place for place, unit in enumerate(encoded.unit) if unit in chosen)
        masked = [self._mask if place in hidden else id_ for place, id_ in enumerate(ids)]
        changed = replace(encoded, model_inputs={**encoded.model_inputs, "input_ids": masked})
        return Probe(changed, pair, hidden, tuple(ids[place] for place in hidden), len(chosen))

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:
        """The loss of each question's words together."""
        every = [(row, place) for row, question in enumerate(questions) for place in question.hidden]
        device = next(self.encoder.parameters()).device
        rows, places = torch.tensor(every, device=device).T
        with head_sees_only(self.encoder, (rows, places)):
            logits = run().logits[0].float()
        return _loss(logits, rows, questions)

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """The answers as they are."""
        return answers.numpy(), np.array([[float(question.n)] for question in questions])


class NextSentence:
    """How often the model tells a pair from one whose B comes from elsewhere among the inputs."""

    quantities = (Quantity("next-sentence", "accuracy", larger_is_better=True),)

    def __init__(self, loaded: LoadedModel, whole: Any, seed: int) -> None:
        self.encoder, self.whole = whole.base_model, whole
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

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:  # noqa: ARG002
        """The two logits: B follows A, or does not."""
        return _exact(run().logits)

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """1 for what was told right."""
        truth = torch.tensor([question.truth[0] for question in questions])
        right = (answers.argmax(-1) == truth).double()[:, None].numpy()
        return right, np.ones_like(right)


class Classifier:
    """How far class probabilities move and, where labels are known, how often the likeliest class is right."""

    def __init__(self, whole: Any, records: Mapping[int, Record]) -> None:
        self.encoder, self.whole = whole.base_model, whole
        self.quantities = (Quantity("classifier", "nats of KL"), Quantity("classifier-accuracy", "accuracy", True))
        self._records = records
        self._classes = {str(name).casefold(): int(number) for name, number in whole.config.label2id.items()}

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Each input as it is."""
        return [Probe(encoded, pair, truth=self._truth(encoded)) for pair, encoded in enumerate(inputs)]

    def _truth(self, encoded: EncodedInput) -> tuple[int, ...]:
        """The class that a label names, or counts. Raises: InputError if the model has no such class."""
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

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:  # noqa: ARG002
        """Log-probabilities of the classes."""
        return _exact(run().logits).log_softmax(-1)

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:
        """The divergence from the intact model's, and 1 for what was told right."""
        divergence = (intact.exp() * (intact - answers)).sum(-1).clip(0)
        known = torch.tensor([float(bool(question.truth)) for question in questions], dtype=torch.float64)
        truth = torch.tensor([(*question.truth, -1)[0] for question in questions])
        right = (answers.argmax(-1) == truth).double() * known
        return torch.stack([divergence, right], -1).numpy(), torch.stack([torch.ones_like(known), known], -1).numpy()


class ClsVector:
    """How far the vector of the whole input turns."""

    quantities = (Quantity("cls", "1 − cosine"),)

    def __init__(self, loaded: LoadedModel) -> None:
        self.encoder = self.whole = loaded.model
        self._cls = loaded.tokenizer.cls_token_id

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Each input as it is; `hidden` says where its vector stands."""
        return [Probe(encoded, pair, hidden=(self._place(encoded),)) for pair, encoded in enumerate(inputs)]

    def _place(self, encoded: EncodedInput) -> int:
        ids = encoded.model_inputs["input_ids"]
        return ids.index(self._cls) if self._cls in ids else len(ids) - 1

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:
        """The vectors."""
        states = run().last_hidden_state
        return _exact(states[range(len(questions)), [question.hidden[0] for question in questions]])

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """One minus the cosine; 0 for a vector that is the same to the last bit."""
        turned = 1 - torch.nn.functional.cosine_similarity(answers, intact, dim=-1)
        sums = turned.clip(0).masked_fill((answers == intact).all(-1), 0)[:, None].numpy()
        return sums, np.ones_like(sums)


class TargetWords:
    """The loss on a target, of a model that writes it."""

    quantities = (Quantity(OF_TARGETS, "nats a token"),)

    def __init__(self, loaded: LoadedModel) -> None:
        self.encoder = self.whole = loaded.model
        self._special = set(loaded.tokenizer.all_special_ids)

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """One for each input whose target has a token; `hidden` are the places that predict one."""
        asked = [self._question(encoded, pair) for pair, encoded in enumerate(inputs)]
        return [question for question in asked if question.hidden]

    def _question(self, encoded: EncodedInput, pair: int) -> Probe:
        read = encoded.model_inputs["decoder_input_ids"]  # each token is predicted where the one before it is read
        hidden = tuple(place for place, id_ in enumerate(read[1:]) if id_ not in self._special)
        return Probe(encoded, pair, hidden, tuple(read[place + 1] for place in hidden), len(hidden))

    def answers(self, questions: Sequence[Probe], run: Run) -> Tensor:
        """The loss of each question's tokens together."""
        every = [(row, place) for row, question in enumerate(questions) for place in question.hidden]
        rows, places = torch.tensor(every, device=next(self.encoder.parameters()).device).T
        return _loss(run().logits[rows, places].float(), rows, questions)

    def values(self, questions: Sequence[Probe], answers: Tensor, intact: Tensor) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """The answers as they are."""
        return answers.numpy(), np.array([[float(question.n)] for question in questions])


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
        told = f"{kind.word} attention is measured by target" if writes else "it is for decoder and cross attention"
        raise ModelError(f"{other} cannot be measured: {told}", "leave --measure out")
    if writes:
        return [TargetWords(loaded)]
    measures: list[Loss] = []
    for name in wanted or ("masked-lm", "next-sentence", "classifier"):
        measure = _measure(loaded, name, seed, records)
        if not isinstance(measure, str):
            measures.append(measure)
        elif wanted:
            raise ModelError(
                f"{name} cannot be measured with {loaded.source.name}: {measure}",
                "leave --measure out to take what it has, or measure cls",
            )
    return measures or [ClsVector(loaded)]


def not_measured(loaded: LoadedModel) -> dict[str, str]:
    """The measures that a checkpoint does not allow, and why."""
    measures = {name: _measure(loaded, name, 0, {}) for name in MEASURES}
    return {name: why for name, why in measures.items() if isinstance(why, str)}


def _measure(loaded: LoadedModel, name: str, seed: int, records: Mapping[int, Record]) -> Loss | str:
    """A measure, or why it cannot be had."""
    if name == "cls":
        return ClsVector(loaded)
    kind: TaskHead = "classifier" if name == "classifier" else "masked-lm" if name == "masked-lm" else "next-sentence"
    whole = task_head(loaded, kind)
    if isinstance(whole, str):
        return whole
    if kind == "masked-lm":
        return MaskedWords(loaded, seed)
    return Classifier(whole, records) if kind == "classifier" else NextSentence(loaded, whole, seed)


def with_second_of(encoded: EncodedInput, other: EncodedInput, limit: int) -> EncodedInput:
    """An input with the sentence B of another one in place of its own, cut to what the model reads."""
    inside = [place for place, sentence in enumerate(encoded.sentence) if sentence == 1]
    start, stop = inside[0], inside[-1] + 1
    theirs = [place for place, sentence in enumerate(other.sentence) if sentence == 1]
    theirs = theirs[: max(1, limit - (len(encoded.sentence) - (stop - start)))]

    def spliced(own: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        return [*own[:start], *(others[place] for place in theirs), *own[stop:]]

    inputs = {name: spliced(values, other.model_inputs[name]) for name, values in encoded.model_inputs.items()}
    tokens, sentence = spliced(encoded.tokens, other.tokens), spliced(encoded.sentence, other.sentence)
    punctuation = spliced(encoded.punctuation, other.punctuation)
    return EncodedInput(tuple(tokens), tuple(sentence), tuple(range(len(tokens))), tuple(punctuation), inputs)


def _loss(logits: Tensor, rows: Tensor, questions: Sequence[Probe]) -> Tensor:
    """The loss of each question's tokens together. Shape: `logits` [token, vocabulary] -> [question, 1]."""
    truth = torch.tensor([id_ for question in questions for id_ in question.truth], device=logits.device)
    loss = torch.nn.functional.cross_entropy(logits, truth, reduction="none").cpu().double()
    return torch.zeros(len(questions), dtype=torch.float64).index_add_(0, rows.cpu(), loss)[:, None]


def _exact(values: Tensor) -> Tensor:
    return values.cpu().double()
