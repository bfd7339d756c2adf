"""Attention as the model computes it, layer by layer, handed to a consumer.

While an `AttentionTap` is open, the model computes its attention by our function. It does what
eager attention does, in blocks that stay in the processor's last cache, so that no more than one
layer's weights ever exist. After the last layer's weights the forward pass ends. Architectures that
never call the registered function (DeBERTa, MPNet, XLNet, ...) run with their eager attention under
a `SoftmaxWatch`, which sees the same, layer by layer.

Any number of threads may read one model at once: what a run is for is known by its thread.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from attnscan.errors import CaptureError
from attnscan.model.attention_block import (
    AttentionBlock,
    Consumer,
    expand_to_both_texts,
    seen_keys,
)
from attnscan.model.attention_functions import (
    ATTENTION,
    attend_by,
    fused_attention,
    use_attention,
)
from attnscan.model.forward import accepted_inputs, model_failure, quiet_transformers
from attnscan.model.probe import ModelCalls, find_calls, unreadable
from attnscan.model.watch import AttentionCall, SoftmaxWatch
from attnscan.results.grid import AttentionKind

_BLOCK_CELLS = 1 << 20
"""Weights in a block on a CPU: 4 MiB of float32. Fewer cost more in calls than they save in
cache."""
_DEVICE_BLOCK_CELLS = 1 << 28
"""Weights in a block elsewhere: 1 GiB of float32."""
_MIN_ROWS = 16
"""Products of fewer rows are rounded otherwise than those of more: shorter batches run repeated."""
_HIDDEN = -9e3
"""A key to which less than this is added is not to be seen: older models add -10,000, others
more."""
_MIN_LOGIT = torch.finfo(torch.float32).min
_TEXTS = {AttentionKind.DECODER: ("decoder_", "decoder_"), AttentionKind.CROSS: ("decoder_", "")}
"""Of which text queries and keys are, by how the names of a model's inputs begin; of other kinds,
of the first."""
OnOutput = Callable[[int, Tensor], None]
"""Given a layer's number and its heads' outputs [batch, token, head, dimension], which it may
change in place."""


class AttentionTap:
    """Reads the attention of a model while it is open; of an encoder-decoder, one `kind` of it."""

    def __init__(self, model: Any, *, kind: AttentionKind = AttentionKind.ONLY) -> None:
        self.model = model
        self.kind = kind
        self.sees_as_before: dict[int, _SameMask] = {}
        """Of a watched model on another device than a CPU, by layer."""

    @cached_property
    def calls(self) -> ModelCalls:
        """How the model computes its attention.

        Raises: CaptureError if it has none that can be read.
        """
        return find_calls(self.model, self.kind)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(quiet_transformers())  # no advice, from tokenizers either
            attention = ATTENTION if self.calls.uses_tap else "eager"
            stack.enter_context(use_attention(self.model, attention))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(
        self, inputs: dict[str, Tensor], consume: Consumer, on_output: OnOutput | None = None
    ) -> None:
        """Run the model on one batch as far as its last layer's weights.

        `on_output` may change what layers put out.
        Shape: `inputs` are the model's, each [batch, token].
        Raises: CaptureError if it fails on them.
        """
        accepted = accepted_inputs(self.model, inputs)
        lengths = _lengths(accepted)
        query_text, key_text = _TEXTS.get(self.kind, ("", ""))
        sizes = list(zip(lengths[query_text], lengths[key_text], strict=True))
        run = _Run(tap=self, sizes=sizes, consume=consume, on_output=on_output)
        if not self.calls.uses_tap:
            self._run_watched(accepted, lengths, run)
        elif _is_on_cpu(accepted["input_ids"]):
            self._forward(self.model, _repeat_short(accepted), run)
        else:
            if self.kind is AttentionKind.ONLY:
                # Padding costs less there than blocks by length
                batch, tokens = accepted["input_ids"].shape
                run.sizes = [(tokens, tokens)] * batch
            self._forward(self.model, accepted, run)

    def _run_watched(
        self, accepted: dict[str, Any], lengths: dict[str, list[int]], run: _Run
    ) -> None:
        """Run a watched model without padding, which ConvBERT's convolution would reach.

        Neighbours in the batch of one length run together.
        """
        start = 0
        for stops, alike in itertools.groupby(zip(*lengths.values(), strict=True)):
            inputs = slice(start, start + len(list(alike)))
            stop = dict(zip(lengths, stops, strict=True))
            unpadded = {
                name: values[inputs, : stop[_text_of(name)]]
                for name, values in _tensors(accepted).items()
            }
            part = _Run(
                tap=self,
                sizes=run.sizes,
                consume=run.consume,
                on_output=run.on_output,
                first=start,
            )
            self._forward(self.model, {**accepted, **unpadded}, part)
            self._learn(part.compared, stops[-2:])
            start = inputs.stop

    def _learn(self, compared: dict[int, Tensor], size: tuple[int, ...]) -> None:
        """Keep which layers see what the layer before sees, of inputs of a size."""
        if compared:
            answers = torch.stack(list(compared.values())).tolist()  # the host waits once
            for layer, is_same in zip(compared, answers, strict=True):
                self.sees_as_before[layer] = _SameMask(max(size), is_same)

    def output(
        self, inputs: dict[str, Tensor], on_output: OnOutput, with_task_head: Any = None
    ) -> Any:
        """The output of the model, or of one around it, with every layer's heads shown on the way.

        Shape: `inputs` are the model's, each [batch, token].
        Raises: CaptureError if it fails on them.
        """
        model = self.model if with_task_head is None else with_task_head
        run = _Run(tap=self, sizes=[], consume=None, on_output=on_output)
        return self._forward(model, accepted_inputs(model, inputs), run)

    def _forward(self, model: Any, inputs: dict[str, Any], run: _Run) -> Any:
        """Run a model for this thread.

        Raises: CaptureError if it fails, or does not come as far as its last layer.
        """
        watch = (
            nullcontext()
            if self.calls.uses_tap
            else SoftmaxWatch(run.watch, len(inputs["input_ids"]))
        )
        try:
            with torch.inference_mode(), attend_by(run.attend), watch:
                output = model(**inputs)
        except _Finished:
            return None
        except Exception as error:
            if run.is_consuming or isinstance(error, CaptureError):
                raise
            raise model_failure(model, error) from error
        if run.count != self.calls.count:
            raise unreadable(
                self.model, "computes its attention otherwise on this input than on a short one"
            )
        return output


class _SameMask(NamedTuple):
    """Whether a layer sees what the layer before it sees.

    Where both see the same of an input, they see the same of a shorter one.
    """

    longest: int
    """Up to how many tokens that is known."""
    is_same: bool


class _Finished(Exception):
    """The last layer's weights are read: ends the forward pass."""


