"""Attention as the model computes it, layer by layer, handed to a consumer. Only this module knows how.

While a `AttentionTap` is open, the model computes its attention by our function. It does what eager attention does, in blocks
that stay in the processor's last cache, so that no more than one layer's weights ever exist. After the last layer's
weights the forward pass ends. Architectures that never call the registered function (DeBERTa, MPNet, XLNet, ...) run
with their eager attention under a `SoftmaxWatch`, which sees the same, layer by layer.

Any number of threads may read one model at once: what a run is for is known by its thread.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnscan.errors import CaptureError
from attnscan.inputs.sentence import EncodedInput
from attnscan.model import running
from attnscan.model.watch import AttentionCall, SoftmaxWatch
from attnscan.results.attention import Attention, Chosen
from attnscan.results.terms import AttentionKind, Grid

_BLOCK = (
    1 << 20
)  # weights in a block on a CPU: 4 MiB of float32. Fewer cost more in calls than they save in cache
_ON_DEVICE = 1 << 28  # weights in one elsewhere: 1 GiB of float32
_LEAST_ROWS = 16  # products of fewer rows are rounded otherwise than those of more: shorter batches run repeated
_HIDDEN = (
    -9e3
)  # a key to which less than this is added is not to be seen: older models add -10,000, others more
_LEAST = torch.finfo(torch.float32).min
_TEXTS = {AttentionKind.DECODER: ("decoder_", "decoder_"), AttentionKind.CROSS: ("decoder_", "")}
"""Of which text queries and keys are, by how the names of a model's inputs begin; of other kinds, of the first."""
OnOutput = Callable[[int, Tensor], None]
"""Given a layer's number and its heads' outputs [batch, token, head, dimension], which it may change in place."""


@dataclass(frozen=True)
class AttentionBlock:
    """A part of one layer's attention: some inputs of the batch and some heads, with whole rows.

    In cross attention keys are of another text than queries: the target's tokens are counted behind the source's.
    """

    grid: Grid
    """All heads of the model, by what it does rather than what its config says."""
    layer: int
    """Where the layer stands in the grid."""
    inputs: slice
    heads: slice
    weights: Tensor
    """Softmax attention. Shape: [batch, head, query, key], float32; rows sum to 1, keys of padding have 0."""
    visible: Tensor
    """Which keys each query of the batch may see. Shape: [batch, token, token], bool, of all inputs; the same object
    in layers with the same mask, so that what follows from it is worked out once."""
    query: Tensor | None
    """After any rotation, before scaling. Shape: [batch, head, query, dimension]; None if none is known."""
    key: Tensor | None
    """Likewise, repeated for each head of a group. Shape: [batch, head, key, dimension]."""
    scaling: float | None
    """What q·k is multiplied with before the softmax; None without queries."""
    logits: Tensor | None
    """The input of the softmax, mask included, finite throughout. Shape: that of `weights`; None of saved weights."""
    value: Tensor | None = None
    """What the weights average, repeated for each head of a group. Shape: [batch, head, key, dimension]."""
    idle: Tensor | None = None
    """Which queries take nothing from any key, so that their rows are zero. Shape: [batch, head, query], bool."""
    value_norms: Tensor | None = None
    """Of what heads carry, how long each key's vector is, ‖f(x_j)‖; None of weights. Shape: [batch, head, key]."""
    output: Tensor | None = None
    """Weights times values, where they are known. Shape: [batch, head, query, dimension]."""

    @property
    def rows(self) -> slice:
        """Which tokens the queries are."""
        start = self.weights.shape[3] if self.grid.kind is AttentionKind.CROSS else 0
        return slice(start, start + self.weights.shape[2])

    @property
    def columns(self) -> slice:
        """Which tokens the keys are."""
        return slice(0, self.weights.shape[3])

    @property
    def tokens(self) -> int:
        """How many tokens the inputs have; in cross attention both texts together."""
        return int(max(self.rows.stop, self.columns.stop))


Consumer = Callable[[AttentionBlock], None]
"""Takes blocks; of an input, layers come in order."""


def expand_to_both_texts(visible: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Which tokens see which, where a target's tokens are counted behind its source's; `sizes` are of both.

    Shape: `visible` [batch, target token, source token], bool -> [batch, token, token].
    """
    width = max(map(sum, sizes))
    cells = visible.new_zeros(len(sizes), width, width)
    for number, (target, source) in enumerate(sizes):
        cells[number, source : source + target, :source] = visible[number, :target, :source]
    return cells


class AttentionTap:
    """Reads the attention of one model while it is open; of a `kind`, that of a whole encoder-decoder."""

    def __init__(self, model: Any, *, kind: AttentionKind = AttentionKind.ONLY) -> None:
        self.model, self.kind = model, kind

    @cached_property
    def calls(self) -> running.ModelCalls:
        """How the model computes its attention. Raises: CaptureError if it has none that can be read."""
        return running.calls_of(self.model, self.kind)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(running.quiet_transformers())  # no advice, from tokenizers either
            stack.enter_context(
                running.attention_of(
                    self.model, running.ATTENTION if self.calls.uses_tap else "eager"
                )
            )
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(
        self, inputs: dict[str, Tensor], consume: Consumer, on_output: OnOutput | None = None
    ) -> None:
        """Run the model on one batch as far as its last layer's weights; `on_output` may change what layers put out.

        Shape: `inputs` are the model's, each [batch, token]. Raises: CaptureError if it fails on them.
        """
        accepted, on_cpu = (
            running.accepted_inputs(self.model, inputs),
            inputs["input_ids"].device.type == "cpu",
        )
        tensors = {name: values for name, values in accepted.items() if isinstance(values, Tensor)}
        lengths = {
            text: _lengths(accepted, text)
            for text in ("", "decoder_")
            if f"{text}input_ids" in accepted
        }
        queries, keys = _TEXTS.get(self.kind, ("", ""))
        sizes = list(zip(lengths[queries], lengths[keys], strict=True))
        if self.calls.uses_tap:
            if (
                not on_cpu and self.kind is AttentionKind.ONLY
            ):  # padding costs less there than blocks by length
                sizes = [(inputs["input_ids"].shape[1],) * 2] * len(sizes)
            copies = (
                -(-_LEAST_ROWS // min(accepted[f"{text}input_ids"].numel() for text in lengths))
                if on_cpu
                else 1
            )
            if copies > 1:
                accepted |= {name: values.repeat(copies, 1) for name, values in tensors.items()}
            self._forward(self.model, accepted, _Run(self, sizes, consume, on_output))
            return
        start = 0  # without padding, neighbours of one length together: ConvBERT's convolution reaches it
        for stops, alike in itertools.groupby(zip(*lengths.values(), strict=True)):
            part, stop = (
                slice(start, start + len(list(alike))),
                dict(zip(lengths, stops, strict=True)),
            )
            of_part = {
                name: values[part, : stop["decoder_" if name.startswith("decoder_") else ""]]
                for name, values in tensors.items()
            }
            self._forward(
                self.model, {**accepted, **of_part}, _Run(self, sizes, consume, on_output, start)
            )
            start = part.stop

    def output(self, inputs: dict[str, Tensor], on_output: OnOutput, whole: Any = None) -> Any:
        """The output of the model, or of a `whole` one around it, with every layer's heads shown on the way.

        Shape: `inputs` are the model's, each [batch, token]. Raises: CaptureError if it fails on them.
        """
        whole = self.model if whole is None else whole
        return self._forward(
            whole, running.accepted_inputs(whole, inputs), _Run(self, [], None, on_output)
        )

    def _forward(self, model: Any, inputs: dict[str, Any], run: _Run) -> Any:
        """Run a model for this thread. Raises: CaptureError if it fails, or does not come as far as its last layer."""
        watch = (
            nullcontext()
            if self.calls.uses_tap
            else SoftmaxWatch(run.watch, len(inputs["input_ids"]))
        )
        try:
            with torch.inference_mode(), running.attending(run.attend), watch:
                output = model(**inputs)
        except _Finished:
            return None
        except Exception as error:
            if run.consuming or isinstance(error, CaptureError):
                raise
            raise running.failure(model, error) from error
        if run.count != self.calls.count:
            raise running.refusal(
                self.model, "computes its attention otherwise on this input than on a short one"
            )
        return output


class _Finished(Exception):
    """The last layer's weights are read: ends the forward pass."""


@dataclass
class _Run:
    """One forward pass, in one thread; without a consumer, to the model's output."""

    tap: AttentionTap
    sizes: list[
        tuple[int, int]
    ]  # how many queries and keys each input of the batch has, without padding at its end
    consume: Consumer | None
    on_output: OnOutput | None
    first: int = 0  # the number in the batch of the first input that runs
    count: int = 0  # how many calls there were
    consuming: bool = False  # whether the consumer is at work, so that an error is its own
    masks: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    visible: Tensor = field(
        default_factory=lambda: torch.zeros(0)
    )  # what a watched layer before left visible

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **rest: Any,
    ) -> Tensor:
        """Compute one layer's attention. Shape: [batch, head, token, dimension] each -> [batch, token, head, d]."""
        layer, self.count = self.tap.calls.layers.get(self.count), self.count + 1
        if layer is None or self.consume is None:
            output = running.fused(module, query, key, value, attention_mask, **rest)
        else:
            (batch, heads, tokens, _), size = query.shape, value.shape[-1]
            output = query.new_zeros(
                batch, tokens, heads, size
            )  # also of padding, which no block reaches
            computed = self._computed(
                layer, output.transpose(1, 2), query, key, value, attention_mask, **rest
            )
            for block in self._marked(layer, computed):
                self.consume(block)
                del block  # of a long input, as large as all else: the next is made where it was
        if layer is not None and self.on_output is not None:
            self.on_output(layer, output)
        return output

    def watch(self, call: AttentionCall) -> None:
        """Show one call of a watched model, block by block, and let its heads' outputs be changed."""
        layer, self.count = self.tap.calls.layers.get(self.count), self.count + 1
        if layer is not None and self.consume is not None:
            for block in self._marked(layer, self._watched(layer, call)):
                self.consume(block)
        if layer is not None and self.on_output is not None:
            self.on_output(layer, call.output.transpose(1, 2))

    def _marked(self, layer: int, blocks: Iterable[AttentionBlock]) -> Iterator[AttentionBlock]:
        """A layer's blocks, and a mark while the consumer has one. Raises: _Finished behind the last layer."""
        for block in blocks:
            self.consuming = True
            yield block
            del block
            self.consuming = False
        if layer == self.tap.calls.grid.shape[0] - 1:
            raise _Finished

    def _computed(
        self,
        layer: int,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        **rest: Any,
    ) -> Iterator[AttentionBlock]:
        """Compute one layer's attention, and all but the last's `output`, as eager attention does: to the last bits."""
        groups, on_cpu = query.shape[1] // key.shape[1], query.device.type == "cpu"
        last = layer == self.tap.calls.grid.shape[0] - 1
        key, value = (
            states.repeat_interleave(groups, dim=1) if groups > 1 else states
            for states in (key, value)
        )
        scaling = query.shape[-1] ** -0.5 if rest.get("scaling") is None else rest["scaling"]
        bias = rest.get("position_bias")  # T5's, by distance. Shape: [1 or batch, head, query, key]
        # Scaling by a power of two moves no bit, and queries are fewer than logits.
        scaled_first = math.frexp(scaling)[0] == 0.5
        # On a CPU logits are products in float32 even of half precision: what has to be copied for them is small.
        raised = on_cpu and query.dtype.itemsize < torch.float32.itemsize
        added, visible, empty = self._mask(mask, query, key)
        for inputs, heads, (rows, columns) in _parts(self.sizes, query.shape[1], on_cpu=on_cpu):
            of_queries, of_keys = (inputs, heads, slice(rows)), (inputs, heads, slice(columns))
            left, right = query[of_queries], key[of_keys]
            left, right = (left.float(), right.float()) if raised else (left, right)
            logits = torch.matmul(
                left * scaling if scaled_first else left, right.transpose(2, 3)
            ).float()
            if not scaled_first:
                logits *= scaling
            if bias is not None:
                logits += bias[inputs if len(bias) > 1 else slice(None), heads, :rows, :columns]
            if added is not None and not all(empty[inputs]):
                logits += added[
                    inputs, heads if added.shape[1] > 1 else slice(None), :rows, :columns
                ]
            weights = torch.softmax(logits, dim=-1)
            if not last:
                output[of_queries] = torch.matmul(weights.to(value.dtype), value[of_keys])
            of_block = (
                weights,
                visible,
                query[of_queries],
                key[of_keys],
                scaling,
                logits,
                value[of_keys],
            )
            of_heads = None if last else output[of_queries]
            yield AttentionBlock(
                self.tap.calls.grid, layer, inputs, heads, *of_block, output=of_heads
            )
            del logits, weights, of_block

    def _mask(
        self, mask: Tensor | None, query: Tensor, key: Tensor
    ) -> tuple[Tensor | None, Tensor, list[bool]]:
        """What a mask adds to logits, what it leaves visible, and of each input whether it adds nothing to it.

        Shape: `mask` is additive or bool, [batch or 1, head or 1, query or 1, key] -> [batch, head or 1, query, key].
        """
        if id(mask) not in self.masks:
            shape, added = (len(query), query.shape[2], key.shape[2]), None
            visible, empty = (
                torch.ones(1, dtype=torch.bool, device=query.device).expand(shape),
                [True] * len(query),
            )
            if mask is not None:
                added = mask
                if mask.dtype == torch.bool:
                    added = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, _LEAST)
                visible = (added > _HIDDEN).any(1).expand(shape)
                if (
                    added.dtype != torch.float32 or added.amin() < _LEAST
                ):  # as a rule it is ready, and large
                    added = added.float().clip(_LEAST)
                added = added.expand(shape[0], -1, shape[1], -1)
                empty = [
                    not added[i, :, :rows, :columns].any()
                    for i, (rows, columns) in enumerate(self.sizes)
                ]
            if self.tap.kind is AttentionKind.CROSS:
                visible = expand_to_both_texts(visible, self.sizes)
            self.masks[id(mask)] = (
                added,
                visible,
                empty,
                mask,
            )  # the mask is kept alive, so that its id stays its own
        return self.masks[id(mask)][:3]

    def _watched(self, layer: int, call: AttentionCall) -> Iterator[AttentionBlock]:
        """Cut one call of a watched model into blocks."""
        batch, heads, rows, columns = call.weights.shape
        if (rows, columns) != self.sizes[self.first]:
            raise running.refusal(
                self.tap.model, f"computes weights of shape {[rows, columns]} on a longer input"
            )
        visible = call.weights.new_zeros(
            len(self.sizes), *map(max, zip(*self.sizes, strict=True)), dtype=torch.bool
        )
        visible[self.first : self.first + batch, :rows, :columns] = ~(
            call.logits[..., :columns] <= _HIDDEN
        ).all(1)
        visible = (
            expand_to_both_texts(visible, self.sizes)
            if self.tap.kind is AttentionKind.CROSS
            else visible
        )
        self.visible = (
            self.visible if torch.equal(self.visible, visible) else visible
        )  # the same object if equal
        for inputs, head_range, _ in _parts(
            [(rows, columns)] * batch, heads, on_cpu=call.weights.device.type == "cpu"
        ):
            part = inputs, head_range
            query, key = (
                None if states is None else states[part] for states in (call.query, call.key)
            )
            logits = call.logits[part].float().clip(_LEAST)
            of_block = (
                call.weights[part].float(),
                self.visible,
                query,
                key,
                call.scaling,
                logits,
                call.value[part],
            )
            in_batch = slice(self.first + inputs.start, self.first + inputs.stop)
            yield AttentionBlock(
                self.tap.calls.grid,
                layer,
                in_batch,
                head_range,
                *of_block,
                output=call.output[part],
            )


def _lengths(inputs: dict[str, Any], text: str) -> list[int]:
    """The length of each input, or of each target, without the padding at its end."""
    ids, present = inputs[f"{text}input_ids"], inputs.get(f"{text}attention_mask")
    if present is None:
        return [ids.shape[1]] * len(ids)
    return list(
        (torch.arange(1, ids.shape[1] + 1, device=ids.device) * (present != 0))
        .amax(1)
        .clip(1)
        .tolist()
    )


def _parts(
    sizes: list[tuple[int, int]], heads: int, *, on_cpu: bool
) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Cut a layer into blocks of inputs of one size that fit the cache; beyond 1,024 tokens, one head of one input."""
    start, cache = 0, _BLOCK if on_cpu else _ON_DEVICE
    for size, alike in itertools.groupby(sizes):
        stop, cells = start + len(list(alike)), math.prod(size)
        some_inputs = max(1, cache // (heads * cells))
        # how heads are cut depends on the size alone: an input's sums must not depend on those beside it
        some_heads = max(1, min(heads, cache // cells))
        for i in range(start, stop, some_inputs):
            for h in range(0, heads, some_heads):
                yield (
                    slice(i, min(i + some_inputs, stop)),
                    slice(h, min(h + some_heads, heads)),
                    size,
                )
        start = stop


def visible_keys(weights: Tensor, present: Tensor) -> Tensor:
    """Which keys each query may see, judged by saved weights, with which there is no mask to read.

    Hidden are padding, and keys at a distance that no head of the layer ever attends to.
    Shape: `weights` [batch, head, query, key], `present` [batch, key] -> [batch, query, key], bool.
    """
    batch, _, length, keys = weights.shape
    place = (
        torch.arange(length, device=weights.device)[:, None]
        - torch.arange(keys, device=weights.device)[None]
    )
    used = (weights != 0).any(1) & present.bool()[
        :, :, None
    ]  # a query of padding spreads evenly over all
    offsets = torch.zeros(length + keys, dtype=torch.bool, device=weights.device)
    offsets[(place[None].expand(batch, -1, -1) + keys)[used]] = True
    return offsets[place + keys].expand(batch, length, keys) & present.bool()[:, None, :]


class AttentionKeeper:
    """A consumer that keeps the attention of a single input, or some heads and some queries' rows of it."""

    def __init__(
        self, norms: Callable[[AttentionBlock], Tensor] | None = None, chosen: Chosen | None = None
    ) -> None:
        """`norms` says how long the vectors are that a block's keys have to give."""
        self._norms_of, self._chosen = norms, chosen
        self._grid: Grid | None = None
        self._kept: dict[str, NDArray[np.float32]] = {}
        """Weights, lengths, queries and keys. Shape: each [head, token, ...], of all heads, or of those chosen."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if self._grid is None:
            self._start(block)
        into, rows = self._place[block.layer, block.heads], self._rows - block.rows.start
        heads, inside = into >= 0, np.flatnonzero((rows >= 0) & (rows < block.weights.shape[2]))
        into, rows, keys = into[heads], rows[inside], block.columns
        self._scaling[block.layer] = block.scaling or 0.0
        if self._visible is not None:
            self._visible[block.layer, inside] = _array(
                block.visible[:, block.rows, : block.tokens]
            )[rows]
        self._kept["weights"][into[:, None], inside, keys] = _array(block.weights)[
            np.ix_(heads, rows)
        ]
        if "norms" in self._kept and self._norms_of is not None:
            self._kept["norms"][into, keys] = _array(self._norms_of(block))[heads]
        for name, states, places in (("query", block.query, block.rows), ("key", block.key, keys)):
            if (
                name in self._kept
                and states is not None
                and states.shape[-1] == self._kept[name].shape[-1]
            ):
                self._kept[name][into, places] = _array(states)[heads]
            elif heads.any():  # Gemma 4's heads are wider in some layers than in others: no array holds all of them
                self._kept.pop(name, None)

    def _start(self, block: AttentionBlock) -> None:
        """Make room for every layer and head, or for those that are chosen."""
        self._grid, length, chosen = block.grid, block.tokens, self._chosen
        self._rows = np.arange(length) if chosen is None else np.array(chosen.rows)
        self._shape, self._place = (
            block.grid.shape,
            np.arange(np.prod(block.grid.shape)).reshape(block.grid.shape),
        )
        self._scaling = [0.0] * self._shape[0]
        self._visible: NDArray[np.bool_] | None = np.zeros(
            (self._shape[0], len(self._rows), length), dtype=np.bool_
        )
        if chosen is not None and chosen.heads is not None:  # in their order; -1 is none of them
            self._shape, self._visible, self._place = (
                (1, len(chosen.heads)),
                None,
                np.full(block.grid.shape, -1),
            )
            self._place[tuple(zip(*(head.place for head in chosen.heads), strict=True))] = (
                np.arange(self._shape[1])
            )
        sizes: dict[str, tuple[int, ...]] = {"weights": (len(self._rows), length)}
        if self._norms_of is not None:
            sizes["norms"] = (length,)
        if block.key is not None:
            sizes |= dict.fromkeys(("query", "key"), (length, block.key.shape[-1]))
        self._kept = {
            name: np.zeros((math.prod(self._shape), *size), np.float32)
            for name, size in sizes.items()
        }

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        assert self._grid is not None
        arrays = {
            name: values.reshape(*self._shape, *values.shape[1:])
            for name, values in self._kept.items()
        }
        return Attention(
            **{
                name: getattr(encoded, name)
                for name in ("tokens", "sentence", "segments", "unit", "source")
            },
            weights=arrays["weights"],
            visible=self._visible,
            query=arrays.get("query"),
            key=arrays.get("key"),
            scaling=tuple(self._scaling) if "key" in arrays else (),
            norms=arrays.get("norms"),
            chosen=self._chosen,
            kind=self._grid.kind,
            layers=self._grid.layers,
        )


def _array(values: Tensor) -> NDArray[Any]:
    """The values of a block's only input."""
    return (values if values.dtype == torch.bool else values.float())[0].cpu().numpy()
