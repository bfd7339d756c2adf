"""Saved checkpoints with every kind of template, as users have them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from support.families import TAPPED, UNTAPPED
from support.tokenizers_of_kinds import (
    beginning_alone,
    byte_level,
    ending,
    unigram,
    without_delimiters,
    wordpiece,
)
from transformers import AutoConfig, AutoModel

from attnscan.model.forward import quiet_transformers

NO_DELIMITER = "the tokenizer inserts no special tokens"


@dataclass(frozen=True)
class Case:
    """A family with a tokenizer of the kind that its checkpoints have."""

    family: str
    tokenizer: Callable[[], Any]
    template: str
    """The delimiters around A and B."""
    padding_side: str = "right"
    causal: bool = False


CASES = {
    "bert": Case("bert", wordpiece, "[CLS] A [SEP] B [SEP]"),
    "without segments": Case("distilbert", wordpiece, "[CLS] A [SEP] B [SEP]"),
    "two delimiters between": Case("roberta", byte_level, "<s> A </s> </s> B </s>"),
    "padded at the left": Case("roberta", byte_level, "<s> A </s> </s> B </s>", "left"),
    "delimiters at the end": Case("xlnet", unigram, "A <sep> B <sep> <cls>", "left"),
    "a window": Case("modernbert", wordpiece, "[CLS] A [SEP] B [SEP]"),
    "convolutions": Case("convbert", wordpiece, "[CLS] A [SEP] B [SEP]"),
    "relative positions": Case("deberta-v2", unigram, "A <sep> B <sep> <cls>"),
    "an encoder with its decoder": Case("bart", byte_level, "<s> A </s> </s> B </s>"),
    "a position bias": Case("t5", ending, "A </s> B </s>"),
    "decoder without delimiters": Case("gpt2", without_delimiters, "A B", "left", causal=True),
    "decoder with grouped keys": Case("llama", beginning_alone, "<s> A B", "left", causal=True),
    "decoder with a window": Case("mistral", beginning_alone, "<s> A B", "left", causal=True),
    "decoder by the mask's sum": Case("opt", without_delimiters, "A B", causal=True),
    "decoder with slopes": Case("bloom", without_delimiters, "A B", "left", causal=True),
    "decoder that was sdpa": Case("falcon", without_delimiters, "A B", causal=True),
}


@quiet_transformers()
def saved(case: Case, directory: Path) -> Path:
    tokenizer = case.tokenizer()
    tokenizer.padding_side = case.padding_side
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    vocabulary = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id or 0}
    config = AutoConfig.for_model(case.family, **{**TAPPED, **UNTAPPED}[case.family] | vocabulary)
    model = AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # far from even attention
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(directory)
    return directory
