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
from attnscan.hashing import hashed
from attnscan.inputs.batch import EncodedInput, Room
from attnscan.inputs.encode import encode_pairs, whole_words
from attnscan.inputs.related import Relatedness
from attnscan.inputs.sentence import Pair
from attnscan.inputs.tokens import Unit, WholeWords
from attnscan.model.calls import remembers_runs
from attnscan.model.fingerprint import Fingerprint, content, fingerprint
from attnscan.model.running import free_memory
from attnscan.model.sources import Device, Dtype, Source

NO_LIMIT = 1_000_000  # tokenizers without a limit say 10**30
_MPS_TOKENS, _GPU_TOKENS = 4096, 65_536  # in a batch: enough to keep the device busy
_COPIES = 12  # of a layer's weights that scoring holds at once, generously
_MANY_HEADS, _WIDTH = 32, 768  # where a config does not say
_IN_CACHE = 12 << 20  # bytes of a batch's widest activations that a CPU's last cache holds beside the weights
_BFLOAT16 = ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16")  # what makes it the faster one, x86's and Arm's
_FEWEST_ON_CPU, _MOST_ON_CPU = 256, 4096  # tokens in a batch, however wide or narrow the model
_PER_WIDTH, _PER_CELL = 64, 256  # bytes of a batch a token and hidden unit, and a cell; 53 and 200 were measured
_MOST_CELLS = 384  # of a token: long inputs are read in ranges, and take 115 KB a token at a width of 768


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
    fast: Any | None = None
    """`model` again in bfloat16, where heads are to be scored in it on a CPU; None elsewhere."""
    given: Any | None = None
    """The caller's own model that this was made of; None if it was loaded by its name."""
    note: str = ""
    """What to tell a user of how it was loaded; empty if there is nothing."""
    in_use: RLock = field(default_factory=RLock, repr=False, compare=False)
    """Held by whoever runs it: its attention is read by changing it."""
    _related: dict[str, Relatedness] = field(default_factory=dict, repr=False, compare=False)

    @property
    def relatedness(self) -> Relatedness:
        """Which words are related by its embeddings; measured once, and again where a caller has changed these."""
        key = "" if self.given is None else hashed(content(self.embedding))
        if key not in self._related:
            self._related[key] = Relatedness(self.embedding, self.vocabulary)
        return self._related[key]

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

    @cached_property
    def remembers_runs(self) -> bool:
        """Whether it keeps something of a run, so that one thread at a time may run it."""
        return remembers_runs(self.model)

    @property
    def scored(self) -> Any:
        """The model by which heads are scored: `fast` if there is one, else `model`."""
        return self.model if self.fast is None else self.fast

    @property
    def scored_in(self) -> torch.dtype:
        """Its number format."""
        return self.dtype if self.fast is None else torch.bfloat16

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
        """How much of a batch the device takes at a time.

        On a CPU, what stays in its cache, or as many tokens as are asked for, as far as half of the memory that is free
        now goes; on a GPU, by the memory that is free now.
        """
        if self.device.type == "cpu":
            tokens, free = batch_tokens or tokens_in_cache(self._width), free_memory()
            if free is None:
                return Room(tokens)
            return Room(max(1, min(tokens, free // 2 // self.needs(1, 0))), max(1, free // 2 // _PER_CELL))
        if self.device.type == "mps":
            return Room(batch_tokens or _MPS_TOKENS)
        free, _ = torch.cuda.mem_get_info(self.device)
        free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        heads = getattr(self.model.config, "num_attention_heads", _MANY_HEADS)
        return Room(batch_tokens or _GPU_TOKENS, cells=free // 2 // (_COPIES * torch.float32.itemsize * heads))

    def needs(self, tokens: int, length: int) -> int:
        """About how many bytes of main memory a batch of so many tokens takes, in inputs of a length."""
        return tokens * (_PER_WIDTH * (self._width or _WIDTH) + _PER_CELL * min(length, _MOST_CELLS))

    @property
    def _width(self) -> int | None:
        width = getattr(self.model.config, "hidden_size", None)
        return width if isinstance(width, int) else None

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


def tokens_in_cache(width: int | None) -> int:
    """How many tokens a CPU runs fastest at once, by the model's `hidden_size` if its config has one.

    Measured: 4,096 tokens at once cost BERT base's layers 2 to 22 % more time than 1,024.
    """
    widest = 4 * 4 * (width or 1)  # bytes of a token's widest activations, the feed-forward's, in float32
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
    if kind == "cpu" and dtype == "float16":
        what = "--dtype float16 needs a GPU: on a CPU attnscan computes in float32 or bfloat16"
        raise DeviceError(what, "leave --dtype out")
    if kind == "cpu" and dtype == "bfloat16" and not multiplies_bfloat16():
        raise DeviceError(
            "--dtype bfloat16 would be slower here: this processor has no instructions that multiply in it",
            "leave --dtype out, or use a processor with AVX512-BF16, AMX or Arm's BF16",
        )
    return torch.device(kind)


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions that multiply in bfloat16, which take half as long as in float32."""
    able = torch.cpu.get_capabilities()
    return any(able.get(feature) for feature in _BFLOAT16)
