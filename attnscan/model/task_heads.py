"""A model with a task head that its checkpoint has trained: what it predicts, beside attention."""

import copy
from typing import Any, Literal

from attnscan.model.checkpoint import from_checkpoint
from attnscan.model.forward import quiet_transformers
from attnscan.model.loading import LoadedModel

TaskHead = Literal["masked-lm", "next-sentence", "classifier", "causal-lm"]


def task_head(loaded: LoadedModel, kind: TaskHead) -> Any | str:
    """The model with that head, or why the checkpoint has none.

    Its encoder's weights are shared with `loaded`.
    """
    if kind == "masked-lm":
        return _masked_lm(loaded)
    import transformers as t

    if kind == "next-sentence":
        mapping = t.MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING
        model_class = t.AutoModelForNextSentencePrediction
    elif kind == "causal-lm":
        mapping = t.MODEL_FOR_CAUSAL_LM_MAPPING
        model_class = t.AutoModelForCausalLM
    else:
        mapping = t.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
        model_class = t.AutoModelForSequenceClassification
    config = loaded.model.config
    if type(config) not in mapping or config.is_encoder_decoder:
        return f"a {config.model_type} model has no {kind} head"
    if kind == "classifier" and not _tells_one_class(config):
        return "its classifier head does not tell one of several classes"
    if loaded.original is not None:
        if has_own_head(loaded.original, mapping):
            return loaded.original
        return f"the model has no {kind} head"
    with quiet_transformers():
        model, info = from_checkpoint(
            model_class, loaded.source, config=copy.deepcopy(config), dtype=loaded.model.dtype
        )
    if info["missing_keys"] or info["mismatched_keys"]:
        # It was filled with random numbers
        return f"the checkpoint has no trained {kind} head"
    model = model.to(loaded.device).eval()
    model.base_model.load_state_dict(loaded.model.state_dict(), strict=False, assign=True)
    return model


def _masked_lm(loaded: LoadedModel) -> Any | str:
    if loaded.masked_lm is None:
        return "the checkpoint has no trained masked-LM head"
    if loaded.tokenizer.mask_token_id is None:
        return "it has no mask token"
    return loaded.masked_lm


def _tells_one_class(config: Any) -> bool:
    """Whether a classifier chooses between several classes."""
    problem = getattr(config, "problem_type", None)
    return config.num_labels >= 2 and problem in (None, "single_label_classification")


def has_own_head(model: Any, mapping: Any) -> bool:
    """Whether a caller's model is transformers' own of a kind.

    What the head of another class computes is unknown.
    """
    config = model.config
    if type(config) not in mapping or config.is_encoder_decoder:
        return False
    if not isinstance(model, mapping[type(config)]):
        return False
    return bool(type(model).forward.__module__.startswith("transformers."))
