"""What an encoder-decoder writes: the target of a source that has none, greedily; and what its decoder reads of one."""

from __future__ import annotations

from typing import Any

import torch

from attnscan.errors import InputError
from attnscan.inputs.encode import called
from attnscan.inputs.pairs import Pair
from attnscan.inputs.sentence import Sentence
from attnscan.model.running import failed, quiet_transformers

_SHIFT = "prepare_decoder_input_ids_from_labels"
"""The method by which most models that write make of a target what their decoder reads."""


def writes_text(model: Any) -> bool:
    """Whether a model is an encoder-decoder that reads and writes text."""
    if not model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        return False
    return hasattr(model, _SHIFT) or bool(model.can_generate())


def shifted(model: Any, ids: list[int]) -> list[int]:
    """The token ids that the decoder reads of a target's: a start token, and all but the last."""
    if not hasattr(model, _SHIFT):  # M2M100, NLLB-MoE and Blenderbot do this where they are given labels
        return [model.config.decoder_start_token_id, *ids[:-1]]
    labels = torch.tensor([ids], device=model.device)
    read: list[int] = getattr(model, _SHIFT)(labels=labels)[0].tolist()
    return read


def written(model: Any, tokenizer: Any, pair: Pair, most: int, limit: int) -> Pair | InputError:
    """A source with the target that the model writes, word by word the likeliest, of at most so many tokens.

    Neither is longer than what the model reads: the start token and the end of a target count, too.
    Raises: CaptureError if the model fails.
    """
    encoding = called(tokenizer, pair.a, return_tensors="pt", truncation=True, max_length=limit).to(model.device)
    inputs = {name: encoding[name] for name in ("input_ids", "attention_mask") if name in encoding}
    try:
        with torch.inference_mode(), quiet_transformers():
            ids = model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=max(1, min(most, limit - 2)))[0]
    except Exception as error:
        raise failed(model, error) from error
    text = tokenizer.decode(ids.tolist(), skip_special_tokens=True)
    if not text.strip():
        return InputError("the model writes no word as the target", "give the target as sentence B")
    return Pair(pair.sentences[0], Sentence(text))
