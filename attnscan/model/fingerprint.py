"""What a model is, whatever its name and place: hashes of its weights, its config, its modules and its tokenizer.

They are taken of what was loaded, not of files: a copied checkpoint is the same model, an overwritten one is another.
Hashing takes about a second for each GB of weights.
"""

from __future__ import annotations

import itertools
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from attnscan.hashing import hashed
from attnscan.model.description import content, described, json_of, of_config

_DIGITS = 16  # of the hash that results carry


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of each part of a model, as hexadecimal."""

    weights: str
    """Of those that run: names, shapes and bytes, in the number format of the run."""
    config: str
    modules: str
    """Of their classes and attributes (`description.py`)."""
    tokenizer: str

    def __str__(self) -> str:
        """All four as one, short: what results carry."""
        return hashed(*(part.encode() for part in asdict(self).values()))[:_DIGITS]


def fingerprint(model: Any, tokenizer: Any, modules: str | None = None) -> Fingerprint:
    """The fingerprint of a model as it runs, its task head included if it has one, and of its tokenizer.

    Its `modules` may have been described before: some models remember what they have run.
    """
    return Fingerprint(
        _of_weights(model), of_config(model.config), modules or of_modules(model), _of_tokenizer(tokenizer)
    )


def of_modules(model: Any) -> str:
    """A hash of classes and attributes, no two of which are equal where some attribute's content cannot be told."""
    description = described(model)
    return description.digest if description.opaque is None else secrets.token_hex()


@dataclass(frozen=True)
class Computing:
    """All that decides what a model computes, beside the versions of what computes it."""

    numbers: str
    """A hash of weights, buffers and config."""
    modules: str
    """Of classes and attributes, as in a fingerprint."""


def computing(model: Any) -> Computing | None:
    """What a model computes by, as it is in memory now; None if that cannot be told.

    It cannot of a class or hook that is not torch's or transformers' own, nor of a module in training.
    """
    description = described(model)
    at_random = any(module.training for module in model.modules())
    if description.foreign or description.opaque or at_random or torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return None
    buffers = (f"{name} {hashed(content(values))}" for name, values in model.named_buffers())
    parts = type(model).__qualname__, _of_weights(model), of_config(model.config), *buffers
    return Computing(hashed(*(part.encode() for part in parts)), description.digest)


def _of_weights(model: Any) -> str:
    """Of parameters and saved buffers; a pooler never runs, and is filled with random numbers where it is not saved."""
    parts = []
    for place, module in model.named_modules(remove_duplicate=False):
        for name, values in (*module._parameters.items(), *module._buffers.items()):
            full = f"{place}.{name}" if place else name
            if values is not None and name not in module._non_persistent_buffers_set and "pooler" not in full:
                parts.append((f"{full} {values.dtype} {list(values.shape)}", hashed(content(values))))
    return hashed(*(text.encode() for text in itertools.chain.from_iterable(sorted(parts))))


def _of_tokenizer(tokenizer: Any) -> str:
    """By what it does with a text: its rules and vocabulary, its special tokens, and how long its inputs may be."""
    about = {
        "class": type(tokenizer).__name__,
        "special": tokenizer.special_tokens_map,
        "longest": tokenizer.model_max_length,
        "vocabulary": tokenizer.get_vocab(),
    }
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if rules is None:  # one that is written in Python reads files, and its settings say which
        settings = dict(tokenizer.init_kwargs)
        named = {name: settings.pop(name) for name in sorted(settings) if name.endswith("_file")}
        files = [Path(path) for path in named.values() if isinstance(path, str) and Path(path).is_file()]
        about |= {"files": [hashed(path.read_bytes()) for path in files]}
        about |= {name: value for name, value in settings.items() if isinstance(value, bool | int)}
    else:  # each call sets how long inputs are cut and filled up
        about["rules"] = {**json.loads(rules.to_str()), "truncation": None, "padding": None}
    return hashed(json_of(about))
