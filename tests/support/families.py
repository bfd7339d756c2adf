"""Tiny random models of every family that attnscan is said to read, made from config
objects alone.
"""

from collections import defaultdict
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    EncoderDecoderConfig,
    EncoderDecoderModel,
)

from attnscan.model.attention_block import AttentionBlock

Settings = dict[str, Any]
"""What makes a family's config small."""

VOCABULARY = 60
_VOCAB: Settings = {"vocab_size": VOCABULARY}
_SMALL: Settings = {
    **_VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
_IDS: Settings = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
GROUPED: Settings = {**_SMALL, **_IDS, "num_key_value_heads": 2}
_XLM: Settings = {
    "n_words": VOCABULARY,
    "emb_dim": 32,
    "n_layers": 3,
    "n_heads": 4,
    "max_position_embeddings": 64,
}
_ENDS: Settings = {"bos_token_id": 1, "eos_token_id": 2}
_GPT: Settings = {**_VOCAB, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, **_ENDS}
BART: Settings = {
    **_VOCAB,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_T5: Settings = {**_VOCAB, "d_model": 32, "num_layers": 3, "num_heads": 4, "d_kv": 8, "d_ff": 37}

TAPPED_ENCODERS: dict[str, Settings] = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "ernie"), _SMALL
    ),
    **dict.fromkeys(("layoutlm", "markuplm", "nomic_bert", "gte", "jina_embeddings_v3"), _SMALL),
    **dict.fromkeys(("data2vec-text", "roberta-prelayernorm"), _SMALL),
    "roc_bert": {**_SMALL, "shape_vocab_size": VOCABULARY, "pronunciation_vocab_size": VOCABULARY},
    "splinter": _SMALL,
    **{key: {**_SMALL, "embedding_size": 16} for key in ("albert", "electra")},
    "distilbert": {
        **_VOCAB,
        "dim": 32,
        "n_layers": 3,
        "n_heads": 4,
        "hidden_dim": 37,
        "max_position_embeddings": 64,
    },
    "mobilebert": {
        **_SMALL,
        "embedding_size": 16,
        "intra_bottleneck_size": 32,
        "true_hidden_size": 32,
    },
    "modernbert": {**_SMALL, **_IDS, "local_attention": 4, "global_attn_every_n_layers": 2},
    "eurobert": {**_SMALL, **_IDS, "mask_token_id": 4, "num_key_value_heads": 2},
    "ultrabert": {**_SMALL, **_IDS, "sliding_window": 3},
    "xmod": {**_SMALL, "languages": ["en_XX"], "default_language": "en_XX"},
    "bert-generation": {**_SMALL, **_IDS},
    "esm": {**_SMALL, "pad_token_id": 0, "mask_token_id": 4},
}
TAPPED_ENCODER_DECODERS: dict[str, Settings] = {
    **dict.fromkeys(("bart", "mbart", "plbart", "pegasus", "m2m_100"), BART),
    "marian": {**BART, "decoder_start_token_id": 0},
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5),  # they add a position bias
    "switch_transformers": {**_T5, "num_experts": 2},
}
_WINDOW: Settings = {**GROUPED, "sliding_window": 4}
_GEMMA: Settings = {**GROUPED, "head_dim": 8}
_EXPERTS: Settings = {"intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2}
TAPPED_DECODERS: dict[str, Settings] = {
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _GPT),
    **dict.fromkeys(("gpt_neox", "biogpt", "phi"), _SMALL),
    **dict.fromkeys(("llama", "qwen2", "olmo2", "stablelm", "doge"), GROUPED),
    **dict.fromkeys(("mistral", "phi3", "starcoder2"), _WINDOW),
    **dict.fromkeys(("qwen3", "gemma"), _GEMMA),
    "gemma3_text": {**_GEMMA, "sliding_window": 4},
    "gemma4_text": {  # its heads are of unequal width
        **_GEMMA,
        "sliding_window": 4,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 8,
    },
    **{key: {**GROUPED, **_EXPERTS} for key in ("mixtral", "jetmoe")},
    "opt": {**_SMALL, **_IDS, "word_embed_proj_dim": 32, "ffn_dim": 37},
    "ctrl": {**_VOCAB, "n_embd": 32, "n_layer": 3, "n_head": 4, "dff": 37, "n_positions": 64},
}
TAPPED: dict[str, Settings] = {**TAPPED_ENCODERS, **TAPPED_ENCODER_DECODERS, **TAPPED_DECODERS}
"""Families whose attention calls the tap, decoders with grouped keys and windows among them."""