@dataclass(frozen=True)
class _Mask:
    """What a layer's mask does."""

    added: Tensor | None
    """What it adds to logits, finite throughout; None without a mask.
    Shape: [batch, head or 1, query, key]."""
    visible: Tensor
    """Which keys it leaves visible, as in an `AttentionBlock`."""
    adds_nothing: list[bool]
    """Of each input, whether it is known to add nothing to it."""
    source: Tensor | None
    """The model's own mask: kept alive, so that no other gets its id."""
    seen: dict[int, list[tuple[slice, slice]]] = field(default_factory=dict)
    """Of each long input, ranges of queries and the keys that each sees."""


@dataclass(frozen=True)
class _Operands:
    """What one layer's attention is computed of."""

    query: Tensor
    """Shape: [batch, head, query, dimension]."""
    key: Tensor
    """Repeated for each head of a group. Shape: [batch, head, key, dimension]."""
    value: Tensor
    """Likewise."""
    mask: _Mask
    bias: Tensor | None
    """T5's, by distance. Shape: [1 or batch, head, query, key]."""
    scaling: float

    @property
    def on_cpu(self) -> bool:
        """Whether they are in main memory."""
        return _is_on_cpu(self.query)

    def logits(self, inputs: slice, heads: slice, rows: slice, columns: slice) -> Tensor:
        """The input of the softmax, as eager attention computes it: to the last bits.

        Shape: [batch, head, query, key], float32.
        """
        query = self.query[inputs, heads, rows]
        key = self.key[inputs, heads, columns]
        # Logits are products in float32 even of half precision, so that every device gives the
        # same scores: what has to be copied for them is small.
        if query.dtype.itemsize < torch.float32.itemsize:
            query = query.float()
            key = key.float()
        # Scaling by a power of two moves no bit, and queries are fewer than logits.
        scaled_first = math.frexp(self.scaling)[0] == 0.5
        if scaled_first:
            query = query * self.scaling
        logits = torch.matmul(query, key.transpose(2, 3)).float()
        if not scaled_first:
            logits *= self.scaling
        if self.bias is not None:
            logits += _select(self.bias, inputs, heads)[..., rows, columns]
        if self.mask.added is not None and not all(self.mask.adds_nothing[inputs]):
            logits += _select(self.mask.added, inputs, heads)[..., rows, columns]
        return logits


