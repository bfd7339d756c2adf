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
    plain_attention,
)
from attnscan.model.kinds import Calls, calls_of
from attnscan.model.running import accepted, failed
from attnscan.results.grid import AttentionKind


class OutputTap(AttentionFunction):
    """Runs a model, or one with a task head around it, with its heads' outputs shown. Open it, or use it in a `with`.

    With a `kind`, the model is a whole encoder-decoder, and the heads of that attention are shown; all others run as
    they are.
    Raises: CaptureError if the model does not say how many layers it has.
    """

    def __init__(self, encoder: Any, whole: Any, kind: AttentionKind = AttentionKind.ONLY) -> None:
        super().__init__(encoder, None if kind is AttentionKind.ONLY else 0)
        self.whole, self._kind = whole, kind
        self._calls: Calls | None = None  # of an encoder-decoder, known from its first run on
        self._on_output: OnOutput | None = None
        self._layer = 0

    def run(self, inputs: dict[str, Tensor], on_output: OnOutput) -> Any:
        """The model's output, with every layer's heads shown on the way.

        Shape: `inputs` are the model's, each [batch, token].
        Raises: CaptureError if the architecture keeps its heads to itself, or fails on this input.
        """
        if self._kind is not AttentionKind.ONLY and self._calls is None:
            self._calls = calls_of(self.model, self._kind, inputs["input_ids"].device)
            if self._calls is None:
                raise not_switchable(self.model)
            self.layers = len(self._calls.places)
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
        if self._calls is not None:
            return self._attend_one_of(self._calls, module, (query, key, value, attention_mask), rest), None
        if not is_answerable(module, self._layer, rest):
            raise Untappable
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **rest)
        self._on_output(self._layer, output)
        self._layer += 1
        return output, None

    def _attend_one_of(
        self, calls: Calls, module: torch.nn.Module, states: tuple[Tensor, Tensor, Tensor, Tensor | None], rest: Any
    ) -> Tensor:
        """What a call of one kind among several puts out, shown if it is the kind that is wanted."""
        if self._layer == len(calls.places):
            raise Untappable
        kind, layer = calls.places[self._layer]
        if not is_answerable(module, layer, rest):
            raise Untappable
        output = plain_attention(module, *states, rest)
        if kind is self._kind and self._on_output is not None:
            self._on_output(layer, output)
        self._layer += 1
        return output
