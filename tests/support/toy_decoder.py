"""A GPT-2 whose weights are constructed: an induction circuit of two heads, and nothing else.

A token's vector has three parts: a code of its word, a code of its position, and room for the word
before it. Head 0 of layer 0 looks at the position before and writes the word there into that room;
head 0 of layer 1 looks for the positions whose word before is its own. All other heads have zero
queries and spread evenly; feed-forward layers are zero. Codes are rows of ±1 whose sum is zero, so
that layer norms only scale them.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from attnscan.inputs.read import random_pairs

SIZE = 96
POSITIONS = 64
WORD = slice(0, SIZE)
POSITION = slice(SIZE, 2 * SIZE)
BEFORE = slice(2 * SIZE, 3 * SIZE)
SHARP = 4.0


def save_induction_gpt2(directory: Path) -> Path:
    """Save a checkpoint of two layers of three heads, and a tokenizer of the words of
    `random_pairs`.
    """
    words = set[str]()
    for record in random_pairs():
        words.update(str(record.pair.a).split())
    tokenizer = tokenizer_of(sorted(words))
    sizes = {"vocab_size": len(tokenizer), "n_embd": 3 * SIZE, "n_positions": POSITIONS}
    config = GPT2Config(
        **sizes, n_layer=2, n_head=3, n_inner=8, bos_token_id=None, eos_token_id=None
    )
    model = GPT2LMHeadModel(config).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(float(name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight"))))
        model.transformer.wte.weight[:, WORD] = _codes(len(tokenizer), draw)
        position = _codes(POSITIONS, draw)
        model.transformer.wpe.weight[:, POSITION] = position
        to_before = torch.linalg.pinv(position) @ position.roll(1, 0)
        first = model.transformer.h[0].attn
        second = model.transformer.h[1].attn
        _install(first, POSITION, to_before, POSITION)
        first.c_attn.weight[WORD, 2 * 3 * SIZE : 2 * 3 * SIZE + SIZE] = torch.eye(SIZE)
        first.c_proj.weight[:SIZE, BEFORE] = torch.eye(SIZE)
        _install(second, WORD, torch.eye(SIZE), BEFORE)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def tokenizer_of(words: list[str]) -> PreTrainedTokenizerFast:
    """A token for each of some words, divided by spaces, and none besides."""
    numbers = {token: number for number, token in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")


def _codes(count: int, draw: torch.Generator) -> torch.Tensor:
    """Rows of as many 1 as -1. Shape: [count, SIZE]."""
    halves = torch.cat([torch.ones(SIZE // 2), -torch.ones(SIZE // 2)])
    return torch.stack([halves[torch.randperm(SIZE, generator=draw)] for _ in range(count)])


def _install(attention: torch.nn.Module, queries: slice, matrix: torch.Tensor, keys: slice) -> None:
    """Let head 0 compare what `matrix` makes of one part of a query's vector with another part of a
    key's.
    """
    attention.c_attn.weight[queries, :SIZE] = matrix * SHARP
    attention.c_attn.weight[keys, 3 * SIZE : 4 * SIZE] = torch.eye(SIZE)
