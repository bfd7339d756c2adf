"""What heads put out, layer by layer, shown to a function that may change it, while the model runs to its end.

Attention is left to torch's fused kernel. What is shown is each head's weighted mean of values, before the output
projection mixes the heads. A run in which nothing is changed costs a plain forward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnscan.model.attention_function import (
    AttentionFunction,
    OnOutput,
    Untappable,
    attention_of,
    is_answerable,
    not_switchable,
)
from attnscan.model.running import accepted, failed


class OutputTap(AttentionFunction):
    """Runs a model, or one with a task head around it, with its heads' outputs shown. Open it, or use it in a `with`.

    Raises: CaptureError if the model does not say how many layers it has.
    """

    def __init__(self, encoder: Any, whole: Any) -> None:
        super().__init__(encoder)
        self.whole = whole
        self._on_output: OnOutput | None = None
        self._layer = 0

    def run(self, inputs: dict[str, Tensor], on_output: OnOutput) -> Any:
        """The model's output, with every layer's heads shown on the way.

        Shape: `inputs` are the model's, each [batch, token].
        Raises: CaptureError if the architecture keeps its heads to itself, or fails on this input.
        """
        self._on_output, self._layer = on_output, 0
        try:
            with torch.inference_mode(), attention_of(self.model, self.name) as took:
                output = self.whole(**accepted(self.whole, inputs)) if took else None
        except Untappable:
            took = False
        except Exception as error:
            raise failed(self.whole, error) from error
        finally:
            self._on_output = None
        if not took or self._layer != self.layers:
            raise not_switchable(self.model)
        return output

    def _attend(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **rest: Any,
    ) -> tuple[Tensor, None]:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward  # what runs has paid for it

        assert self._on_output is not None  # the model is under this implementation during a run alone
        if not is_answerable(module, self._layer, rest):
            raise Untappable
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **rest)
        self._on_output(self._layer, output)
        self._layer += 1
        return output, None
