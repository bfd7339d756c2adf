"""Attention as the model computes it, layer by layer, handed to a consumer. Only this module knows how.

While a `Tap` is open, the model computes its attention by our function. It does what eager attention does, in blocks
that stay in the processor's last cache, so that no more than one layer's weights ever exist. After the last layer's
weights the forward pass ends. Architectures that never call the registered function (DeBERTa, MPNet, XLNet, ...) run
with their eager attention under a `Watch`, which sees the same, layer by layer.

Which calls are of which kind and layer is learnt from a probe run, on a source of 5 tokens and a target of 3: their
shapes say it, where `is_decoder` and `is_causal` are wrong in several families. A layer's number is that of its module:
in Jamba or Qwen3-Next only some layers have attention.

Any number of threads may read one model at once: what a run is for is known by its thread.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from attnscan.errors import CaptureError
from attnscan.model import running
from attnscan.model.attention_block import AttentionBlock, Consumer, OnOutput, of_both_texts
from attnscan.model.watch import Call, Watch
from attnscan.results.terms import AttentionKind, Grid

_BLOCK = 1 << 20  # weights in a block on a CPU: 4 MiB of float32. Fewer cost more in calls than they save in cache
_ON_DEVICE = 1 << 28  # weights in one elsewhere: 1 GiB of float32
_LEAST_ROWS = 16  # products of fewer rows are rounded otherwise than those of more: shorter batches run repeated
_HIDDEN = -9e3  # a key to which less than this is added is not to be seen: older models add -10,000, others more
_LEAST = torch.finfo(torch.float32).min
_TEXTS = {AttentionKind.DECODER: ("decoder_", "decoder_"), AttentionKind.CROSS: ("decoder_", "")}
"""Of which text queries and keys are, by how the names of a model's inputs begin; of other kinds, of the first."""
_TOKEN = 5  # of which the probe is: of any vocabulary, and padding in none
_SHAPES = dict(zip(AttentionKind, ((5, 5), (5, 5), (3, 3), (3, 5)), strict=True))
"""How many queries and keys each kind of attention has in the probe."""
_MODIFIERS = ("s_aux", "softcap")  # what eager attention can add to the logits, and the tap does not
_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits


