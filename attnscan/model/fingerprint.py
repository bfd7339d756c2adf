"""What a model is, whatever its name and place: hashes of its weights, its config, its modules and its tokenizer.

They are taken of what was loaded, not of files: a copied checkpoint is the same model, an overwritten one is another.
Hashing takes about a second for each GB of weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from attnscan.hashing import hashed

_OF_THE_RUN = {"_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "output_attentions"}
"""What a config says of where it comes from and of one run."""


def fingerprint(model: Any, tokenizer: Any) -> dict[str, str]:
    """SHA-256 of each part of a model as it runs, its task head included if it has one: of weights their names, shapes
    and bytes, of modules what they print.
    """
    parts = []
    for name, values in sorted(model.state_dict().items()):
        if "pooler" not in name:  # which never runs, and is filled with random numbers where it is not saved
            content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            parts.append(f"{name} {values.dtype} {list(values.shape)} {hashed(content)}")
    config = json.dumps(model.config.to_dict(), default=str)
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if rules is not None:  # each call sets how long inputs are cut and filled up
        decides: Any = {**json.loads(rules.to_str()), "truncation": None, "padding": None}
    else:  # one that is written in Python reads files, and its settings say which
        decides = [
            hashed(Path(value).read_bytes()) if name.endswith("_file") and Path(str(value)).is_file() else value
            for name, value in sorted(tokenizer.init_kwargs.items())
            if name.endswith("_file") or isinstance(value, bool | int)
        ]
    about = type(tokenizer).__name__, tokenizer.special_tokens_map, tokenizer.model_max_length, tokenizer.get_vocab()
    settings, printed = json.loads(config, object_hook=_own), repr(model)
    whole = {"weights": parts, "config": settings, "modules": printed, "tokenizer": (about, decides)}
    return {name: _hash_of(part) for name, part in whole.items()}


def short(fingerprint: dict[str, str]) -> str:
    """All parts as one: what results carry."""
    return hashed(*(part.encode() for part in fingerprint.values()))[:16]


def _hash_of(settings: Any) -> str:
    """A hash of settings as JSON, in one order."""
    return hashed(json.dumps(settings, sort_keys=True, default=str).encode())


def _own(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without those of a run."""
    return {name: value for name, value in settings.items() if name not in _OF_THE_RUN}
