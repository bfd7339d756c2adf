"""Which weights of one input are asked for, and these: of some heads, from some tokens to some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, SelectionError
from attnscan.inputs.tokens import token_named
from attnscan.results.attention import Attention, Chosen
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.terms import Side

if TYPE_CHECKING:
    import pandas as pd

MOST_DRAWN = 2048  # tokens of a picture or a page: a head's weights are drawn in four million cells


@dataclass(frozen=True)
class Selection:
    """Which part of an input's attention is asked for."""

    heads: str | None = None  # by their names; None for all, as one array by layer and head
    token: str | None = None  # the only query: a token's text, its index, or `store#2`
    from_: Side | None = None  # the sentence of the queries
    to: Side | None = None  # the sentence of the keys
    window: tuple[int, int] | None = None
    """The first and the last token of the queries and keys; in cross attention, of the source, which is the keys."""
    is_drawn: bool = False  # whether it is drawn token by token, in a picture or on a page

    def queries(self, tokens: Sequence[str], segments: Sequence[int], source: int = 0) -> tuple[int, ...]:
        """The queries, by their indices; of cross attention, those behind so many of the `source`."""
        if source and (self.from_ or self.to):
            what = "in cross attention the target asks and the source is read"
            raise OptionError(what, "leave out the sentences to look from and to")
        if self.token is not None:
            return _within([source + token_named(self.token, tokens[source:])], segments, self.from_, None)
        return _within(range(source, len(tokens)), segments, self.from_, None if source else self.window)

    def keys(self, tokens: Sequence[str], segments: Sequence[int], source: int = 0) -> tuple[int, ...]:
        """The keys, likewise."""
        return _within(range(source or len(tokens)), segments, self.to, self.window)

    def chosen(
        self, grid: Grid, tokens: Sequence[str], segments: Sequence[int], unit: Sequence[int], source: int = 0
    ) -> Chosen:
        """What is to be kept of a model's heads: whole rows, of all pieces of words. Raises: SelectionError."""
        source = 0 if self.is_drawn else source
        self.keys(tokens, segments, source)
        heads = None if self.heads is None else tuple(grid.select(self.heads))
        queries = self.queries(tokens, segments, source)
        if unit:
            words = {unit[query] for query in queries}
            queries = tuple(token for token, word in enumerate(unit) if word in words)
        if self.is_drawn:
            check_drawn(len(queries))
        return Chosen(grid, queries, heads)

    def cut(self, result: HeadScores) -> HeadScores:
        """A result that keeps this part of its attention, which is whole. Raises: SelectionError."""
        attention = result.kept_attention()
        chosen = self.chosen(attention.grid, attention.tokens, attention.segments, attention.unit)
        unit = attention.unit or range(len(attention.tokens))
        rows = slice(unit[chosen.rows[0]], unit[chosen.rows[-1]] + 1)
        targets = [target[:, rows] for target in result.targets] if chosen.heads is None else ()
        return replace(result, attention=attention.only(chosen), targets=targets)

    def of(self, result: HeadScores, *, average: bool) -> HeadWeights:
        """The weights, from a result that has kept them."""
        attention = result.kept_attention()
        of = attention.tokens, attention.segments, attention.source
        heads = tuple(attention.grid.select(self.heads or "all"))
        return HeadWeights(result, heads, average, self.queries(*of), self.keys(*of))


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


def strongest(matrix: NDArray[np.float32], count: int) -> list[tuple[int, int]]:
    """The places of the greatest weights, greatest first; of equal ones those that come first in the text."""
    order = np.argsort(-matrix, axis=None, kind="stable")[:count].tolist()
    return [divmod(place, matrix.shape[1]) for place in order]


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
        cut = np.ix_(np.searchsorted(self.attention.rows, self.queries), np.array(self.keys))
        for heads in [self.heads] if self.average else [(head,) for head in self.heads]:
            yield heads, self.attention.mean_weights(heads)[cut]

    def to_frame(self) -> pd.DataFrame:
        """One row for each query and key; of a mean, layer and head are empty; with gold links, `aligned`."""
        import pandas as pd

        tokens, links = self.attention.tokens, set(self.result.links)
        cells = pd.DataFrame([(query, key) for query in self.queries for key in self.keys], columns=["query", "key"])
        cells.insert(1, "query_token", [tokens[token] for token in cells["query"]])
        cells["key_token"] = [tokens[token] for token in cells["key"]]
        aligned = [int(cell in links) for cell in zip(cells["query"], cells["key"], strict=True)]
        cells["query"] = [self.number(token) for token in cells["query"]]
        parts = []
        for heads, matrix in self.matrices():
            about = heads[0].columns | (dict.fromkeys(("layer", "head")) if self.average else {})
            part = cells.assign(weight=matrix.ravel().astype(float), **({"aligned": aligned} if links else {}))
            for place, (name, value) in enumerate({"model": self.result.signature.model, **about}.items()):
                part.insert(place, name, value)
            parts.append(part)
        frame = pd.concat(parts, ignore_index=True).astype({"layer": "Int64", "head": "Int64"})
        frame.attrs = {"signature": asdict(self.result.signature), "tokens": list(tokens)}
        if self.average:
            frame.attrs["mean_of"] = [[head.layer, head.head] for head in self.heads]
        return frame
