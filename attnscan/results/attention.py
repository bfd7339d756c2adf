"""One input's attention, whole: every head's weights, and the queries and keys that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError
from attnscan.inputs.weights import SavedWeights
from attnscan.results.grid import Grid, HeadLike, Heads
from attnscan.results.shown import shaped


@dataclass(frozen=True)
class Attention:
    """What every head did on one input, token by token."""

    tokens: tuple[str, ...]
    """Their texts, in order."""
    sentence: tuple[int, ...]
    """0 for sentence A, 1 for B, -1 for a special token, -2 for padding."""
    segments: tuple[int, ...]
    """0 or 1 for every token: a sentence's delimiters go with it."""
    weights: NDArray[np.float32]
    """Softmax attention. Shape: [layer, head, query, key]; rows sum to 1."""
    visible: NDArray[np.bool_]
    """Which keys each query may see. Shape: [layer, query, key]."""
    query: NDArray[np.float32] | None
    """After any rotation, before scaling. Shape: [layer, head, query, neuron]; None if the model shows none."""
    key: NDArray[np.float32] | None
    """Likewise; grouped keys are repeated for each head. Shape: [layer, head, key, neuron]."""
    scaling: tuple[float, ...] = ()
    """What each layer multiplies q·k with before the softmax, usually 1/√d; empty where there are no queries."""
    unit: tuple[int, ...] = ()
    """Which scored unit each token belongs to; empty where nobody has said."""
    norms: NDArray[np.float32] | None = None
    """How long each key's value is behind each head's slice of the output projection, ‖f(x_j)‖: what there is to take.

    Shape: [layer, head, key]; None if the model does not show it."""

    __repr__ = shaped

    @property
    def grid(self) -> Grid:
        """The model's heads."""
        return Grid.of(self.weights)

    @cached_property
    def carried(self) -> Attention:
        """Put what heads carry in place of weights: each weight times the key's norm, as a share of its row.

        A row that carries nothing is zero. Raises: OptionError if the norms are not there.
        """
        if self.norms is None:
            raise OptionError("what heads carry is not in this result", 'leave out by="carried"')
        return replace(self, weights=carried_shares(self.weights, self.norms))

    @property
    def among_words(self) -> Attention:
        """Remove special tokens as keys, and renormalise each row over words; one with nothing on words is zero."""
        is_word = np.array(self.sentence) >= 0
        return replace(self, weights=carried_shares(self.weights, is_word[None, None].astype(np.float32)))

    def in_words(self, words: Sequence[str]) -> Attention:
        """Merge tokens into scored units of these texts: a word is given its pieces' sum, and gives their mean.

        Queries, keys and norms are of tokens, and left out.
        """
        if len(words) == len(self.tokens):
            return self
        into = np.equal.outer(np.array(self.unit), np.arange(len(words)))  # [token, unit]
        mean = (into / into.sum(0)).T
        first = into.argmax(0)
        weights = mean @ self.weights @ into
        whole = weights.sum(-1, keepdims=True)
        whole[whole == 0] = 1
        return replace(
            self,
            tokens=tuple(words),
            sentence=tuple(self.sentence[i] for i in first),
            segments=tuple(self.segments[i] for i in first),
            weights=np.asarray(weights / whole, dtype=np.float32),
            visible=self.visible[:, first][:, :, first],
            query=None,
            key=None,
            unit=tuple(range(len(words))),
            norms=None,
        )

    def products(self, named: HeadLike, query: int) -> NDArray[np.float32]:
        """What each neuron adds to the logit of each key, q·k scaled; a row's sum is that key's logit.

        Shape: [key, neuron].
        """
        assert self.query is not None and self.key is not None
        head = self.grid.head(named)
        products: NDArray[np.float32] = self.query[(*head.place, query)] * self.key[head.place]
        products *= self.scaling[head.layer]
        return products

    def mean_weights(self, heads: Heads) -> NDArray[np.float32]:
        """The mean of some heads' weights. Shape: [query, key]; rows sum to 1."""
        chosen = np.stack([self.weights[head.place] for head in self.grid.select(heads)])
        return np.asarray(chosen.mean(axis=0, dtype=np.float64), dtype=np.float32)

    @classmethod
    def of(cls, saved: SavedWeights, sentence: tuple[int, ...], unit: tuple[int, ...] = ()) -> Attention:
        """The attention that a file of saved weights holds, which has no queries and keys."""
        visible: NDArray[np.bool_] = np.asarray(saved.attention.any(axis=1))
        return cls(saved.tokens, sentence, saved.segments, saved.attention, visible, None, None, unit=unit)

    def saved(self) -> SavedWeights:
        """What a file of weights keeps of it."""
        special = tuple(sentence == -1 for sentence in self.sentence)
        return SavedWeights(self.weights, self.tokens, self.segments, special, (False,) * len(special))


def carried_shares(weights: NDArray[np.float32], norms: NDArray[np.float32]) -> NDArray[np.float32]:
    """What queries take from each key: its weight times the norm of its value, as a share of the row.

    A row that carries nothing is zero. Shape: `weights` [..., query, key], `norms` [..., key] -> [..., query, key].
    Source: Kobayashi et al. 2020, https://aclanthology.org/2020.emnlp-main.574
    """
    carried: NDArray[np.float32] = weights * norms[..., None, :]
    whole = carried.sum(-1, keepdims=True)
    whole[whole == 0] = 1
    carried /= whole
    return carried
