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

from attnscan.hashing import hashed

_DIGITS = 16  # of the hash that results carry
_OF_THE_RUN = {"_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "output_attentions"}
"""What a config says of where it comes from and of one run."""


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
            content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            parts += [f"{name} {values.dtype} {list(values.shape)}", hashed(content)]
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
        about["files"] = [hashed(path.read_bytes()) for path in files if path.is_file()]
        about["settings"] = [(name, value) for name, value in settings if isinstance(value, bool | int)]
    weights = hashed(*(part.encode() for part in parts))
    config = json.loads(_json_of(model.config.to_dict()), object_hook=_own)
    return Fingerprint(weights, hashed(_json_of(config)), hashed(repr(model).encode()), hashed(_json_of(about)))


def _json_of(settings: Any) -> bytes:
    """Settings as JSON, in one order."""
    return json.dumps(settings, sort_keys=True, default=str).encode()


def _own(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without those of a run."""
    return {name: value for name, value in settings.items() if name not in _OF_THE_RUN}
