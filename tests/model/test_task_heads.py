"""Which task heads a checkpoint has, and why it has none."""

from pathlib import Path
from typing import Any

import pytest
from support.tiny_checkpoints import SIZE, SMALL, loaded, save
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
)

from attnscan.model.task_heads import task_head

BERT = BertModel(BertConfig(**SMALL))
GPT2 = GPT2LMHeadModel(GPT2Config(vocab_size=SIZE, n_embd=16, n_layer=1, n_head=2, n_positions=32))


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ({"num_labels": 3}, True),
        ({"num_labels": 2}, True),
        ({"num_labels": 2, "problem_type": "single_label_classification"}, True),
        ({"num_labels": 2, "problem_type": "multi_label_classification"}, False),
        ({"num_labels": 1}, False),
    ],
)
def test_a_classifier_tells_one_of_several_classes(
    tmp_path: Path, settings: dict[str, Any], is_told: bool
) -> None:
    model = BertForSequenceClassification(BertConfig(**SMALL, **settings))
    head = task_head(loaded(save(tmp_path / "model", model)), "classifier")
    if is_told:
        assert not isinstance(head, str)
        assert head.config.num_labels == settings["num_labels"]
    else:
        assert head == "its classifier head does not tell one of several classes"


@pytest.mark.parametrize(
    ("model", "kind", "reason"),
    [
        (BERT, "masked-lm", "the checkpoint has no trained masked-LM head"),
        (BERT, "next-sentence", "the checkpoint has no trained next-sentence head"),
        (GPT2, "next-sentence", "a gpt2 model has no next-sentence head"),
    ],
)
def test_it_is_said_why_there_is_no_head(
    tmp_path: Path, model: Any, kind: Any, reason: str
) -> None:
    assert task_head(loaded(save(tmp_path / "model", model)), kind) == reason


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (BertForMaskedLM(BertConfig(**SMALL)), "masked-lm"),
        (BertForNextSentencePrediction(BertConfig(**SMALL)), "next-sentence"),
        (GPT2, "causal-lm"),
    ],
)
def test_a_trained_head_shares_the_encoders_weights(tmp_path: Path, model: Any, kind: Any) -> None:
    encoder = loaded(save(tmp_path / "model", model))
    head = task_head(encoder, kind)
    assert type(head) is type(model)
    assert not head.training
    own = head.get_input_embeddings().weight
    assert own.data_ptr() == encoder.embedding.data_ptr()


def test_a_head_that_fills_masks_needs_a_mask_token(tmp_path: Path) -> None:
    encoder = loaded(save(tmp_path / "model", BertForMaskedLM(BertConfig(**SMALL))))
    encoder.tokenizer.mask_token = None
    assert task_head(encoder, "masked-lm") == "it has no mask token"