class Tap:
    """Reads the attention of one model while it is open; of a `kind`, that of a whole encoder-decoder."""

    def __init__(self, model: Any, *, kind: AttentionKind = AttentionKind.ONLY) -> None:
        self.model, self.kind = model, kind

    @cached_property
    def calls(self) -> Calls:
        """How the model computes its attention. Raises: CaptureError if it has none that can be read."""
        return calls_of(self.model, self.kind)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(running.quiet_transformers())  # no advice, from tokenizers either
            stack.enter_context(running.attention_of(self.model, running.ATTENTION if self.calls.tapped else "eager"))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, inputs: dict[str, Tensor], consume: Consumer, on_output: OnOutput | None = None) -> None:
        """Run the model on one batch as far as its last layer's weights; `on_output` may change what layers put out.

        Shape: `inputs` are the model's, each [batch, token]. Raises: CaptureError if it fails on them.
        """
        taken, on_cpu = running.accepted(self.model, inputs), inputs["input_ids"].device.type == "cpu"
        tensors = {name: values for name, values in taken.items() if isinstance(values, Tensor)}
        lengths = {text: _lengths(taken, text) for text in ("", "decoder_") if f"{text}input_ids" in taken}
        queries, keys = _TEXTS.get(self.kind, ("", ""))
        sizes = list(zip(lengths[queries], lengths[keys], strict=True))
        if self.calls.tapped:
            if not on_cpu and self.kind is AttentionKind.ONLY:  # padding costs less there than blocks by length
                sizes = [(inputs["input_ids"].shape[1],) * 2] * len(sizes)
            copies = -(-_LEAST_ROWS // min(taken[f"{text}input_ids"].numel() for text in lengths)) if on_cpu else 1
            if copies > 1:
                taken |= {name: values.repeat(copies, 1) for name, values in tensors.items()}
            self._forward(self.model, taken, _Run(self, sizes, consume, on_output))
            return
        start = 0  # without padding, neighbours of one length together: ConvBERT's convolution reaches it
        for stops, alike in itertools.groupby(zip(*lengths.values(), strict=True)):
            part, stop = slice(start, start + len(list(alike))), dict(zip(lengths, stops, strict=True))
            of_part = {
                name: values[part, : stop["decoder_" if name.startswith("decoder_") else ""]]
                for name, values in tensors.items()
            }
            self._forward(self.model, {**taken, **of_part}, _Run(self, sizes, consume, on_output, start))
            start = part.stop

    def output(self, inputs: dict[str, Tensor], on_output: OnOutput, whole: Any = None) -> Any:
        """The output of the model, or of a `whole` one around it, with every layer's heads shown on the way.

        Shape: `inputs` are the model's, each [batch, token]. Raises: CaptureError if it fails on them.
        """
        whole = self.model if whole is None else whole
        return self._forward(whole, running.accepted(whole, inputs), _Run(self, [], None, on_output))

    def _forward(self, model: Any, inputs: dict[str, Any], run: _Run) -> Any:
        """Run a model for this thread. Raises: CaptureError if it fails, or does not come as far as its last layer."""
        watch = nullcontext() if self.calls.tapped else Watch(run.watch, len(inputs["input_ids"]))
        try:
            with torch.inference_mode(), running.attended_by(run.attend), watch:
                output = model(**inputs)
        except _Finished:
            return None
        except Exception as error:
            if run.consuming or isinstance(error, CaptureError):
                raise
            raise running.failed(model, error) from error
        if run.count != self.calls.count:
            raise running.refused(self.model, "computes its attention otherwise on this input than on a short one")
        return output


class _Finished(Exception):
    """The last layer's weights are read: ends the forward pass."""


@dataclass
class _Run:
    """One forward pass, in one thread; without a consumer, to the model's output."""

    tap: Tap
    sizes: list[tuple[int, int]]  # how many queries and keys each input of the batch has, without padding at its end
    consume: Consumer | None
    on_output: OnOutput | None
    first: int = 0  # the number in the batch of the first input that runs
    count: int = 0  # how many calls there were
    consuming: bool = False  # whether the consumer is at work, so that an error is its own
    masks: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    visible: Tensor = field(default_factory=lambda: torch.zeros(0))  # what a watched layer before left visible

    def attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any
    ) -> Tensor:
        """Compute one layer's attention. Shape: [batch, head, token, dimension] each -> [batch, token, head, d]."""
        layer, self.count = self.tap.calls.layers.get(self.count), self.count + 1
        if layer is None or self.consume is None:
            output = running.fused(module, query, key, value, mask, **rest)
        else:
            of_heads = query.new_zeros((*query.shape[:-1], value.shape[-1]))  # also of padding, which no block reaches
            for block in self._marked(layer, self._computed(layer, of_heads, query, key, value, mask, **rest)):
                self.consume(block)
                del block  # of a long input, as large as all else: the next is made where it was
            output = of_heads.transpose(1, 2)
        if layer is not None and self.on_output is not None:
            self.on_output(layer, output)
        return output

    def watch(self, call: Call) -> None:
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
        self, layer: int, output: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any
    ) -> Iterator[AttentionBlock]:
        """Compute one layer's attention, and all but the last's `output`, as eager attention does: to the last bits."""
        groups, on_cpu = query.shape[1] // key.shape[1], query.device.type == "cpu"
        last = layer == self.tap.calls.grid.shape[0] - 1
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
            del logits, weights, of_block

    def _mask(self, mask: Tensor | None, query: Tensor, key: Tensor) -> tuple[Tensor | None, Tensor, list[bool]]:
        """What a mask adds to logits, what it leaves visible, and of each input whether it adds nothing to it.

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
                if added.dtype != torch.float32 or added.amin() < _LEAST:  # as a rule it is ready, and large
                    added = added.float().clip(_LEAST)
                added = added.expand(shape[0], -1, shape[1], -1)
                empty = [not added[i, :, :rows, :columns].any() for i, (rows, columns) in enumerate(self.sizes)]
            if self.tap.kind is AttentionKind.CROSS:
                visible = of_both_texts(visible, self.sizes)
            self.masks[id(mask)] = added, visible, empty, mask  # the mask is kept alive, so that its id stays its own
        return self.masks[id(mask)][:3]

    def _watched(self, layer: int, call: Call) -> Iterator[AttentionBlock]:
        """Cut one call of a watched model into blocks."""
        batch, heads, rows, columns = call.weights.shape
        if (rows, columns) != self.sizes[self.first]:
            raise running.refused(self.tap.model, f"computes weights of shape {[rows, columns]} on a longer input")
        seen = call.weights.new_zeros(len(self.sizes), *map(max, zip(*self.sizes, strict=True)), dtype=torch.bool)
        seen[self.first : self.first + batch, :rows, :columns] = ~(call.logits[..., :columns] <= _HIDDEN).all(1)
        seen = of_both_texts(seen, self.sizes) if self.tap.kind is AttentionKind.CROSS else seen
        self.visible = self.visible if torch.equal(self.visible, seen) else seen  # the same object, where it is equal
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
    """Cut a layer into blocks of inputs of one size that fit the cache; beyond 1,024 tokens, one head of one input."""
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


@dataclass(frozen=True)
class Calls:
    """The calls of attention in one run of a model."""

    layers: dict[int, int]
    """By the number of a call, where its layer stands in the grid; those of other kinds are not read."""
    count: int  # of all kinds
    grid: Grid  # the heads of the kind that is read
    tapped: bool  # whether the model calls the registered attention function; else it is watched


@dataclass(frozen=True)
class _Call:
    """One call in a probe run."""

    layer: int  # the number in the name of the module that it is in; -1 if there is none
    heads: int
    shape: tuple[int, ...]  # how many queries and keys it has
    is_plain: bool  # whether it is a softmax over the keys, to which nothing else was added


def calls_of(model: Any, kind: AttentionKind) -> Calls:
    """Find out how a kind of a model's attention is read: by the tap, if it shows as many layers as there are."""
    ids = torch.full((1, 5), _TOKEN, device=next(model.parameters()).device)
    inputs, layers = running.accepted(model, {"input_ids": ids, "decoder_input_ids": ids[:, :3]}), None
    if kind is AttentionKind.ONLY:
        inputs.pop("decoder_input_ids", None)
        layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    tapped = _arranged(_probed(model, inputs, watched=False), kind, tapped=True)
    if isinstance(tapped, Calls) and tapped.grid.shape[0] == layers:
        return tapped
    watched = _arranged(_probed(model, inputs, watched=True), kind, tapped=False)
    if isinstance(watched, str):
        raise running.refused(model, watched)
    return tapped if isinstance(tapped, Calls) and tapped.grid.shape[0] == watched.grid.shape[0] else watched


