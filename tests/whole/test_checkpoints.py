"""Checkpoints as they are found: with task heads, in parts, resized, wrapped, with attention in
some layers alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from support.families import GROUPED, TAPPED, UNTAPPED, Collected, tiny_inputs
from support.tiny_checkpoints import SIZE, SMALL, refusal, save
from support.tokenizers_of_kinds import wordpiece
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    JambaConfig,
    JambaModel,
)

import attnscan
from attnscan.errors import ModelError, SelectionError
from attnscan.inputs.sentence import Pair
from attnscan.model.loading import load
from attnscan.model.sources import choose
from attnscan.model.tap import AttentionTap
from attnscan.results.grid import Grid
from attnscan.results.predictions import Change
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner
from attnscan.studies.trial import _switch_off

pytestmark = pytest.mark.usefixtures("quiet")


def _save(directory: Path, model: Any) -> Path:
    model.save_pretrained(directory)
    wordpiece().save_pretrained(directory)
    return directory


def _make(kind: str, family: str) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, **{**TAPPED, **UNTAPPED}[family] | {"vocab_size": 100, "pad_token_id": 0}
    )
    return getattr(transformers, kind)(config).eval()


def _weights(model: Any) -> list[torch.Tensor]:
    collected = Collected()
    with AttentionTap(model) as tap:
        tap.run(tiny_inputs(), collected)
    return [collected.layer(layer) for layer in sorted(collected.blocks)]


WRAPPED = [
    ("BertForSequenceClassification", "bert", "BertModel"),
    ("BertForPreTraining", "bert", "BertModel"),
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


@pytest.mark.parametrize(("kind", "family", "encoder"), WRAPPED)
def test_the_encoder_inside_is_what_was_saved(
    tmp_path: Path, kind: str, family: str, encoder: str
) -> None:
    """A trained masked-LM head is found with it, and an untrained one not made up."""
    whole = _make(kind, family)
    inside = whole.get_encoder() if family in ("bart", "t5") else whole.base_model
    found = load(choose(str(_save(tmp_path, whole))))
    assert type(found.model).__name__ == encoder == type(inside).__name__ and found.note == ""
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
    directory = _save(tmp_path, _make(kind, family))
    ran = []
    with open_scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        # found by a run to the end
        whole = scanner.loaded.masked_lm or scanner.loaded.model
        _ = scanner.grid()
        for name, module in whole.named_modules():
            module.register_forward_hook(lambda *_, name=name: ran.append(name))
        scanner.score([scanner.encode(Pair("the cat sat", "a mat"))])
    assert any("attention" in name or "attn" in name for name in ran)
    assert not [
        name
        for name in ran
        if name.split(".")[0] in ("cls", "classifier", "lm_head", "decoder", "")
    ]


A = "The cat sat."
B = "The cats sat on the mat."
PAIRS = [
    (A, B),
    ("On the mat.", "The cat."),
    ("Cat, sat.", "On the cat."),
    ("The mat sat.", "Mats."),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return save(tmp_path_factory.mktemp("tiny") / "tiny", BertModel(BertConfig(**SMALL)))


def scores(model: Path) -> Any:
    options = {"predictive": "off", "related": False}
    return attnscan.classify(A, B, model=str(model), **options).to_frame().drop(columns="model")


def with_more_tokens(checkpoint: Path, directory: Path, padding: int = 0) -> Path:
    """The checkpoint with a token more, and embeddings for it and for some rows of padding."""
    model = AutoModel.from_pretrained(checkpoint)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokenizer.add_tokens(["dog"])
    model.resize_token_embeddings(len(tokenizer) + padding, mean_resizing=False)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def test_a_sharded_checkpoint_in_half_precision_is_read_in_float32(
    checkpoint: Path, tmp_path: Path
) -> None:
    half = AutoModel.from_pretrained(checkpoint, dtype=torch.float16)
    half.save_pretrained(tmp_path / "half", max_shard_size="2KB")
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path / "half")
    assert len(list((tmp_path / "half").glob("*.safetensors"))) > 2
    assert scores(tmp_path / "half").equals(scores(save(tmp_path / "whole", half.float())))


def test_embeddings_that_were_resized_for_new_tokens_are_read(
    checkpoint: Path, tmp_path: Path
) -> None:
    resized = with_more_tokens(checkpoint, tmp_path / "resized", 3)  # padded, as for a GPU
    assert "dog" in attnscan.classify("The dog sat.", model=str(resized)).units
    ours = scores(resized).select_dtypes("number")
    theirs = scores(checkpoint).select_dtypes("number")
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_models_of_different_tokenizers_are_compared_by_place(
    checkpoint: Path, tmp_path: Path
) -> None:
    """Where their heads have no places in common either, no remedy leads to the other."""
    for match in ("place", "nearest"):
        with pytest.raises(ModelError, match="of one tokenizer"):
            attnscan.compare(str(checkpoint), "bundled", PAIRS, match=match)
    models = str(checkpoint), str(with_more_tokens(checkpoint, tmp_path / "more"))
    with pytest.raises(ModelError, match="leave out match='nearest'"):
        attnscan.compare(*models, PAIRS, match="nearest")
    assert len(attnscan.compare(*models, PAIRS).to_frame())


def test_special_tokens_that_are_typed_are_words(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "attnscan")
    result = attnscan.classify("The cat [SEP] sat.", model=str(checkpoint))
    delimiters = [
        unit for unit, sentence in zip(result.units, result.sentence, strict=True) if sentence < 0
    ]
    assert delimiters == ["[CLS]", "[SEP]"] and "[SEP]" in caplog.text


TEXT = "the cat sat on the mat."


@pytest.fixture(scope="module")
def jamba(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Layers 1 and 3 of 4 have attention."""
    torch.manual_seed(0)
    attention = {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1}
    experts = {"expert_layer_period": 9, "expert_layer_offset": 8, "num_experts": 1}
    sizes = (
        GROUPED | attention | experts | {"vocab_size": SIZE, "mamba_d_state": 4, "mamba_dt_rank": 4}
    )
    return str(save(tmp_path_factory.mktemp("jamba"), JambaModel(JambaConfig(**sizes))))


