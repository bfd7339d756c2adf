"""Whether a checkpoint's weights and its config belong together: what is missing, and what nothing uses."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch

from attnscan.errors import ModelError
from attnscan.results.terms import counted

_BUFFERS = ("position_ids", "token_type_ids", "masked_bias", "inv_freq", ".attn.bias", ".attention.bias", ".version")
"""How names end that older versions of transformers saved, and that are no weights."""


def check_weights(whole: Any, missing: Iterable[str], unused: Iterable[str], name: str) -> str:
    """What to tell of weights that the model has no place for, or nothing if they were to be expected.

    `missing` are names in the model, `unused` those in the checkpoint.
    Raises: ModelError if either are weights that attention depends on.
    """
    if lacking := [weight for weight in missing if _is_encoders(weight, whole)]:
        raise ModelError(
            f"the checkpoint {name} lacks {len(lacking)} of the model's weights, among them {lacking[0]}",
            "its config.json and its weights do not belong together: save the model again",
        )
    buffers = {buffer for buffer, _ in whole.base_model.named_buffers()}
    prefix = f"{whole.base_model_prefix}."
    left = [
        weight
        for weight in unused
        if "pooler" not in weight and not weight.endswith(_BUFFERS) and weight.removeprefix(prefix) not in buffers
    ]
    if dropped := [weight for weight in left if _is_encoders(weight, whole)]:
        raise ModelError(
            f"the checkpoint {name} holds {counted(len(dropped), 'weight')} of its encoder that nothing would use: "
            f"{dropped[0]}{' and others' if dropped[1:] else ''}",
            "see that config.json belongs to the weights; if transformers knows them no more, use an older one",
        )
    heads = {weight.split(".")[0] for weight in left} - _usual_heads(whole) if left else set()
    if not heads:
        return ""
    return f"no attention depends on what the checkpoint {name} holds besides its encoder: {', '.join(sorted(heads))}"


def has_decoder_beside(whole: Any) -> bool:
    """Whether a model is an encoder and a decoder. A saved T5EncoderModel says no, and is loaded with a decoder."""
    parts = {name for name, _ in whole.base_model.named_children()}
    return bool(whole.config.is_encoder_decoder) or {"encoder", "decoder"} <= parts


def _is_encoders(name: str, whole: Any) -> bool:
    """Whether a weight is one that attention depends on, not a task head's or a decoder's beside an encoder."""
    inside = name.removeprefix(f"{whole.base_model_prefix}.")
    part, _, rest = inside.partition(".")
    if part == "decoder" and has_decoder_beside(whole):
        return False
    parts = {own for own, _ in (whole.base_model.named_children() if rest else whole.base_model.named_parameters())}
    return inside != name or part in parts


def _usual_heads(whole: Any) -> set[str]:
    """The task heads that a family is pretrained with, of which there is nothing to tell."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_PRETRAINING_MAPPING

    config = copy.deepcopy(whole.config)
    config.num_hidden_layers = 1
    heads: set[str] = set()
    for mapping in (MODEL_FOR_PRETRAINING_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING):
        if type(config) in mapping:
            with torch.device("meta"):
                model = mapping[type(config)](config)
            heads |= {name.split(".")[0] for name in (*model.state_dict(), *dict(model.named_buffers()))}
    return heads
