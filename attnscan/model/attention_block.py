"""What a tap shows: blocks of a layer's attention, whoever reads them and from wherever; and what heads carry.

A head's output for query i is Σ_j α_ij f(x_j), where f(x_j) = v_j W_O is the key's value, its bias included, through
the head's own slice of the layer's output projection. What it carries from j is α_ij ‖f(x_j)‖, here as a share of its
row; Kobayashi et al., "Attention is Not Only a Weight" (2020). Heads often look at a delimiter whose value is next to
nothing: by its weight such a head follows `delimiter`, and by what it carries it rests.

A projection's weight is not multiplied with every value: of the head's slice W, [value, hidden], a triangle R with
RᵀR = W Wᵀ has the same norms, ‖vW‖ = ‖v Rᵀ‖, and is no larger than a head is wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.errors import CaptureError
from attnscan.model.attention_function import (
    AttentionFunction,
    Untappable,
    attention_of,
    is_answerable,
    plain_attention,
)
from attnscan.model.kinds import calls_of
from attnscan.model.running import accepted, check_finite, failed
from attnscan.results.grid import AttentionKind, Grid

MOST_CELLS = 1 << 22
"""Weights in a range of queries on a CPU: 16 MiB of float32."""
_FEWEST_ROWS = 8  # of a range: fewer cost more in calls than they save in memory

_NOTHING = -1e30  # the logarithm of a norm of 0: a masked key's logit, 3.4e38 below zero, stays finite with it
_ROUNDED, _HALF_ROUNDED = 1e-5, 2e-2  # how far a projection may be from its weight, of its largest output


class Visible(Protocol):
    """Which keys each query of a batch may see: a tensor, or a mask that is worked out for the cells asked for."""

    def __getitem__(self, cells: tuple[slice, slice, slice], /) -> Tensor:
        """Of some inputs, queries and keys. Shape: [batch, query, key], bool."""


@dataclass(frozen=True)
class AttentionBlock:
    """A part of one layer's attention: some inputs of the batch, some heads, a range of queries and of keys."""

    grid: Grid
    """All heads of the model, by what it does rather than what its config says."""
    layer: int
    inputs: slice
    heads: slice
    weights: Tensor
    """Softmax attention. Shape: [batch, head, query, key], float32; rows sum to 1, keys of padding have 0. On a CPU
    and without the tap, padding at the inputs' end is left out: they are all of one length."""
    visible: Visible
    """Which keys each query of the batch may see, those of other inputs and ranges too. Shape: [batch, query, key],
    bool. Layers with the same mask carry the same object, so that what follows from it is worked out once."""
    query: Tensor | None
    """After any rotation, before scaling. Shape: [batch, head, query, dimension]; None without the tap."""
    key: Tensor | None
    """Likewise, of all keys; grouped ones are repeated for each head. Shape: [batch, head, key, dimension]."""
    scaling: float | None
    """What q·k is multiplied with before the softmax; None without the tap."""
    logits: Tensor | None
    """What the softmax is of, mask included, finite throughout. Shape: that of `weights`; None without the tap."""
    value: Tensor | None = None
    """What the weights are of, of all keys; grouped values are repeated for each head.

    Shape: [batch, head, key, dimension]."""
    idle: Tensor | None = None
    """Which queries take nothing from any key, so that their rows are zero. Shape: [batch, head, query], bool; None
    if there are none, as there are none of weights."""
    queries: slice = field(default_factory=lambda: slice(None))
    """Which queries the rows of `weights`, `query`, `logits` and `idle` are of. A range cuts no word into two."""
    kind: AttentionKind = AttentionKind.ONLY
    """In cross attention keys are of another text than queries; else they are the same tokens."""
    begins: int = 0
    """The first query of all: in cross attention the target's tokens are counted behind the source's."""
    keys: slice = field(default_factory=lambda: slice(None))
    """Which keys the columns of `weights` and `logits` are of; these queries see none beyond. Cuts no word either."""
    length: int | None = None
    """How many tokens the inputs have, where the columns are not of all keys."""
    preview: bool = False
    """Whether the range comes once more: a consumer that needs no sums over all queries beforehand leaves it out."""
    norms: Tensor | None = None
    """Of a preview of what heads carry, what each key's weight is still to be multiplied with, before rows are made
    shares. Shape: [batch, head, key]."""
    value_norms: Tensor | None = None
    """Of what heads carry, how long each key's vector is, ‖f(x_j)‖; None of weights. Shape: [batch, head, key]."""
    output: Tensor | None = None
    """What the weights make of the values, where it is known. Shape: [batch, head, query, dimension]."""
    shared: dict[str, Tensor] = field(default_factory=dict)
    """What is worked out once for all ranges of these inputs and heads."""

    @property
    def is_first(self) -> bool:
        """Whether the range of queries is the first of these inputs and heads."""
        return (self.queries.start or 0) <= self.begins

    @property
    def is_last(self) -> bool:
        """Whether no range of queries comes after it."""
        return self.queries.stop is None or self.queries.stop >= self.tokens

    @property
    def tokens(self) -> int:
        """How many tokens the inputs have, those that no query of the range sees included."""
        return self.length or self.weights.shape[-1]

    @property
    def columns(self) -> slice:
        """The range of keys, from its first to behind its last."""
        start = self.keys.start or 0
        return slice(start, start + self.weights.shape[-1])

    @property
    def is_whole(self) -> bool:
        """Whether it has the rows of all queries."""
        return self.is_first and self.is_last

    @property
    def is_range(self) -> bool:
        """Whether it has some rows of a long input alone; texts that attend to others are short."""
        return self.kind is not AttentionKind.CROSS and not self.is_whole

    @property
    def rows(self) -> slice:
        """The range of queries, from its first to behind its last."""
        start = self.queries.start or 0
        return slice(start, start + self.weights.shape[2])


