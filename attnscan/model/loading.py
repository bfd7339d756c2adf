"""A model that is loaded from its source, on a device, ready to run.

Weights are read as safetensors alone, and no code of the model's is run.
"""

import copy
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from attnscan.errors import (
    AttnscanError,
    InputError,
    MemoryFullError,
    ModelError,
    out_of_memory,
)
from attnscan.inputs.encode import encode_pairs
from attnscan.inputs.sentence import EncodedInput, Pair, Unit
from attnscan.inputs.vocabulary import WholeWords, whole_words
from attnscan.model.architecture import BLOCK_SPARSE, bare_encoder
from attnscan.model.checkpoint import load_checkpoint
from attnscan.model.devices import batch_tokens as tokens_in_batch
from attnscan.model.devices import choose_device
from attnscan.model.forward import first_line, quiet_transformers
from attnscan.model.languages import set_languages
from attnscan.model.relatedness import Relatedness
from attnscan.model.sources import (
    PICKLES,
    Device,
    Dtype,
    Source,
    fingerprint,
    inner_directory,
)
from attnscan.results.grid import AttentionName
from attnscan.text import plain

NO_LIMIT = 1_000_000
"""Tokenizers without a limit say 10**30."""


@dataclass(frozen=True)
class LoadedModel:
    """A model and its tokenizer, ready to run."""

    source: Source
    """What was found by its name."""
    model: Any
    """The encoder (or decoder) without task heads, of transformers, in evaluation mode."""
    masked_lm: Any | None
    """A model of this encoder with a trained masked-LM head; None if the checkpoint has none."""
    tokenizer: Any
    """Of transformers."""
    device: torch.device
    scored: Any
    """The model by which heads are scored: `model`, or on a CPU a copy in the half precision that
    was asked for."""
    original: Any | None = None
    """The caller's own model that this was made of; None if it was loaded by its name."""
    note: str = ""
    """A line for the user on how it was loaded."""
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
    def with_task_head(self) -> Any:
        """The model with its task head, if it has one."""
        return self.model if self.masked_lm is None else self.masked_lm

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What model this is, whatever its name and place; taken when it is first asked for."""
        return fingerprint(self.with_task_head, self.tokenizer)

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
        """What fills up shorter inputs; masked, so any will do where the tokenizer names none."""
        return int(self.tokenizer.pad_token_id or 0)

    @property
    def limit(self) -> int:
        """The most tokens that an input may have, special ones included."""
        config = self.model.config
        limits = [
            self.tokenizer.model_max_length,
            getattr(config, "max_position_embeddings", None),
            getattr(config, "max_seq_len", None),  # MPT's
            self._position_limit(),
            NO_LIMIT,
        ]
        known = [most for most in limits if isinstance(most, int | float) and most >= 1]
        return int(min(known))

    def _position_limit(self) -> int | None:
        """How many tokens the first table of position embeddings holds; None without one."""
        for name, module in self.model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
                if module.padding_idx is None:
                    return module.num_embeddings
                # RoBERTa counts positions from behind the padding token's
                return module.num_embeddings - (module.padding_idx + 1)
        return None

    def room(self, batch_tokens: int | None) -> int:
        """How many tokens a batch may hold: as many as are asked for, or as run fastest."""
        return batch_tokens or tokens_in_batch(self.device)

    def encode_all(
        self, pairs: Sequence[Pair], unit: Unit, *, truncate: bool
    ) -> Iterator[EncodedInput | InputError]:
        """Tokenize some pairs; the error in the place of one that the model cannot read.

        Raises: ModelError if it can read none.
        """
        for encoded in encode_pairs(self.tokenizer, pairs, unit, self.limit, truncate):
            if isinstance(encoded, EncodedInput):
                self.check_ids(encoded.model_inputs["input_ids"])
            yield encoded

    def check_ids(self, ids: list[int]) -> None:
        """Raises: ModelError if the tokenizer gives ids that the model has no embedding for."""
        rows = len(self.embedding)
        if max(ids) >= rows:
            raise ModelError(
                f"the tokenizer of {self.source.name} gives token {max(ids)}, "
                f"and the model knows {rows}",
                "the two do not belong together: "
                "save the tokenizer that the model was trained with",
            )


def load(
    source: Source,
    device: Device = "auto",
    dtype: Dtype = "auto",
    attention: AttentionName = "encoder",
    languages: tuple[str | None, str | None] = (None, None),
) -> LoadedModel:
    """Load a model and its tokenizer.

    Of an encoder-decoder the encoder is taken, or for another `attention` the whole. `languages`
    are those of its sources and targets. On a CPU the model is one of float32, with a copy in half
    precision if `dtype` says so.
    Raises: ModelError if that fails or weights are missing; DeviceError if the machine has no such
    device or memory.
    """
    place = choose_device(device)
    # Whatever the checkpoint is stored in
    asked_for = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    number = torch.float32 if place.type == "cpu" else asked_for
    is_encoder = attention == "encoder"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with quiet_transformers(), warnings.catch_warnings(action="ignore"), _explain_errors(source):
        from transformers import AutoConfig, AutoTokenizer

        source = _pin_commit(source)
        config = AutoConfig.from_pretrained(**source.arguments)
        note = ""
        if getattr(config, "attention_type", "") == BLOCK_SPARSE:
            config.attention_type = "original_full"
            note = (
                f"{source.name}: attention is computed in full; "
                "the model's own is of blocks, where no row is whole"
            )
        tokenizer = AutoTokenizer.from_pretrained(**source.tokenizer_arguments)
        set_languages(tokenizer, source.name, *languages, writes=not is_encoder)
        model, has_trained_head = load_checkpoint(source, config, number, attention)
    model = model.to(place).eval()
    encoder = bare_encoder(model, source.name) if is_encoder else model
    has_masked_lm = is_encoder and has_trained_head and model.base_model is not model
    return LoadedModel(
        source=source,
        model=encoder,
        masked_lm=model if has_masked_lm else None,
        tokenizer=tokenizer,
        device=place,
        scored=encoder if asked_for == number else copy.deepcopy(encoder).to(asked_for),
        note=note,
    )


def _pin_commit(source: Source) -> Source:
    """A source whose files are all of one commit: the hub's latest, where no revision is named.

    A model that the hub keeps one level down is fetched, and loaded from its directory.
    """
    from huggingface_hub import snapshot_download

    if Path(source.location).is_dir():
        return source
    hub_id = source.location
    about = ["config.json", "modules.json"]
    snapshot = Path(snapshot_download(hub_id, revision=source.revision, allow_patterns=about))
    source = replace(source, revision=snapshot.name)
    inner = inner_directory(snapshot)
    if inner:
        snapshot_download(
            hub_id,
            revision=snapshot.name,
            allow_patterns=f"{inner}/*",
            ignore_patterns=[f"{inner}/*/*", *PICKLES],
        )
        if (snapshot / inner / "config.json").is_file():
            return replace(source, location=str(snapshot / inner))
    return source


@contextmanager
def _explain_errors(source: Source) -> Iterator[None]:
    """Explain whatever loading raises, by its many parts.

    Raises: MemoryFullError where memory ran out; ModelError for all else.
    """
    try:
        yield
    except AttnscanError:
        raise
    except BaseException as error:
        is_rust_panic = type(error).__module__ == "pyo3_runtime"
        if not (isinstance(error, Exception) or is_rust_panic):
            raise
        if out_of_memory(error):
            raise MemoryFullError(
                f"the model {source.name} does not fit into memory", "use a smaller one"
            ) from error
        raise ModelError(
            f"cannot load the model {source.name}: {plain(first_line(error))[:300]}",
            "check its name and the network; of a directory, that config, tokenizer and weights "
            "belong together",
        ) from error
