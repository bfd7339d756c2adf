"""Inputs written out by hand, as batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from attnscan.inputs.alignments import linked
from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.encode import encode_tokens
from attnscan.inputs.sentence import NO_WORD, EncodedInput, Pair, Unit

_SPECIAL = {"[CLS]", "[SEP]", "<s>", "</s>"}


def input_of(text: str, unit: Unit = "token") -> EncodedInput:
    """An input such as `[CLS] the cat [SEP] a cat [SEP]`; sentence B starts after the first [SEP]."""
    tokens = text.split()
    special = [token in _SPECIAL for token in tokens]
    segments = [int("[SEP]" in tokens[1:i]) for i in range(len(tokens))]
    return encoded_tokens(tokens, segments, special, [token == "[PAD]" for token in tokens], unit)


def encoded_tokens(
    tokens: Sequence[str], segments: Sequence[int], special: Sequence[bool], padding: Sequence[bool], unit: Unit
) -> EncodedInput:
    """An input as saved weights have it, without these."""
    names = ("tokens", "segments", "special", "padding")
    parts: Any = dict(zip(names, map(tuple, (tokens, segments, special, padding)), strict=True))
    return encode_tokens(SimpleNamespace(**parts, source=0), unit)  # type: ignore[arg-type]


def batch_of(*texts: str, unit: Unit = "token") -> EncodedBatch:
    """Several of them, padded to the longest."""
    return collate([input_of(text, unit) for text in texts])


def translations(*written: tuple[str, str, str]) -> EncodedBatch:
    """Sources, targets and links as a batch of cross attention, a token a word; `</s>` and the like are special."""
    inputs = []
    for source, target, links in written:
        encoded = input_of(f"{source} {target}")
        texts = [[token for token in text.split() if token not in _SPECIAL] for text in (source, target)]
        numbers = [iter(range(len(words))) for words in texts]
        side = [0] * len(source.split()) + [1] * len(target.split())
        words = [NO_WORD if s < 0 else next(numbers[i]) for s, i in zip(encoded.sentence, side, strict=True)]
        sentence = [s if s < 0 else i for s, i in zip(encoded.sentence, side, strict=True)]
        pair = linked(Pair(*map(" ".join, texts)), links)
        places = {"sentence": tuple(sentence), "words": tuple(words), "source": len(source.split())}
        inputs.append(replace(encoded, pair=pair, **places))
    return collate(inputs)
