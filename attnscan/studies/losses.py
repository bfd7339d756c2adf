"""Measures what a model loses when heads are switched off: the sequences to run, and the loss of each answer."""

from collections.abc import Callable, Mapping, Sequence
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
_NO_LABEL = (
    "",
    "-",
    "-1",
)  # what data sets write where a label is withheld, or annotators disagree
Labelled = Mapping[tuple[str, ...], Record]  # records with labels, by their texts


@dataclass(frozen=True)
class Probe:
    """One sequence to run, and what is to be read off it."""

    input: EncodedInput
    pair: int  # which of the inputs it is about
    places: tuple[
        int, ...
    ] = ()  # where the answer is read; none for an answer of the whole sequence
    truth: tuple[int, ...] = ()  # the right tokens there; or the right class, where that is known
    n: int = 1  # how many words it counts for


@dataclass(frozen=True)
class Loss:
    """One way to see what a model loses: of words -log p, of classes KL(intact || changed), of vectors 1 - cosine."""

    name: str  # one of `QUANTITIES`
    whole: Any  # what is run: the encoder, with its task head if one is needed
    encoder: Any  # the part whose heads are switched off
    loaded: LoadedModel
    seed: int
    labelled: Labelled

    def questions(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Make the sequences to run. Raises: InputError for a label that names no class of the model."""
        if self.name == NEXT:
            return self._mixed(inputs)
        ways = {
            MASKED: self._hidden,
            TARGET_MEASURE: self._targets,
            CLASSES: self._labelled,
            VECTOR: self._vector,
        }
        probes = [ways[self.name](encoded, pair) for pair, encoded in enumerate(inputs)]
        return [probe for probe in probes if probe.n]

    def _hidden(self, encoded: EncodedInput, pair: int) -> Probe:
        """15 % of the words, which are the units, hidden behind the mask token at once; one at least."""
        ids, mask = encoded.model_inputs["input_ids"], self.loaded.tokenizer.mask_token_id
        words = [unit for unit, sentence in enumerate(encoded.unit_sentence) if sentence >= 0]
        chosen = draw_numbers(encoded, words, max(1, round(_HIDDEN * len(words))), self.seed)
        places = tuple(place for place, unit in enumerate(encoded.unit) if unit in chosen)
        masked = [mask if place in places else token for place, token in enumerate(ids)]
        changed = replace(encoded, model_inputs={**encoded.model_inputs, "input_ids": masked})
        return Probe(changed, pair, places, tuple(ids[place] for place in places), len(chosen))

    def _targets(self, encoded: EncodedInput, pair: int) -> Probe:
        """The target's tokens, special ones apart, each predicted where the one before it is read."""
        _, *predicted = encoded.model_inputs["decoder_input_ids"]
        special = self.loaded.tokenizer.all_special_ids
        places = tuple(place for place, token in enumerate(predicted) if token not in special)
        return Probe(
            encoded, pair, places, tuple(predicted[place] for place in places), len(places)
        )

    def _vector(self, encoded: EncodedInput, pair: int) -> Probe:
        """The last hidden state at the [CLS] token, or at the last token of a tokenizer without one."""
        ids, cls = encoded.model_inputs["input_ids"], self.loaded.tokenizer.cls_token_id
        return Probe(encoded, pair, (ids.index(cls) if cls in ids else len(ids) - 1,))

    def _labelled(self, encoded: EncodedInput, pair: int) -> Probe:
        """The class that the record's label names, or counts."""
        record, config = self.labelled.get(encoded.known_pair.texts), self.whole.config
        label = "" if record is None or record.label is None else record.label.strip()
        if record is None or label in _NO_LABEL:
            return Probe(encoded, pair)
        classes = {str(name).casefold(): int(number) for name, number in config.label2id.items()}
        number = classes.get(
            label.casefold(), int(label) if label.isdecimal() and label.isascii() else -1
        )
        if not 0 <= number < config.num_labels:
            class_names = ", ".join(sorted(classes, key=classes.__getitem__))
            raise InputError(
                f"{record.where} has the label '{label}', and the model knows {class_names}",
                "correct it, or leave the column out",
            )
        return Probe(encoded, pair, truth=(number,))

    def _mixed(self, inputs: Sequence[EncodedInput]) -> list[Probe]:
        """Each pair, and its A with the B of the pair after it in one seeded round through all: classes 0 and 1."""
        pairs = [number for number, encoded in enumerate(inputs) if 1 in encoded.sentence]
        shuffled = (
            np.random.default_rng(self.seed).permutation(pairs).tolist() if len(pairs) > 1 else []
        )
        sentences = [inputs[pair].known_pair.sentences for pair in shuffled]
        mixed = [
            Pair(a[0], b[1]) for a, b in zip(sentences, sentences[1:] + sentences[:1], strict=True)
        ]
        read = zip(shuffled, self.loaded.encode_all(mixed, "token", truncate=True), strict=True)
        mismatched = [
            Probe(encoded, pair, truth=(1,))
            for pair, encoded in read
            if isinstance(encoded, EncodedInput)
        ]
        return [*(Probe(inputs[pair], pair, truth=(0,)) for pair in pairs), *mismatched]

    def answers(self, questions: Sequence[Probe], run: Callable[[], Any]) -> Tensor:
        """Run the model; keep logits, vectors or, of words, the sum of their losses. Shape: [question, number]."""
        if self.name in (NEXT, CLASSES):
            return run().logits.cpu().double()  # type: ignore[no-any-return]
        at = [(row, place) for row, question in enumerate(questions) for place in question.places]
        rows, places = torch.tensor(at, device=self.loaded.device).T
        if self.name == VECTOR:
            return run().last_hidden_state[rows, places].cpu().double()  # type: ignore[no-any-return]
        if self.name == MASKED:  # a vocabulary takes as long as all layers
            with restrict_task_head(self.encoder, (rows, places)):
                logits = run().logits[0]
        else:
            logits = run().logits[rows, places]
        truth = torch.tensor(
            [token for question in questions for token in question.truth], device=logits.device
        )
        losses = (
            torch.nn.functional.cross_entropy(logits.float(), truth, reduction="none")
            .cpu()
            .double()
        )
        return losses.new_zeros(len(questions)).index_add_(0, rows.cpu(), losses)[:, None]

    def values(self, questions: Sequence[Probe], answers: Tensor) -> tuple[FloatArray, FloatArray]:
        """Compute each loss beside the intact model's answer, the first of each question, and the number of its words.

        Shape: [question, set, number] -> [question, quantity, set], [question, quantity].
        """
        values, n = answers.transpose(1, 2), torch.tensor([[question.n] for question in questions])
        if self.name == VECTOR:
            values = 1 - torch.nn.functional.cosine_similarity(answers, answers[:, :1], dim=-1)[
                :, None
            ].clip(max=1)
        if self.name in (NEXT, CLASSES):
            logs = answers.log_softmax(-1)
            divergence = (logs[:, :1].exp() * (logs[:, :1] - logs)).sum(-1).clip(0)
            truth = torch.tensor([(*question.truth, -1)[:1] for question in questions])
            values, n = (
                torch.stack([divergence, answers.argmax(-1) == truth], 1),
                torch.cat([n, truth >= 0], 1),
            )
        last = slice(-len(QUANTITIES[self.name]), None)  # of next sentences, no divergence
        return values[:, last].numpy(), n[:, last].double().numpy()


def losses_of(
    loaded: LoadedModel, names: Sequence[str], seed: int, labelled: Labelled
) -> dict[str, Loss | str]:
    """The losses of these names; where one is not available, why not. `labelled` may be filled later."""
    losses: dict[str, Loss | str] = {}
    for name in names:
        whole = loaded.model if name in (TARGET_MEASURE, VECTOR) else task_head(loaded, name)  # type: ignore[arg-type]
        encoder = getattr(whole, "base_model", None) if name in (NEXT, CLASSES) else loaded.model
        losses[name] = (
            whole if isinstance(whole, str) else Loss(name, whole, encoder, loaded, seed, labelled)
        )
    return losses


def measures_of(
    loaded: LoadedModel, wanted: Sequence[str], seed: int, labelled: Labelled, kind: AttentionKind
) -> list[Loss]:
    """The losses that are wanted; without any, one for each task head, or `cls`; `target` where a target is written.

    Raises: ModelError if the checkpoint lacks the head for one that is wanted.
    """
    writes = kind is not AttentionKind.ONLY
    if unfit := next((name for name in wanted if (name == TARGET_MEASURE) != writes), None):
        reason = (
            f"{kind.word} attention is measured by target"
            if writes
            else "it is for decoder and cross attention"
        )
        raise ModelError(f"{unfit} cannot be measured: {reason}", "leave --measure out")
    losses = losses_of(
        loaded, [TARGET_MEASURE] if writes else wanted or MEASURES[:-1], seed, labelled
    )
    available = [loss for loss in losses.values() if isinstance(loss, Loss)]
    if wanted and len(available) < len(losses):
        name, reason = next(
            (name, reason) for name, reason in losses.items() if isinstance(reason, str)
        )
        raise ModelError(
            f"{name} cannot be measured with {loaded.source.name}: {reason}",
            "leave --measure out to take what it has, or measure cls",
        )
    return available or measures_of(loaded, [VECTOR], seed, labelled, kind)
