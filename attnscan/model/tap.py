"""Attention as the model computes it, layer by layer, handed to a consumer. Only this module knows how.

The tap is an attention implementation of our own, registered with transformers while a `Tap` is open. It computes what
eager attention computes, in blocks that stay in the processor's last cache, so that no more than one layer's weights
ever exist. After the last layer's weights the forward pass ends.

Architectures that never call the registered function (DeBERTa, MPNet, XLNet, ...) are run with
`output_attentions=True`, which keeps all layers in memory. What they show is taken only if it is softmax over the
tokens: some show logits (SqueezeBERT), a part of each row (Longformer), or rows that a sink beside the input has a
share of (GPT-OSS).

Of an encoder-decoder, a tap of one kind of attention reads that kind's calls (`kinds.py`), and lets all others pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnscan.model.attention_block import MOST_CELLS, AttentionBlock, Consumer, Cut, Visible, rows_of
from attnscan.model.attention_function import (
    AttentionFunction,
    Mask,
    MaskRows,
    OnOutput,
    Untappable,
    asked_rows,
    attention_of,
    is_answerable,
    not_switchable,
    plain_attention,
    same_or,
    visible_keys,
)
from attnscan.model.kinds import Behind, Calls, calls_of, shown_as
from attnscan.model.running import accepted, failed, refused
from attnscan.results.grid import AttentionKind, Grid

_BLOCK = 1 << 20  # weights in a block on a CPU: 4 MiB of float32. Fewer cost more in calls than they save in cache
_ON_DEVICE = 1 << 28  # weights in either elsewhere: 1 GiB of float32
_LEAST_ROWS = 16  # products of fewer rows are rounded otherwise than those of more: shorter batches run repeated
_TEXTS = dict.fromkeys(AttentionKind, ("", "")) | {
    AttentionKind.DECODER: ("decoder_", "decoder_"),
    AttentionKind.CROSS: ("decoder_", ""),
}
"""Of which text queries and keys are, by how the names of a model's inputs begin."""
_ROW_TOLERANCE, _HALF_ROW_TOLERANCE = 1e-3, 2e-2  # how far from 1 a row's sum may be rounded, in 32 and in 16 bits


