"""Inputs written out by hand, as batches."""

from __future__ import annotations

from attnscan.inputs.batch import EncodedBatch, EncodedInput, collate
from attnscan.inputs.encode import encode_tokens
from attnscan.inputs.tokens import Unit

_SPECIAL = {"[CLS]", "[SEP]", "<s>", "</s>"}


def input_of(text: str, unit: Unit = "token") -> EncodedInput:
    """An input such as `[CLS] the cat [SEP] a cat [SEP]`; sentence B starts after the first [SEP]."""
    tokens = text.split()
    special = [token in _SPECIAL for token in tokens]
    segments = [int("[SEP]" in tokens[1:i]) for i in range(len(tokens))]
    return encode_tokens(tokens, segments, special, [token == "[PAD]" for token in tokens], unit)


def batch_of(*texts: str, unit: Unit = "token") -> EncodedBatch:
    """Several of them, padded to the longest."""
    return collate([input_of(text, unit) for text in texts])
