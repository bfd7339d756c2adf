"""What a model is, whatever its name and place: hashes of its weights, its config, its modules and its tokenizer.

They are taken of what was loaded, not of files: a copied checkpoint is the same model, an overwritten one is another.
Hashing takes about a second for each GB of weights.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnscan.hashing import hashed

_DIGITS = 16  # of the hash that results carry
# Where a config was loaded from and by what, and what a run may switch on and off
_NOT_OF_THE_MODEL = {"_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype"} | {
    "output_attentions",
    "output_hidden_states",
}


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of each part of a model, as hexadecimal."""

    weights: str
    """Of those that run: names, shapes and bytes, in the number format of the run."""
    config: str
    modules: str
    """Of what the model prints: classes and sizes."""
    tokenizer: str

    def __str__(self) -> str:
        """All four as one, short: what results carry."""
        return hashed(*(part.encode() for part in asdict(self).values()))[:_DIGITS]


def fingerprint(model: Any, tokenizer: Any) -> Fingerprint:
    """The fingerprint of a model as it runs, its task head included if it has one, and of its tokenizer."""
    parts = []
    for name, values in sorted(model.state_dict().items()):
        if "pooler" not in name:  # which never runs, and is filled with random numbers where it is not saved
            parts += [f"{name} {values.dtype} {list(values.shape)}", hashed(content(values))]
    config = hashed(_json_of(_own(model.config.to_dict())))
    weights = hashed(*(part.encode() for part in parts))
    return Fingerprint(weights, config, of_modules(model), _of_tokenizer(tokenizer))


def of_modules(model: Any) -> str:
    """A hash of what a model prints."""
    return hashed(repr(model).encode())


def content(values: Tensor) -> memoryview:
    """The bytes of a tensor."""
    return values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _of_tokenizer(tokenizer: Any) -> str:
    """By what it does with a text: its rules and vocabulary, its special tokens, and how long its inputs may be."""
    about = {
        "class": type(tokenizer).__name__,
        "special": tokenizer.special_tokens_map,
        "longest": tokenizer.model_max_length,
        "vocabulary": tokenizer.get_vocab(),
    }
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if rules is not None:  # each call sets how long inputs are cut and filled up
        about["rules"] = {**json.loads(rules.to_str()), "truncation": None, "padding": None}
    else:  # one that is written in Python reads files, and its settings say which
        settings = sorted(tokenizer.init_kwargs.items())
        files = [Path(value) for name, value in settings if name.endswith("_file") and isinstance(value, str)]
        about |= {name: value for name, value in settings if isinstance(value, bool | int)}
        about["files"] = [hashed(path.read_bytes()) for path in files if path.is_file()]
    return hashed(_json_of(about))


def _json_of(value: Any) -> bytes:
    """Settings as JSON, in one order."""
    return json.dumps(value, sort_keys=True, default=str).encode(errors="backslashreplace")


def _own(settings: Any) -> Any:
    """Settings without what is not of the model, however deep."""
    if isinstance(settings, dict):
        return {str(name): _own(value) for name, value in settings.items() if name not in _NOT_OF_THE_MODEL}
    return settings
