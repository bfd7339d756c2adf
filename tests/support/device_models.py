"""Small random models of several kinds, saved with the first tokens of the bundled model."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers as t
from support.tokenizers_of_kinds import wordpiece_of
from support.toy_decoder import save_induction_gpt2
from support.translator import TRANSLATOR

from attnscan.model.sources import bundled_directory

TOKENS = 6000  # every letter, and words enough to say which are related
SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 32,
    "max_position_embeddings": 2048,
}
MARIAN: dict[str, Any] = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
}


class DeviceModels:
    """Directories of checkpoints, each of which is made when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, name: str) -> str:
        """The directory of a kind of model."""
        directory = self._directory / name
        if not directory.is_dir():
            torch.manual_seed(0)
            if name == "gpt2":
                save_induction_gpt2(directory)
            else:
                tokenizer = _tokenizer(name)
                _model(name, len(tokenizer)).eval().save_pretrained(directory)
                tokenizer.save_pretrained(directory)
        return str(directory)


def _tokenizer(name: str) -> Any:
    if name == "marian":
        return t.AutoTokenizer.from_pretrained(TRANSLATOR)
    tokenizer = wordpiece_of(_first_tokens(), "token_type_ids")
    tokenizer.model_max_length = 2048
    return tokenizer


@cache
def _first_tokens() -> list[str]:
    bundled = bundled_directory()
    assert bundled is not None
    return (bundled / "vocab.txt").read_text(encoding="utf-8").splitlines()[:TOKENS]


def _model(name: str, vocabulary: int) -> Any:
    sizes = {**SIZES, "vocab_size": vocabulary}
    if name == "masked-lm":
        return t.BertForMaskedLM(t.BertConfig(**sizes))
    if name == "next-sentence":
        return t.BertForPreTraining(t.BertConfig(**sizes))
    if name == "classifier":
        return t.BertForSequenceClassification(t.BertConfig(**sizes, num_labels=3))
    if name == "deberta":
        config = t.DebertaV2Config(**sizes, relative_attention=True, pos_att_type=["p2c", "c2p"])
        return t.DebertaV2ForMaskedLM(config)
    if name == "mpnet":
        return t.MPNetForMaskedLM(t.MPNetConfig(**sizes))
    if name == "xlnet":
        config = t.XLNetConfig(
            vocab_size=vocabulary, d_model=24, n_layer=2, n_head=3, d_inner=32, pad_token_id=0
        )
        return t.XLNetLMHeadModel(config)
    if name == "modernbert":
        config = t.ModernBertConfig(**sizes, pad_token_id=0, local_attention=16)
        return t.ModernBertForMaskedLM(config)
    assert name == "marian"
    return t.MarianMTModel(t.MarianConfig(vocab_size=vocabulary, **MARIAN))
