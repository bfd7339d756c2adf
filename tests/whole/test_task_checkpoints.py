"""Checkpoints saved with a task's head: the encoder inside is what the plain model is, and the head does no work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from checkpoints_of_kinds import CASES, saved
from families import TAPPED, UNTAPPED, Collected, tiny_inputs
from tokenizers_of_kinds import wordpiece
from transformers import AutoConfig

from attnscan.errors import ModelError
from attnscan.inputs.sentence import Pair
from attnscan.model.loading import load
from attnscan.model.sources import choose
from attnscan.model.tap import Tap
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

pytestmark = pytest.mark.usefixtures("quiet")


def _save(directory: Path, model: Any) -> Path:
    model.save_pretrained(directory)
    wordpiece().save_pretrained(directory)
    return directory


def _make(kind: str, family: str) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**TAPPED, **UNTAPPED}[family] | {"vocab_size": 100, "pad_token_id": 0})
    return getattr(transformers, kind)(config).eval()


def _weights(model: Any) -> list[torch.Tensor]:
    collected = Collected()
    with Tap(model) as tap:
        tap.run(tiny_inputs(), collected)
    return [collected.layer(layer) for layer in sorted(collected.blocks)]


HEADS = [
    ("BertForSequenceClassification", "bert", "BertModel"),
    ("BertForPreTraining", "bert", "BertModel"),
    ("DistilBertForQuestionAnswering", "distilbert", "DistilBertModel"),
    ("ModernBertForSequenceClassification", "modernbert", "ModernBertModel"),
    ("DebertaV2ForSequenceClassification", "deberta-v2", "DebertaV2Model"),
    ("XLNetForSequenceClassification", "xlnet", "XLNetModel"),
    ("LlamaForCausalLM", "llama", "LlamaModel"),
    ("BartForConditionalGeneration", "bart", "BartEncoder"),
    ("T5ForConditionalGeneration", "t5", "T5Stack"),
    ("T5EncoderModel", "t5", "T5Stack"),
]


def _same(found: Any, expected: Any) -> None:
    """The same attention weights of the same inputs."""
    for ours, theirs in zip(_weights(found), _weights(expected), strict=True):
        assert ours.shape[:2] == (2, 4)
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("kind", "family", "encoder"), HEADS)
def test_the_encoder_inside_is_what_was_saved(tmp_path: Path, kind: str, family: str, encoder: str) -> None:
    """A trained masked-LM head is found with it, and an untrained one not made up."""
    whole = _make(kind, family)
    inside = whole.get_encoder() if family in ("bart", "t5") else whole.base_model
    found = load(choose(str(_save(tmp_path, whole))))
    assert type(found.model).__name__ == encoder == type(inside).__name__
    _same(found.model, inside)
    if family == "bert":
        assert (found.masked_lm is not None) is (kind != "BertForSequenceClassification")


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("BertForPreTraining", "bert"),
        ("DebertaV2ForMaskedLM", "deberta-v2"),
        ("BartForConditionalGeneration", "bart"),
    ],
)
@pytest.mark.loads_anew
def test_heads_poolers_and_decoders_do_no_work(tmp_path: Path, kind: str, family: str) -> None:
    directory, ran = _save(tmp_path, _make(kind, family)), []
    with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        whole, _ = scanner.loaded.masked_lm or scanner.loaded.model, scanner.grid()  # found by a run to the end
        for name, module in whole.named_modules():
            module.register_forward_hook(lambda *_, name=name: ran.append(name))
        scanner.score([scanner.encode(Pair("the cat sat", "a mat"))])
    assert any("attention" in name or "attn" in name for name in ran)
    assert not [name for name in ran if name.split(".")[0] in ("cls", "classifier", "lm_head", "decoder", "")]


def test_a_sentence_transformers_directory(tmp_path: Path) -> None:
    _save(tmp_path, whole := _make("BertModel", "bert"))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    _same(load(choose(str(tmp_path))).model, whole)


def test_what_cannot_change_its_attention_later_is_loaded_with_eager_attention(tmp_path: Path) -> None:
    """Falcon under sdpa adds a mask of true and false to its logits when it is asked for weights."""
    for layer in _weights(load(choose(str(saved(CASES["decoder that was sdpa"], tmp_path)))).model):
        assert (layer[0].triu(1) == 0).all()


def test_an_encoder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    config = transformers.FSMTConfig(src_vocab_size=100, tgt_vocab_size=100, decoder_attention_heads=2, **sizes)
    with pytest.raises(ModelError, match=r"FSMTEncoder of .* can be run by itself"):
        load(choose(str(_save(tmp_path, transformers.FSMTModel(config)))))
