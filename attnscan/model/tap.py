"""Attention as the model computes it, layer by layer, handed to a consumer. Only this module knows how.

While a `Tap` is open, the model computes its attention by our function. It does what eager attention does, in blocks
that stay in the processor's last cache, so that no more than one layer's weights ever exist. After the last layer's
weights the forward pass ends. Architectures that never call the registered function (DeBERTa, MPNet, XLNet, ...) run
with their eager attention under a `Watch`, which sees the same, layer by layer.

Any number of threads may read one model at once: what a run is for is known by its thread.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from attnscan.errors import CaptureError
from attnscan.model.attention_block import AttentionBlock, Consumer, OnOutput, of_both_texts
from attnscan.model.calls import Calls, calls_of
from attnscan.model.running import (
    ATTENTION,
    accepted,
    attended_by,
    attention_of,
    failed,
    fused,
    quiet_transformers,
    refused,
)
from attnscan.model.watch import Call, Watch
from attnscan.results.grid import AttentionKind

_BLOCK = 1 << 20  # weights in a block on a CPU: 4 MiB of float32. Fewer cost more in calls than they save in cache
_ON_DEVICE = 1 << 28  # weights in one elsewhere: 1 GiB of float32
_LEAST_ROWS = 16  # products of fewer rows are rounded otherwise than those of more: shorter batches run repeated
_HIDDEN = -9e3  # a key to which less than this is added is not to be seen: older models add -10,000, others more
_LEAST = torch.finfo(torch.float32).min
_TEXTS = {AttentionKind.DECODER: ("decoder_", "decoder_"), AttentionKind.CROSS: ("decoder_", "")}
"""Of which text queries and keys are, by how the names of a model's inputs begin; of other kinds, of the first."""
Mask = tuple[Tensor | None, Tensor, list[bool]]
"""What a mask adds to logits, what it leaves visible, and of each input whether it adds nothing to it."""


class Tap:
    """Reads the attention of one model while it is open. Afterwards the model is as it was.

    With a `kind`, the model is a whole encoder-decoder.

    >>> with Tap(model) as tap:                                              # doctest: +SKIP
    ...     tap.run(batch.model_inputs, consumer)
    """

    def __init__(self, model: Any, *, kind: AttentionKind = AttentionKind.ONLY) -> None:
        self.model, self.kind = model, kind

    @cached_property
    def calls(self) -> Calls:
        """How the model computes its attention, found out by running it on a few tokens.

        Raises: CaptureError if it has none that can be read.
        """
        return calls_of(self.model, self.kind)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(quiet_transformers())  # no advice, from tokenizers either
            stack.enter_context(attention_of(self.model, ATTENTION if self.calls.tapped else "eager"))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, inputs: dict[str, Tensor], consume: Consumer, on_output: OnOutput | None = None) -> None:
        """Run the model on one batch as far as its last layer's weights; `on_output` may change what layers put out.

        Shape: `inputs` are the model's, each [batch, token], of source or target.
        Raises: CaptureError if the architecture shows no attention, or fails on this input.
        """
        taken, on_cpu = accepted(self.model, inputs), inputs["input_ids"].device.type == "cpu"
        lengths = {text: _lengths(taken, text) for text in ("", "decoder_") if f"{text}input_ids" in taken}
        queries, keys = _TEXTS.get(self.kind, ("", ""))
        sizes = list(zip(lengths[queries], lengths[keys], strict=True))
        if self.calls.tapped:
            if not on_cpu and self.kind is AttentionKind.ONLY:  # padding costs less there than blocks by length
                sizes = [(inputs["input_ids"].shape[1],) * 2] * len(inputs["input_ids"])
            copies = -(-_LEAST_ROWS // min(taken[f"{text}input_ids"].numel() for text in lengths)) if on_cpu else 1
            if copies > 1:
                taken = {k: v.repeat(copies, 1) if isinstance(v, Tensor) else v for k, v in taken.items()}
            self._forward(self.model, taken, _Run(self, sizes, consume, on_output))
            return
        start = 0  # without padding, neighbours of one length together: ConvBERT's convolution reaches it
        for stops, alike in itertools.groupby(zip(*lengths.values(), strict=True)):
            part, stop = slice(start, start + len(list(alike))), dict(zip(lengths, stops, strict=True))
            of_part = {
                name: values[part, : stop["decoder_" if name.startswith("decoder_") else ""]]
                for name, values in taken.items()
                if isinstance(values, Tensor)
            }
            self._forward(self.model, {**taken, **of_part}, _Run(self, sizes, consume, on_output, start))
            start = part.stop

    def output(self, inputs: dict[str, Tensor], on_output: OnOutput, whole: Any = None) -> Any:
        """The output of the model, or of a `whole` one around it, with every layer's heads shown on the way.

        Shape: `inputs` are the model's, each [batch, token].
        Raises: CaptureError if it fails on this input.
        """
        whole = self.model if whole is None else whole
        return self._forward(whole, accepted(whole, inputs), _Run(self, [], None, on_output))

    def _forward(self, model: Any, inputs: dict[str, Any], run: _Run) -> Any:
        """Run a model for this thread. Raises: CaptureError if it fails, or does not come as far as its last layer."""
        batch = len(next(values for values in inputs.values() if isinstance(values, Tensor)))
        try:
            watch = nullcontext() if self.calls.tapped else Watch(run.watch, batch)
            with torch.inference_mode(), attended_by(run.attend), watch:
                output = model(**inputs)
        except _Finished:
            return None
        except Exception as error:
            if run.consuming or isinstance(error, CaptureError):
                raise
            raise failed(model, error) from error
        if run.count != self.calls.count:
            raise refused(self.model, "computes its attention otherwise on this input than on a short one")
        return output


class _Finished(Exception):
    """The last layer's weights are read: ends the forward pass."""


@dataclass
class _Run:
    """One forward pass, in one thread; without a consumer, to the model's output."""

    tap: Tap
    sizes: list[tuple[int, int]]
    """How many queries and keys each input of the batch has, without the padding at its end."""
    consume: Consumer | None
    on_output: OnOutput | None
    first: int = 0
    """The number in the batch of the first input that runs."""
    count: int = 0
    """How many calls there were."""
    consuming: bool = False
    """Whether the consumer is at work, so that an error is its own."""
    masks: dict[int, tuple[Tensor | None, Mask]] = field(default_factory=dict)
    visible: Tensor = field(default_factory=lambda: torch.zeros(0))
    """What the layer before left visible, where the model is watched; of cross attention, of both texts."""

    def attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any
    ) -> Tensor:
        """Compute one layer's attention. Shape: [batch, head, token, dimension] each -> [batch, token, head, d]."""
        layer = self._next_layer()
        if layer is None or self.consume is None:
            output = fused(module, query, key, value, mask, **rest)
        else:
            of_heads = query.new_zeros((*query.shape[:-1], value.shape[-1]))  # also of padding, which no block reaches
            self._show(layer, self._computed(layer, of_heads, query, key, value, mask, **rest))
            output = of_heads.transpose(1, 2)
        if layer is not None and self.on_output is not None:
            self.on_output(layer, output)
        return output

    def watch(self, call: Call) -> None:
        """Show one call of a watched model, block by block, and let its heads' outputs be changed."""
        layer = self._next_layer()
        if layer is not None and self.consume is not None:
            self._show(layer, self._watched(layer, call))
        if layer is not None and self.on_output is not None:
            self.on_output(layer, call.output.transpose(1, 2))

    def _next_layer(self) -> int | None:
        """Where the layer of the next call stands in the grid; None if it is not to be read."""
        self.count += 1
        return self.tap.calls.layers.get(self.count - 1)

    def _show(self, layer: int, blocks: Iterable[AttentionBlock]) -> None:
        """Show a layer's blocks to the consumer. Raises: _Finished if it is the last layer."""
        assert self.consume is not None
        for block in blocks:
            self.consuming = True
            self.consume(block)
            self.consuming = False
        if self._is_last(layer):
            raise _Finished

    def _is_last(self, layer: int) -> bool:
        return layer == self.tap.calls.grid.shape[0] - 1

    def _computed(
        self, layer: int, output: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any
    ) -> Iterator[AttentionBlock]:
        """Compute one layer's attention block by block, in the order of eager attention: equal to the last bits.

        Writes the `output` of all layers but the last. Shape: [batch, head, token, dimension].
        """
        groups, on_cpu = query.shape[1] // key.shape[1], query.device.type == "cpu"
        last = self._is_last(layer)
        key, value = (states.repeat_interleave(groups, dim=1) if groups > 1 else states for states in (key, value))
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
            logits = torch.matmul(left * scaling if scaled_first else left, right.transpose(2, 3)).float()
            if not scaled_first:
                logits *= scaling
            if bias is not None:
                logits += bias[inputs if len(bias) > 1 else slice(None), heads, :rows, :columns]
            if added is not None and not all(empty[inputs]):
                logits += added[inputs, heads if added.shape[1] > 1 else slice(None), :rows, :columns]
            weights = torch.softmax(logits, dim=-1)
            if not last:
                output[of_queries] = torch.matmul(weights.to(value.dtype), value[of_keys])
            of_block = weights, visible, query[of_queries], key[of_keys], scaling, logits, value[of_keys]
            of_heads = None if last else output[of_queries]
            yield AttentionBlock(self.tap.calls.grid, layer, inputs, heads, *of_block, output=of_heads)

    def _mask(self, mask: Tensor | None, query: Tensor, key: Tensor) -> Mask:
        """What a mask does, worked out once for all layers that share it.

        Shape: `mask` is additive or bool, [batch or 1, head or 1, query or 1, key] -> [batch, head or 1, query, key].
        """
        if id(mask) not in self.masks:
            shape, added = (len(query), query.shape[2], key.shape[2]), None
            visible, empty = torch.ones(1, dtype=torch.bool, device=query.device).expand(shape), [True] * len(query)
            if mask is not None:
                added = mask
                if mask.dtype == torch.bool:
                    added = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, _LEAST)
                visible = (added > _HIDDEN).any(1).expand(shape)
                added = added.float().clip(_LEAST).expand(shape[0], -1, shape[1], -1)
                empty = [not added[i, :, :rows, :columns].any() for i, (rows, columns) in enumerate(self.sizes)]
            if self.tap.kind is AttentionKind.CROSS:
                visible = of_both_texts(visible, self.sizes)
            self.masks[id(mask)] = mask, (added, visible, empty)  # kept alive, so that its id stays its own
        return self.masks[id(mask)][1]

    def _watched(self, layer: int, call: Call) -> Iterator[AttentionBlock]:
        """Cut one call of a watched model into blocks."""
        batch, heads, rows, columns = call.weights.shape
        if (rows, columns) != self.sizes[self.first]:
            raise refused(self.tap.model, f"computes weights of shape {[rows, columns]} on a longer input")
        seen = call.weights.new_zeros(len(self.sizes), *map(max, zip(*self.sizes, strict=True)), dtype=torch.bool)
        seen[self.first : self.first + batch, :rows, :columns] = ~(call.logits[..., :columns] <= _HIDDEN).all(1)
        seen = of_both_texts(seen, self.sizes) if self.tap.kind is AttentionKind.CROSS else seen
        if not torch.equal(self.visible, seen):  # else the object stays the same: what follows from it is known
            self.visible = seen
        for inputs, some, _ in _parts([(rows, columns)] * batch, heads, on_cpu=call.weights.device.type == "cpu"):
            part = inputs, some
            query, key = (None if states is None else states[part] for states in (call.query, call.key))
            logits = call.logits[part].float().clip(_LEAST)
            of_block = call.weights[part].float(), self.visible, query, key, call.scaling, logits, call.value[part]
            in_batch = slice(self.first + inputs.start, self.first + inputs.stop)
            yield AttentionBlock(self.tap.calls.grid, layer, in_batch, some, *of_block, output=call.output[part])


def _lengths(inputs: dict[str, Any], text: str) -> list[int]:
    """The length of each input, or of each target, without the padding at its end."""
    ids, present = inputs[f"{text}input_ids"], inputs.get(f"{text}attention_mask")
    if present is None:
        return [ids.shape[1]] * len(ids)
    places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    lengths: list[int] = (places * (present != 0)).amax(1).clip(1).tolist()
    return lengths


def _parts(sizes: list[tuple[int, int]], heads: int, *, on_cpu: bool) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Cut a layer's weights into blocks of inputs of one size that fit the cache: inputs, heads, queries and keys.

    Beyond 1,024 tokens a block is one head of one input, with whole rows.
    """
    start, cache = 0, _BLOCK if on_cpu else _ON_DEVICE
    for size, alike in itertools.groupby(sizes):
        stop, cells = start + len(list(alike)), math.prod(size)
        some_inputs = max(1, cache // (heads * cells))
        # how heads are cut depends on the size alone: an input's sums must not depend on those beside it
        some_heads = max(1, min(heads, cache // cells))
        for i in range(start, stop, some_inputs):
            for h in range(0, heads, some_heads):
                yield slice(i, min(i + some_inputs, stop)), slice(h, min(h + some_heads, heads)), size
        start = stop
