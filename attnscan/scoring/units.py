"""A batch by its scored units: attention between words, the targets that patterns set, and sums.

Attention to a word is the sum over its pieces, from it the mean. Sums are made in float64: so those
of an input do not depend on the inputs beside it.
"""

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.errors import AttnscanError, OptionError, out_of_memory
from attnscan.inputs.batch import EncodedBatch
from attnscan.model.attention_block import AttentionBlock, seen_keys
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.results.predictions import WordDependencies
from attnscan.results.scores import FloatArray
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import Pattern

T = TypeVar("T")
CELLS = 1 << 20
"""Weights of a head and an input that are measured at a time: of 8,192 keys, 128 queries."""
MAX_WORD_BLOCKS = 512
"""Blocks of one input's words: with one each, sums of 8,192 words and 264 heads would take 3 GB."""


MARKS = ("any", "words", "start", "middle", "end", "frequent", "rare")
"""Marks of keys: of all; of words; of special tokens before, between and behind the words; of words
of two kinds."""

ANY = MARKS.index("any")
WORDS = MARKS.index("words")


class _UnitPlaces(NamedTuple):
    """Where the tokens of a block belong. Padding belongs to one unit more than there are."""

    query: Tensor
    """The unit of each token that looks. Shape: [input, 1, query token, 1]."""
    key: Tensor
    """The unit of each token that is looked at. Shape: [input, 1, 1, key token]."""
    tokens: Tensor
    """How many tokens each query has, at least 1. Shape: [input, 1, query, 1], float32."""
    queries: int
    keys: int


