"""Checkpoints that are damaged or bring code are refused in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from one_run import classify
from safetensors.torch import load_file, save_file
from scans import RECORDS
from tiny_checkpoints import SIZE, SMALL, configured, loaded, refusal, save, with_weights
from transformers import AutoConfig, BertModel
from work import similar

from attnscan.errors import CaptureError, ModelError
from attnscan.inputs.sentence import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

BERT = ("bert", SMALL)
GPT2 = ("gpt2", {"vocab_size": SIZE, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32})
T5 = ("t5", {"vocab_size": SIZE, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2})
RELATIVE = "encoder.layer.0.attention.self.distance_embedding.weight"


class TestDamage:
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_weights_that_are_not_finite_are_said(self, bert: Path, value: float) -> None:
        weights = load_file(bert / "model.safetensors")
        weights["embeddings.word_embeddings.weight"].fill_(value)
        save_file(weights, bert / "model.safetensors", {"format": "pt"})
        options = ScanOptions(model=str(bert))
        assert "not finite" in refusal(lambda: classify(Pair("the cat", "the mat"), options), CaptureError)
        with Scanner(options) as scanner:
            assert "not finite" in refusal(lambda: similar(scanner, RECORDS[:1], 8, 0.1), CaptureError)


class TestRemoteCode:
    """A checkpoint of a known type that brings code of its own: it is never run; of unknown types, see TRAPS."""

    @pytest.fixture
    def marker(self, bert: Path, tmp_path: Path) -> Path:
        marker = tmp_path / "marker"
        code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
        for name in ("evil.py", "__init__.py"):
            (bert / name).write_text(code + "class Evil: pass\n")
        return marker

    def test_a_known_model_type_is_loaded_without_it(self, bert: Path, marker: Path) -> None:
        configured(bert, auto_map={"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"})
        assert isinstance(loaded(bert).model, BertModel)
        assert not marker.exists()

    def test_a_tokenizer_of_its_own_is_not_run(self, bert: Path, marker: Path) -> None:
        file = bert / "tokenizer_config.json"
        own = {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}, "tokenizer_class": "Evil"}
        file.write_text(json.dumps(json.loads(file.read_text()) | own))
        try:
            loaded(bert)
        except ModelError as error:
            assert len(str(error).splitlines()) == 1
        assert not marker.exists()


def saved(directory: Path, kind: str, family: tuple[str, dict[str, Any]], **changes: Any) -> Path:
    config = AutoConfig.for_model(family[0], **family[1] | changes, pad_token_id=0)
    return save(directory, getattr(transformers, kind)(config))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: with_weights(saved(place, "BertModel", BERT), RELATIVE), f"holds, .*, 1 weight: {RELATIVE};"),
        (
            lambda place: with_weights(saved(place, "BertForMaskedLM", BERT), f"bert.{RELATIVE}"),
            "holds, .*, 1 weight: ",
        ),
        (
            lambda place: configured(saved(place, "BertModel", BERT, num_hidden_layers=2), num_hidden_layers=1),
            r"holds, .*, 16 weights: encoder\.layer\.1\..*, encoder\.layer\.1",
        ),
        (
            lambda place: configured(saved(place, "BertForMaskedLM", BERT, num_hidden_layers=2), num_hidden_layers=1),
            "16 weights: ",
        ),
        (lambda place: configured(saved(place, "GPT2LMHeadModel", GPT2), n_layer=1), "11 weights: "),
        (lambda place: configured(saved(place, "T5Model", T5), num_layers=1, num_decoder_layers=2), "8 weights: "),
    ],
)
def test_weights_of_the_encoder_that_nothing_uses_are_refused(
    tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    make(tmp_path / "model")
    line = refusal(lambda: loaded(tmp_path / "model"))
    assert re.search(said, line) and "see that its config.json belongs to its weights" in line


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("BertForPreTraining", BERT),
        ("BertForQuestionAnswering", BERT),
        ("GPT2ForSequenceClassification", GPT2),
        ("ElectraForPreTraining", ("electra", SMALL | {"embedding_size": 16})),
        ("RobertaForMaskedLM", ("roberta", SMALL)),
        ("LlamaForCausalLM", ("llama", SMALL)),
        ("T5ForConditionalGeneration", T5),
        ("T5EncoderModel", T5),
    ],
)
def test_heads_that_attention_does_not_depend_on_are_expected(tmp_path: Path, kind: str, family: Any) -> None:
    assert loaded(saved(tmp_path / "model", kind, family)).note == ""
