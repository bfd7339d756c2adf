"""One input's attention: weights, the queries and keys that made them, and parts of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, SelectionError
from attnscan.inputs.spelling import token_named
from attnscan.inputs.weights import SavedWeights
from attnscan.results.choices import Side
from attnscan.results.grid import AttentionKind, Grid, Head, HeadLike

MIN_ON_WORDS = 1e-6
"""Of a row's weight, on words: a row with less has no shares among words, and is not counted."""
PADDING = -2  # the sentence number of padding
MOST_DRAWN = 2048  # tokens of a picture or a page: a head's weights are drawn in four million cells


@dataclass(frozen=True)
class Chosen:
    """Which part of a long input's attention is kept: some heads, and the rows of some queries."""

    grid: Grid
    rows: tuple[int, ...]  # the tokens whose rows of weights are kept, in the order of the text
    heads: tuple[Head, ...] | None = None
    """Arrays hold these, in this order, as if they were one layer; None for all."""


@dataclass(frozen=True)
class Selection:
    """Which part of an input's attention is asked for."""

    heads: str | None = None  # by their names; None for all, as one array by layer and head
    token: str | int | None = None  # the only query: a token's text, its index, or `store#2`
    from_: Side | None = None  # the sentence of the queries
    to: Side | None = None  # the sentence of the keys
    window: tuple[int, int] | None = None
    """First and last token of the queries and keys; of cross attention, the keys."""
    is_drawn: bool = False  # whether it is drawn token by token, in a picture or on a page
    every_reading: bool = False
    """Whether scores are wanted by every reading, as a page shows them."""

    def cells(
        self, tokens: Sequence[str], segments: Sequence[int], source: int = 0
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The queries and the keys, by their indices.

        Of cross attention, the first `source` tokens are the keys.

        Raises: OptionError, SelectionError for tokens that are not there.
        """
        if source and (self.from_ or self.to):
            message = "in cross attention the target asks and the source is read"
            raise OptionError(message, "leave out the sentences to look from and to")
        keys = _within(range(source or len(tokens)), segments, self.to, self.window)
        if self.token is not None:
            query = source + token_named(str(self.token), tokens[source:])
            queries = _within([query], segments, self.from_, window=None)
        else:
            window = None if source else self.window
            queries = _within(range(source, len(tokens)), segments, self.from_, window)
        return queries, keys

    def chosen(
        self,
        grid: Grid,
        tokens: Sequence[str],
        segments: Sequence[int],
        unit: Sequence[int],
        source: int = 0,
    ) -> Chosen:
        """The part of a model's heads to keep: whole rows, of all pieces of words.

        Raises: as `cells`.
        """
        queries, _ = self.cells(tokens, segments, 0 if self.is_drawn else source)
        heads = None if self.heads is None else tuple(grid.select(self.heads))
        if unit:
            words = {unit[query] for query in queries}
            queries = tuple(token for token, word in enumerate(unit) if word in words)
        if self.is_drawn:
            check_drawn(len(queries))
        return Chosen(grid, queries, heads)


def check_drawn(
    tokens: int, remedy: str = "choose a passage of at most 2,048, as in ``window`` 0-2047"
) -> None:
    """Raises: SelectionError for more tokens than are drawn one by one."""
    if tokens > MOST_DRAWN:
        raise SelectionError(f"{tokens:,} tokens are too many to be drawn one by one", remedy)


def _within(
    places: Iterable[int],
    segments: Sequence[int],
    sentence: Side | None,
    window: tuple[int, int] | None,
) -> tuple[int, ...]:
    """The places of a sentence within a window of indices, both ends included.

    Raises: SelectionError if none are.
    """
    first, last = window or (0, len(segments) - 1)
    within = [place for place in places if first <= place <= last]
    if sentence is not None:
        within = [place for place in within if "AB"[segments[place]] == sentence]
    if not within:
        named = f" of sentence {sentence}" if sentence else ""
        remedy = f"the input has tokens 0 to {len(segments) - 1}"
        raise SelectionError(f"no token{named} is within what was asked for", remedy)
    return tuple(within)


@dataclass(frozen=True)
class Attention:
    """What every head did on one input, token by token; or some heads, on some tokens."""

    tokens: tuple[str, ...]
    """Their texts, in order; of cross attention the source's, and behind them the target's."""
    sentence: tuple[int, ...]  # 0 for sentence A, 1 for B, -1 for a special token, -2 for padding
    segments: tuple[int, ...]  # 0 or 1 for every token: a sentence's delimiters go with it
    weights: NDArray[np.float32]
    """Softmax attention. Shape: [layer, head, query, key]; rows sum to 1."""
    visible: NDArray[np.bool_] | None
    """Which keys each query may see.

    Shape: [layer, query, key]; None where some heads alone are kept."""
    query: NDArray[np.float32] | None
    """After any rotation, before scaling.

    Shape: [layer, head, query, neuron]; None if the model shows none."""
    key: NDArray[np.float32] | None
    """Likewise, grouped keys for each head. Shape: [layer, head, key, neuron]."""
    scaling: tuple[float, ...] = ()
    """What each layer multiplies q·k with before the softmax; empty without queries."""
    unit: tuple[int, ...] = ()  # which scored unit each token belongs to; empty if each is one
    norms: NDArray[np.float32] | None = None
    """‖f(x_j)‖: how long each key's value is behind the head's slice of the output projection.

    Shape: [layer, head, key]; None if the model does not show it."""
    chosen: Chosen | None = None  # the heads and queries that arrays are of; None for all
    kind: AttentionKind = AttentionKind.ONLY
    layers: tuple[int, ...] = ()
    """The numbers of its layers in the model; empty where every layer has attention."""
    source: int = 0
    """Of cross attention, how many tokens are the source's.

    These are the keys; the target's behind them are the queries."""

    @cached_property
    def grid(self) -> Grid:
        """The model's heads."""
        if self.chosen is not None:
            return self.chosen.grid
        return Grid(self.weights.shape[:2], self.kind, self.layers)

    @property
    def rows(self) -> tuple[int, ...]:
        """The tokens that the rows of `weights` are of."""
        return tuple(range(len(self.tokens))) if self.chosen is None else self.chosen.rows

    @property
    def keys(self) -> int:
        """How many tokens, from the first on, are keys: in cross attention those of the source."""
        return self.source or len(self.tokens)

    @property
    def is_whole(self) -> bool:
        """Whether all heads' rows of all tokens were kept."""
        return self.chosen is None or (
            self.chosen.heads is None and len(self.chosen.rows) == len(self.tokens)
        )

    @property
    def passage(self) -> list[int]:
        """The rows without padding: what pictures and pages show, as queries and as keys."""
        return [row for row in self.rows if self.sentence[row] != PADDING]

    @property
    def query_tokens(self) -> list[int]:
        """Those of the passage that are queries: of cross attention, the target's."""
        return [place for place in self.passage if place >= self.source]

    @property
    def key_tokens(self) -> list[int]:
        """Those of the passage that are keys: of cross attention, the source's."""
        return [place for place in self.passage if place < self.keys]

    def place(self, named: HeadLike) -> tuple[int, int]:
        """Where a head stands in the arrays.

        Raises: SelectionError if it is not there, or was not kept.
        """
        head = self.grid.head(named)
        if self.chosen is None or self.chosen.heads is None:
            return head.place
        if head not in self.chosen.heads:
            message = f"the weights of {head.name} were not kept"
            raise SelectionError(message, "name it among the heads that are wanted")
        return 0, self.chosen.heads.index(head)

    def only(self, chosen: Chosen) -> Attention:
        """Leave out all but a part of what is kept, which is all."""
        rows = list(chosen.rows)
        part = replace(self, weights=self.weights[:, :, rows], chosen=chosen)
        if chosen.heads is None:
            visible = None if self.visible is None else self.visible[:, rows]
            return replace(part, visible=visible)
        layers, heads = zip(*(head.place for head in chosen.heads), strict=True)

        def one_layer(array: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
            """The chosen heads' rows, as if they were one layer."""
            return None if array is None else array[layers, heads][None]

        return replace(
            part,
            weights=part.weights[layers, heads][None],
            visible=None,
            query=one_layer(self.query),
            key=one_layer(self.key),
            norms=one_layer(self.norms),
        )

    def rows_of(self, named: HeadLike, queries: Sequence[int]) -> NDArray[np.float32]:
        """A head's weights of some queries that were kept. Shape: [query, key]."""
        rows = np.searchsorted(self.rows, queries)
        weights: NDArray[np.float32] = self.weights[self.place(named)][rows]
        return weights

    @property
    def carried(self) -> Attention:
        """Put what heads carry in place of weights.

        Raises: OptionError if the norms are not there.
        """
        if self.norms is None:
            raise OptionError("what heads carry is not in this result", 'leave out by="carried"')
        return replace(self, weights=carried_shares(self.weights, self.norms))

    @property
    def without_special_tokens(self) -> Attention:
        """Remove special tokens as keys, and renormalise each row over words.

        A row with less than `MIN_ON_WORDS` on words is zero.
        """
        return replace(self, weights=shares_among_words(self.weights, np.array(self.sentence) >= 0))

    def in_words(self, words: Sequence[str]) -> Attention:
        """Merge tokens into words: each is given its pieces' sum, and gives their mean.

        Only weights are kept.
        """
        if len(words) == len(self.tokens):
            return self
        unit = np.array(self.unit)
        rows = list(self.rows)
        into = np.equal.outer(unit, np.arange(len(words))).astype(float)  # [token, unit]
        units = np.unique(unit[rows])
        pieces = into[rows][:, units].T  # [unit, row]
        mean = pieces / pieces.sum(-1, keepdims=True)
        weights = carried_shares(mean @ self.weights @ into, np.ones(1))
        first = into.argmax(0)  # of each unit its first token
        chosen = self.chosen and replace(self.chosen, rows=tuple(units.tolist()))
        return replace(
            self,
            tokens=tuple(words),
            sentence=tuple(np.array(self.sentence)[first].tolist()),
            segments=tuple(np.array(self.segments)[first].tolist()),
            weights=weights.astype(np.float32),
            visible=None,
            query=None,
            key=None,
            unit=(),
            norms=None,
            chosen=chosen,
            source=int(unit[self.source]) if self.source else 0,
        )

    def products(self, named: HeadLike, query: int) -> NDArray[np.float32]:
        """What each neuron adds to the logit of each key, q·k scaled. Shape: [key, neuron]."""
        assert self.query is not None
        assert self.key is not None
        place = self.place(named)
        products: NDArray[np.float32] = self.query[(*place, query)] * self.key[place]
        products *= self.scaling[self.grid.head(named).row]
        return products

    @classmethod
    def of(
        cls,
        saved: SavedWeights,
        sentence: tuple[int, ...],
        unit: tuple[int, ...],
        kind: AttentionKind,
    ) -> Attention:
        """The attention that a file of saved weights holds, which has no queries and keys."""
        weights = saved.attention
        if saved.source:
            tokens = len(saved.tokens)
            weights = np.zeros((*weights.shape[:2], tokens, tokens), np.float32)
            weights[:, :, saved.source :, : saved.source] = saved.attention
        return cls(
            tokens=saved.tokens,
            sentence=sentence,
            segments=saved.segments,
            weights=weights,
            visible=np.asarray(weights.any(axis=1)),
            query=None,
            key=None,
            unit=unit,
            kind=kind,
            source=saved.source,
        )

    def saved(self) -> SavedWeights:
        """What a file of weights keeps of it."""
        weights = self.weights
        if self.source:
            weights = weights[:, :, self.source :, : self.source]
        array = "attention" if self.kind is AttentionKind.ONLY else f"{self.kind.word}_attention"
        return SavedWeights(
            attention=weights,
            tokens=self.tokens,
            segments=self.segments,
            special=tuple(sentence == -1 for sentence in self.sentence),
            padding=(False,) * len(self.tokens),
            source=self.source,
            array=array,
        )


def shares_among_words(
    weights: NDArray[np.float32], is_word: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Each row's weights on words as shares of their sum, and nothing elsewhere.

    A row with less than `MIN_ON_WORDS` on words is zero. Shape: `weights` [..., query, key],
    `is_word` [key].
    """
    on_words = np.where(is_word, weights, 0)
    sums = on_words.sum(-1, keepdims=True)
    return np.where(sums < MIN_ON_WORDS, 0, on_words / sums.clip(MIN_ON_WORDS))


def carried_shares(weights: NDArray[Any], norms: NDArray[Any]) -> NDArray[Any]:
    """What queries take from each key: its weight times its value's norm, as a share of the row.

    A row that carries nothing is zero. Shape: `weights` [..., query, key], `norms` [..., key] ->
    [..., query, key].
    Source: Kobayashi et al. 2020, https://aclanthology.org/2020.emnlp-main.574
    """
    amounts = weights * norms[..., None, :]
    totals = amounts.sum(-1, keepdims=True)
    shares: NDArray[Any] = np.divide(amounts, totals, out=np.zeros_like(amounts), where=totals != 0)
    return shares
