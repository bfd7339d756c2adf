"""Which function computes a model's attention: ours, by which it is read, or one of transformers'.

Any number of threads may run one model at once: each computes attention by a function of its own.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

ATTENTION = "attnscan"
"""The name of our attention function among those of transformers."""
_thread = threading.local()
"""What computes attention in this thread, as its attribute `attend`."""


def fused_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> Tensor:
    """Compute attention by torch's fused kernel; the mask decides, even in a causal module.

    Shape: [batch, head, token, dimension] each -> [batch, token, head, dimension].
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    output: Tensor = sdpa_attention_forward(
        module,
        query,
        key,
        value,
        attention_mask,
        scaling=options.get("scaling"),
        position_bias=options.get("position_bias"),
        is_causal=False,
    )[0]
    return output


@contextmanager
def attend_by(attend: Callable[..., Tensor]) -> Iterator[None]:
    """Let a function like `fused_attention` compute attention in this thread.

    It does so in models that are turned to `ATTENTION`.
    """
    _thread.attend = attend
    try:
        yield
    finally:
        del _thread.attend


def _attend(*arguments: Any, **options: Any) -> tuple[Tensor, None]:
    """The function that transformers calls; it gives no weights."""
    attend = getattr(_thread, "attend", fused_attention)
    return attend(*arguments, **options), None


@contextmanager
def use_attention(model: Any, name: str) -> Iterator[bool]:
    """Run the model with the attention of that name, and put its own back.

    Yields whether the model took it.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    # Without a mask function of the same name transformers passes no mask at all, and padding soaks
    # up attention:
    # https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/masking_utils.py
    AttentionInterface.register(ATTENTION, _attend)
    AttentionMaskInterface.register(ATTENTION, eager_mask)
    before: list[tuple[Any, str | None]] = []
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation_internal"):
            before.append((config, config._attn_implementation_internal))
    try:
        model.set_attn_implementation(name)
        yield model.config._attn_implementation == name
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation
