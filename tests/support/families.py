"""Tiny random models of every family that attnscan is said to read, made from config objects alone."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, EncoderDecoderConfig, EncoderDecoderModel

from attnscan.model.attention_block import AttentionBlock

Settings = dict[str, Any]
"""What makes a family's config small."""

VOCABULARY = 60
_OWN: Settings = {"vocab_size": VOCABULARY}
_SMALL: Settings = {
    **_OWN,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
_IDS: Settings = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
_GROUPED: Settings = {**_SMALL, **_IDS, "num_key_value_heads": 2}
_XLM: Settings = {"n_words": VOCABULARY, "emb_dim": 32, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64}
_GPT: Settings = {
    **_OWN,
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BART: Settings = {
    **_OWN,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_T5: Settings = {**_OWN, "d_model": 32, "num_layers": 3, "num_heads": 4, "d_kv": 8, "d_ff": 37}

TAPPED_ENCODERS: dict[str, Settings] = {
    "bert": _SMALL,
    "roberta": _SMALL,
    "xlm-roberta": _SMALL,
    "xlm-roberta-xl": _SMALL,
    "camembert": _SMALL,
    "albert": {**_SMALL, "embedding_size": 16},
    "distilbert": {**_OWN, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37, "max_position_embeddings": 64},
    "electra": {**_SMALL, "embedding_size": 16},
    "ernie": _SMALL,
    "mobilebert": {**_SMALL, "embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "layoutlm": _SMALL,
    "markuplm": _SMALL,
    "modernbert": {**_SMALL, **_IDS, "local_attention": 4, "global_attn_every_n_layers": 2},
    "eurobert": {**_SMALL, **_IDS, "mask_token_id": 4, "num_key_value_heads": 2},
    "nomic_bert": _SMALL,
    "gte": _SMALL,
    "jina_embeddings_v3": _SMALL,
    "ultrabert": {**_SMALL, **_IDS, "sliding_window": 3},
    "data2vec-text": _SMALL,
    "roberta-prelayernorm": _SMALL,
    "xmod": {**_SMALL, "languages": ["en_XX"], "default_language": "en_XX"},
    "roc_bert": _SMALL,
    "splinter": _SMALL,
    "bert-generation": {**_SMALL, **_IDS},
    "esm": {**_SMALL, "pad_token_id": 0, "mask_token_id": 4},
}
TAPPED_ENCODER_DECODERS: dict[str, Settings] = {
    "bart": _BART,
    "mbart": _BART,
    "plbart": _BART,
    "marian": {**_BART, "decoder_start_token_id": 0},
    "pegasus": _BART,
    "m2m_100": _BART,
    "t5": _T5,  # adds a position bias
    "mt5": _T5,
    "umt5": _T5,
    "switch_transformers": {**_T5, "num_experts": 2},
}
TAPPED_DECODERS: dict[str, Settings] = {
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_neox": _SMALL,
    "opt": {
        **_OWN,
        **_IDS,
        "hidden_size": 32,
        "word_embed_proj_dim": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "ffn_dim": 37,
        "max_position_embeddings": 64,
    },
    "biogpt": _SMALL,
    "llama": _GROUPED,
    "mistral": {**_GROUPED, "sliding_window": 4},
    "mixtral": {**_GROUPED, "intermediate_size": 32, "num_local_experts": 2},
    "qwen2": _GROUPED,
    "qwen3": {**_GROUPED, "head_dim": 8},
    "gemma": {**_GROUPED, "head_dim": 8},
    "gemma3_text": {**_GROUPED, "head_dim": 8, "sliding_window": 4},
    "phi": _SMALL,
    "phi3": {**_GROUPED, "sliding_window": 4},
    "olmo2": _GROUPED,
    "starcoder2": {**_GROUPED, "sliding_window": 4},
    "stablelm": _GROUPED,
    "ctrl": {**_OWN, "n_embd": 32, "n_layer": 3, "n_head": 4, "dff": 37, "n_positions": 64},
}
TAPPED: dict[str, Settings] = {**TAPPED_ENCODERS, **TAPPED_ENCODER_DECODERS, **TAPPED_DECODERS}
"""Families whose attention calls the tap, decoders with grouped keys and windows among them."""

UNTAPPED_ENCODERS: dict[str, Settings] = {
    "deberta": _SMALL,
    "deberta-v2": _SMALL,
    "mpnet": _SMALL,
    "xlm": _XLM,
    "flaubert": _XLM,
    "xlnet": {**_OWN, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 37},
    "convbert": {**_SMALL, "embedding_size": 32},  # drops half of its heads, whatever its config says
    "roformer": {**_SMALL, "embedding_size": 32},
    "big_bird": {**_SMALL, "attention_type": "original_full"},
    "rembert": {**_SMALL, "input_embedding_size": 16},
    "megatron-bert": _SMALL,
    "ibert": _SMALL,
    "luke": {**_SMALL, "entity_vocab_size": 8, "entity_emb_size": 16},
    "tapas": _SMALL,
    "squeezebert": {**_SMALL, "embedding_size": 32, "intermediate_size": 36},
    "nystromformer": _SMALL,  # with as many landmarks as tokens in a segment: full attention
}
_T5_GEMMA: Settings = {**_GROUPED, "head_dim": 8, "sliding_window": 4}
UNTAPPED_ENCODER_DECODERS: dict[str, Settings] = {
    "t5gemma": {**_OWN, "encoder": _T5_GEMMA, "decoder": {**_T5_GEMMA, "num_hidden_layers": 2}},  # caps its logits
    "mvp": _BART,
    "prophetnet": {
        **_OWN,
        "hidden_size": 32,
        "num_encoder_layers": 3,
        "num_decoder_layers": 2,
        "num_encoder_attention_heads": 4,
        "num_decoder_attention_heads": 4,
    },
    "bigbird_pegasus": {**_BART, "attention_type": "original_full"},
}
_NLLB: Settings = {**_BART, "num_experts": 2, "encoder_sparse_step": 2, "decoder_sparse_step": 2}
_BOTH: Settings = {"encoder_attention_heads": 4, "decoder_attention_heads": 2, "decoder_ffn_dim": 33}
_UNEQUAL: Settings = {**_BART, **_BOTH, "decoder_start_token_id": 2}
_T5_TWO: Settings = {**_T5, "num_decoder_layers": 2, "decoder_start_token_id": 0}
ENCODER_DECODERS: dict[str, tuple[Settings, str]] = {
    "t5": (_T5_TWO, "edc"),
    "mt5": (_T5_TWO, "edc"),
    "umt5": (_T5_TWO, "edc"),
    "switch_transformers": ({**_T5_TWO, "num_experts": 2}, "edc"),
    "longt5": ({**_T5_TWO, "local_radius": 3}, "dc"),
    "t5gemma": (UNTAPPED_ENCODER_DECODERS["t5gemma"], ""),
    "bart": (_UNEQUAL, "edc"),
    "mbart": (_UNEQUAL, "edc"),
    "plbart": (_UNEQUAL, "edc"),
    "marian": (_UNEQUAL, "edc"),
    "pegasus": (_UNEQUAL, "edc"),
    "m2m_100": (_UNEQUAL, "edc"),
    "nllb-moe": (_NLLB, "edc"),
    "blenderbot": (_UNEQUAL, "edc"),
    "blenderbot-small": (_UNEQUAL, "edc"),
    "bigbird_pegasus": ({**_UNEQUAL, "attention_type": "original_full"}, "dc"),
    "pegasus_x": ({**_UNEQUAL, "block_size": 4, "num_global_tokens": 2}, "dc"),
    "mvp": (_UNEQUAL, ""),
    "led": ({**_UNEQUAL, "attention_window": 8}, ""),
    "fsmt": (
        {**_UNEQUAL, "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "langs": ["en", "de"]},
        "",
    ),
    "encoder-decoder": ({}, "edc"),
}
"""Whole encoder-decoders: what makes them small, and the letters of the kinds of attention that the tap reads."""

UNTAPPED_DECODERS: dict[str, Settings] = {
    "gemma2": {**_GROUPED, "head_dim": 8, "sliding_window": 4},  # caps its logits
    "bloom": {**_OWN, "hidden_size": 32, "n_layer": 3, "n_head": 4},
    "falcon": {**_SMALL, **_IDS, "alibi": False, "num_kv_heads": 2},
    "gptj": {**_GPT, "rotary_dim": 4},
    "codegen": {**_GPT, "rotary_dim": 4},
    "gpt_neo": {
        **_OWN,
        **_IDS,
        "hidden_size": 32,
        "num_layers": 3,
        "num_heads": 4,
        "max_position_embeddings": 64,
        "attention_types": [[["global", "local", "global"], 1]],
        "window_size": 4,
    },
    "openai-gpt": _GPT,
    "xglm": {
        **_OWN,
        "d_model": 32,
        "num_layers": 3,
        "attention_heads": 4,
        "ffn_dim": 37,
        "max_position_embeddings": 64,
    },
}
UNTAPPED: dict[str, Settings] = {**UNTAPPED_ENCODERS, **UNTAPPED_ENCODER_DECODERS, **UNTAPPED_DECODERS}
"""Families whose own eager attention is watched."""

NOT_CARRIED = ("convbert", "nystromformer", "squeezebert")
"""Heads whose outputs are joined with others', or projected by a convolution."""

REFUSED: dict[str, tuple[Settings, str]] = {
    "fnet": ({k: v for k, v in _SMALL.items() if k != "num_attention_heads"}, "no softmax attention"),
    "mamba": ({**_OWN, "hidden_size": 32, "num_hidden_layers": 2}, "no softmax attention"),
    "mra": (_SMALL, "no softmax attention"),
    "gpt_oss": (
        {**_GROUPED, "intermediate_size": 32, "head_dim": 8, "num_local_experts": 4},
        "not a softmax",
    ),  # a sink
    "longformer": ({**_SMALL, "attention_window": 8}, "no softmax attention"),  # not over all keys
    "led": ({**_BART, "attention_window": 8}, "no softmax attention"),
    "canine": (
        {k: v for k, v in _SMALL.items() if k != "vocab_size"}
        | {"local_transformer_stride": 4, "upsampling_kernel_size": 2},
        "weights of shape",
    ),
    "yoso": (_SMALL, "no softmax attention"),
    "pegasus_x": ({**_BART, "block_size": 4, "num_global_tokens": 2}, "no softmax attention"),
    "bros": (_SMALL, "bbox"),
    "lilt": ({**_SMALL, "hidden_size": 48, "channel_shrink_ratio": 2}, "several attentions in a layer"),
    "diffllama": (_GROUPED, "several attentions in a layer"),
}
"""Families that must be refused, and what the error says of them."""

NAMES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-R",
    "xlm-roberta-xl": "XLM-R XL",
    "camembert": "CamemBERT",
    "albert": "ALBERT",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "ernie": "ERNIE",
    "mobilebert": "MobileBERT",
    "layoutlm": "LayoutLM (text)",
    "markuplm": "MarkupLM (text)",
    "modernbert": "ModernBERT",
    "eurobert": "EuroBERT",
    "nomic_bert": "NomicBERT",
    "gte": "GTE",
    "jina_embeddings_v3": "Jina v3",
    "ultrabert": "UltraBERT",
    "data2vec-text": "data2vec-text",
    "roberta-prelayernorm": "RoBERTa-PreLayerNorm",
    "xmod": "X-MOD",
    "roc_bert": "RoCBert",
    "splinter": "Splinter",
    "bert-generation": "BertGeneration",
    "esm": "ESM",
    "bart": "BART",
    "mbart": "mBART",
    "plbart": "PLBart",
    "marian": "Marian",
    "pegasus": "Pegasus",
    "m2m_100": "M2M100",
    "gpt2": "GPT-2",
    "gpt_bigcode": "GPTBigCode",
    "gpt_neox": "GPT-NeoX",
    "opt": "OPT",
    "biogpt": "BioGPT",
    "llama": "Llama",
    "mistral": "Mistral",
    "mixtral": "Mixtral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma": "Gemma",
    "gemma3_text": "Gemma 3",
    "phi": "Phi",
    "phi3": "Phi-3",
    "olmo2": "OLMo 2",
    "starcoder2": "StarCoder2",
    "stablelm": "StableLM",
    "ctrl": "CTRL",
    "deberta": "DeBERTa",
    "deberta-v2": "DeBERTa v2 and v3",
    "mpnet": "MPNet",
    "xlm": "XLM",
    "flaubert": "FlauBERT",
    "xlnet": "XLNet",
    "convbert": "ConvBERT",
    "roformer": "RoFormer",
    "big_bird": "Big Bird (full attention)",
    "rembert": "RemBERT",
    "megatron-bert": "Megatron-BERT",
    "ibert": "I-BERT",
    "luke": "LUKE (text)",
    "tapas": "TAPAS (text)",
    "lilt": "LiLT (text)",
    "nystromformer": "Nyströmformer (full attention)",
    "t5": "T5",
    "mt5": "mT5",
    "umt5": "UMT5",
    "switch_transformers": "Switch Transformers",
    "t5gemma": "T5Gemma",
    "mvp": "MVP",
    "bigbird_pegasus": "BigBird-Pegasus (full attention)",
    "gemma2": "Gemma 2",
    "bloom": "BLOOM",
    "falcon": "Falcon",
    "gptj": "GPT-J",
    "codegen": "CodeGen",
    "gpt_neo": "GPT-Neo",
    "openai-gpt": "GPT",
    "xglm": "XGLM",
    "diffllama": "DiffLlama",
    "fnet": "FNet",
    "mamba": "Mamba",
    "mra": "MRA",
    "squeezebert": "SqueezeBERT",
    "gpt_oss": "GPT-OSS",
    "prophetnet": "ProphetNet",
    "longformer": "Longformer",
    "led": "LED",
    "canine": "CANINE",
    "yoso": "YOSO",
    "pegasus_x": "PEGASUS-X",
    "bros": "BROS",
}
"""What people call the families."""


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
    ids, present = torch.randint(5, VOCABULARY, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
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
            other for other in self.blocks[block.layer] if (other.inputs, other.heads) != (block.inputs, block.heads)
        ]
        self.blocks[block.layer] = [*kept, block]

    def layer(self, number: int, name: str = "weights") -> torch.Tensor:
        """Shape: [batch, head, query, key], or of queries or keys; 0 on padding that was left out."""
        parts = [(block, getattr(block, name)) for block in self.blocks[number]]
        batch, heads = (
            max(where.stop for where in places) for places in zip(*((b.inputs, b.heads) for b, _ in parts), strict=True)
        )
        rows, columns = (max(part.shape[axis] for _, part in parts) for axis in (2, 3))
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
