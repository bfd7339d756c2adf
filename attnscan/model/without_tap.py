"""What a model without a tap shows as its attentions, taken only if it proves to be just that.

Under that name some architectures show logits (SqueezeBERT), some a part of each row (Longformer), and some
rows that a sink beside the input has a share of (GPT-OSS).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attnscan.model.attention_function import attention_of
from attnscan.model.running import failed, refused

_ROW_TOLERANCE, _HALF_ROW_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits


def shown_weights(model: Any, inputs: dict[str, Any]) -> list[Tensor]:
    """Run a model on inputs without padding; the weights of every layer, as it shows them itself.

    Shape: `inputs` are the model's, each [batch, token] -> each [batch, head, query, key], in its number format.
    Raises: CaptureError, which names the architecture, if it fails or shows anything else.
    """
    try:
        with attention_of(model, "eager") as took:
            output = model(**inputs, output_attentions=True) if took else {}
    except Exception as error:
        raise failed(model, error) from error
    shown = output.get("attentions") or output.get("encoder_attentions") or ()
    every_layer = [weights for weights in shown if weights is not None]
    if not every_layer:
        raise refused(model, "shows no attention weights")
    if len(every_layer) < len(shown):
        raise refused(model, f"shows attention weights in {len(every_layer)} of its {len(shown)} layers alone")
    batch, length = inputs["input_ids"].shape
    heads = every_layer[0].shape[1] if isinstance(every_layer[0], Tensor) else 0
    for layer, weights in enumerate(every_layer):
        if not isinstance(weights, Tensor) or weights.shape != (batch, heads, length, length):
            shape = f"of shape {list(weights.shape)}" if isinstance(weights, Tensor) else "in parts"
            raise refused(
                model,
                f"shows weights {shape} in layer {layer}, where each of {length} tokens should look at each",
            )
        rows = weights.float()
        tolerance = _ROW_TOLERANCE if weights.dtype.itemsize > 2 else _HALF_ROW_TOLERANCE
        if not rows.isfinite().all():
            continue  # a damaged checkpoint, as who scores it says
        if rows.min() < 0 or (rows.sum(-1) - 1).abs().max() > tolerance:
            raise refused(model, f"shows numbers in layer {layer} that are no softmax over the tokens")
    return every_layer
