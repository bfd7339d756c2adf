"""A model that is loaded: what runs, what its tokenizer takes; the devices, and how much of a batch each takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import DeviceError, InputError, ModelError
from attnscan.inputs.batch import EncodedInput, Room
from attnscan.inputs.encode import encode_pairs, whole_words
from attnscan.inputs.related import Relatedness
from attnscan.inputs.sentence import Pair
from attnscan.inputs.tokens import Unit, WholeWords
from attnscan.model.fingerprint import Fingerprint, fingerprint
from attnscan.model.sources import Device, Dtype, Source

NO_LIMIT = 1_000_000  # tokenizers without a limit say 10**30
_MPS_TOKENS, _GPU_TOKENS = 4096, 65_536  # in a batch: enough to keep the device busy
_IN_CACHE = 12 << 20  # bytes of a batch's widest activations that a CPU's last cache holds beside the weights
_BFLOAT16 = ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16")  # what makes it the faster one, x86's and Arm's
_FEWEST_ON_CPU, _MOST_ON_CPU = 256, 4096  # tokens in a batch, however wide or narrow the model
_BYTES_OF_UNIT, _BYTES_OF_TOKEN = 64, 100_000  # what a long input's token takes on a CPU: by width, and besides
_USUAL_WIDTH = 768  # where a config does not say


@dataclass(frozen=True)
class LoadedModel:
    """A model and its tokenizer, ready to run."""

    source: Source
    """What was found by its name."""
    model: Any
    """The encoder (or decoder) without task heads, a transformers PreTrainedModel in evaluation mode."""
    masked_lm: Any | None
    """A model of this encoder with a trained masked-LM head; None if the checkpoint has none."""
    tokenizer: Any
    """A tokenizer of transformers."""
    device: torch.device
    """Where it runs."""
    dtype: torch.dtype
    """The number format of its weights."""
    revision: str | None
    """The hub's commit; None if it does not come from there."""
    scored: Any
    """The model by which heads are scored: `model`, or on a CPU a copy in bfloat16 if that was asked for."""
    given: Any | None = None
    """The caller's own model that this was made of; None if it was loaded by its name."""
    note: str = ""
    """What to tell a user of how it was loaded; empty if there is nothing."""
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
    def fingerprint(self) -> Fingerprint:
        """What model this is, whatever its name and place; taken when it is first asked for."""
        return fingerprint(self.whole, self.tokenizer)

    @property
    def remembers_runs(self) -> bool:
        """Whether rotary frequencies change with the longest input so far, so that one thread at a time may run it."""
        return any(getattr(module, "rope_type", None) in ("dynamic", "longrope") for module in self.model.modules())

    @property
    def embedding(self) -> Tensor:
        """The input embeddings. Shape: [vocabulary, dimension].

        Raises: ModelError if the model has no table of them.
        """
        try:
            weight: Tensor = self.model.get_input_embeddings().weight.detach()
        except (AttributeError, NotImplementedError):
            raise ModelError(
                f"the architecture {type(self.model).__name__} has no table of token embeddings",
                "use a model that reads tokens, such as BERT or RoBERTa",
            ) from None
        return weight

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

    def room(self, batch_tokens: int | None) -> Room:
        """How much a batch may hold: what is asked for, or what stays in a CPU's cache or keeps another device busy."""
        by_device = {"cpu": tokens_in_cache(self._width), "mps": _MPS_TOKENS}
        return Room(batch_tokens or by_device.get(self.device.type, _GPU_TOKENS))

    def needs(self, tokens: int) -> int:
        """About how many bytes of main memory one long input of so many tokens takes."""
        return tokens * (_BYTES_OF_UNIT * self._width + _BYTES_OF_TOKEN)

    @property
    def _width(self) -> int:
        width = getattr(self.model.config, "hidden_size", None)
        return width if isinstance(width, int) else _USUAL_WIDTH

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


def tokens_in_cache(width: int) -> int:
    """How many tokens a CPU runs fastest at once, by the model's `hidden_size`.

    Measured: 4,096 tokens at once cost BERT base's layers 2 to 22 % more time than 1,024.
    """
    widest = 4 * 4 * width  # bytes of a token's widest activations, the feed-forward's, in float32
    return min(_MOST_ON_CPU, max(_FEWEST_ON_CPU, _IN_CACHE // widest))


def chosen_device(name: Device, dtype: Dtype) -> torch.device:
    """The device of a name, or the fastest that is here.

    Raises: DeviceError if there is none, or it is a CPU that computes slower in that number format than in float32.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = next(kind for kind, here in available.items() if here) if name == "auto" else name
    if not available[kind]:
        built = "" if name != "cuda" or torch.version.cuda else f": the installed torch {torch.__version__} has no CUDA"
        raise DeviceError(f"--device {name}: this machine has none{built}", "use --device auto, or leave it out")
    if kind == "cpu" and (dtype == "float16" or (dtype == "bfloat16" and not multiplies_bfloat16())):
        raise DeviceError(
            f"--dtype {dtype} would be slower here: this processor has no instructions that multiply in it",
            "leave --dtype out, or use a GPU; for bfloat16 a processor with AVX512-BF16, AMX or Arm's BF16",
        )
    return torch.device(kind)


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions that multiply in bfloat16, which take half as long as in float32."""
    able = torch.cpu.get_capabilities()
    return any(able.get(feature) for feature in _BFLOAT16)
