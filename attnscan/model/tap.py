"""Attention as the model computes it, layer by layer, handed to a consumer. Only this module knows how.

The tap is an attention function of our own, registered with transformers while a `Tap` is open. It computes what eager
attention computes, in blocks that stay in the processor's last cache, so that no more than one layer's weights ever
exist. After the last layer's weights the forward pass ends. Architectures that never call the registered function
(DeBERTa, MPNet, XLNet, ...) run with their eager attention under a `Watch`, which sees the same, layer by layer.

Any number of threads may read one model at once: what a run is for is known by its thread.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from attnscan.errors import CaptureError
from attnscan.model.attention_block import AttentionBlock, Consumer, OnOutput
from attnscan.model.calls import MODIFIERS, Calls, TappedCall, calls_of
from attnscan.model.masks import HIDDEN, Behind, Mask, all_visible, same_or
from attnscan.model.running import accepted, attention_of, failed, quiet_transformers, refused
from attnscan.model.watch import Call, Watch
from attnscan.results.grid import AttentionKind

_BLOCK = 1 << 20  # weights in a block on a CPU: 4 MiB of float32. Fewer cost more in calls than they save in cache
_ON_DEVICE = 1 << 28  # weights in either elsewhere: 1 GiB of float32
_LEAST_ROWS = 16  # products of fewer rows are rounded otherwise than those of more: shorter batches run repeated
_TEXTS = dict.fromkeys(AttentionKind, ("", "")) | {
    AttentionKind.DECODER: ("decoder_", "decoder_"),
    AttentionKind.CROSS: ("decoder_", ""),
}
"""Of which text queries and keys are, by how the names of a model's inputs begin."""
_names = (f"attnscan_tap_{number}" for number in itertools.count())