UNTAPPED_ENCODERS: dict[str, Settings] = {
    **dict.fromkeys(("deberta", "deberta-v2", "mpnet", "megatron-bert", "ibert", "tapas"), _SMALL),
    "nystromformer": _SMALL,  # with as many landmarks as tokens in a segment: full attention
    **dict.fromkeys(("xlm", "flaubert"), _XLM),
    "xlnet": {**_VOCAB, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 37},
    "convbert": {
        **_SMALL,
        "embedding_size": 32,
    },  # drops half of its heads, whatever its config says
    "roformer": {**_SMALL, "embedding_size": 32},
    "big_bird": {**_SMALL, "attention_type": "original_full"},
    "rembert": {**_SMALL, "input_embedding_size": 16},
    "luke": {**_SMALL, "entity_vocab_size": 8, "entity_emb_size": 16},
    "squeezebert": {**_SMALL, "embedding_size": 32, "intermediate_size": 36},
}
_T5_GEMMA: Settings = {**_GEMMA, "sliding_window": 4}
_PROPHET: Settings = {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4}
UNTAPPED_ENCODER_DECODERS: dict[str, Settings] = {
    "t5gemma": {
        **_VOCAB,
        "encoder": _T5_GEMMA,
        "decoder": {**_T5_GEMMA, "num_hidden_layers": 2},
    },  # caps its logits
    "mvp": BART,
    "prophetnet": {
        **_VOCAB,
        **_PROPHET,
        "hidden_size": 32,
        "num_encoder_layers": 3,
        "num_decoder_layers": 2,
    },
    "bigbird_pegasus": {**BART, "attention_type": "original_full"},
}
_NLLB: Settings = {**BART, "num_experts": 2, "encoder_sparse_step": 2, "decoder_sparse_step": 2}
_BOTH: Settings = {
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 33,
}
_UNEQUAL: Settings = {**BART, **_BOTH, "decoder_start_token_id": 2}
_T5_TWO: Settings = {**_T5, "num_decoder_layers": 2, "decoder_start_token_id": 0}
_LIKE_BART = (
    "bart",
    "mbart",
    "plbart",
    "marian",
    "pegasus",
    "m2m_100",
    "blenderbot",
    "blenderbot-small",
)
_FSMT: Settings = {
    **_UNEQUAL,
    "src_vocab_size": VOCABULARY,
    "tgt_vocab_size": VOCABULARY,
    "langs": ["en", "de"],
}
ENCODER_DECODERS: dict[str, tuple[Settings, str]] = {
    **dict.fromkeys(("t5", "mt5", "umt5"), (_T5_TWO, "edc")),
    "switch_transformers": ({**_T5_TWO, "num_experts": 2}, "edc"),
    "longt5": ({**_T5_TWO, "local_radius": 3}, "dc"),
    "t5gemma": (UNTAPPED_ENCODER_DECODERS["t5gemma"], ""),
    **dict.fromkeys(_LIKE_BART, (_UNEQUAL, "edc")),
    "nllb-moe": (_NLLB, "edc"),
    "bigbird_pegasus": ({**_UNEQUAL, "attention_type": "original_full"}, "dc"),
    "pegasus_x": ({**_UNEQUAL, "block_size": 4, "num_global_tokens": 2}, "dc"),
    "mvp": (_UNEQUAL, ""),
    "led": ({**_UNEQUAL, "attention_window": 8}, ""),
    "fsmt": (_FSMT, ""),
    "encoder-decoder": ({}, "edc"),
}
"""Whole encoder-decoders: what makes them small, and the letters of the kinds of attention that the
tap reads.
"""

UNTAPPED_DECODERS: dict[str, Settings] = {
    "gemma2": {**_GEMMA, "sliding_window": 4},  # caps its logits
    "bloom": {**_VOCAB, "hidden_size": 32, "n_layer": 3, "n_head": 4},
    "falcon": {**_SMALL, **_IDS, "alibi": False, "num_kv_heads": 2},
    **{key: {**_GPT, "rotary_dim": 4} for key in ("gptj", "codegen")},
    "gpt_neo": {
        **_SMALL,
        **_IDS,
        "attention_types": [[["global", "local", "global"], 1]],
        "window_size": 4,
    },
    "openai-gpt": _GPT,
    "xglm": {**_VOCAB, "d_model": 32, "num_layers": 3, "attention_heads": 4, "ffn_dim": 37},
}
UNTAPPED: dict[str, Settings] = {
    **UNTAPPED_ENCODERS,
    **UNTAPPED_ENCODER_DECODERS,
    **UNTAPPED_DECODERS,
}
"""Families whose own eager attention is watched."""

NOT_CARRIED = ("convbert", "nystromformer", "squeezebert", "jetmoe")
"""Heads whose outputs are joined with others', or projected by a convolution or by experts."""

_CANINE: Settings = {name: size for name, size in _SMALL.items() if name != "vocab_size"}
_NONE = "no softmax attention"
_SEVERAL = "several attentions in a layer"
REFUSED: dict[str, tuple[Settings, str]] = {
    "fnet": ({name: size for name, size in _SMALL.items() if name != "num_attention_heads"}, _NONE),
    "mamba": ({**_VOCAB, "hidden_size": 32, "num_hidden_layers": 2}, _NONE),
    **dict.fromkeys(("mra", "yoso"), (_SMALL, _NONE)),
    **dict.fromkeys(
        ("gpt_oss", "inkling2_text"), ({**_GEMMA, **_EXPERTS}, "not a softmax")
    ),  # a sink
    "longformer": ({**_SMALL, "attention_window": 8}, _NONE),  # not over all keys
    "led": ({**BART, "attention_window": 8}, _NONE),
    "canine": (
        {**_CANINE, "local_transformer_stride": 4, "upsampling_kernel_size": 2},
        "weights of shape",
    ),
    "pegasus_x": ({**BART, "block_size": 4, "num_global_tokens": 2}, _NONE),
    "bros": (_SMALL, "bbox"),
    "lilt": ({**_SMALL, "hidden_size": 48, "channel_shrink_ratio": 2}, _SEVERAL),
    "diffllama": (GROUPED, _SEVERAL),
}
"""Families that must be refused, and what the error says of them."""