Consumer = Callable[[AttentionBlock], None]
"""Takes blocks; of an input, layers come in order, and of a layer's inputs and heads, ranges of queries. If a model
turns out not to call the tap in every layer, all blocks come once more from layer 0 on: so the first range of queries
takes the place of what a consumer has of these inputs and heads, and later ranges are added to it. Consumers that take
ranges say so by a `Cut`; others are shown whole rows."""


@dataclass(frozen=True)
class Cut:
    """Lets a tap cut the queries of long inputs into ranges: whole rows of 8,192 tokens take 268 MB a head."""

    unit: Tensor | None = None
    """The unit of each token, where words of several tokens are scored: no range cuts one. Shape: [batch, token]."""
    previews: bool = False
    """Whether all ranges of some inputs and heads come as previews first, for sums over all queries."""

    def ranges(self, number: int, length: int, rows: int) -> list[slice]:
        """Cut the queries of an input, by its number in the batch, into ranges of about so many rows."""
        starts = self._starts(number, length)
        wanted = starts[np.unique(np.searchsorted(starts, np.arange(0, length, rows)).clip(max=len(starts) - 1))]
        return [slice(int(start), int(stop)) for start, stop in pairwise([*wanted, length])]

    def whole_words(self, number: int, length: int, keys: slice) -> slice:
        """Widen a range of keys until it cuts no word."""
        starts = np.append(self._starts(number, length), length)
        first = starts[np.searchsorted(starts, keys.start, "right") - 1]
        return slice(int(first), int(starts[np.searchsorted(starts, keys.stop)]))

    def _starts(self, number: int, length: int) -> NDArray[np.int64]:
        """Where the units of an input start."""
        if self.unit is None:
            return np.arange(length)
        unit = self.unit[number, :length].cpu().numpy()
        return np.flatnonzero(np.diff(unit, prepend=-1))

    def cut(self, block: AttentionBlock, cells: int) -> Iterator[AttentionBlock]:
        """Cut a block that has all rows into ranges of about `cells` weights, input by input; or leave it whole."""
        batch, heads, length, _ = block.weights.shape
        if length**2 <= cells:
            yield block
            return
        first = block.inputs.start or 0
        for row in range(batch):
            ranges = self.ranges(first + row, length, rows_of(cells, heads, length))
            for preview in (True, False) if self.previews else (False,):
                for queries in ranges:
                    yield replace(
                        block,
                        inputs=slice(first + row, first + row + 1),
                        weights=block.weights[row, None, :, queries],
                        queries=queries,
                        preview=preview,
                    )


