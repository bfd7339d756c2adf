"""What a model is, whatever it is called and wherever it lies: hashes of its weights, its config and its tokenizer.

They are taken of what was loaded, not of files. So a checkpoint that is copied or moved stays the same model, one that
is overwritten under the same name is another, and files that the model does not read count for nothing. Hashing takes
about a second for each GB of weights, so it is done only for what asks: sums that go on, and machines that share a run.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnscan.results.signature import hashed

# Where a config was loaded from and by what, and what a run may switch on and off
_NOT_OF_THE_MODEL = {"_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype"} | {
    "output_attentions",
    "output_hidden_states",
}
_KNOWN = {"torch", "transformers"}
_DIGITS = 16  # of the hash that results carry


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of each part of a model, as hexadecimal."""

    weights: str
    """Of those that run: names, shapes and bytes, in the number format of the run."""
    config: str
    tokenizer: str

    def __str__(self) -> str:
        """All three as one, short: what results carry."""
        return hashed(*(part.encode() for part in asdict(self).values()))[:_DIGITS]


def fingerprint(model: Any, tokenizer: Any) -> Fingerprint:
    """The fingerprint of a model as it runs, its task head included if it has one, and of its tokenizer."""
    return Fingerprint(_of_weights(model), _of_config(model.config), _of_tokenizer(tokenizer))


def computing(model: Any) -> str | None:
    """A hash of all that decides what a model computes, taken of what is in memory now; None if that cannot be told.

    Its code is that of the installed torch and transformers, or it cannot be told: a class or hook of anyone else may
    do anything, and another thing tomorrow.
    """
    if not all(map(_is_known, model.modules())):
        return None
    buffers = (f"{name} {hashed(_content(each))}" for name, each in model.named_buffers())
    parts = type(model).__qualname__, _of_weights(model), _of_config(model.config), *buffers
    return hashed(*(part.encode() for part in parts))


def _is_known(module: torch.nn.Module) -> bool:
    """Whether a module runs as it was written in torch or transformers, without anything at random."""
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    code = [type(module), module.forward, *hooks]
    return not module.training and all(str(getattr(each, "__module__", "")).split(".")[0] in _KNOWN for each in code)


def _content(values: Tensor) -> memoryview:
    return values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _of_weights(model: Any) -> str:
    """A pooler is left out: it never runs, and is filled with random numbers where the checkpoint has none."""
    parts = []
    for name, weights in sorted(model.state_dict().items()):
        if "pooler" not in name:
            parts += [f"{name} {weights.dtype} {list(weights.shape)}".encode(), hashed(_content(weights)).encode()]
    return hashed(*parts)


def _of_config(config: Any) -> str:
    return hashed(_json(_own(config.to_dict())))


def _own(settings: Any) -> Any:
    """Settings without what is not of the model, however deep."""
    if isinstance(settings, dict):
        return {str(name): _own(value) for name, value in settings.items() if name not in _NOT_OF_THE_MODEL}
    return settings


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
    return hashed(_json(about))


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode(errors="backslashreplace")