_FULL = "full attention"
_TEXT = "text"
AS = {"big_bird": _FULL, "nystromformer": _FULL, "bigbird_pegasus": _FULL}
AS |= dict.fromkeys(("layoutlm", "markuplm", "luke", "tapas", "lilt"), _TEXT)
"""What is read of families that can do otherwise."""


def tiny_model(family: str, settings: Settings, attention: str | None = "eager") -> Any:
    """A random model in evaluation mode; of an encoder-decoder, its encoder."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **settings)
    model = AutoModel.from_config(config, attn_implementation=attention).eval()
    return model.get_encoder() if config.is_encoder_decoder else model


def tiny_encoder_decoder(family: str, attention: str | None = "eager") -> Any:
    """A random encoder-decoder, whole; of BERTs, one of three layers and one of two."""
    torch.manual_seed(0)
    if family == "encoder-decoder":
        encoder = AutoConfig.for_model("bert", **_SMALL)
        decoder = AutoConfig.for_model("bert", **_SMALL | {"num_hidden_layers": 2}, is_decoder=True)
        decoder.add_cross_attention = True
        config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder, pad_token_id=0)
        model = EncoderDecoderModel(config).eval()
        model.set_attn_implementation(attention or "sdpa")
        return model
    config = AutoConfig.for_model(family, **ENCODER_DECODERS[family][0])
    return AutoModel.from_config(config, attn_implementation=attention).eval()


def tiny_writer(family: str) -> Any:
    """A random encoder-decoder with the head that predicts words."""
    whole = tiny_encoder_decoder(family)
    if isinstance(whole, EncoderDecoderModel):
        whole.config.decoder_start_token_id = 1
        return whole
    return AutoModelForSeq2SeqLM.from_config(whole.config).eval()


def tiny_translations() -> dict[str, torch.Tensor]:
    """Sources of 12 and 8 tokens and targets of 5 and 9, the shorter ones padded."""
    torch.manual_seed(2)
    ids = torch.randint(5, VOCABULARY, (2, 9))
    present = torch.ones(2, 9, dtype=torch.int64)
    present[0, 5:] = 0
    return {**tiny_inputs(), "decoder_input_ids": ids * present, "decoder_attention_mask": present}


def tiny_inputs() -> dict[str, torch.Tensor]:
    """Two inputs of 12 and 8 tokens, the shorter one padded."""
    torch.manual_seed(1)
    ids = torch.randint(5, VOCABULARY, (2, 12))
    present = torch.ones_like(ids)
    present[1, 8:] = 0
    return {"input_ids": ids * present, "attention_mask": present}


def eager_attention(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Each layer's weights as transformers itself gives them, by a model made with eager attention.

    SqueezeBERT and ProphetNet give what the softmax is of.
    """
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    shown: tuple[torch.Tensor, ...] = output.get("attentions") or output["encoder_attentions"]
    logits = bool((shown[0].float().sum(-1) - 1).abs().max() > 0.05)
    return tuple(weights.softmax(-1) for weights in shown) if logits else shown


class Collected:
    """A consumer that keeps all blocks of a run, and puts them together to whole layers."""

    def __init__(self) -> None:
        self.blocks: dict[int, list[AttentionBlock]] = defaultdict(list)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; what comes once more replaces what came first."""
        kept = [
            other
            for other in self.blocks[block.layer]
            if (other.inputs, other.heads) != (block.inputs, block.heads)
        ]
        self.blocks[block.layer] = [*kept, block]

    def layer(self, number: int, name: str = "weights") -> torch.Tensor:
        """Shape: [batch, head, query, key], or of queries or keys; 0 on padding that
        was left out.
        """
        parts = [(block, getattr(block, name)) for block in self.blocks[number]]
        batch = max(block.inputs.stop for block, _ in parts)
        heads = max(block.heads.stop for block, _ in parts)
        rows = max(part.shape[2] for _, part in parts)
        columns = max(part.shape[3] for _, part in parts)
        whole = torch.full((batch, heads, rows, columns), torch.nan)
        for block, part in parts:
            whole[block.inputs, block.heads] = 0
            whole[block.inputs, block.heads, : part.shape[2], : part.shape[3]] = part
        return whole

    def visible(self, number: int) -> torch.Tensor:
        """Shape: [batch, query, key], bool."""
        whole = torch.zeros_like(self.blocks[number][0].visible)
        for block in self.blocks[number]:
            whole[block.inputs] |= block.visible[block.inputs]
        return whole