@dataclass
class _Run:
    """One forward pass, in one thread; without a consumer, to the model's output."""

    tap: AttentionTap
    sizes: list[tuple[int, int]]
    """How many queries and keys each input of the batch has, without padding at its end."""
    consume: Consumer | None
    on_output: OnOutput | None
    first: int = 0
    """The number in the batch of the first input that runs."""
    count: int = 0
    """How many calls there were."""
    is_consuming: bool = False
    """Whether the consumer is at work, so that an error is its own."""
    masks: dict[int, _Mask] = field(default_factory=dict)
    """By the id of the model's own mask."""
    visible: Tensor | None = None
    """What the layer before left visible, of a watched model."""
    compared: dict[int, Tensor] = field(default_factory=dict)
    """By layer, whether that is what the layer leaves visible: to be read once the run has ended.
    Shape: each [], bool."""

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **options: Any,
    ) -> Tensor:
        """Compute one layer's attention.

        Shape: [batch, head, token, dimension] each -> [batch, token, head, dimension].
        """
        layer = self._next_layer()
        if layer is None or self.consume is None:
            output = fused_attention(module, query, key, value, attention_mask, **options)
        else:
            batch, heads, tokens, dimension = query.shape
            groups = heads // key.shape[1]
            if groups > 1:
                key = key.repeat_interleave(groups, dim=1)
                value = value.repeat_interleave(groups, dim=1)
            scaling = options.get("scaling")
            operands = _Operands(
                query=query,
                key=key,
                value=value,
                mask=self._mask(attention_mask, query, key),
                bias=options.get("position_bias"),
                scaling=dimension**-0.5 if scaling is None else scaling,
            )
            output = query.new_empty(batch, tokens, heads, value.shape[-1])
            if any(rows < tokens for rows, _ in self.sizes):
                output.zero_()  # also of padding, which no block reaches
            self._show(layer, self._compute(layer, operands, output.transpose(1, 2)))
        if layer is not None and self.on_output is not None:
            self.on_output(layer, output)
        return output

    def watch(self, call: AttentionCall) -> None:
        """Show one call of a watched model, and let its heads' outputs be changed."""
        layer = self._next_layer()
        if layer is not None and self.consume is not None:
            self._show(layer, self._cut(layer, call))
        if layer is not None and self.on_output is not None:
            self.on_output(layer, call.output.transpose(1, 2))

    def _next_layer(self) -> int | None:
        """Count a call; the layer that it is of, or None if it is of a kind that is not read."""
        layer = self.tap.calls.layers.get(self.count)
        self.count += 1
        return layer

    def _is_last(self, layer: int) -> bool:
        return layer == self.tap.calls.grid.shape[0] - 1

    def _show(self, layer: int, blocks: Iterable[AttentionBlock]) -> None:
        """Hand a layer's blocks to the consumer. Raises: _Finished behind the last layer."""
        assert self.consume is not None
        for block in blocks:
            self.is_consuming = True
            self.consume(block)
            self.is_consuming = False
            # Of a long input it is as large as all else: the next is made where it was
            del block
        if self._is_last(layer):
            raise _Finished

    def _compute(self, layer: int, operands: _Operands, output: Tensor) -> Iterator[AttentionBlock]:
        """Compute one layer's attention, and its `output`, which nobody reads of the last layer.

        Shape: `output` [batch, head, query, dimension].
        """
        heads_in_layer = operands.query.shape[1]
        parts = _parts(self.sizes, heads_in_layer, on_cpu=operands.on_cpu)
        for inputs, heads, (rows, columns) in parts:
            # Each product with values that are apart in memory would copy them
            value = operands.value[inputs, heads, :columns].contiguous()
            output_of_block = None
            if not self._is_last(layer):
                output_of_block = output[inputs, heads, :rows]
            weights = self._attend(operands, inputs, heads, value, output_of_block, rows=rows)
            yield AttentionBlock(
                grid=self.tap.calls.grid,
                layer=layer,
                inputs=inputs,
                heads=heads,
                weights=weights,
                visible=operands.mask.visible,
                query=operands.query[inputs, heads, :rows],
                key=operands.key[inputs, heads, :columns],
                scaling=operands.scaling,
                value=value,
                output=output_of_block,
            )
            del weights

    def _attend(
        self,
        operands: _Operands,
        inputs: slice,
        heads: slice,
        value: Tensor,
        output: Tensor | None,
        *,
        rows: int,
    ) -> Tensor:
        """Compute the weights of some heads on some inputs and, where it is wanted, their output.

        Logits of one long input are larger than the cache: they are made for some queries at a
        time, and only of keys that any of these sees.
        Shape: `value` [input, head, key, dimension], `output` [input, head, query, dimension]
        -> [input, head, query, key], float32.
        """
        columns = value.shape[2]
        most = rows
        if operands.on_cpu and rows * columns > _BLOCK_CELLS:
            most = max(_MIN_ROWS, _BLOCK_CELLS // columns)
        if most >= rows:
            logits = operands.logits(inputs, heads, slice(0, rows), slice(0, columns))
            weights = torch.softmax(logits, dim=-1)
            if output is not None:
                output[:] = torch.matmul(weights.to(value.dtype), value)
            return weights
        count, heads_in_block = value.shape[:2]
        weights = torch.empty(count, heads_in_block, rows, columns, device=value.device)
        for queries, keys in self._seen(operands.mask, inputs, (rows, columns), most):
            of_queries = weights[:, :, queries]
            if keys != slice(0, columns):
                of_queries.zero_()
            logits = operands.logits(inputs, heads, queries, keys)
            of_queries[..., keys] = torch.softmax(logits, dim=-1)
            if output is not None:
                seen = of_queries[..., keys].to(value.dtype)
                output[:, :, queries] = torch.matmul(seen, value[:, :, keys])
        return weights

    def _seen(
        self, mask: _Mask, inputs: slice, size: tuple[int, int], most: int
    ) -> list[tuple[slice, slice]]:
        """Ranges of at most so many queries of an input, and which keys each of them sees."""
        rows, columns = size
        if inputs.start not in mask.seen:
            starts = range(0, rows, most)
            ranges = [slice(start, min(start + most, rows)) for start in starts]
            keys = [slice(0, columns)] * len(ranges)
            if not all(mask.adds_nothing[inputs]):
                first = columns if self.tap.kind is AttentionKind.CROSS else 0
                visible = mask.visible[inputs, first : first + rows, :columns]
                keys = seen_keys(visible, ranges)
            mask.seen[inputs.start] = list(zip(ranges, keys, strict=True))
        return mask.seen[inputs.start]

    def _mask(self, mask: Tensor | None, query: Tensor, key: Tensor) -> _Mask:
        """What a mask does, worked out once for all layers that have it."""
        if id(mask) not in self.masks:
            shape = (len(query), query.shape[2], key.shape[2])
            self.masks[id(mask)] = self._read_mask(mask, shape, query.device)
        return self.masks[id(mask)]

    def _read_mask(
        self, mask: Tensor | None, shape: tuple[int, int, int], device: torch.device
    ) -> _Mask:
        """What a mask does to inputs of a shape [batch, query, key].

        Shape: `mask` is additive or bool, [batch or 1, head or 1, query or 1, key].
        """
        batch, queries, _ = shape
        if mask is None:
            added = None
            visible = torch.ones(1, dtype=torch.bool, device=device).expand(shape)
            adds_nothing = [True] * batch
        else:
            added = mask
            if mask.dtype == torch.bool:
                added = torch.zeros(mask.shape, device=mask.device)
                added = added.masked_fill_(~mask, _MIN_LOGIT)
            visible = (added > _HIDDEN).any(1).expand(shape)
            # To look at its numbers, the host would wait for another device. On a CPU it is ready
            # as a rule, and large.
            on_cpu = device.type == "cpu"
            is_ready = on_cpu and added.dtype == torch.float32 and added.amin() >= _MIN_LOGIT
            if not is_ready:
                added = added.float().clip(_MIN_LOGIT)
            added = added.expand(batch, -1, queries, -1)
            adds_nothing = [False] * batch
            if on_cpu:
                adds_nothing = [
                    not added[number, :, :rows, :columns].any()
                    for number, (rows, columns) in enumerate(self.sizes)
                ]
        if self.tap.kind is AttentionKind.CROSS:
            visible = expand_to_both_texts(visible, self.sizes)
        return _Mask(added=added, visible=visible, adds_nothing=adds_nothing, source=mask)

    def _cut(self, layer: int, call: AttentionCall) -> Iterator[AttentionBlock]:
        """Cut one call of a watched model into blocks."""
        batch, heads_in_layer, rows, columns = call.weights.shape
        if (rows, columns) != self.sizes[self.first]:
            raise unreadable(
                self.tap.model, f"computes weights of shape {[rows, columns]} on a longer input"
            )
        visible = self._visible_in_call(layer, call)
        on_cpu = _is_on_cpu(call.weights)
        sizes = [(rows, columns)] * batch
        for inputs, heads, _ in _parts(sizes, heads_in_layer, on_cpu=on_cpu):
            yield AttentionBlock(
                grid=self.tap.calls.grid,
                layer=layer,
                inputs=slice(self.first + inputs.start, self.first + inputs.stop),
                heads=heads,
                weights=call.weights[inputs, heads].float(),
                visible=visible,
                query=None if call.query is None else call.query[inputs, heads],
                key=None if call.key is None else call.key[inputs, heads],
                scaling=call.scaling,
                value=call.value[inputs, heads],
                output=call.output[inputs, heads],
            )

    def _visible_in_call(self, layer: int, call: AttentionCall) -> Tensor:
        """Which keys each query may see; the same object as in the layer before if it is equal."""
        batch, _, rows, columns = call.weights.shape
        most_rows = max(size[0] for size in self.sizes)
        most_columns = max(size[1] for size in self.sizes)
        visible = call.weights.new_zeros(len(self.sizes), most_rows, most_columns, dtype=torch.bool)
        is_hidden = call.logits[..., :columns] <= _HIDDEN
        inputs = slice(self.first, self.first + batch)
        visible[inputs, :rows, :columns] = ~is_hidden.all(1)
        if self.tap.kind is AttentionKind.CROSS:
            visible = expand_to_both_texts(visible, self.sizes)
        if self.visible is None or not self._sees_as_before(layer, visible, max(rows, columns)):
            self.visible = visible
        return self.visible

    def _sees_as_before(self, layer: int, visible: Tensor, tokens: int) -> bool:
        """Whether a layer is known to see what the layer before sees.

        The host would wait for the answer of another device: it is read when the run has ended, and
        until then, each layer's own is taken.
        """
        assert self.visible is not None
        if _is_on_cpu(visible):
            return torch.equal(self.visible, visible)
        known = self.tap.sees_as_before.get(layer)
        if known is not None and tokens <= known.longest:
            return known.is_same
        self.compared[layer] = (self.visible == visible).all()
        return False


def _is_on_cpu(values: Tensor) -> bool:
    return values.device.type == "cpu"


def _tensors(inputs: dict[str, Any]) -> dict[str, Tensor]:
    """Those of a model's inputs that are tensors."""
    return {name: values for name, values in inputs.items() if isinstance(values, Tensor)}


def _text_of(name: str) -> str:
    """Which text an input is of, as in the keys of `_lengths`."""
    return "decoder_" if name.startswith("decoder_") else ""


def _lengths(inputs: dict[str, Any]) -> dict[str, list[int]]:
    """By how the names of its inputs begin, the length of each text without padding at its end."""
    lengths = {}
    for text in ("", "decoder_"):
        if f"{text}input_ids" in inputs:
            ids = inputs[f"{text}input_ids"]
            present = inputs.get(f"{text}attention_mask")
            if present is None:
                lengths[text] = [ids.shape[1]] * len(ids)
            else:
                places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
                lengths[text] = (places * (present != 0)).amax(1).clip(1).tolist()
    return lengths


def _repeat_short(inputs: dict[str, Any]) -> dict[str, Any]:
    """A batch so often that it has as many rows as products need to be rounded alike."""
    tensors = _tensors(inputs)
    tokens = min(tensors[name].numel() for name in tensors if name.endswith("input_ids"))
    copies = math.ceil(_MIN_ROWS / tokens)
    if copies == 1:
        return inputs
    return {**inputs, **{name: values.repeat(copies, 1) for name, values in tensors.items()}}


def _select(values: Tensor, inputs: slice, heads: slice) -> Tensor:
    """Some inputs and heads of a tensor that may have one for all. Shape: [batch, head, ...]."""
    if len(values) == 1:
        inputs = slice(None)
    if values.shape[1] == 1:
        heads = slice(None)
    return values[inputs, heads]


def _block_cache(*, on_cpu: bool) -> int:
    """How many weights a block has at most, unless a single head of one input has more."""
    return _BLOCK_CELLS if on_cpu else _DEVICE_BLOCK_CELLS


def block_cells(tokens: int, heads: int, *, on_cpu: bool) -> int:
    """How many weights the largest block of one input has."""
    cells = tokens**2
    return cells * max(1, min(heads, _block_cache(on_cpu=on_cpu) // cells))


def _parts(
    sizes: list[tuple[int, int]], heads: int, *, on_cpu: bool
) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Cut a layer into blocks of inputs of one size that fit the cache.

    Beyond 1,024 tokens, a block is one head of one input. Yields inputs, heads, and their size.
    """
    cache = _block_cache(on_cpu=on_cpu)
    start = 0
    for size, alike in itertools.groupby(sizes):
        stop = start + len(list(alike))
        cells = math.prod(size)
        inputs_in_block = max(1, cache // (heads * cells))
        # How heads are cut depends on the size alone: an input's sums must not depend on those
        # beside it
        heads_in_block = max(1, min(heads, cache // cells))
        for i in range(start, stop, inputs_in_block):
            inputs = slice(i, min(i + inputs_in_block, stop))
            for h in range(0, heads, heads_in_block):
                yield inputs, slice(h, min(h + heads_in_block, heads)), size
        start = stop
