"""What a model loses, by its task: classes, next sentences, or the vector of the input."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ablated import PAIRS, each_of, reader_of, saved_with_tokenizer
from families import TAPPED, tiny_model
from transformers import AutoModelForSequenceClassification, BertConfig, BertForNextSentencePrediction

from attnscan.errors import InputError, ModelError
from attnscan.inputs.sentence import Pair
from attnscan.results.terms import Head
from attnscan.scan.options import AblationRequest, ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.studies.ablation import ablate
from attnscan.studies.losses import Loss, losses_of


def _config(**more: object) -> BertConfig:
    from toy import VOCABULARY

    torch.manual_seed(3)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
    return BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=40, initializer_range=0.8, **small, **more)


def test_a_classifiers_divergence_and_accuracy(tmp_path: Path) -> None:
    config = _config(num_labels=3, id2label={0: "yes", 1: "no", 2: "maybe"}, label2id={"yes": 0, "no": 1, "maybe": 2})
    whole = AutoModelForSequenceClassification.from_config(config).eval()
    model = saved_with_tokenizer(tmp_path / "classifier", whole)
    with Scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = ablate(scanner, reader_of(*PAIRS, label="No"), AblationRequest(heads="all"))
        alone = ablate(scanner, reader_of(*PAIRS, label="No"), each_of(Head(0, 1)))
        with pytest.raises(InputError, match="here has the label 'never', and the model knows yes, no, maybe"):
            ablate(scanner, reader_of(*PAIRS, label="never"), each_of(Head(0, 1)))
        inputs = [scanner.encode(pair).model_inputs for pair in PAIRS]
    divergence, accuracy = found.effects
    before, after = (_probabilities(whole, inputs, off) for off in (False, True))
    expected = (before * (before / after).log()).sum(-1).mean()
    assert (divergence.intact, divergence.n) == (0, 3)
    assert divergence.ablated == pytest.approx(float(expected), abs=1e-5) and divergence.ablated > 0.01
    assert accuracy.quantity.larger_is_better
    assert accuracy.intact == pytest.approx(float((before.argmax(-1) == 1).float().mean()))
    assert 0 < alone.effects[0].ablated != divergence.ablated and alone.effects[1].intact == accuracy.intact


def _probabilities(whole: torch.nn.Module, inputs: list[dict[str, list[int]]], off: bool) -> torch.Tensor:
    from copy import deepcopy

    whole = deepcopy(whole)
    if off:
        for layer in whole.bert.encoder.layer:  # type: ignore[union-attr]
            layer.attention.output.dense.weight.data.zero_()
    with torch.no_grad():
        logits = [whole(**{k: torch.tensor([v]) for k, v in one.items()}).logits[0] for one in inputs]
    return torch.stack(logits).softmax(-1)


def test_next_sentences_are_told_from_others(tmp_path: Path) -> None:
    model = saved_with_tokenizer(tmp_path / "nsp", BertForNextSentencePrediction(_config()).eval())
    with Scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = ablate(scanner, reader_of(*PAIRS, Pair("a cat")), each_of(Head(0, 1)))
        inputs = [scanner.encode(pair) for pair in (*PAIRS, Pair("a cat"))]
        loss = losses_of(scanner.loaded, ["next-sentence"], 0, {})["next-sentence"]
        assert isinstance(loss, Loss)
        asked = loss.questions(inputs)
    assert [question.input.tokens for question in asked[:3]] == [encoded.tokens for encoded in inputs[:3]]
    assert [question.truth for question in asked] == [(0,)] * 3 + [(1,)] * 3  # as the head is trained: 0 follows
    effect = found.effects[0]
    assert effect.quantity.name == "next-sentence" and effect.n == 6  # a pair and its other one; a single sentence none
    own, others = ({question.input.known_pair.texts for question in some} for some in (asked[:3], asked[3:]))
    assert {a for a, _ in others} == {a for a, _ in own} and {b for _, b in others} == {b for _, b in own}
    assert not own & others


def test_without_a_task_head_the_vector_of_the_input_counts(tmp_path: Path) -> None:
    for family in ("bert", "gpt2", "modernbert"):
        model = saved_with_tokenizer(tmp_path / family, tiny_model(family, TAPPED[family]))
        with Scanner(ScanOptions(model=model, predictive="off")) as scanner:
            found = ablate(scanner, reader_of(*PAIRS), each_of(Head(0, 1), Head(2, 0)))
            with pytest.raises(ModelError, match="masked-lm cannot be measured"):
                ablate(scanner, reader_of(*PAIRS), each_of(Head(0, 1), measures=("masked-lm",)))
        assert [effect.quantity.name for effect in found.effects] == ["cls", "cls"]
        assert all(effect.ablated > 0 and effect.intact == 0 for effect in found.effects)
