"""The parts of somebody else's model: its encoder, its decoder, and which of them can be run."""

from typing import Any

from attnscan.errors import ModelError
from attnscan.model.forward import named_arguments
from attnscan.results.grid import AttentionName

BLOCK_SPARSE = "block_sparse"
"""What Big Bird calls its own attention; in its first run on a short input it turns to full
attention for good."""


def writes_text(model: Any) -> bool:
    """Whether a model is an encoder-decoder that reads and writes text."""
    if not model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        return False
    return hasattr(model, "prepare_decoder_input_ids_from_labels") or bool(model.can_generate())


def has_decoder_beside(model: Any) -> bool:
    """Whether a model is an encoder and a decoder.

    A saved T5EncoderModel says no in its config, and is loaded with a decoder.
    """
    parts = {name for name, _ in model.base_model.named_children()}
    return bool(model.config.is_encoder_decoder) or {"encoder", "decoder"} <= parts


def bare_encoder(model: Any, name: str) -> Any:
    """The encoder (or decoder) of a model without task heads.

    Raises: ModelError if it cannot be run by itself.
    """
    encoder = model.get_encoder() if has_decoder_beside(model) else model.base_model
    if not hasattr(encoder, "config") or "input_ids" not in named_arguments(encoder):
        raise ModelError(
            f"the architecture {type(encoder).__name__} of {name} is not a model of text "
            "that can be run by itself",
            "use a model such as BERT, BART or T5; its forward names its inputs: "
            "input_ids, attention_mask, ...",
        )
    return encoder


def no_encoder_decoder(name: str, attention: AttentionName) -> ModelError:
    """The error for a model that does not have an attention."""
    return ModelError(
        f"{name} is no encoder-decoder that writes text, and has no {attention} attention "
        "beside an encoder's",
        "leave out ``attention`` and letters of heads, or name a model such as T5, BART or Marian",
    )
