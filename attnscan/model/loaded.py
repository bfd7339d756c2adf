"""A model that is loaded: what runs, what its tokenizer takes; the devices, and how much of a batch each takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import DeviceError, InputError, ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.encode import encode_pairs, whole_words
from attnscan.inputs.related import Relatedness
from attnscan.inputs.sentence import Pair
from attnscan.inputs.tokens import Unit, WholeWords
from attnscan.model.sources import Device, Source
from attnscan.text import hashed

NO_LIMIT = 1_000_000  # tokenizers without a limit say 10**30
_TOKENS = {"cpu": 1024, "mps": 4096, "cuda": 32_768}
"""In a batch: what stays in a CPU's last cache beside the weights, or keeps another device busy."""
_OF_THE_RUN = {"_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "output_attentions"}
"""What a config says of where it comes from and of one run."""


@dataclass(frozen=True)
class LoadedModel:
    """A model and its tokenizer, ready to run."""

    source: Source  # what was found by its name
    model: Any  # the encoder (or decoder) without task heads, a transformers PreTrainedModel in evaluation mode
    masked_lm: Any | None  # a model of this encoder with a trained masked-LM head; None if the checkpoint has none
    tokenizer: Any  # of transformers
    device: torch.device
    scored: Any
    """The model by which heads are scored: `model`, or on a CPU a copy in the half precision that was asked for."""
    given: Any | None = None
    """The caller's own model that this was made of; None if it was loaded by its name."""
    note: str = ""  # what to tell a user of how it was loaded
    in_use: RLock = field(default_factory=RLock, repr=False, compare=False)
    """Held by whoever runs it: its attention is read by changing it."""

    @cached_property
    def relatedness(self) -> Relatedness:
        """Which words are related by its embeddings."""
        return Relatedness(self.embedding, self.vocabulary)

    @cached_property
    def vocabulary(self) -> WholeWords:
        """The whole words that its tokenizer knows, and which of them are frequent."""
        return whole_words(self.tokenizer)

    @property
    def whole(self) -> Any:
        """The model with its task head, if it has one."""
        return self.model if self.masked_lm is None else self.masked_lm

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What model this is, whatever its name and place; taken when it is first asked for."""
        return fingerprint(self.whole, self.tokenizer)

    @property
    def embedding(self) -> Tensor:
        """The input embeddings. Shape: [vocabulary, dimension].

        Raises: ModelError if the model has no table of them.
        """
        try:
            return torch.detach(self.model.get_input_embeddings().weight)
        except (AttributeError, NotImplementedError):
            raise ModelError(
                f"the architecture {type(self.model).__name__} has no table of token embeddings",
                "use a model that reads tokens, such as BERT or RoBERTa",
            ) from None

    @property
    def pad_id(self) -> int:
        """What fills up shorter inputs; masked, so any token will do where the tokenizer names none."""
        return int(self.tokenizer.pad_token_id or 0)

    @property
    def limit(self) -> int:
        """The most tokens that an input may have, special ones included."""
        config = getattr(self.model.config, "max_position_embeddings", None)
        known = [self.tokenizer.model_max_length, position_rows(self.model), config]
        return int(min([most for most in known if isinstance(most, int | float) and most >= 1] + [NO_LIMIT]))

    def room(self, batch_tokens: int | None) -> int:
        """How many tokens a batch may hold: as many as are asked for, or as the device runs fastest."""
        return batch_tokens or _TOKENS[self.device.type]

    def encode_all(self, pairs: Sequence[Pair], unit: Unit, *, truncate: bool) -> Iterator[EncodedInput | InputError]:
        """Tokenize some pairs; the error in the place of one that the model cannot read.

        Raises: ModelError if it can read none.
        """
        for encoded in encode_pairs(self.tokenizer, pairs, unit, self.limit, truncate):
            if isinstance(encoded, EncodedInput):
                self.check_ids(encoded.model_inputs["input_ids"])
            yield encoded

    def check_ids(self, ids: list[int]) -> None:
        """Raises: ModelError if the tokenizer gives numbers that the model has no embedding for."""
        rows = len(self.embedding)
        if max(ids) >= rows:
            raise ModelError(
                f"the tokenizer of {self.source.name} gives token {max(ids)}, and the model knows {rows}",
                "the two do not belong together: save the tokenizer that the model was trained with",
            )


def position_rows(model: Any) -> int | None:
    """How many positions a model has embeddings for; None if it has no such table, or not by that name."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa counts positions from behind the padding token's
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return None


def chosen_device(name: Device) -> torch.device:
    """The device of a name, or the fastest that is here. Raises: DeviceError if there is none."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = next(kind for kind, here in available.items() if here) if name == "auto" else name
    if not available[kind]:
        built = "" if name != "cuda" or torch.version.cuda else f": the installed torch {torch.__version__} has no CUDA"
        raise DeviceError(f"--device {name}: this machine has none{built}", "use --device auto, or leave it out")
    return torch.device(kind)


def fingerprint(model: Any, tokenizer: Any) -> dict[str, str]:
    """SHA-256 of each part of a model as it runs, its task head included; of modules, of what they print."""
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
    settings = json.loads(config, object_hook=lambda part: {name: part[name] for name in part.keys() - _OF_THE_RUN})
    whole = {"weights": parts, "config": settings, "modules": repr(model), "tokenizer": (about, decides)}
    return {name: hashed(json.dumps(part, sort_keys=True, default=str).encode()) for name, part in whole.items()}


def short(fingerprint: dict[str, str]) -> str:
    """All parts as one: what results carry."""
    return hashed(*(part.encode() for part in fingerprint.values()))[:16]
