"""Measures what a model loses when heads are off: the sequences to run, the loss of each answer."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.sentence import EncodedInput, Pair, Record
from attnscan.model.forward import restrict_task_head
from attnscan.model.loading import LoadedModel
from attnscan.model.task_heads import task_head
from attnscan.results.ablation import Quantity
from attnscan.results.choices import MEASURES, TARGET_MEASURE
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray
from attnscan.scan.pair_scan import draw_numbers

MASKED, NEXT, CLASSES, VECTOR = MEASURES
QUANTITIES = {
    MASKED: (Quantity(MASKED, "nats a word"),),
    TARGET_MEASURE: (Quantity(TARGET_MEASURE, "nats a token"),),
    NEXT: (Quantity(NEXT, "accuracy", larger_is_better=True),),
    CLASSES: (
        Quantity(CLASSES, "nats of KL"),
        Quantity("classifier-accuracy", "accuracy", larger_is_better=True),
    ),
    VECTOR: (Quantity(VECTOR, "1 − cosine"),),
}
_HIDDEN = 0.15  # of an input's words, as BERT was trained (Devlin et al. 2019)
# What data sets write where a label is withheld, or annotators disagree
_NO_LABEL = ("", "-", "-1")
Labelled = Mapping[tuple[str, ...], Record]
"""Records with labels, by their texts."""


@dataclass(frozen=True)
class Probe:
    """One sequence to run, and what is to be read off it."""

    input: EncodedInput
    pair: int
    """Which of the inputs it is about."""
    places: tuple[int, ...] = ()
    """Where the answer is read; none for an answer of the whole sequence."""
    truth: tuple[int, ...] = ()
    """The right tokens there; or the right class, where that is known."""
    n: int = 1
    """How many words it counts for."""


@dataclass(frozen=True)
class Loss:
    """One way to see what a model loses.

    That is of words -log p, of classes KL(intact || changed), of vectors 1 - cosine.
    """

    name: str
    """One of `QUANTITIES`."""
    whole: Any
    """What is run: the encoder, with its task head if one is needed."""
    encoder: Any
    """The part whose heads are switched off."""
    loaded: LoadedModel
    seed: int
    labelled: Labelled

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Make the sequences to run.

        Raises: InputError for a label that names no class of the model.
        """
        if self.name == NEXT:
            return self._next_sentences(inputs)
        makers = {
            MASKED: self._hide_words,
            TARGET_MEASURE: self._predict_target,
            CLASSES: self._classify,
            VECTOR: self._read_vector,
        }
        probes = [makers[self.name](encoded, pair) for pair, encoded in enumerate(inputs)]
        return [probe for probe in probes if probe.n]

    def _hide_words(self, encoded: EncodedInput, pair: int) -> Probe:
        """15 % of the words, which are the units, hidden behind the mask token at once.

        At least one is.
        """
        ids = encoded.model_inputs["input_ids"]
        mask = self.loaded.tokenizer.mask_token_id
        words = [unit for unit, sentence in enumerate(encoded.unit_sentence) if sentence >= 0]
        chosen = draw_numbers(encoded, words, max(1, round(_HIDDEN * len(words))), self.seed)
        places = tuple(place for place, unit in enumerate(encoded.unit) if unit in chosen)
        masked = [mask if place in places else token for place, token in enumerate(ids)]
        return Probe(
            input=replace(encoded, model_inputs={**encoded.model_inputs, "input_ids": masked}),
            pair=pair,
            places=places,
            truth=tuple(ids[place] for place in places),
            n=len(chosen),
        )

    def _predict_target(self, encoded: EncodedInput, pair: int) -> Probe:
        """The target's tokens but special ones, each predicted where the one before it is read."""
        _, *predicted = encoded.model_inputs["decoder_input_ids"]
        special = self.loaded.tokenizer.all_special_ids
        places = tuple(place for place, token in enumerate(predicted) if token not in special)
        return Probe(
            input=encoded,
            pair=pair,
            places=places,
            truth=tuple(predicted[place] for place in places),
            n=len(places),
        )

    def _read_vector(self, encoded: EncodedInput, pair: int) -> Probe:
        """The last hidden state at [CLS], or at the last token of a tokenizer without one."""
        ids = encoded.model_inputs["input_ids"]
        cls = self.loaded.tokenizer.cls_token_id
        place = ids.index(cls) if cls in ids else len(ids) - 1
        return Probe(encoded, pair, (place,))

    def _classify(self, encoded: EncodedInput, pair: int) -> Probe:
        """The class that the record's label names, or counts."""
        record = self.labelled.get(encoded.known_pair.texts)
        if record is None or record.label is None or record.label.strip() in _NO_LABEL:
            return Probe(encoded, pair)
        number = class_number(record, self.whole.config)
        if number is None:
            names = ", ".join(_class_names(self.whole.config))
            label = record.label.strip()
            raise InputError(
                f"{record.where} has the label '{label}', and the model knows {names}",
                "correct it, or leave the column out",
            )
        return Probe(encoded, pair, truth=(number,))

    def _next_sentences(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Each pair, of class 0; and its A with the B of another pair, of class 1.

        That is the pair after it in one seeded round through all.
        """
        pairs = [number for number, encoded in enumerate(inputs) if 1 in encoded.sentence]
        probes = [Probe(inputs[pair], pair, truth=(0,)) for pair in pairs]
        if len(pairs) < 2:
            return probes
        shuffled = np.random.default_rng(self.seed).permutation(pairs).tolist()
        followers = shuffled[1:] + shuffled[:1]
        mixed = []
        for pair, follower in zip(shuffled, followers, strict=True):
            sentence_a = inputs[pair].known_pair.sentences[0]
            sentence_b = inputs[follower].known_pair.sentences[1]
            mixed.append(Pair(sentence_a, sentence_b))
        all_encoded = self.loaded.encode_all(mixed, "token", truncate=True)
        for pair, encoded in zip(shuffled, all_encoded, strict=True):
            if isinstance(encoded, EncodedInput):
                probes.append(Probe(encoded, pair, truth=(1,)))
        return probes

    def answers(self, questions: Sequence[Probe], run: Callable[[], Any]) -> Tensor:
        """Run the model; keep logits, vectors or, of words, the sum of their losses.

        Shape: [question, number].
        """
        if self.name in (NEXT, CLASSES):
            return run().logits.cpu().double()  # type: ignore[no-any-return]
        rows: list[int] = []
        places: list[int] = []
        truth: list[int] = []
        for row, question in enumerate(questions):
            rows += [row] * len(question.places)
            places += question.places
            truth += question.truth
        at = tuple(torch.tensor([rows, places], device=self.loaded.device))
        if self.name == VECTOR:
            return run().last_hidden_state[at].cpu().double()  # type: ignore[no-any-return]
        if self.name == MASKED:  # a vocabulary takes as long as all layers
            with restrict_task_head(self.encoder, at):
                logits = run().logits[0]
        else:
            logits = run().logits[at]
        word_losses = torch.nn.functional.cross_entropy(
            logits.float(), torch.tensor(truth, device=logits.device), reduction="none"
        )
        losses = torch.zeros(len(questions), dtype=torch.float64)
        return losses.index_add_(0, torch.tensor(rows), word_losses.cpu().double())[:, None]

    def values(self, questions: Sequence[Probe], answers: Tensor) -> tuple[FloatArray, FloatArray]:
        """Compute each loss beside the intact model's answer, and the number of its words.

        The intact model's answer is the first of each question.
        Shape: [question, set, number] -> [question, quantity, set], [question, quantity].
        """
        n = torch.tensor([[question.n] for question in questions])
        if self.name in (NEXT, CLASSES):
            values, n = self._class_values(questions, answers, n)
        elif self.name == VECTOR:
            cosine = torch.nn.functional.cosine_similarity(answers, answers[:, :1], dim=-1)
            values = 1 - cosine[:, None].clip(max=1)
        else:
            values = answers.transpose(1, 2)
        return values.numpy(), n.double().numpy()

    def _class_values(
        self, questions: Sequence[Probe], answers: Tensor, n: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The divergence from the intact model's classes, and whether the right class comes first.

        Of next sentences, the second alone. Shape: as `values`.
        """
        logs = answers.log_softmax(-1)
        intact_logs = logs[:, :1]
        divergence = (intact_logs.exp() * (intact_logs - logs)).sum(-1).clip(0)
        truth = torch.tensor([(*question.truth, -1)[:1] for question in questions])
        is_right = (answers.argmax(-1) == truth).double()
        is_known = truth >= 0
        if self.name == NEXT:
            return is_right[:, None], is_known
        return torch.stack([divergence, is_right], 1), torch.cat([n, is_known], 1)


def class_number(record: Record, config: Any) -> int | None:
    """The model's number of the class that a record's label names; None if it names none.

    A number is taken as the model's unless the data set names its classes; then it is only where
    the model has no names of its own.
    """
    label = "" if record.label is None else record.label.strip()
    numbers = {str(name).casefold(): int(at) for name, at in config.label2id.items()}
    number = numbers.get(label.casefold())
    if number is None and record.class_number is not None:
        is_generic = all(re.fullmatch(r"label_[0-9]+", name) for name in numbers)
        number = record.class_number if is_generic else None
    elif number is None and label.isdecimal() and label.isascii():
        number = int(label)
    return number if number is not None and 0 <= number < config.num_labels else None


def _class_names(config: Any) -> list[str]:
    """The names of a model's classes, by their numbers."""
    numbers = {str(name).casefold(): int(at) for name, at in config.label2id.items()}
    return sorted(numbers, key=numbers.__getitem__)


def numbered_labels(records: Iterable[Record], config: Any) -> str:
    """A note for people, if labels are numbers that are taken as the model's; else empty."""
    known = [str(name).casefold() for name in config.label2id]
    for record in records:
        label = "" if record.label is None else record.label.strip()
        if label in _NO_LABEL or label.casefold() in known:
            continue
        if class_number(record, config) is not None:
            names = ", ".join(f"{at} {name}" for at, name in enumerate(_class_names(config)))
            return f"labels are numbers, and are taken as the model's: {names}"
    return ""


def losses_of(
    loaded: LoadedModel, names: Sequence[str], seed: int, labelled: Labelled
) -> dict[str, Loss | str]:
    """The losses of these names; where one is not available, why not.

    `labelled` may be filled later.
    """
    losses: dict[str, Loss | str] = {}
    for name in names:
        has_no_head = name in (TARGET_MEASURE, VECTOR)
        whole = loaded.model if has_no_head else task_head(loaded, name)  # type: ignore[arg-type]
        if isinstance(whole, str):
            losses[name] = whole
            continue
        encoder = loaded.model
        if name in (NEXT, CLASSES):
            encoder = getattr(whole, "base_model", None)
        losses[name] = Loss(
            name=name,
            whole=whole,
            encoder=encoder,
            loaded=loaded,
            seed=seed,
            labelled=labelled,
        )
    return losses


def measures_of(
    loaded: LoadedModel, wanted: Sequence[str], seed: int, labelled: Labelled, kind: AttentionKind
) -> list[Loss]:
    """The losses that are wanted; without any, one for each task head, or `cls`.

    Where a target is written, that is `target`.
    Raises: ModelError if the checkpoint lacks the head for one that is wanted.
    """
    has_target = kind is not AttentionKind.ONLY
    for name in wanted:
        if (name == TARGET_MEASURE) == has_target:
            continue
        reason = "it is for decoder and cross attention"
        if has_target:
            reason = f"{kind.word} attention is measured by target"
        raise ModelError(f"{name} cannot be measured: {reason}", "leave ``measure`` out")
    names: Sequence[str] = [TARGET_MEASURE] if has_target else wanted or MEASURES[:-1]
    losses = losses_of(loaded, names, seed, labelled)
    if wanted:
        for name, loss in losses.items():
            if isinstance(loss, str):
                raise ModelError(
                    f"{name} cannot be measured with {loaded.source.name}: {loss}",
                    "leave ``measure`` out to take what it has, or measure cls",
                )
    available = [loss for loss in losses.values() if isinstance(loss, Loss)]
    return available or measures_of(loaded, [VECTOR], seed, labelled, kind)
