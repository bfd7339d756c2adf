"""Inputs written out by hand, as batches, and random attention over them."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attnscan.inputs.annotations import link_words
from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.sentence import NO_WORD, EncodedInput, Pair, Unit
from attnscan.inputs.weights import encode_tokens
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.grid import Grid

_SPECIAL = {"[CLS]", "[SEP]", "<s>", "</s>"}


def input_of(text: str, unit: Unit = "token") -> EncodedInput:
    """An input such as `[CLS] the cat [SEP] a cat [SEP]`; sentence B starts after the
    first [SEP].
    """
    tokens = text.split()
    special = [token in _SPECIAL for token in tokens]
    segments = [int("[SEP]" in tokens[1:i]) for i in range(len(tokens))]
    return encoded_tokens(tokens, segments, special, [token == "[PAD]" for token in tokens], unit)


def encoded_tokens(
    tokens: Sequence[str],
    segments: Sequence[int],
    special: Sequence[bool],
    padding: Sequence[bool],
    unit: Unit,
) -> EncodedInput:
    """An input as saved weights have it, without these."""
    names = ("tokens", "segments", "special", "padding")
    parts: Any = dict(zip(names, map(tuple, (tokens, segments, special, padding)), strict=True))
    return encode_tokens(SimpleNamespace(**parts, source=0), unit)  # type: ignore[arg-type]


def _words(text: str) -> list[str]:
    return [token for token in text.split() if token not in _SPECIAL]


def batch_of(*texts: str, unit: Unit = "token") -> EncodedBatch:
    """Several of them, padded to the longest."""
    return collate([input_of(text, unit) for text in texts])


def translations(*written: tuple[str, str, str]) -> EncodedBatch:
    """Sources, targets and links as a batch of cross attention, a token a word; `</s>` and the like
    are special.
    """
    inputs = []
    for source, target, links in written:
        encoded = input_of(f"{source} {target}")
        texts = [_words(source), _words(target)]
        numbers = [iter(range(len(words))) for words in texts]
        side = [0] * len(source.split()) + [1] * len(target.split())
        words = [
            NO_WORD if s < 0 else next(numbers[i])
            for s, i in zip(encoded.sentence, side, strict=True)
        ]
        sentence = [s if s < 0 else i for s, i in zip(encoded.sentence, side, strict=True)]
        pair = link_words(Pair(*map(" ".join, texts)), links)
        places = {"sentence": tuple(sentence), "words": tuple(words), "source": len(source.split())}
        inputs.append(replace(encoded, pair=pair, **places))
    return collate(inputs)


def random_weights(
    layers: int, heads: int, length: int, seed: int, *, causal: bool = False
) -> Tensor:
    """Random attention; of a causal model queries see no later key.

    Shape: [layer, head, query, key].
    """
    logits = np.random.default_rng(seed).normal(0, 2, (layers, heads, length, length))
    weights = np.exp(logits) * (np.tri(length) if causal else 1)
    return torch.tensor(weights / weights.sum(-1, keepdims=True), dtype=torch.float32)


def attend(
    scorer: Callable[[AttentionBlock], None],
    weights: Sequence[Tensor],
    *,
    heads_at_once: int | None = None,
    causal: bool = False,
    norms: Sequence[Tensor] | None = None,
    padded: bool = True,
) -> None:
    """Hand a scorer the attention of a batch in blocks: all inputs padded with zeros, or each input
    by itself.

    Shape: `weights` each [layer, head, query, key]; `norms`, the lengths of values where weights
    are what heads carry, each [layer, head, key].
    """
    layers, heads = weights[0].shape[:2]
    sizes = [matrix.shape[-1] for matrix in weights]
    visible = torch.zeros(len(sizes), max(sizes), max(sizes), dtype=torch.bool)
    for mask, size in zip(visible, sizes, strict=True):
        mask[:, :size] = True
    if causal:
        visible = visible.tril()
    step = heads_at_once or heads
    numbers = range(len(sizes))
    parts = [slice(0, len(sizes))] if padded else [slice(number, number + 1) for number in numbers]
    for layer, first, part in itertools.product(range(layers), range(0, heads, step), parts):
        some = slice(first, min(first + step, heads))
        width = max(sizes[part])
        rows = [
            pad(matrix[layer, some], (0, width - len(matrix[0, 0])) * 2) for matrix in weights[part]
        ]
        block = AttentionBlock(
            Grid((layers, heads)),
            layer,
            part,
            some,
            torch.stack(rows),
            visible,
            None,
            None,
            None,
            None,
        )
        lengths = [
            pad(values[layer, some], (0, width - values.shape[-1]))
            for values in (norms or [])[part]
        ]
        scorer(_with_even(block, torch.stack(lengths)) if lengths else block)


def _with_even(block: AttentionBlock, norms: Tensor) -> AttentionBlock:
    """A block of what heads carry, with what they would carry if they attended evenly."""
    carries = block.weights.sum(-1, keepdim=True) > 0
    amounts = block.seen * norms[:, :, None] * carries
    even = amounts / amounts.sum(-1, keepdim=True).clip(torch.finfo(torch.float32).tiny)
    return replace(block, weights_and_even=torch.cat([block.weights, even], 1))
