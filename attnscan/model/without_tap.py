"""What a model without a tap shows as its attentions, taken only if it proves to be just that.

Under that name some architectures show logits (SqueezeBERT), some a part of each row (Longformer), and some
rows that a sink beside the input has a share of (GPT-OSS).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from attnscan.errors import CaptureError

_ROW_TOLERANCE, _HALF_ROW_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits


def softmax_weights(architecture: str, shown: Sequence[Any], ids: Tensor) -> list[Tensor]:
    """The weights of every layer that has attention.

    Shape: `ids` [batch, token], without padding -> each [batch, head, query, key], in the model's number format.
    Raises: CaptureError, which names the architecture, if it shows anything else.
    """
    every_layer = [weights for weights in shown if weights is not None]
    if not every_layer:
        raise refused(architecture, "shows no attention weights")
    if len(every_layer) < len(shown):
        raise refused(architecture, f"shows attention weights in {len(every_layer)} of its {len(shown)} layers alone")
    batch, length = ids.shape
    heads = every_layer[0].shape[1] if isinstance(every_layer[0], Tensor) else 0
    for layer, weights in enumerate(every_layer):
        if not isinstance(weights, Tensor) or weights.shape != (batch, heads, length, length):
            shape = f"of shape {list(weights.shape)}" if isinstance(weights, Tensor) else "in parts"
            raise refused(
                architecture,
                f"shows weights {shape} in layer {layer}, where each of {length} tokens should look at each",
            )
        _check_rows(architecture, layer, weights)
    return every_layer


def refused(architecture: str, why: str) -> CaptureError:
    """An architecture that is not to be read."""
    return CaptureError(
        f"the architecture {architecture} {why}",
        "use a model with softmax attention, such as BERT, RoBERTa, DistilBERT, ALBERT or ModernBERT",
    )


def _check_rows(architecture: str, layer: int, weights: Tensor) -> None:
    """Shape: [batch, head, query, key]."""
    rows = weights.float()
    if not rows.isfinite().all():
        return  # a damaged checkpoint, as who scores it says
    tolerance = _ROW_TOLERANCE if weights.dtype.itemsize > 2 else _HALF_ROW_TOLERANCE
    if rows.min() < 0 or (rows.sum(-1) - 1).abs().max() > tolerance:
        raise refused(architecture, f"shows numbers in layer {layer} that are no softmax over the tokens")