@dataclass(frozen=True)
class UnitBlock:
    """Attention by units: some inputs, some heads of a layer, some or all queries, whole rows."""

    token_block: AttentionBlock
    """These inputs' alone."""
    batch: EncodedBatch
    """These inputs by units under the block's mask, with the units that are queries and keys."""
    rows: slice
    """The tokens that are queries."""
    columns: slice
    """The tokens that are keys: of a long input those that any of the queries sees."""
    cache: dict[str, Any]
    """Values that all layers of one mask share."""

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` computes from the mask and these queries, once for all its layers."""
        if name not in self.cache:
            self.cache[name] = make()
        return cast(T, self.cache[name])

    def by_units(self, weights: Tensor) -> Tensor:
        """Shape: [input, head, query token, key token] -> [input, head, query, key]."""
        if self.batch.unit is None:
            return weights
        if weights.shape[3] <= _most_tokens_multiplied(weights.device):
            return self._multiply_by_units(weights)
        places = self.cached("unit places", self._unit_places)
        inputs, heads, rows, _ = weights.shape
        to_units = weights.new_zeros(inputs, heads, rows, places.keys + 1)
        to_units.scatter_add_(3, places.key.expand_as(weights), weights)
        summed = weights.new_zeros(inputs, heads, places.queries + 1, places.keys + 1)
        summed.scatter_add_(2, places.query.expand_as(to_units), to_units)
        return summed[:, :, : places.queries, : places.keys] / places.tokens

    def _multiply_by_units(self, weights: Tensor) -> Tensor:
        """What `by_units` returns, by two products: faster than `scatter_add_` for short inputs."""
        heads = weights.shape[1]
        make = partial(self._membership, heads)
        is_of_unit, share_of_unit = self.cached(f"membership of {heads} heads", make)
        summed = weights.flatten(1, 2) @ is_of_unit
        return share_of_unit @ summed.view(*weights.shape[:3], -1)

    def _membership(self, heads: int) -> tuple[Tensor, Tensor]:
        """Of which unit each key is, and each query's share of its unit.

        Shape: [input, key token, key], 0 or 1; [input, head, query, query token].
        """
        places = self._unit_places()
        keys = torch.arange(places.keys, device=places.key.device)
        queries = torch.arange(places.queries, device=places.key.device)
        is_of_unit = places.key[:, 0, 0, :, None] == keys
        is_of_query = places.query[:, 0, None, :, 0] == queries[:, None]
        share_of_unit = is_of_query / places.tokens[:, 0]
        return is_of_unit.float(), share_of_unit[:, None].repeat(1, heads, 1, 1)

    def _unit_places(self) -> _UnitPlaces:
        assert self.batch.unit is not None
        units = range(self.batch.word.shape[1])
        queries = units[self.batch.queries]
        keys = units[self.batch.keys]
        query = _places(self.batch.unit[:, self.rows], queries)
        tokens = torch.zeros(len(query), len(queries) + 1, device=query.device)
        tokens.scatter_add_(1, query, torch.ones_like(query, dtype=tokens.dtype))
        return _UnitPlaces(
            query=query[:, None, :, None],
            key=_places(self.batch.unit[:, self.columns], keys)[:, None, None],
            tokens=tokens[:, None, :-1, None].clip(1),
            queries=len(queries),
            keys=len(keys),
        )

    @property
    def heads(self) -> int:
        """How many heads the block has."""
        return self.token_block.weights.shape[1]

    @property
    def weights(self) -> Tensor:
        """Shape: [input, head, query, key]."""
        return self.weights_and_even[:, : self.heads]

    @property
    def is_carried(self) -> bool:
        """Whether this is what heads carry, with what even attention would carry behind it."""
        return self.token_block.weights_and_even is not None

    @property
    def even_carried(self) -> Tensor | None:
        """What heads would carry if they attended evenly; None of weights.

        Shape: [input, head, query, key], float32.
        """
        return self.weights_and_even[:, self.heads :] if self.is_carried else None

    @cached_property
    def weights_and_even(self) -> Tensor:
        """Weights; of what heads carry, `even_carried` behind them, as if of as many heads more.

        Shape: [input, head or twice as many, query, key].
        """
        first = self.token_block.rows.start
        rows = slice(self.rows.start - first, self.rows.stop - first)
        weights = self.token_block.weights_and_even
        if weights is None:
            weights = self.token_block.weights
        return self.by_units(weights[:, :, rows, self.columns])

    @cached_property
    def marked(self) -> Tensor:
        """What `weights_and_even` have on keys by their marks.

        Shape: [input, head or twice as many, query, mark].
        """
        return self.on_marks(self.weights_and_even)

    @cached_property
    def has_weight(self) -> Tensor:
        """Which rows of `weights_and_even` have weight on any key, and which have some on words.

        Shape: [input, head or twice as many, query, 2], bool.
        """
        return self.marked[..., : WORDS + 1] >= MIN_ON_WORDS

    @cached_property
    def word_scale(self) -> Tensor:
        """By what rows of `weights_and_even` are multiplied so that weights on words sum to 1.

        0 without weight on words. Shape: [input, head or twice as many, query].
        """
        return self.has_weight[..., 1] / self.marked[..., WORDS].clip(MIN_ON_WORDS)

    def on_marks(self, weights: Tensor) -> Tensor:
        """What rows have on all keys, on words and on special tokens, the latter by their place,
        and on words that are frequent, or rare.

        Shape: `weights` [input, head, query, key] -> [input, head, query, mark], as in `MARKS`.
        """
        heads = weights.shape[1]
        return weights @ self.cached(f"marks of {heads} heads", partial(self._marks, heads))

    def _marks(self, heads: int) -> Tensor:
        """The marks of keys, 0 or 1. Shape: [input, head, key, mark]."""
        batch = self.batch
        frequent = torch.zeros_like(batch.word)
        rare = frequent
        if batch.frequent is not None:
            frequent = batch.frequent
            rare = batch.word & ~frequent & ~batch.punctuation
        every = torch.ones_like(batch.word)
        marks = torch.stack([every, batch.key_word, *batch.delimiters, frequent, rare], -1)
        return repeat_for_heads(marks[:, batch.keys], heads)

    @cached_property
    def row_factors(self) -> Tensor:
        """1 for heads' rows with weight on any key and, beside it, for those with some on words.

        Of other rows 0. Shape: [input, head, 2, query], of `accumulation_dtype`.
        """
        has_weight = self.has_weight[:, : self.heads].mT
        dtype = accumulation_dtype(has_weight.device)
        return has_weight.to(dtype, memory_format=torch.contiguous_format)

    @property
    def takes(self) -> Tensor:
        """Which queries are words and have weight on any key. Shape: [input, head, query], bool."""
        return self.has_weight[:, : self.heads, :, 0] & self.query_word

    @property
    def query_word(self) -> Tensor:
        """Which queries are words. Shape: [input, 1, query], bool."""
        return self.batch.query_word[:, None, self.batch.queries]

    @property
    def even(self) -> Tensor:
        """Even attention over the keys that may be seen. Shape: [input, 1, query, key], float32."""
        block = self.token_block
        visible = block.visible[block.inputs, None, self.rows, self.columns].float()
        return self.by_units(visible / visible.sum(-1, keepdim=True).clip(1))


def _most_tokens_multiplied(device: torch.device) -> int:
    """Up to what length of inputs units are summed by products and not one by one."""
    return 128 if device.type == "cpu" else 1024


def repeat_for_heads(values: Tensor, heads: int) -> Tensor:
    """Values as every head is multiplied by them: a product would repeat them each time.

    Shape: [input, key, column] -> [input, head, key, column], float32.
    """
    return values[:, None].float().repeat(1, heads, 1, 1)


def _places(unit: Tensor, units: range) -> Tensor:
    """The places of tokens in a range of units, their number for padding. Shape: [input, token]."""
    return torch.where(unit >= 0, unit - units.start, len(units))


class _UnderMask(NamedTuple):
    """Some inputs under a mask, and what follows from it."""

    visible: Tensor
    """Kept alive, so that its id stays its own."""
    batch: EncodedBatch
    cache: dict[str, Any]


class Units:
    """A batch by its units. By query, sums are made of each word of its single input."""

    def __init__(self, batch: EncodedBatch, *, by_query: bool = False) -> None:
        self.batch = batch
        self.by_query = by_query
        self._cache: dict[tuple[int, ...], _UnderMask] = {}
        self._seen: dict[tuple[int, int], list[slice]] = {}
        self._scratch: list[Tensor] = []
        self._renormalised: weakref.ref[UnitBlock] | None = None
        """The block that `among_words` was made of; its weights are not kept alive."""

    def scratch(self, number: int, *shape: int) -> Tensor:
        """Memory of a shape, whatever it holds, in float32: new memory falls out of the cache.

        Of one number it is the same each time.
        """
        cells = math.prod(shape)
        while len(self._scratch) <= number:
            self._scratch.append(torch.empty(0, device=self.batch.word.device))
        if len(self._scratch[number]) < cells:
            self._scratch[number] = torch.empty(cells, device=self.batch.word.device)
        return self._scratch[number][:cells].view(shape)

    def among_words(self, block: UnitBlock) -> Tensor:
        """The block's `weights_and_even`, renormalised so that weights on words sum to 1.

        Scorers that take a block one after the other share it. It stays until another's is asked.
        Shape: [input, head or twice as many, query, key].
        """
        renormalised = self.scratch(1, *block.weights_and_even.shape)
        if self._renormalised is None or self._renormalised() is not block:
            scale = block.word_scale[..., None]
            torch.mul(block.weights_and_even, scale, out=renormalised)
            self._renormalised = weakref.ref(block)
        return renormalised

    def blocks(self, block: AttentionBlock, *, all_queries: bool = False) -> list[list[UnitBlock]]:
        """Split a block of tokens into blocks of units.

        A long input has several ranges of queries, in one list; with `all_queries`, a single range.
        """
        queries = block.weights.shape[2]
        most = queries if all_queries else max(1, CELLS // block.weights.shape[3])
        # Where ranges of queries begin, or the target behind its source, inputs differ by word
        is_in_ranges = queries > most or block.rows.start > 0
        inputs = range(len(self.batch))[block.inputs]
        return [
            self._parts(block, alike, most) for alike in self._alike(inputs, alone=is_in_ranges)
        ]

    def _alike(self, inputs: range, *, alone: bool) -> list[slice]:
        """Split inputs into neighbours that are taken together.

        If words have several tokens, these are `alone`, or have equally many words: the sums of an
        input do not depend on the inputs beside it. On another device than a CPU padding costs less
        than to take them apart.
        """
        on_cpu = self.batch.word.device.type == "cpu"
        if self.batch.unit is None or not (alone or on_cpu):
            return [slice(inputs.start, inputs.stop)]
        starts = [inputs.start]
        for number in inputs[1:]:
            before, encoded = self.batch.inputs[number - 1 : number + 1]
            if alone or len(before.units) != len(encoded.units):
                starts.append(number)
        stops = [*starts[1:], inputs.stop]
        return [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]

    def _parts(self, block: AttentionBlock, inputs: slice, most: int) -> list[UnitBlock]:
        """Split some inputs of a block into ranges of at most so many queries."""
        start = range(len(self.batch))[block.inputs].start
        places = slice(inputs.start - start, inputs.stop - start)
        both = block.weights_and_even
        token_block = replace(
            block,
            inputs=inputs,
            weights=block.weights[places],
            weights_and_even=None if both is None else both[places],
        )
        ranges = self._row_ranges(block.rows, inputs.start, most)
        columns_of_ranges = [block.columns]
        if len(ranges) > 1:
            columns_of_ranges = self._seen_columns(block, inputs, ranges)
        parts = []
        for rows, columns in zip(ranges, columns_of_ranges, strict=True):
            under_mask = self._under_mask(block, inputs, rows, columns)
            unit_block = UnitBlock(
                token_block=token_block,
                batch=under_mask.batch,
                rows=rows,
                columns=columns,
                cache=under_mask.cache,
            )
            parts.append(unit_block)
        return parts

    def _seen_columns(
        self, block: AttentionBlock, inputs: slice, ranges: list[slice]
    ) -> list[slice]:
        """The keys that each range of queries sees, once for all layers with the block's mask.

        They cut no word in two.
        """
        key = (id(block.visible), inputs.start)
        if key not in self._seen:
            columns = seen_keys(block.visible[inputs, :, block.columns], ranges)
            if self.batch.unit is not None:
                unit = self.batch.inputs[inputs.start].unit
                columns = [_whole_units(unit, tokens) for tokens in columns]
            self._seen[key] = columns
        return self._seen[key]

    def _row_ranges(self, rows: slice, number: int, most: int) -> list[slice]:
        """Split the tokens of an input into ranges that cut no word in two."""
        starts = list(range(rows.start, rows.stop, most))
        stop = rows.stop
        if self.batch.unit is not None and len(starts) > 1:
            unit = self.batch.inputs[number].unit
            stop = min(stop, len(unit))  # padding behind a shorter input is in no range
            first_tokens = [unit.index(unit[start]) for start in starts if start < stop]
            starts = list(dict.fromkeys(first_tokens))  # a word may be longer than a range
        stops = [*starts[1:], stop]
        return [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]

    def _under_mask(
        self, block: AttentionBlock, inputs: slice, rows: slice, columns: slice
    ) -> _UnderMask:
        """Some inputs, queries and keys under the mask of a block, once for all layers with it."""
        ends = (inputs.start, inputs.stop, rows.start, rows.stop, columns.start, columns.stop)
        key = (*ends, id(block.visible))
        if key not in self._cache:
            visible = block.visible[inputs, rows, columns]
            batch = self.batch.with_mask(visible, inputs, rows, columns)
            self._cache[key] = _UnderMask(block.visible, batch, {})
        return self._cache[key]


def _whole_units(unit: Sequence[int], tokens: slice) -> slice:
    """A range of tokens and, at both its ends, the other tokens of their units."""
    stop = min(tokens.stop, len(unit))  # padding behind a shorter input is in no range
    last = unit[stop - 1]
    while stop < len(unit) and unit[stop] == last:
        stop += 1
    return slice(unit.index(unit[tokens.start]), stop)


class UnitConsumer(Protocol):
    """Takes attention between units."""

    all_queries: bool
    """Whether it needs all queries of a block at once."""

    def take(self, parts: Sequence[UnitBlock]) -> None:
        """Take some inputs of a block, which may be split into ranges of queries."""


def show_units(units: Units, consumers: Sequence[UnitConsumer], block: AttentionBlock) -> None:
    """Split a block into units, once for all consumers that take the same ranges of queries."""
    for all_queries in (False, True):
        takers = [consumer for consumer in consumers if consumer.all_queries is all_queries]
        if takers:
            for parts in units.blocks(block, all_queries=all_queries):
                for taker in takers:
                    taker.take(parts)


class BatchSums:
    """Named sums of each input of a batch or, by query, of one input's words or blocks of these.

    The columns of all names stand side by side in one tensor, so that what a device adds and copies
    comes in one piece.
    """

    def __init__(self, units: Units) -> None:
        self._by_query = units.by_query
        self._columns: dict[str, int] = {}
        self._totals: Tensor | None = None
        self._count = len(units.batch)
        if self._by_query:
            (word,) = units.batch.query_word
            words = int(word.sum())
            blocks = min(words, MAX_WORD_BLOCKS)
            number = (word.cumsum(0) - 1) * blocks // max(1, words)
            # Of each query, from 1 on: a block for each word, or for neighbours; 0 of no words
            self._block_of_query = (number + 1) * word
            self._count = blocks + 1

    def weigh(self, factors: Tensor, values: Tensor) -> Tensor:
        """Multiply the values of each query by its factors, and sum over queries.

        By query, they are left apart.
        Shape: `factors` [input, head, factor, query], `values` [input, head or 1, query, column]
        -> [input, head, query or 1, factor and column].
        """
        if self._by_query:
            return (factors.mT[..., None] * values[..., None, :]).flatten(3)
        if values.shape[1] == 1:
            weighed = factors.flatten(1, 2) @ values[:, 0]
            return weighed.reshape(*factors.shape[:2], 1, -1)
        return (factors @ values).flatten(2)[:, :, None]

    def add(
        self,
        block: UnitBlock,
        sums: Mapping[str, Tensor],
        rows: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        """Add the sums of a block, and of all its `rows`; the same names each time.

        Shape: `sums` each [input, head, query or 1, column], by query or summed over queries;
        `rows` each [input, head, query, column].
        """
        token_block = block.token_block
        dtype = accumulation_dtype(block.weights.device)
        if self._by_query:
            parts = [values.to(dtype) for values in (*sums.values(), *rows.values())]
        else:
            parts = [values[:, :, 0].to(dtype) for values in sums.values()]
            if rows:  # together: a launch costs a device more than a copy
                parts.append(torch.cat(list(rows.values()), -1).sum(2, dtype=dtype))
        values = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        if self._totals is None:
            self._columns = {name: part.shape[-1] for name, part in {**sums, **rows}.items()}
            shape = (self._count, *token_block.grid.shape, values.shape[-1])
            self._totals = values.new_zeros(shape)
        totals = self._totals[:, token_block.layer, token_block.heads]
        if self._by_query:
            totals.index_add_(
                0, self._block_of_query[block.batch.queries], values[0].transpose(0, 1)
            )
        else:
            totals[token_block.inputs].add_(values)

    def arrays(self) -> dict[str, FloatArray]:
        """Sums of each input or, by query, each word or block of words.

        Shape: each [unit, layer, head, column].
        """
        assert self._totals is not None
        totals = self._totals.cpu().numpy().astype(np.float64, copy=False)
        if self._by_query:
            totals = totals[1:]
        ends = np.cumsum(list(self._columns.values()))
        return dict(zip(self._columns, np.split(totals, ends[:-1], axis=-1), strict=True))


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """Float64, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(frozen=True)
class Targets:
    """Patterns applied to one batch, under whatever mask a layer has.

    What a query cannot see is no target of it.
    """

    batch: EncodedBatch
    patterns: Sequence[Pattern]
    word_dependencies: Sequence[WordDependencies] = ()
    """Of each input, for the pattern that only the model can tell; without, no query counts."""
    only: Sequence[str] | None = None
    """The patterns that count; None for all. For the others no query is eligible."""
    by_query: bool = False
    """Whether the queries of the batch's single input are measured one by one."""

    @cached_property
    def units(self) -> Units:
        """The batch by its units."""
        return Units(self.batch, by_query=self.by_query)

    def by_layer(
        self, visible: NDArray[np.bool_], rows: Sequence[int] | None = None
    ) -> tuple[NDArray[np.float32], ...]:
        """The targets of the batch's single input under each layer's mask; layers may share one.

        Of some neighbouring `rows` alone if these are given.
        Shape: `visible` [layer, query, key], of tokens -> of each layer [pattern, query, key], of
        units, in [0, 1].
        """
        queries = slice(None)
        if rows is not None:
            queries = slice(rows[0], rows[-1] + 1)
        targets_by_mask: dict[bytes, NDArray[np.float32]] = {}
        for mask in visible:
            key = mask.tobytes()
            if key not in targets_by_mask:
                tokens_seen = torch.from_numpy(mask)[None].to(self.batch.word.device)
                columns = slice(0, tokens_seen.shape[2])
                batch = self.batch.with_mask(tokens_seen, slice(0, 1), queries, columns)
                targets = [target.float() for target in self.of(batch)]
                targets_by_mask[key] = torch.cat(targets).cpu().numpy()
        return tuple(targets_by_mask[mask.tobytes()] for mask in visible)

    def of(self, batch: EncodedBatch) -> list[Tensor]:
        """The target of each pattern for some of the batch's inputs, as `with_mask` gives them.

        Shape: each [batch, query, key], bool or float in [0, 1]; a query with a zero row is not
        eligible.
        Raises: OptionError if a pattern that is not ours gives no target of this batch.
        """
        targets = []
        for pattern in self.patterns:
            matrix = self._target(pattern, batch)
            if batch.visible is not None and matrix.dtype == torch.bool:
                matrix = matrix & batch.visible
            elif batch.visible is not None:
                matrix = matrix * batch.visible
            if pattern.even:
                keys = matrix != 0
                matrix = keys / keys.sum(-1, keepdim=True).clip(1)
            targets.append(matrix)
        return targets

    def _target(self, pattern: Pattern, batch: EncodedBatch) -> Tensor:
        """The target of a pattern, whatever may be seen. Shape: [batch, query, key]."""
        if self.only is not None and pattern.id not in self.only:
            return torch.zeros_like(batch.same_sentence)
        if pattern.target is None:
            return self._helpers(batch)
        if pattern in ALL_PATTERNS:
            return pattern.target(batch)
        return _call_user_pattern(pattern, batch)

    def _helpers(self, batch: EncodedBatch) -> Tensor:
        """The target of `predictive`, from the help that the model measured."""
        if not self.word_dependencies:
            return torch.zeros_like(batch.same_sentence)
        units = range(batch.word.shape[1])
        queries = units[batch.queries]
        keys = units[batch.keys]
        by_input = {
            id(encoded): dependencies
            for encoded, dependencies in zip(
                self.batch.inputs, self.word_dependencies, strict=False
            )
        }
        targets = np.zeros((len(batch), len(queries), len(keys)), np.float32)
        for target, encoded in zip(targets, batch.inputs, strict=True):
            if id(encoded) in by_input:
                dependencies = by_input[id(encoded)]
                places = np.array(dependencies.places, int)
                is_query = (places >= queries.start) & (places < queries.stop)
                is_key = (places >= keys.start) & (places < keys.stop)
                cells = np.ix_(places[is_query] - queries.start, places[is_key] - keys.start)
                target[cells] = dependencies.shares[np.ix_(is_query, is_key)]
        return torch.from_numpy(targets).to(batch.word.device)


def _call_user_pattern(pattern: Pattern, batch: EncodedBatch) -> Tensor:
    """Call a user's pattern on whole inputs, and check the target that it returns.

    Raises: OptionError if it is no target of this batch.
    """
    assert pattern.target is not None
    remedy = "return a tensor [batch, query, key] of bool, or of numbers from 0 to 1"
    every_unit = slice(None)
    visible = None
    if batch.visible is not None:
        visible = torch.zeros_like(batch.word)[:, :, None] & batch.word[:, None]
        visible[:, batch.queries, batch.keys] = batch.visible
    whole = replace(batch, queries=every_unit, keys=every_unit, visible=visible)
    try:
        matrix = pattern.target(whole)
    except Exception as error:
        if isinstance(error, AttnscanError) or out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise OptionError(
            f"the function of pattern '{pattern.id}' fails: {reason}", remedy
        ) from error
    shape = [*batch.word.shape, batch.word.shape[1]]
    if not isinstance(matrix, Tensor) or list(matrix.shape) != shape:
        received = type(matrix).__name__
        if isinstance(matrix, Tensor):
            received = f"target of shape {list(matrix.shape)}"
        raise OptionError(
            f"pattern '{pattern.id}' gives a {received}, not one of shape {shape}", remedy
        )
    dtype = torch.bool if matrix.dtype == torch.bool else torch.float32
    target = matrix.to(batch.word.device, dtype)
    if not ((target >= 0) & (target <= 1)).all():
        raise OptionError(f"pattern '{pattern.id}' gives numbers outside [0, 1]", remedy)
    return target[:, batch.queries, batch.keys]
