"""Tiny random models of every family that attnscan is said to read, made from config objects alone."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModel

VOCABULARY = 60
_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
_OWN = {"vocab_size": VOCABULARY}

TAPPED: dict[str, dict[str, Any]] = {
    "bert": _SMALL,
    "roberta": _SMALL,
    "xlm-roberta": _SMALL,
    "camembert": _SMALL,
    "albert": {**_SMALL, "embedding_size": 16},
    "distilbert": {**_OWN, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37, "max_position_embeddings": 64},
    "electra": {**_SMALL, "embedding_size": 16},
    "ernie": _SMALL,
    "mobilebert": {**_SMALL, "embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "layoutlm": _SMALL,
    "modernbert": {**_SMALL, **_IDS, "local_attention": 4, "global_attn_every_n_layers": 2},
    "eurobert": {**_SMALL, **_IDS, "mask_token_id": 4, "num_key_value_heads": 2},
    "nomic_bert": _SMALL,
    "data2vec-text": _SMALL,
    "bart": {
        **_OWN,
        "d_model": 32,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "max_position_embeddings": 64,
    },
    "gpt2": {**_OWN, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    "llama": {**_SMALL, "num_key_value_heads": 2},
    "mistral": {**_SMALL, "num_key_value_heads": 2, "sliding_window": 4},
}
"""Families whose attention calls the tap, decoders with grouped keys and windows among them."""

UNTAPPED: dict[str, dict[str, Any]] = {
    "deberta": _SMALL,
    "deberta-v2": _SMALL,
    "mpnet": _SMALL,
    "xlm": {"n_words": VOCABULARY, "emb_dim": 32, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64},
    "xlnet": {**_OWN, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 37},
    "convbert": {**_SMALL, "embedding_size": 32},  # drops half of its heads, whatever its config says
    "roformer": {**_SMALL, "embedding_size": 32},
    "big_bird": {**_SMALL, "attention_type": "original_full"},
    "gemma2": {**_SMALL, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4},  # caps its logits
    "t5": {**_OWN, "d_model": 32, "num_layers": 3, "num_heads": 4, "d_kv": 8, "d_ff": 37},  # adds a position bias
}
"""Families that are read by `output_attentions`."""

WITHOUT_ATTENTION: dict[str, dict[str, Any]] = {
    "fnet": {key: value for key, value in _SMALL.items() if key != "num_attention_heads"},
    "mamba": {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2},
    "longformer": {**_SMALL, "attention_window": 8},  # its weights are not over all keys
}
"""Families that must be refused."""


def tiny_model(family: str, settings: dict[str, Any], attention: str = "eager") -> Any:
    """A random model in evaluation mode; of an encoder-decoder, its encoder."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **settings)
    model = AutoModel.from_config(config, attn_implementation=attention).eval()
    return model.get_encoder() if config.is_encoder_decoder else model


def tiny_inputs() -> dict[str, torch.Tensor]:
    """Two inputs of 12 and 8 tokens, the shorter one padded."""
    torch.manual_seed(1)
    ids = torch.randint(5, VOCABULARY, (2, 12))
    present = torch.ones_like(ids)
    present[1, 8:] = 0
    return {"input_ids": ids * present, "attention_mask": present}