def rows_of(cells: int, heads: int, keys: int) -> int:
    """How many queries a range has, of about so many weights."""
    return max(_FEWEST_ROWS, cells // (heads * keys))


def add_range(total: Tensor, place: tuple[slice | int, ...], values: Tensor, block: AttentionBlock) -> None:
    """Add what a block says of its inputs and heads to the sums over their queries, which the first range begins."""
    if block.is_first:
        total[place] = values
    else:
        total[place] += values


@dataclass(frozen=True)
class OutputProjections:
    """How every layer projects what its heads put out into the model's hidden states."""

    triangles: tuple[Tensor, ...]
    """Of each layer, Rᵀ of each head's slice. Shape: [head, value, value], float32; fewer columns where the
    hidden state is narrower than a head."""

    def norms(self, layer: int, heads: slice, values: Tensor) -> Tensor:
        """How long some heads' vectors are behind the projection, without its bias.

        Shape: `values` [batch, head, token, value] -> [batch, head, token], float32.
        """
        projected = values.float() @ self.triangles[layer][heads]
        norms: Tensor = torch.linalg.vector_norm(projected, dim=-1)
        return norms

    def of_values(self, block: AttentionBlock) -> Tensor:
        """How long the vectors are that all keys have to give, ‖f(x_j)‖. Shape: [batch, head, key], float32."""
        assert block.value is not None
        if (norms := block.shared.get("norms")) is None:
            norms = block.shared["norms"] = self.norms(block.layer, block.heads, block.value)
        return norms

    def outputs(self, block: AttentionBlock) -> Tensor:
        """How much each head puts out for each query, ‖Σ_j α_ij f(x_j)‖. Shape: [batch, head, query], float32."""
        assert block.value is not None
        given = block.output if block.output is not None else block.weights @ block.value[:, :, block.columns].float()
        return self.norms(block.layer, block.heads, given)

    def carried(self, block: AttentionBlock) -> AttentionBlock:
        """A block with what heads carry in place of weights, each row a share of its sum.

        A row that carries nothing at all is zero throughout, and `idle` tells which are. A preview keeps its weights,
        with `norms` beside them.
        """
        assert block.logits is not None
        norms = self.of_values(block)[..., block.columns]
        if block.preview:
            return replace(block, norms=norms, value_norms=norms)
        logits = block.logits + norms.log().clip(_NOTHING)[:, :, None]
        weights = torch.softmax(logits, dim=-1)
        zero = norms == 0
        idle = None
        if bool(zero.any()):
            idle = ~((block.weights > 0) & ~zero[:, :, None]).any(-1)
            weights = weights.masked_fill(idle[..., None], 0.0)
        return replace(block, weights=weights, logits=logits, idle=idle, value_norms=norms)


def output_projections(
    model: Any, inputs: dict[str, Tensor], kind: AttentionKind = AttentionKind.ONLY
) -> OutputProjections:
    """Find the output projection of every layer, by running the model on a short input.

    Of an encoder-decoder, those of a kind of attention.
    Shape: `inputs` are the model's, each [batch, token].
    Raises: CaptureError if a layer has none that its heads pass through and nothing else does.
    """
    with _Finder(model, kind, inputs["input_ids"].device) as finder:
        slices = finder.find(inputs)
    made: dict[int, Tensor] = {}  # ALBERT has one module for all layers
    for weight in slices:
        if id(weight) not in made:
            check_finite(weight, "the output projection's weights")
            made[id(weight)] = torch.linalg.qr(weight.double().cpu().mT, mode="r").R.mT.to(weight.device, torch.float32)
    return OutputProjections(tuple(made[id(weight)] for weight in slices))


class _Finder(AttentionFunction):
    """Gives out random numbers for attention, and sees which modules receive them."""

    def __init__(self, model: Any, kind: AttentionKind, device: torch.device) -> None:
        self._kind, self._calls, layers = kind, None, None
        if kind is not AttentionKind.ONLY:
            self._calls = calls_of(model, kind, device)
            layers = 0 if self._calls is None else self._calls.grid.shape[0]
        super().__init__(model, layers)

    def find(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        """Of each layer, the projection's weight. Shape: each [head, value, hidden]."""
        self._given: list[Tensor] = []
        self._called = 0
        self._receivers: list[dict[Any, Tensor]] = []
        self._random = torch.Generator().manual_seed(0)
        hooks = [
            module.register_forward_pre_hook(self._receive, with_kwargs=True)
            for module in self.model.modules()
            if getattr(getattr(module, "weight", None), "ndim", 0) == 2
        ]
        try:
            with torch.inference_mode(), attention_of(self.model, self.name) as took:
                if took:
                    self.model(**accepted(self.model, inputs))
        except Untappable:
            took = False
        except Exception as error:
            raise failed(self.model, error) from error
        finally:
            for hook in hooks:
                hook.remove()
        if not took or len(self._given) != self.layers:
            raise self._none("its attention does not pass through the tap")
        weights: dict[Any, Tensor] = {}
        with torch.inference_mode():
            for layer, receivers in enumerate(self._receivers):
                if len(receivers) != 1:
                    raise self._none(f"in layer {layer} the output of heads passes through another module first")
                ((module, received),) = receivers.items()
                if module not in weights:
                    weights[module] = self._slices(module, received, layer)
        return [weights[module] for receivers in self._receivers for module in receivers]

    def _attend(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **rest: Any,
    ) -> tuple[Tensor, None]:
        self._called += 1
        if self._calls is not None and self._calls.places[self._called - 1][0] is not self._kind:
            return plain_attention(module, query, key, value, attention_mask, rest), None
        if not is_answerable(module, len(self._given), rest):
            raise Untappable
        batch, heads, length, _ = query.shape
        given = torch.randn(batch, length, heads, value.shape[-1], generator=self._random).to(value)
        self._given.append(given.clone())
        self._receivers.append({})
        return given, None

    def _receive(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note a module that is given what the last attention gave out, all heads of a token side by side."""
        if not self._given:
            return
        given = self._given[-1]
        for argument in (*arguments, *named.values()):
            if isinstance(argument, Tensor) and argument.dtype == given.dtype and argument.numel() == given.numel():
                received = argument.reshape(-1, given.shape[2] * given.shape[3])
                if torch.equal(received, given.reshape(received.shape)):
                    self._receivers[-1][module] = received

    def _slices(self, module: Any, received: Tensor, layer: int) -> Tensor:
        """The weight of a linear module, whichever way it lies, proved by what the module makes of its input."""
        made = (module(received) - module(torch.zeros_like(received))).float()
        tolerance = (_ROUNDED if received.dtype.itemsize > 2 else _HALF_ROUNDED) * made.abs().max()
        for weight in (module.weight.mT, module.weight):  # as in torch's Linear, and in GPT-2's Conv1D
            if weight.shape == (received.shape[1], made.shape[1]):
                projected = received.float() @ weight.float()
                if (projected - made).abs().max() <= tolerance:
                    slices: Tensor = weight.detach().reshape(self._given[layer].shape[2], -1, weight.shape[1])
                    return slices
        raise self._none(f"the output projection of layer {layer} is not linear")

    def _none(self, why: str) -> CaptureError:
        return CaptureError(
            f"what heads of the architecture {type(self.model).__name__} carry cannot be computed: {why}",
            "use --by weight, or a model such as BERT, RoBERTa, DistilBERT, ALBERT or ModernBERT",
        )