class Tap(AttentionFunction):
    """Reads the attention of one model. Between runs the model is as it was; once closed, transformers is too.

    The config says how many layers there are or, unless `by_config`, the first run goes to its end to count them. With
    a `kind`, the model is a whole encoder-decoder; in cross attention, the places of blocks are those of `Behind`.

    >>> with Tap(model) as tap:                                              # doctest: +SKIP
    ...     tap.run(batch.model_inputs, consumer)
    """

    def __init__(self, model: Any, *, by_config: bool = True, kind: AttentionKind = AttentionKind.ONLY) -> None:
        super().__init__(model, None if kind is AttentionKind.ONLY else 0)
        self.kind = kind
        self._calls: Calls | None = None  # of an encoder-decoder, known from its first run on
        self.works = True
        """Whether the model calls the tap in every layer; known after the first run."""
        self._counted = by_config  # whether it is known that there are no more layers than the config says
        self._run: _Run | None = None

    def run(
        self, inputs: dict[str, Tensor], consume: Consumer, on_output: OnOutput | None = None, cut: Cut | None = None
    ) -> None:
        """Run the model on one batch as far as its last layer's weights; `on_output` may change what layers put out.

        With a `cut`, inputs of which a head's rows are no block are shown in ranges of queries.
        Shape: `inputs` are the model's, each [batch, token], of source or target.
        Raises: CaptureError if the architecture shows no attention in any way, or none of what its heads put out, or
        fails on this input.
        """
        taken = accepted(self.model, inputs)
        if self.kind is not AttentionKind.ONLY and self.works and self._calls is None:
            self._calls = calls_of(self.model, self.kind, taken["input_ids"].device)
            self.works = self._calls is not None
        with torch.inference_mode():
            if self.works:
                self.works = self._run_tapped(taken, consume, on_output, cut)
            if not self.works and on_output is not None:
                raise not_switchable(self.model)
            if not self.works:
                self._run_eager(taken, consume, cut)

    def _run_tapped(
        self,
        inputs: dict[str, Any],
        consume: Consumer,
        on_output: OnOutput | None,
        cut: Cut | None,
        by_rows: bool = True,
    ) -> bool:
        """Whether the model takes the tap; with `by_rows`, masks of long inputs are worked out range by range."""
        ids, on_cpu = inputs["input_ids"], _on_cpu(inputs["input_ids"])
        single = self.kind is AttentionKind.ONLY
        long = cut is not None and single and ids.shape[1] ** 2 > _most(_BLOCK, on_cpu=on_cpu)
        # Elsewhere padding costs less than the wait for its length, but no range of queries may be of padding.
        lengths = _sizes(inputs, self.kind) if on_cpu or long or not single else [(ids.shape[1],) * 2] * len(ids)
        fewest = min(values.numel() for name, values in inputs.items() if name.endswith("input_ids"))
        copies = -(-_LEAST_ROWS // fewest) if on_cpu else 1
        if copies > 1:
            inputs = {k: v.repeat(copies, 1) if isinstance(v, Tensor) else v for k, v in inputs.items()}
        self._run = run = _Run(consume, lengths, self.kind, on_output, cut, long=long, by_rows=long and by_rows)
        try:
            with attention_of(self.model, self.name):
                self.model(**inputs)  # even if it is not taken: Big Bird turns to full attention in its first run
                self._counted |= run.calls == self.layers
        except _Finished:
            return True
        except Untappable:
            return False
        except Exception as error:
            if run.consumer_failed:
                raise
            if not run.rules:
                raise failed(self.model, error) from error
        else:
            return run.calls == self.layers
        finally:
            self._run = None
        return self._run_tapped(inputs, consume, on_output, cut, by_rows=False)  # it does something with its masks

    def _mask(self, **arguments: Any) -> Tensor | None:
        """A mask of long inputs is a tensor without numbers, known by its id: its rows are worked out when needed."""
        run = self._run
        if run is None or not run.by_rows or arguments.get("use_vmap"):
            return super()._mask(**arguments)
        queries = arguments["q_length"] if "q_length" in arguments else len(arguments["cache_position"])
        shape = (arguments["batch_size"], 1, queries, arguments["kv_length"])
        mask = torch.empty(shape, dtype=arguments.get("dtype", torch.float32), device="meta")
        run.rules[id(mask)] = mask, partial(asked_rows, arguments)
        return mask

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
        run = self._run
        assert run is not None  # the model is under the tap's implementation during a run alone
        kind, layer = self._place(run.calls)
        if not is_answerable(module, layer, rest):
            raise Untappable
        if kind is not self.kind:
            run.calls += 1
            return plain_attention(module, query, key, value, attention_mask, {**rest, "scaling": scaling}), None
        if key.shape[2] != query.shape[2] and kind is not AttentionKind.CROSS:
            raise Untappable  # keys from elsewhere than the input
        groups = query.shape[1] // key.shape[1]
        key, value = (states.repeat_interleave(groups, dim=1) if groups > 1 else states for states in (key, value))
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        mask, bias = run.mask_of(attention_mask, query, key), rest.get("position_bias")
        grid = Grid.square(self.layers, query.shape[1]) if self._calls is None else self._calls.grid
        # Of padding, which no block reaches, the output is 0.
        empty = query.new_empty if min(run.lengths)[0] == query.shape[2] else query.new_zeros
        output = empty((*query.shape[:-1], value.shape[-1]))
        # On a CPU logits are products in float32 even of half precision: what has to be copied for them is small.
        raised = _on_cpu(query) and query.dtype.itemsize < torch.float32.itemsize
        # Scaling by a power of two moves no bit, and queries are fewer than logits.
        scaled_first = math.frexp(scaling)[0] == 0.5
        last = layer == self.layers - 1 and self._counted if self._calls is None else run.calls == self._calls.last
        for part in run.parts(query, mask):
            of_queries, of_keys = (part.inputs, part.heads, part.queries), (part.inputs, part.heads, part.keys)
            # The order of operations is that of eager attention, so that the two agree to the last bits.
            left, right = query[of_queries], key[of_keys]
            left, right = (left.float(), right.float()) if raised else (left, right)
            logits = torch.matmul(left * scaling if scaled_first else left, right.transpose(2, 3)).float()
            if not scaled_first:
                logits *= scaling
            if bias is not None:  # T5's, by distance. Shape: [1 or batch, head, query, key]
                logits += bias[part.inputs if len(bias) > 1 else slice(None), *of_queries[1:], part.keys]
            mask.add_to(logits, *of_queries, part.keys)
            weights = torch.softmax(logits, dim=-1)
            if not last and not part.preview:
                output[of_queries] = torch.matmul(weights.to(value.dtype), value[of_keys])
            every = (part.inputs, part.heads, slice(part.length))
            run.show(
                AttentionBlock(
                    grid,
                    layer,
                    part.inputs,
                    part.heads,
                    weights,
                    run.visible(mask),
                    query[of_queries],
                    key[every],
                    scaling,
                    logits,
                    value[every],
                    kind=kind,
                    preview=part.preview,
                    output=None if last or part.preview else output[of_queries],
                    shared=part.shared,
                    **part.place(kind),
                )
            )
        if last:
            raise _Finished
        output = output.transpose(1, 2)
        if run.on_output is not None:
            run.on_output(layer, output)
        run.calls += 1
        return output, None

    def _place(self, call: int) -> tuple[AttentionKind, int]:
        """The kind and layer of a call, by its number. Raises: Untappable if the model has more than are known."""
        places = self._calls.places if self._calls is not None else ()
        if call == (len(places) or self.layers):
            raise Untappable  # a caller has added layers, of which the config knows nothing
        return places[call] if places else (self.kind, call)

    def _run_eager(self, inputs: dict[str, Any], consume: Consumer, cut: Cut | None) -> None:
        """Run inputs without their padding, neighbours of one length together: ConvBERT's convolution reaches it."""
        lengths, start = _sizes(inputs, self.kind), 0
        run = _Run(consume, lengths, self.kind)
        whole = (len(lengths), *(inputs[f"{of}input_ids"].shape[1] for of in _TEXTS[self.kind]))
        everything = Mask.of(None, whole, inputs["input_ids"].device, lengths)
        for sizes, some in itertools.groupby(lengths):
            part = slice(start, start := start + len(list(some)))
            every_layer = shown_weights(self.model, _without_padding(inputs, part, self.kind), self.kind, sizes)
            grid = Grid(((self.kind, len(every_layer), every_layer[0].shape[1]),))
            visible = torch.zeros(0)
            for layer, weights in enumerate(every_layer):
                heads, cross = slice(0, weights.shape[1]), self.kind is AttentionKind.CROSS
                if not cross:
                    own_visible = weights.new_zeros(*whole, dtype=torch.bool)
                    own_visible[part, : sizes[0], : sizes[1]] = visible_keys(weights, None)
                    visible = same_or(visible, own_visible)
                seen = run.visible(everything) if cross else visible  # cross attention sees the whole source
                given = (weights.float(), seen, None, None, None, None)
                place = _Part(part, heads, sizes[1], slice(sizes[0]), slice(sizes[1])).place(self.kind)
                block = AttentionBlock(grid, layer, part, heads, *given, kind=self.kind, **place)
                for shown in (block,) if cut is None or cross else cut.cut(block, MOST_CELLS):
                    consume(shown)


@dataclass(frozen=True)
class _Part:
    """What a block is of: some inputs of one length, some heads, some queries and the keys that these see."""

    inputs: slice
    heads: slice
    length: int
    queries: slice
    keys: slice
    is_range: bool = False
    preview: bool = False
    shared: dict[str, Tensor] = field(default_factory=dict)

    def place(self, kind: AttentionKind) -> dict[str, Any]:
        """Where the rows and columns of its block stand; in cross attention, a target's tokens behind its source's."""
        if kind is AttentionKind.CROSS:
            target, source = self.queries.stop, self.keys.stop
            rows = {"queries": slice(source, source + target), "keys": slice(0, source), "begins": source}
            return {**rows, "length": source + target}
        ranges = {"queries": self.queries, "keys": self.keys} if self.is_range else {}
        return {**ranges, "length": self.length}


@dataclass
class _Run:
    """One forward pass under the tap."""

    consume: Consumer
    lengths: list[tuple[int, int]]
    """How many queries and keys each input has, without the padding at its end."""
    kind: AttentionKind
    on_output: OnOutput | None = None
    cut: Cut | None = None
    long: bool = False
    """Whether masks are too large to be whole."""
    by_rows: bool = False
    """Whether masks are asked for row by row."""
    rules: dict[int, tuple[Tensor, Callable[[slice], Tensor]]] = field(default_factory=dict)
    """Of a mask without numbers, by its id: itself, and what gives its rows."""
    calls: int = 0
    """How often the attention function was called; where there is a single kind of attention, layers."""
    consumer_failed: bool = False
    masks: dict[int, Mask | MaskRows] = field(default_factory=dict)
    behind: dict[int, Behind] = field(default_factory=dict)
    """In cross attention what is visible, by the id of the mask."""

    def show(self, block: AttentionBlock) -> None:
        """Hand a block over, and remember whose fault it is if that fails."""
        try:
            self.consume(block)
        except Exception:
            self.consumer_failed = True
            raise

    def mask_of(self, mask: Tensor | None, query: Tensor, key: Tensor) -> Mask | MaskRows:
        """What is to be known of a mask, worked out once for all layers that share it."""
        if id(mask) not in self.masks:
            self.masks[id(mask)] = self._mask(mask, (query.shape[0], query.shape[2], key.shape[2]), query.device)
        return self.masks[id(mask)]

    def visible(self, mask: Mask | MaskRows) -> Visible:
        """Which keys each query sees, by places of blocks: one object a mask."""
        if self.kind is not AttentionKind.CROSS:
            return mask.visible
        assert isinstance(mask, Mask)
        if id(mask) not in self.behind:
            self.behind[id(mask)] = Behind(mask.visible, self.lengths)
        return self.behind[id(mask)]

    def _mask(self, mask: Tensor | None, shape: tuple[int, int, int], device: torch.device) -> Mask | MaskRows:
        if mask is None or not self.long:
            return Mask.of(mask, shape, device, self.lengths)
        if mask.shape[-1] != shape[2] or mask.shape[-2] not in (1, shape[1]):
            raise Untappable
        given = self.rules[id(mask)][1] if mask.device.type == "meta" else partial(_rows, mask)
        return MaskRows(given, shape, device, [length for length, _ in self.lengths])

    def parts(self, query: Tensor, mask: Mask | MaskRows) -> Iterator[_Part]:
        """Cut a layer's weights into blocks that fit the cache; of long inputs, into ranges of queries."""
        on_cpu = _on_cpu(query)
        cache, heads = _most(_BLOCK, on_cpu=on_cpu), query.shape[1]
        for inputs, some, (length, keys_of_each) in _blocks(self.lengths, heads, cache):
            if self.cut is None or length * keys_of_each <= cache or self.kind is AttentionKind.CROSS:
                yield _Part(inputs, some, keys_of_each, slice(length), slice(keys_of_each))
                continue
            if some.start:
                continue  # its ranges are of all heads
            most = _most(MOST_CELLS, on_cpu=on_cpu)
            for number in range(inputs.start, inputs.stop):
                rows = rows_of(most, heads, length)
                if isinstance(mask, MaskRows):  # of a window, as many queries as there are keys beside them
                    width = mask.width(number, rows, length)
                    rows = max(rows, min(width - rows, rows_of(most, heads, 2 * width)))
                shared: dict[str, Tensor] = {}
                for preview in (True, False) if self.cut.previews else (False,):
                    for queries in self.cut.ranges(number, length, rows):
                        keys = slice(0, length)
                        if isinstance(mask, MaskRows):
                            keys = self.cut.whole_words(number, length, mask.seen(number, queries, length))
                        single, every = slice(number, number + 1), slice(0, heads)
                        yield _Part(single, every, length, queries, keys, True, preview, shared)


class _Finished(Exception):
    """The last layer's weights are read: ends the forward pass."""


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


def _rows(mask: Tensor, queries: slice) -> Tensor:
    """Some rows of a mask that the model gave whole."""
    return mask if mask.shape[-2] == 1 else mask[..., queries, :]


def _on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _most(on_a_cpu: int, *, on_cpu: bool) -> int:
    """How many weights a block may have."""
    return on_a_cpu if on_cpu else _ON_DEVICE


def _blocks(lengths: list[tuple[int, int]], heads: int, cache: int) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Cut a layer's weights into blocks of inputs of one size that fit the cache: inputs, heads, queries and keys."""
    start = 0
    for size, run in itertools.groupby(lengths):
        stop, cells = start + len(list(run)), math.prod(size)
        some_inputs = max(1, cache // (heads * cells))
        # how heads are cut depends on the size alone: an input's sums must not depend on those beside it
        some_heads = max(1, min(heads, cache // cells))
        for i in range(start, stop, some_inputs):
            for h in range(0, heads, some_heads):
                yield slice(i, min(i + some_inputs, stop)), slice(h, min(h + some_heads, heads)), size
        start = stop


def shown_weights(
    model: Any,
    inputs: dict[str, Any],
    kind: AttentionKind = AttentionKind.ONLY,
    sizes: tuple[int, int] | None = None,
) -> list[Tensor]:
    """Run a model on inputs without padding; the weights of every layer of a kind, as it shows them itself.

    Shape: `inputs` are the model's, each [batch, token] -> each [batch, head, query, key], in its number format; of so
    many queries and keys as `sizes` says, or as there are tokens.
    Raises: CaptureError, which names the architecture, if it fails or shows anything else.
    """
    try:
        with attention_of(model, "eager") as took:
            output = model(**inputs, output_attentions=True) if took else {}
    except Exception as error:
        raise failed(model, error) from error
    names = ("attentions", "encoder_attentions") if kind is AttentionKind.ONLY else (shown_as(kind),)
    shown = next((output[name] for name in names if output.get(name)), ())
    every_layer = [weights for weights in shown if weights is not None]
    if not every_layer:
        raise refused(model, "shows no attention weights")
    if len(every_layer) < len(shown):
        raise refused(model, f"shows attention weights in {len(every_layer)} of its {len(shown)} layers alone")
    batch, length = inputs["input_ids"].shape
    queries, keys = sizes or (length, length)
    heads = every_layer[0].shape[1] if isinstance(every_layer[0], Tensor) else 0
    for layer, weights in enumerate(every_layer):
        if not isinstance(weights, Tensor) or weights.shape != (batch, heads, queries, keys):
            shape = f"of shape {list(weights.shape)}" if isinstance(weights, Tensor) else "in parts"
            raise refused(
                model,
                f"shows weights {shape} in layer {layer}, where each of {queries} tokens should look at each"
                + ("" if queries == keys else f" of {keys}"),
            )
        rows = weights.float()
        tolerance = _ROW_TOLERANCE if weights.dtype.itemsize > 2 else _HALF_ROW_TOLERANCE
        if not rows.isfinite().all():
            continue  # a damaged checkpoint, as who scores it says
        if rows.min() < 0 or (rows.sum(-1) - 1).abs().max() > tolerance:
            raise refused(model, f"shows numbers in layer {layer} that are not a softmax over the tokens")
    return every_layer