def _probed(model: Any, inputs: dict[str, Any], *, watched: bool) -> list[_Call]:
    """The calls of attention in a run: of our function, or of eager attention as the watch sees them."""
    calls, layer = list[_Call](), [-1]

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any) -> Tensor:
        is_plain = all(rest.get(name) is None for name in _MODIFIERS)
        calls.append(_Call(layer[0], query.shape[1], (query.shape[2], key.shape[2]), is_plain))
        return running.fused(module, query, key, value, mask, **rest)

    def note(call: Call) -> None:
        (_, heads, *shape), weights = call.weights.shape, call.weights.float()
        off, tolerance = (weights.sum(-1) - 1).abs().max(), _TOLERANCE[call.weights.itemsize == 2]
        is_plain = not weights.isfinite().all() or (weights.min() >= 0 and off <= tolerance)
        calls.append(_Call(layer[0], heads, tuple(shape), bool(is_plain)))

    def enter(number: int, *_: Any) -> None:
        layer[0] = number

    numbered = ((module, re.search(r"(?:^|\.)(\d+)(?=\.|$)", name)) for name, module in model.named_modules())
    hooks = [module.register_forward_pre_hook(partial(enter, int(number[1]))) for module, number in numbered if number]
    name, watch = ("eager", Watch(note, 1)) if watched else (running.ATTENTION, nullcontext())
    try:
        with running.attention_of(model, name) as took, running.attended_by(attend), torch.inference_mode(), watch:
            model(**inputs)
    except Exception as error:
        raise running.failed(model, error) from error
    finally:
        for hook in hooks:
            hook.remove()
    if watched and not took:
        raise running.refused(model, "cannot be turned to eager attention once it is loaded")
    return calls


def _arranged(calls: Sequence[_Call], kind: AttentionKind, *, tapped: bool) -> Calls | str:
    """The calls of one kind, or why a model's attention is none that is read."""
    shape, is_only = _SHAPES[kind], kind is AttentionKind.ONLY
    own = [number for number, call in enumerate(calls) if call.shape == shape]
    others = [call.shape for call in calls if call.shape not in ([shape] if is_only else _SHAPES.values())]
    if others and (tapped or is_only or not own):
        if own[:1] == [0]:
            return "pools its tokens: not all layers have as many as the input"
        return f"computes weights of shape {list(others[0])}, where each of 5 tokens should look at each"
    if not own:
        return f"computes no softmax attention{'' if is_only else f' of its {kind.word} kind'} over all tokens"
    heads, layers = {calls[number].heads for number in own}, tuple(calls[number].layer for number in own)
    if strange := [layer for layer, number in enumerate(own) if not calls[number].is_plain]:
        return f"computes numbers in layer {strange[0]} that are not a softmax over the tokens"
    if len(heads) != 1:
        return "has more heads in some layers than in others"
    rising = layers == tuple(sorted(set(layers))) and layers[0] >= 0
    if not (tapped or rising) and len(set(layers) - {-1}) > 1 and len(own) > len(set(layers)):
        return "computes several attentions in a layer"
    # Layers of encoder-decoders all have attention, and are counted; so are those that share a module, as ALBERT's.
    grid = Grid((len(own), calls[own[0]].heads), kind, layers if is_only and rising else ())
    return Calls({number: layer for layer, number in enumerate(own)}, len(calls), grid, tapped)
