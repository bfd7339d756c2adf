"""Directories of adapters (LoRA): merged into their model by peft, or refused in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from support.tiny_checkpoints import SMALL, refusal, save, tokenizer
from torch.testing import assert_close
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

from attnscan.model.loading import load
from attnscan.model.sources import choose

pytestmark = [pytest.mark.loads_anew, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A masked LM of one layer."""
    torch.manual_seed(0)
    return save(tmp_path / "base", BertForMaskedLM(BertConfig(**SMALL)))


def _train(model: Any, directory: Path, **options: Any) -> Any:
    """A model with an adapter, as if it had been trained, that is saved by itself."""
    adapted = peft.get_peft_model(model, peft.LoraConfig(**options))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weights in adapted.parameters():
            if weights.requires_grad:
                weights.add_(torch.randn(weights.shape, generator=generator) * 0.3)
    adapted.save_pretrained(directory)
    return adapted.eval()


def _check(directory: Path, adapted: Any) -> Any:
    """Compare what is loaded from a directory with what was saved there."""
    loaded = load(choose(str(directory)))
    encoder = adapted.merge_and_unload().base_model
    ids = torch.arange(2, len(encoder.get_input_embeddings().weight))[None]
    with torch.no_grad():
        expected = encoder(input_ids=ids).last_hidden_state
        assert_close(loaded.model(input_ids=ids).last_hidden_state, expected, rtol=0, atol=1e-5)
    return loaded


def test_an_adapter_of_an_encoder_is_merged(tmp_path: Path, base: Path) -> None:
    options = {"task_type": "FEATURE_EXTRACTION", "target_modules": ["query", "value"]}
    adapted = _train(BertModel.from_pretrained(base), tmp_path / "adapter", **options)
    loaded = _check(tmp_path / "adapter", adapted)
    assert loaded.source.name == str(tmp_path / "adapter")
    assert loaded.masked_lm is not None
    assert str(loaded.fingerprint) != str(load(choose(str(base))).fingerprint)


@pytest.mark.parametrize("target", ["all-linear", ["query"]])
def test_an_adapter_inside_a_task_head_is_merged(
    tmp_path: Path, base: Path, target: str | list[str]
) -> None:
    """It adapts a pooler and a classifier too, on which no attention depends."""
    model = BertForSequenceClassification.from_pretrained(base, num_labels=3)
    adapted = _train(model, tmp_path / "adapter", task_type="SEQ_CLS", target_modules=target)
    _check(tmp_path / "adapter", adapted)


def test_an_adapters_own_tokenizer_is_taken(tmp_path: Path, base: Path) -> None:
    own = tokenizer()
    own.add_tokens(["<x>", "<y>"])
    model = BertForSequenceClassification.from_pretrained(base, num_labels=3)
    model.resize_token_embeddings(len(own))
    adapted = _train(model, tmp_path / "adapter", task_type="SEQ_CLS", target_modules=["query"])
    own.save_pretrained(tmp_path / "adapter")
    loaded = _check(tmp_path / "adapter", adapted)
    assert len(loaded.tokenizer) == len(loaded.embedding) == len(own)
    assert loaded.tokenizer.tokenize("the <x>") == ["the", "<x>"]


def test_trained_token_embeddings_are_taken(tmp_path: Path, base: Path) -> None:
    options = {"target_modules": ["query"], "modules_to_save": ["word_embeddings"]}
    adapted = _train(BertModel.from_pretrained(base), tmp_path / "adapter", **options)
    before = load(choose(str(base))).embedding
    loaded = _check(tmp_path / "adapter", adapted)
    assert (loaded.embedding - before).abs().max() > 0.1, "a control"


def test_an_adapter_of_another_model_is_refused(tmp_path: Path, base: Path) -> None:
    larger = BertModel(BertConfig(**SMALL | {"num_hidden_layers": 2}))
    _train(larger, tmp_path / "adapter", target_modules=["query"])
    file = tmp_path / "adapter" / "adapter_config.json"
    about = json.loads(file.read_text()) | {"base_model_name_or_path": str(base)}
    file.write_text(json.dumps(about))
    line = refusal(lambda: load(choose(str(tmp_path / "adapter"))))
    assert "has weights without a place" in line
    assert "encoder.layer.1.attention" in line


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (True, "the package peft is not installed"),
        (False, "does not name the model that it changes"),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, named: bool, words: str
) -> None:
    directory = tmp_path / "adapter"
    directory.mkdir()
    about = {"peft_type": "LORA"} | ({"base_model_name_or_path": str(base)} if named else {})
    (directory / "adapter_config.json").write_text(json.dumps(about))
    monkeypatch.setitem(sys.modules, "peft", None)
    assert words in refusal(lambda: load(choose(str(directory))))