def test_heads_are_named_by_the_layers_of_the_model(jamba: str, tmp_path: Path) -> None:
    result = attnscan.classify(TEXT, model=jamba, predictive="off")
    names = [f"L{layer}H{head}" for layer in (1, 3) for head in range(4)]
    assert result.to_frame()["name"].tolist() == names
    assert result.kept_attention().rows_of("3-1", [0]).shape == (1, 9)
    for _ in range(2):  # by the model, and by what was kept
        kept = {"model": jamba, "predictive": "off", "state": tmp_path / "state.npz"}
        ranking = attnscan.heads([TEXT, "the mat"], **kept)
        assert sorted(ranking.to_frame()["layer"].unique()) == [1, 3]
    assert attnscan.profile(TEXT, model=jamba).to_frame()["layer"].unique().tolist() == [1, 3]
    checkpoint = attnscan.models(jamba)
    assert checkpoint.facts["attention_in"] == (1, 3) and np.isin(
        "attention_in", checkpoint.to_frame()["key"]
    )
    line = refusal(lambda: attnscan.explain("0-1", TEXT, model=jamba), SelectionError)
    assert line.startswith("0-1: this model has layers 1, 3")


def test_the_head_that_is_named_is_the_one_that_is_switched_off() -> None:
    """The layer 3 is the second that has attention, and the second that a tap shows."""
    named = Grid((2, 4), layers=(1, 3)).select("3-1")
    for layer, off in enumerate(([], [1])):
        _switch_off(Change(off=tuple(named)), layer, output := torch.ones(1, 5, 4, 8))
        assert [head for head in range(4) if not output[:, :, head].any()] == off
