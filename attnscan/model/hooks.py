"""The hooks on a caller's modules, and what else a copy of them could not compute as they do.

Hooks that compute weights (torch's pruning, its older spectral and weight normalization) are run once, and their
weights kept. Hooks that only watch are left out. Any other is refused by `check_modules`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from attnscan.errors import ModelError

Hook = Callable[..., Any]
_NOT_COPIED = "_compiled_call_impl"  # of a module that was compiled in place


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


def check_modules(model: torch.nn.Module) -> None:
    """Raises: ModelError if a module has a hook of the caller's own, is quantized, or is tied to the original."""
    for place, module in model.named_modules():
        name = f"the model's {place}" if place else f"the {type(module).__name__}"
        for hook in forward_hooks(module):
            if computed_weight(hook) is None:  # what it does in batches, threads and runs that end early nobody knows
                called = getattr(hook, "__qualname__", type(hook).__qualname__)
                raise ModelError(
                    f"{name} has the forward hook {called}, and attnscan runs no hooks",
                    "remove it before, with remove() of what registering it returned",
                )
        if type(module).__module__.startswith("torch.ao."):
            raise ModelError(  # with a scale for all numbers of a batch: scores would hang on which inputs meet in one
                f"{name} is quantized, and rounds an input by those beside it in a batch",
                "give the model as it was before it was quantized",
            )
        for key, values in (*module._parameters.items(), *module._buffers.items()):
            if isinstance(values, Tensor) and not _is_plain(values):
                raise ModelError(
                    f"{name} holds its {key} as a {type(values).__name__} ({values.layout}), not as plain numbers",
                    "give the model with plain weights, as from_pretrained() returns it",
                )
        functions = ((key, value) for key, value in vars(module).items() if key != _NOT_COPIED)
        if key := next((key for key, value in functions if _refers_to_modules(value)), None):
            raise ModelError(
                f"the {key} of {name} is compiled, or a function that refers to modules, and a copy would run these",
                "give the model without it; of a module that torch.compile() returned, its _orig_mod",
            )


def _is_plain(values: Tensor) -> bool:
    strided = values.layout == torch.strided and not values.is_quantized
    return strided and not is_traceable_wrapper_subclass(values) and not torch.nn.parameter.is_lazy(values)


def _refers_to_modules(value: object) -> bool:
    """Whether a function holds modules, or methods of them: to copy a function copies nothing of what it holds."""
    cells = (value.__closure__ or ()) if isinstance(value, FunctionType) else ()
    held = [cell.cell_contents for cell in cells if cell != CellType()]  # an empty one has no contents
    return any(
        isinstance(getattr(content, "__self__", content), torch.nn.Module) or _refers_to_modules(content)
        for content in held
    )
