"""Which weights of one input are asked for, and these: of some heads, from some tokens to some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, SelectionError
from attnscan.inputs.encode import token_named
from attnscan.results.attention import Attention, Chosen
from attnscan.results.heads import HeadScores
from attnscan.results.terms import Grid, Head, Side, signed_frame
from attnscan.results.terms import pandas as pd

MOST_DRAWN = 2048  # tokens of a picture or a page: a head's weights are drawn in four million cells


@dataclass(frozen=True)
class Selection:
    """Which part of an input's attention is asked for."""

    heads: str | None = None  # by their names; None for all, as one array by layer and head
    token: str | None = None  # the only query: a token's text, its index, or `store#2`
    from_: Side | None = None  # the sentence of the queries
    to: Side | None = None  # the sentence of the keys
    window: tuple[int, int] | None = None  # first and last token of the queries and keys; of cross attention, the keys
    is_drawn: bool = False  # whether it is drawn token by token, in a picture or on a page

    def cells(
        self, tokens: Sequence[str], segments: Sequence[int], source: int = 0
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The queries and the keys, by their indices; of cross attention, the first `source` tokens are the keys.

        Raises: OptionError, SelectionError for tokens that are not there.
        """
        if source and (self.from_ or self.to):
            what = "in cross attention the target asks and the source is read"
            raise OptionError(what, "leave out the sentences to look from and to")
        keys = _within(range(source or len(tokens)), segments, self.to, self.window)
        if self.token is not None:
            named = [source + token_named(self.token, tokens[source:])]
            return _within(named, segments, self.from_, None), keys
        return _within(range(source, len(tokens)), segments, self.from_, None if source else self.window), keys

    def chosen(
        self, grid: Grid, tokens: Sequence[str], segments: Sequence[int], unit: Sequence[int], source: int = 0
    ) -> Chosen:
        """What is to be kept of a model's heads: whole rows, of all pieces of words. Raises: as `cells`."""
        queries, _ = self.cells(tokens, segments, 0 if self.is_drawn else source)
        heads = None if self.heads is None else tuple(grid.select(self.heads))
        if unit:
            words = {unit[query] for query in queries}
            queries = tuple(token for token, word in enumerate(unit) if word in words)
        if self.is_drawn:
            check_drawn(len(queries))
        return Chosen(grid, queries, heads)

    def cut(self, result: HeadScores) -> HeadScores:
        """A result that keeps this part of its attention, which is whole. Raises: as `cells`."""
        attention = result.kept_attention()
        chosen = self.chosen(attention.grid, attention.tokens, attention.segments, attention.unit)
        unit = attention.unit or range(len(attention.tokens))
        rows = slice(unit[chosen.rows[0]], unit[chosen.rows[-1]] + 1)
        targets = [target[:, rows] for target in result.targets] if chosen.heads is None else ()
        return replace(result, attention=attention.only(chosen), targets=targets)

    def of(self, result: HeadScores, *, average: bool) -> HeadWeights:
        """The weights, from a result that has kept them."""
        attention = result.kept_attention()
        cells = self.cells(attention.tokens, attention.segments, attention.source)
        return HeadWeights(result, tuple(attention.grid.select(self.heads or "all")), average, *cells)


def check_drawn(tokens: int, remedy: str = "choose a passage of at most 2,048, as in --window 0-2047") -> None:
    """Raises: SelectionError for more tokens than are drawn one by one."""
    if tokens > MOST_DRAWN:
        raise SelectionError(f"{tokens:,} tokens are too many to be drawn one by one", remedy)


def _within(
    places: Iterable[int], segments: Sequence[int], sentence: Side | None, window: tuple[int, int] | None
) -> tuple[int, ...]:
    """The places of a sentence within a window of indices, both ends included. Raises: SelectionError if none are."""
    first, last = window or (0, len(segments) - 1)
    within = tuple(i for i in places if first <= i <= last and sentence in (None, "AB"[segments[i]]))
    if not within:
        where = f" of sentence {sentence}" if sentence else ""
        remedy = f"the input has tokens 0 to {len(segments) - 1}"
        raise SelectionError(f"no token{where} is within what was asked for", remedy)
    return within


@dataclass(frozen=True)
class HeadWeights:
    """What `show` shows: some heads' weights on an input, or their mean with `average`."""

    result: HeadScores  # every head's scores on the input, and its attention
    heads: tuple[Head, ...]
    average: bool
    queries: tuple[int, ...]  # indices of tokens, in the order of the text
    keys: tuple[int, ...]

    @cached_property
    def attention(self) -> Attention:
        """The input's, as far as it was kept, by what the result is of. Raises: OptionError if it was not."""
        return self.result.shown_attention

    def number(self, token: int) -> int:
        """A token's number in its own text, from 0: in cross attention, the target's are counted by themselves."""
        source = self.attention.source
        return token - source if token >= source else token

    def matrices(self) -> Iterator[tuple[tuple[Head, ...], NDArray[np.float32]]]:
        """Each head's weights, or their mean, with the heads that it is of. Shape: [query, key] of those asked for."""
        cells = np.ix_(np.searchsorted(self.attention.rows, self.queries), np.array(self.keys))
        for heads in [self.heads] if self.average else [(head,) for head in self.heads]:
            weights = np.stack([self.attention.weights[self.attention.place(head)][cells] for head in heads])
            yield heads, np.asarray(weights.mean(0, dtype=np.float64), np.float32)

    def to_frame(self) -> pd.DataFrame:
        """One row for each query and key; of a mean, layer and head are empty; with gold links, `aligned`."""
        tokens, links = np.array(self.attention.tokens, object), set(self.result.links)
        queries, keys = np.repeat(self.queries, len(self.keys)), np.tile(self.keys, len(self.queries))
        cells = {"query": [self.number(query) for query in queries], "query_token": tokens[queries]}
        cells |= {"key": keys, "key_token": tokens[keys]}
        aligned = {"aligned": [int(cell in links) for cell in zip(queries, keys, strict=True)]} if links else {}
        none = {"layer": None, "head": None} if self.average else {}
        parts = [
            pd.DataFrame({**heads[0].columns, **none, **cells, "weight": matrix.ravel().astype(float), **aligned})
            for heads, matrix in self.matrices()
        ]
        about = {"mean_of": [[head.layer, head.head] for head in self.heads]} if self.average else {}
        rows = pd.concat(parts, ignore_index=True).astype({"layer": "Int64", "head": "Int64"})
        return signed_frame(rows, self.result.signature, tokens=list(self.attention.tokens), **about)
