"""Random encoder-decoders with a tokenizer, saved as checkpoints: unequal numbers of layers and heads by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from families import ENCODER_DECODERS
from tokenizers_of_kinds import ending
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

FAMILIES = ("t5", "bart", "marian", "mvp")
"""Read by the tap, and `mvp` by `output_attentions`."""


def saved(family: str, directory: Path) -> Path:
    """A checkpoint of a family; BART's kin have 4 heads in the encoder and 2 in the decoder."""
    tokenizer = ending()
    end, pad = tokenizer.convert_tokens_to_ids(["</s>", "<pad>"])
    ids = {"vocab_size": len(tokenizer), "pad_token_id": pad, "eos_token_id": end, "decoder_start_token_id": pad}
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **ENCODER_DECODERS[family][0] | ids, forced_eos_token_id=None)
    AutoModelForSeq2SeqLM.from_config(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def eager(checkpoint: Path, source: str, target: str) -> Any:
    """What transformers gives of a pair: attention weights of all kinds, and logits, by the target's labels."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
    labels = tokenizer(text_target=target, return_tensors="pt").input_ids
    with torch.no_grad():
        return model(**tokenizer(source, return_tensors="pt"), labels=labels, output_attentions=True)
