"""Checkpoints of a few weights, saved as users have them, and what loading them says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tokenizers_of_kinds import BERT, wordpiece_of
from transformers import PreTrainedTokenizerFast

from attnscan.errors import AttnscanError, ModelError
from attnscan.model.loading import LoadedModel, load
from attnscan.model.sources import Source

VOCABULARY = [*BERT, "the", "cat", "sat", "on", "mat", "##s", "."]
SIZE = len(VOCABULARY)
SMALL = {
    "vocab_size": SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 32,
}


def tokenizer(longest: int | None = None, pad: str | None = "[PAD]") -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer of twelve tokens."""
    words = wordpiece_of(VOCABULARY)
    words.pad_token = pad
    words.model_max_length = longest or words.model_max_length
    return words


def save(directory: Path, model: Any, **tokens: Any) -> Path:
    model.save_pretrained(directory)
    tokenizer(**tokens).save_pretrained(directory)
    return directory


def loaded(directory: Path) -> LoadedModel:
    return load(Source("tiny", str(directory)))


def refusal(do: Callable[[], object], kind: type[AttnscanError] = ModelError) -> str:
    """The line that says what is wrong."""
    with pytest.raises(kind) as caught:
        do()
    assert type(caught.value) is kind
    assert caught.value.remedy
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    return line


def configured(directory: Path, **settings: Any) -> Path:
    """The same checkpoint with another config.json."""
    file = directory / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return directory


def with_weights(directory: Path, *names: str) -> Path:
    """The checkpoint with more weights."""
    path = directory / "model.safetensors"
    more = {name: torch.zeros(3) for name in names}
    save_file({**load_file(path), **more}, path, {"format": "pt"})
    return directory
