"""Adapters (LoRA and the like), merged into the model that they change."""

from pathlib import Path
from typing import Any

import torch

from attnscan.errors import ModelError
from attnscan.model.sources import Source


def merge_adapter(model: Any, source: Source) -> None:
    """Merge an adapter's weights into a model's own, in place.

    Raises: ModelError without peft, or if the adapter is of another model.
    """
    try:
        from peft import PeftConfig, PeftModel, get_peft_model_state_dict
    except ImportError:
        raise ModelError(
            f"{source.name} holds an adapter (LoRA or the like), and the package peft is not "
            "installed",
            "pip install peft; or merge it once: peft's merge_and_unload(), then "
            "save_pretrained(DIR)",
        ) from None
    from safetensors.torch import load_file

    names = set(load_file(Path(source.adapter) / "adapter_model.safetensors"))
    changed = model.base_model
    prefix = model.base_model_prefix
    is_of_task_head = any(name.startswith(f"base_model.model.{prefix}.") for name in names)
    if is_of_task_head:
        changed = torch.nn.ModuleDict({prefix: model.base_model})
        changed.config = model.config
    config = PeftConfig.from_pretrained(source.adapter)
    config.task_type = None  # no task head is wrapped
    adapted = PeftModel.from_pretrained(changed, source.adapter, config=config)
    weights = {name for name in names if "lora_" in name}
    unknown = weights - set(get_peft_model_state_dict(adapted))
    if unknown:
        raise ModelError(
            f"the adapter {source.name} has weights without a place in {source.location}: "
            f"{min(unknown)}",
            "see that its adapter_config.json names the model that it was made for",
        )
    adapted.merge_and_unload()
