"""Which calls of an encoder-decoder's attention are its encoder's, its decoder's, and those that look across.

Told by a run on a source and a target of different lengths: the shapes of queries and keys say what a call is, where
`is_decoder` and `is_causal` are wrong in several families. Calls come in the same order in every later run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscan.model.attention_function import (
    AttentionFunction,
    Untappable,
    attention_of,
    is_modified,
    plain_attention,
)
from attnscan.model.running import accepted, failed, refused
from attnscan.results.grid import AttentionKind, Grid

_SOURCE, _TARGET = 5, 3  # tokens
_TOKEN = 5  # of any vocabulary, and padding in none
_KIND_OF = {
    (_SOURCE, _SOURCE): AttentionKind.ENCODER,
    (_TARGET, _TARGET): AttentionKind.DECODER,
    (_TARGET, _SOURCE): AttentionKind.CROSS,
}


@dataclass(frozen=True)
class Calls:
    """The calls of an attention function in one run of an encoder-decoder."""

    places: tuple[tuple[AttentionKind, int], ...]
    """The kind of each call, and its layer among those of the kind."""
    grid: Grid
    """The heads of the kind that is read."""

    @property
    def last(self) -> int:
        """The number of the last call of the kind that is read."""
        (kind, layers, _), *_ = self.grid.shapes
        return self.places.index((kind, layers - 1))


def calls_of(model: Any, kind: AttentionKind, device: torch.device) -> Calls | None:
    """Which calls are of which kind; None if the model does not compute this kind by the function in every layer.

    Raises: CaptureError if the model fails, or shows no attention of the kind itself.
    """
    source = torch.full((1, _SOURCE), _TOKEN, device=device)
    target = torch.full((1, _TARGET), _TOKEN, device=device)
    inputs = accepted(model, {"input_ids": source, "decoder_input_ids": target})
    with torch.inference_mode(), _Probe(model) as probe:
        try:
            with attention_of(model, "eager") as took:
                shown = model(**inputs, output_attentions=True).get(shown_as(kind)) if took else ()
            with attention_of(model, probe.name) as took:
                if took:
                    model(**inputs)
        except Untappable:
            return None
        except Exception as error:
            raise failed(model, error) from error
    shown = [weights for weights in shown or () if weights is not None]
    if not shown:
        raise refused(model, f"shows no attention weights of its {'decoder' if kind > 1 else 'encoder'}")
    layers, places = Counter[AttentionKind](), []
    for shape, _ in probe.calls:
        if shape not in _KIND_OF:
            return None
        places.append((_KIND_OF[shape], layers[_KIND_OF[shape]]))
        layers[_KIND_OF[shape]] += 1
    heads = {heads for shape, heads in probe.calls if _KIND_OF[shape] is kind}
    if layers[kind] != len(shown) or len(heads) != 1:
        return None
    return Calls(tuple(places), Grid(((kind, layers[kind], heads.pop()),)))


def shown_as(kind: AttentionKind) -> str:
    """What transformers calls a kind of attention in a model's output."""
    return f"{kind.name.lower()}_attentions"


class _Probe(AttentionFunction):
    """Notes how many queries, keys and heads each call has."""

    def __init__(self, model: Any) -> None:
        super().__init__(model, layers=0)
        self.calls: list[tuple[tuple[int, int], int]] = []

    def _attend(
        self, module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any
    ) -> tuple[Tensor, None]:
        if is_modified(rest):
            raise Untappable
        self.calls.append(((query.shape[2], key.shape[2]), query.shape[1]))
        return plain_attention(module, query, key, value, mask, rest), None


class Behind:
    """Which source keys the queries of a target see, where the target's tokens are counted behind the source's.

    So both texts have one count of places, and what is said of tokens has the same places as rows and columns.
    """

    def __init__(self, visible: Tensor, sizes: Sequence[tuple[int, int]]) -> None:
        """`sizes` says how many tokens the target and the source of each input have.

        Shape: `visible` [batch, target token, source token], bool.
        """
        self._visible, self._sizes, self._width = visible, sizes, max(map(sum, sizes))

    def __getitem__(self, cells: tuple[slice, slice, slice]) -> Tensor:
        """Of some inputs, queries and keys. Shape: [batch, query, key], bool."""
        inputs, queries, keys = cells
        numbers = range(len(self._sizes))[inputs]
        whole = self._visible.new_zeros(len(numbers), self._width, self._width)
        for row, number in enumerate(numbers):
            target, source = self._sizes[number]
            whole[row, source : source + target, :source] = self._visible[number, :target, :source]
        return whole[:, queries, keys]
