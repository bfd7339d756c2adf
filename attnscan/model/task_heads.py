"""A checkpoint's trained task heads, each around the encoder that is loaded already."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal

from attnscan.model.in_memory import has_own_head
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import from_checkpoint
from attnscan.model.running import quiet_transformers

TaskHead = Literal["masked-lm", "next-sentence", "classifier"]


def task_head(loaded: LoadedModel, kind: TaskHead) -> Any | str:
    """The model with that head, its encoder's weights shared with `loaded`; or why the checkpoint has none.

    A classifier is one that tells one of several classes: neither a regression nor several labels at a time.
    """
    import transformers as t

    if kind == "masked-lm" and loaded.masked_lm is None:
        return "the checkpoint has no trained masked-LM head"
    if kind == "masked-lm":
        return loaded.masked_lm if loaded.tokenizer.mask_token_id is not None else "it has no mask token"
    mapping, auto = {
        "next-sentence": (t.MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING, t.AutoModelForNextSentencePrediction),
        "classifier": (t.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, t.AutoModelForSequenceClassification),
    }[kind]
    config = loaded.model.config
    if type(config) not in mapping or config.is_encoder_decoder:
        return f"a {config.model_type} model has no {kind} head"
    problem = getattr(config, "problem_type", None)
    if kind == "classifier" and (config.num_labels < 2 or problem not in (None, "single_label_classification")):
        return "its classifier head does not tell one of several classes"
    if loaded.given is not None:
        return loaded.given if has_own_head(loaded.given, mapping) else f"the model has no {kind} head"
    with quiet_transformers():
        whole, info = from_checkpoint(auto, loaded.source, config=deepcopy(config), dtype=loaded.dtype)
    if info["missing_keys"] or info["mismatched_keys"]:
        return f"the checkpoint has no trained {kind} head"  # it was filled with random numbers
    whole = whole.to(loaded.device).eval()
    whole.base_model.load_state_dict(loaded.model.state_dict(), strict=False, assign=True)
    return whole
