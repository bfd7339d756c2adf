"""Adapters (LoRA and the like), merged by peft into the model that they change."""

import re
from pathlib import Path
from typing import Any

import torch

from attnscan.errors import ModelError
from attnscan.model.sources import Source

_WEIGHTS = "adapter_model.safetensors"
_NAMES = "base_model.model."
"""How the names of all weights in an adapter's file begin."""


def merge_adapter(model: Any, source: Source) -> list[str]:
    """Merge an adapter's weights into a model's own, in place.

    Returns the names of those that have no place in the model, as the model would name them.
    Raises: ModelError without peft, or for an adapter that is not merged into weights.
    """
    try:
        from peft import PeftConfig, PeftModel, get_peft_model_state_dict
    except ImportError:
        raise ModelError(
            f"{source.name} holds an adapter (LoRA or the like), and the package peft is not "
            "installed",
            "run: pip install 'attnscan[adapters]'; or merge it once: peft's merge_and_unload(), "
            "then save_pretrained(DIR)",
        ) from None
    from safetensors.torch import load_file

    weights = load_file(Path(source.adapter) / _WEIGHTS)
    prefix = model.base_model_prefix
    adapted_part = model.base_model
    is_of_task_head = any(name.startswith(f"{_NAMES}{prefix}.") for name in weights)
    if is_of_task_head:
        adapted_part = torch.nn.ModuleDict({prefix: model.base_model})
        adapted_part.config = model.config
    _resize_embeddings(model, adapted_part, weights)
    config = PeftConfig.from_pretrained(source.adapter)
    config.task_type = None  # no task head is wrapped
    if getattr(config, "modules_to_save", None):
        parts = {name.split(".")[-1] for name, _ in adapted_part.named_modules()}
        config.modules_to_save = [name for name in config.modules_to_save if name in parts] or None
    adapted = PeftModel.from_pretrained(adapted_part, source.adapter, config=config)
    if not hasattr(adapted.base_model, "merge_and_unload"):
        raise ModelError(
            f"{source.name} is an adapter of the kind {config.peft_type}, which is not merged "
            "into a model's weights",
            "use LoRA or the like, or name the model without the adapter",
        )
    known = get_peft_model_state_dict(adapted, save_embedding_layers=False).keys()
    unknown = weights.keys() - known - adapted.state_dict().keys()
    adapted.merge_and_unload()
    model.tie_weights()
    return sorted(name.removeprefix(_NAMES) for name in unknown)


def _resize_embeddings(model: Any, adapted_part: Any, weights: dict[str, Any]) -> None:
    """Give a model as many token embeddings as its adapter has, which was trained with more."""
    embeddings = model.get_input_embeddings()
    places = [name for name, module in adapted_part.named_modules() if module is embeddings]
    for place in places:
        pattern = re.compile(re.escape(f"{_NAMES}{place}.") + r"(base_layer\.)?weight")
        for name, values in weights.items():
            if pattern.fullmatch(name) and len(values) != len(embeddings.weight):
                model.resize_token_embeddings(len(values), mean_resizing=False)
                return