class Tap:
    """Reads the attention of one model. Between runs the model is as it was; once closed, transformers is too.

    With a `kind`, the model is a whole encoder-decoder; in cross attention, the places of blocks are those of `Behind`.

    >>> with Tap(model) as tap:                                              # doctest: +SKIP
    ...     tap.run(batch.model_inputs, consumer)
    """

    def __init__(self, model: Any, *, kind: AttentionKind = AttentionKind.ONLY) -> None:
        self.model, self.kind, self._name = model, kind, next(_names)
        self._own, self._learning = threading.local(), threading.RLock()
        self._turn = _turns.setdefault(model, _Turn())

    def __enter__(self) -> Self:
        # Without a mask function of the same name transformers passes no mask at all, and padding
        # soaks up attention: https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/masking_utils.py
        self._quiet = quiet_transformers()  # no advice, from tokenizers either, which may run in a thread beside
        self._quiet.__enter__()
        from transformers import AttentionInterface, AttentionMaskInterface  # whoever has a model has paid for it
        from transformers.masking_utils import eager_mask

        AttentionInterface.register(self._name, self._attend)
        AttentionMaskInterface.register(self._name, eager_mask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        from transformers import AttentionInterface, AttentionMaskInterface

        AttentionInterface._global_mapping.pop(self._name)  # `register` has no public opposite
        AttentionMaskInterface._global_mapping.pop(self._name)
        self._quiet.__exit__(None, None, None)

    @property
    def calls(self) -> Calls:
        """How the model computes its attention, found out by running it on a few tokens.

        Raises: CaptureError if it has none that can be read.
        """
        with self._learning:
            return self._calls

    @cached_property
    def _calls(self) -> Calls:
        def tapped(inputs: dict[str, Any]) -> list[TappedCall]:
            self._own.run = probe = _Probe()
            try:
                with torch.inference_mode(), attention_of(self.model, self._name) as took:
                    if took:
                        self.model(**inputs)
            finally:
                del self._own.run
            return probe.calls

        with self.alone():
            return calls_of(self.model, self.kind, tapped)

    def run(self, inputs: dict[str, Tensor], consume: Consumer, on_output: OnOutput | None = None) -> None:
        """Run the model on one batch as far as its last layer's weights; `on_output` may change what layers put out.

        Shape: `inputs` are the model's, each [batch, token], of source or target.
        Raises: CaptureError if the architecture shows no attention, or fails on this input.
        """
        taken, calls = accepted(self.model, inputs), self.calls
        if on_output is not None:
            self.check_switchable()
        on_cpu = inputs["input_ids"].device.type == "cpu"
        sizes = _sizes(taken, self.kind)
        with self._under_attention():
            if not calls.tapped:
                self._run_watched(taken, sizes, consume, on_output)
                return
            if not on_cpu and self.kind is AttentionKind.ONLY:  # padding costs less there than the wait for its length
                sizes = [(inputs["input_ids"].shape[1],) * 2] * len(inputs["input_ids"])
            fewest = min(values.numel() for name, values in taken.items() if name.endswith("input_ids"))
            copies = -(-_LEAST_ROWS // fewest) if on_cpu else 1
            if copies > 1:
                taken = {k: v.repeat(copies, 1) if isinstance(v, Tensor) else v for k, v in taken.items()}
            self._forward(self.model, taken, _Run(calls, self.kind, sizes, consume, on_output))

    def _run_watched(
        self, inputs: dict[str, Any], sizes: list[tuple[int, int]], consume: Consumer, on_output: OnOutput | None
    ) -> None:
        """Run inputs without their padding, neighbours of one length together: ConvBERT's convolution reaches it."""
        start = 0
        for _, some in itertools.groupby(sizes):
            part = slice(start, start := start + len(list(some)))
            run = _Run(self.calls, self.kind, sizes, consume, on_output, part.start)
            self._forward(self.model, _without_padding(inputs, part, self.kind), run)

    def output(self, inputs: dict[str, Tensor], on_output: OnOutput, whole: Any = None) -> Any:
        """The output of the model, or of a `whole` one around it, with every layer's heads shown on the way.

        Shape: `inputs` are the model's, each [batch, token].
        Raises: CaptureError if the architecture keeps what its heads put out to itself, or fails on this input.
        """
        self.check_switchable()
        whole = self.model if whole is None else whole
        taken = accepted(whole, inputs)
        with self._under_attention():
            return self._forward(whole, taken, _Run(self.calls, self.kind, [], None, on_output))

    def check_switchable(self) -> None:
        """Raises: CaptureError if what each head puts out is not known."""
        if not self.calls.whole:
            raise CaptureError(
                f"heads of the architecture {type(self.model).__name__} cannot be switched off: "
                "what a head puts out is computed in several parts",
                "use a model such as BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA or ModernBERT",
            )

    def _forward(self, model: Any, inputs: dict[str, Any], run: _Run) -> Any:
        """Run a model for this thread. Raises: CaptureError if it fails, or does not come as far as its last layer."""
        self._own.run, first = run, next(value for value in inputs.values() if isinstance(value, Tensor))
        try:
            with torch.inference_mode():
                if self.calls.tapped:
                    output = model(**inputs)
                else:
                    with Watch(run.watched, len(first)):
                        output = model(**inputs)
        except _Finished:
            return None
        except CaptureError:
            raise
        except Exception as error:
            if run.consumer_failed:
                raise
            raise failed(model, error) from error
        finally:
            del self._own.run
        if run.count != len(self.calls.places):
            raise refused(self.model, "computes its attention otherwise on this input than on a short one")
        return output

    @contextmanager
    def _under_attention(self) -> Iterator[None]:
        """Let the model compute its attention so that it can be read, as long as any thread does."""
        name, turn = self._name if self.calls.tapped else "eager", self._turn
        with turn.changes:
            turn.changes.wait_for(lambda: not turn.running or turn.attention == name)
            if not turn.running:
                turn.attention, turn.put_back = name, ExitStack()
                turn.put_back.enter_context(attention_of(self.model, name))
            turn.running += 1
        try:
            yield
        finally:
            with turn.changes:
                turn.running -= 1
                if not turn.running:
                    turn.put_back.close()
                    turn.changes.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Use the model as it is by itself, while no other thread reads it."""
        with self._turn.changes:
            self._turn.changes.wait_for(lambda: not self._turn.running)
            yield

    def _attend(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        **rest: Any,
    ) -> tuple[Tensor, None]:
        """What transformers calls in place of the model's own attention."""
        run: _Run | _Probe | None = getattr(self._own, "run", None)
        place = None
        if isinstance(run, _Probe):
            run.calls.append(TappedCall.of(module, query, key, rest))
        elif run is not None:
            place = run.next_place()
        if place is None or not isinstance(run, _Run) or run.consume is None:
            # The mask alone decides, whatever the module says of being causal; of no run of ours it may have been
            # made before the model was turned to this function.
            fused = {**rest, "scaling": scaling} | ({} if run is None else {"is_causal": False})
            fused = {name: given for name, given in fused.items() if name not in MODIFIERS}
            output = _fused(module, query, key, value, attention_mask, fused)
            if place is None or not isinstance(run, _Run):
                return output, None
        else:
            output = run.attend(place[1], query, key, value, attention_mask, scaling, rest.get("position_bias"))
        if run.on_output is not None:
            run.on_output(place[1], output)
        return output, None


def _fused(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rest: dict[str, Any]
) -> Tensor:
    """What torch's fused kernel makes of a call."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward  # what runs has paid for it

    output: Tensor = sdpa_attention_forward(module, query, key, value, mask, **rest)[0]
    return output


@dataclass
class _Turn:
    """Whose attention a model computes with now: all threads that run it share it, and others wait."""

    changes: threading.Condition = field(default_factory=threading.Condition)
    running: int = 0
    """How many threads run it under that attention."""
    attention: str = ""
    put_back: ExitStack = field(default_factory=ExitStack)
    """Puts the model's own attention back."""


_turns: WeakKeyDictionary[torch.nn.Module, _Turn] = WeakKeyDictionary()


class _Finished(Exception):
    """The last layer's weights are read: ends the forward pass."""


@dataclass
class _Probe:
    """A run that finds out which calls there are."""

    calls: list[TappedCall] = field(default_factory=list)


@dataclass
class _Run:
    """One forward pass, in one thread."""

    calls: Calls
    kind: AttentionKind
    sizes: list[tuple[int, int]]
    """How many queries and keys each input of the batch has, without the padding at its end."""
    consume: Consumer | None
    """None of a run to the model's output, in which heads' outputs alone are shown."""
    on_output: OnOutput | None
    first: int = 0
    """The number in the batch of the first input that runs; of watched models, inputs of one length run together."""
    count: int = 0
    """How many calls of attention there were."""
    consumer_failed: bool = False
    masks: dict[int, Mask] = field(default_factory=dict)
    behind: dict[int, Behind] = field(default_factory=dict)
    """In cross attention what is visible, by the id of the tensor that says so."""
    visible: Tensor = field(default_factory=lambda: torch.zeros(0))
    """What the layer before left visible."""

    def next_place(self) -> tuple[AttentionKind, int] | None:
        """The place of the next call, or None if it is not to be read."""
        if self.count == len(self.calls.places):
            raise RuntimeError("there are more calls of attention than on a short input")
        self.count += 1
        return self.calls.places[self.count - 1]

    @property
    def is_last(self) -> bool:
        """Whether this call is the last whose weights are read."""
        return self.consume is not None and self.count - 1 == self.calls.last

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        given: Tensor | None,
        scaling: float | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Compute one layer's attention, block by block. Shape: -> [batch, token, head, dimension]."""
        groups, on_cpu = query.shape[1] // key.shape[1], query.device.type == "cpu"
        key, value = (states.repeat_interleave(groups, dim=1) if groups > 1 else states for states in (key, value))
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        if id(given) not in self.masks:
            self.masks[id(given)] = Mask.of(
                given, (query.shape[0], query.shape[2], key.shape[2]), query.device, self.sizes
            )
        mask, last = self.masks[id(given)], self.is_last
        # Of padding, which no block reaches, the output is 0.
        empty = query.new_empty if min(self.sizes)[0] == query.shape[2] else query.new_zeros
        output = empty((*query.shape[:-1], value.shape[-1]))
        # On a CPU logits are products in float32 even of half precision: what has to be copied for them is small.
        raised = on_cpu and query.dtype.itemsize < torch.float32.itemsize
        # Scaling by a power of two moves no bit, and queries are fewer than logits.
        scaled_first = math.frexp(scaling)[0] == 0.5
        for inputs, heads, (rows, columns) in _blocks(self.sizes, query.shape[1], on_cpu=on_cpu):
            of_queries, of_keys = (inputs, heads, slice(rows)), (inputs, heads, slice(columns))
            # The order of operations is that of eager attention, so that the two agree to the last bits.
            left, right = query[of_queries], key[of_keys]
            left, right = (left.float(), right.float()) if raised else (left, right)
            logits = torch.matmul(left * scaling if scaled_first else left, right.transpose(2, 3)).float()
            if not scaled_first:
                logits *= scaling
            if bias is not None:  # T5's, by distance. Shape: [1 or batch, head, query, key]
                logits += bias[inputs if len(bias) > 1 else slice(None), heads, :rows, :columns]
            mask.add_to(logits, inputs, heads)
            weights = torch.softmax(logits, dim=-1)
            if not last:
                output[of_queries] = torch.matmul(weights.to(value.dtype), value[of_keys])
            block = self.block(
                layer,
                inputs,
                heads,
                weights,
                mask.visible,
                query=query[of_queries],
                key=key[of_keys],
                scaling=scaling,
                logits=logits,
                value=value[of_keys],
                output=None if last else output[of_queries],
            )
            with self.handing_over() as consume:
                consume(block)
        if last:
            raise _Finished
        return output.transpose(1, 2)

    def watched(self, call: Call) -> None:
        """Show one call of a watched model, block by block, and let its heads' outputs be changed."""
        place = self.next_place()
        if place is None:
            return
        if self.consume is not None:
            self._show_watched(place[1], call)
        if self.is_last:
            raise _Finished
        if self.on_output is not None:
            self.on_output(place[1], call.output.transpose(1, 2))

    def _show_watched(self, layer: int, call: Call) -> None:
        batch, heads, rows, columns = call.weights.shape
        if (rows, columns) != self.sizes[self.first]:
            raise CaptureError(
                f"the model computes weights of shape {[rows, columns]} in layer {layer} on an input of "
                f"{self.sizes[self.first][0]} tokens",
                "use shorter inputs, or a model in which each token looks at each",
            )
        logits, visible = call.logits.float() if self.calls.exact else None, self._visible(call)
        if logits is not None and torch.isneginf(logits.amin()):
            logits = logits.clip(torch.finfo(torch.float32).min)
        on_cpu = call.weights.device.type == "cpu"
        for inputs, some, _ in _blocks([(rows, columns)] * batch, heads, on_cpu=on_cpu):
            part = inputs, some
            block = self.block(
                layer,
                slice(self.first + inputs.start, self.first + inputs.stop),
                some,
                call.weights[part].float(),
                visible,
                query=None if call.query is None else call.query[part],
                key=None if call.key is None else call.key[part],
                scaling=None if call.query is None else call.scaling,
                logits=None if logits is None else logits[part],
                value=call.value[part] if self.calls.whole else None,
                output=call.output[part] if self.calls.whole else None,
            )
            with self.handing_over() as consume:
                consume(block)

    def _visible(self, call: Call) -> Tensor:
        """What each query may see, by the numbers that the model adds to hide keys. Shape: [batch, query, key]."""
        batch, _, rows, columns = call.weights.shape
        logits = call.logits[..., :columns]
        whole = len(self.sizes), max(queries for queries, _ in self.sizes), max(keys for _, keys in self.sizes)
        if (batch, rows, columns) == whole and logits.amin() > HIDDEN:
            visible = all_visible(whole, logits.device)
        else:
            visible = torch.zeros(whole, dtype=torch.bool, device=logits.device)
            visible[self.first : self.first + batch, :rows, :columns] = (logits > HIDDEN).any(1)
        self.visible = same_or(self.visible, visible)
        return self.visible

    def block(
        self, layer: int, inputs: slice, heads: slice, weights: Tensor, visible: Tensor, **states: Any
    ) -> AttentionBlock:
        """A block to be handed over."""
        place: dict[str, Any] = {"length": weights.shape[3]}
        seen: Any = visible
        if self.kind is AttentionKind.CROSS:  # a target's tokens stand behind its source's
            target, source = weights.shape[2:]
            place = {"queries": slice(source, source + target), "keys": slice(0, source)}
            place["length"] = source + target
            seen = self.behind.setdefault(id(visible), Behind(visible, self.sizes))
        return AttentionBlock(self.calls.grid, layer, inputs, heads, weights, seen, kind=self.kind, **states, **place)

    @contextmanager
    def handing_over(self) -> Iterator[Consumer]:
        """The consumer; whose fault it is if it fails is remembered."""
        assert self.consume is not None
        try:
            yield self.consume
        except Exception:
            self.consumer_failed = True
            raise


def _sizes(inputs: dict[str, Any], kind: AttentionKind) -> list[tuple[int, int]]:
    """How many queries and keys each input has, without the padding at its end."""
    queries, keys = (_lengths(inputs, of) for of in _TEXTS[kind])
    return list(zip(queries, keys, strict=True))


def _lengths(inputs: dict[str, Any], of: str) -> list[int]:
    """The length of each input, or of each target, without the padding at its end."""
    ids, present = inputs[f"{of}input_ids"], inputs.get(f"{of}attention_mask")
    if present is None:
        return [ids.shape[1]] * len(ids)
    places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    return [max(1, int(length)) for length in (places * (present != 0)).amax(1)]


def _without_padding(inputs: dict[str, Any], part: slice, kind: AttentionKind) -> dict[str, Any]:
    """Some inputs, all of one length, without the padding behind."""
    stops = {of: _lengths(inputs, of)[part.start] for of in (("",) if kind is AttentionKind.ONLY else ("", "decoder_"))}

    def cut(name: str, values: Any) -> Any:
        return values[part, : stops["decoder_" if name.startswith("decoder_") else ""]]

    return {name: cut(name, values) if isinstance(values, Tensor) else values for name, values in inputs.items()}


def _blocks(
    sizes: list[tuple[int, int]], heads: int, *, on_cpu: bool
) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Cut a layer's weights into blocks of inputs of one size that fit the cache: inputs, heads, queries and keys.

    Beyond 1,024 tokens a block is one head of one input, with whole rows.
    """
    start, cache = 0, _BLOCK if on_cpu else _ON_DEVICE
    for size, run in itertools.groupby(sizes):
        stop, cells = start + len(list(run)), math.prod(size)
        some_inputs = max(1, cache // (heads * cells))
        # how heads are cut depends on the size alone: an input's sums must not depend on those beside it
        some_heads = max(1, min(heads, cache // cells))
        for i in range(start, stop, some_inputs):
            for h in range(0, heads, some_heads):
                yield slice(i, min(i + some_inputs, stop)), slice(h, min(h + some_heads, heads)), size
        start = stop
