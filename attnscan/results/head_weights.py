"""Some heads' weights on one input, cut to the tokens that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import SelectionError
from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.terms import Side

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class HeadWeights:
    """What `show` shows."""

    result: Classification
    """Every head's scores on the input, and its attention."""
    heads: tuple[Head, ...]
    """Those that are shown."""
    average: bool
    """Whether the heads' mean is meant, not each."""
    queries: tuple[int, ...]
    """Indices of tokens, in the order of the text."""
    keys: tuple[int, ...]
    """As `queries`."""

    @property
    def attention(self) -> Attention:
        """The input's, whole, by what the result is of. Raises: OptionError if it was not kept."""
        return self.result.shown_attention

    def matrices(self) -> Iterator[tuple[tuple[Head, ...], NDArray[np.float32]]]:
        """Each head's weights, or their mean, with the heads that it is of. Shape: [query, key] of those asked for."""
        cut = np.ix_(self.queries, self.keys)
        if self.average:
            yield self.heads, self.attention.mean_weights(self.heads)[cut]
        else:
            for head in self.heads:
                yield (head,), self.attention.weights[head.place][cut]

    def to_frame(self) -> pd.DataFrame:
        """One row for each query and key; of a mean, layer and head are empty."""
        import pandas as pd

        tokens = self.attention.tokens
        parts = []
        for heads, matrix in self.matrices():
            query, key = np.repeat(self.queries, len(self.keys)), np.tile(self.keys, len(self.queries))
            layer, head = (None, None) if self.average else heads[0].place
            columns: dict[str, Any] = {
                "model": self.result.signature.model,
                "layer": layer,
                "head": head,
                "query": query,
            }
            columns |= {"query_token": [tokens[i] for i in query], "key": key, "key_token": [tokens[i] for i in key]}
            parts.append(pd.DataFrame(columns | {"weight": matrix.ravel().astype(float)}))
        frame = pd.concat(parts, ignore_index=True).astype({"layer": "Int64", "head": "Int64"})
        frame.attrs = {"signature": asdict(self.result.signature), "tokens": list(tokens)}
        if self.average:
            frame.attrs["mean_of"] = [list(head.place) for head in self.heads]
        return frame


def tokens_within(
    attention: Attention, sentence: Side | None, window: tuple[int, int] | None, only: int | None = None
) -> tuple[int, ...]:
    """The tokens of a sentence, its delimiters included, within a window of indices, both ends included.

    Raises: SelectionError if there are none.
    """
    first, last = window or (0, len(attention.tokens) - 1)
    tokens = [
        i
        for i, segment in enumerate(attention.segments)
        if first <= i <= last and (sentence is None or "AB"[segment] == sentence) and only in (None, i)
    ]
    if not tokens:
        where = f" of sentence {sentence}" if sentence else ""
        raise SelectionError(
            f"no token{where} is within what was asked for", f"the input has tokens 0 to {len(attention.tokens) - 1}"
        )
    return tuple(tokens)


def strongest(matrix: NDArray[np.float32], count: int) -> Sequence[tuple[int, int]]:
    """The places of the greatest weights, greatest first; of equal ones those that come first in the text."""
    order = np.argsort(-matrix.ravel(), kind="stable")[:count]
    return [(int(place) // matrix.shape[1], int(place) % matrix.shape[1]) for place in order]
