"""The hooks on a caller's modules, each of which may change what a model computes.

Hooks that compute weights (torch's pruning, its older spectral and weight normalization) are run once, and their
weights kept. Hooks that only watch are left out. Any other is refused (`module_checks.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

Hook = Callable[..., Any]


def forward_hooks(module: torch.nn.Module) -> list[Hook]:
    """What may change what a module computes: its hooks but those that only watch."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return [hook for hook in hooks if not _watches(hook)]


def _watches(hook: Hook) -> bool:
    """Whether a library has put it there, to collect outputs or to let gradients reach the embeddings."""
    name = f"{getattr(hook, '__module__', '')}.{getattr(hook, '__qualname__', '')}"
    return name.startswith("transformers.utils.output_capturing.") or (
        name.startswith(("transformers.", "peft.")) and ".make_inputs_require_grad" in name
    )


@torch.no_grad()
def settle(module: torch.nn.Module, hooks: list[Hook]) -> None:
    """Run the hooks that compute weights of a module, which is in evaluation mode, and let it keep what they compute.

    A module notes such a weight as a plain attribute, which is that of its last run.
    """
    for hook in hooks:
        name = computed_weight(hook)
        assert name is not None
        hook(module, ())
        weight = vars(module).pop(name)
        module.register_parameter(name, torch.nn.Parameter(weight.detach(), requires_grad=False))


def computed_weight(hook: Hook) -> str | None:
    """The name of the weight that a hook computes; None if it does anything else."""
    if isinstance(hook, BasePruningMethod):
        return str(hook._tensor_name)
    return str(hook.name) if isinstance(hook, SpectralNorm | WeightNorm) else None
