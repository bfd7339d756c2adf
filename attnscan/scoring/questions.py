"""What the model is asked about one input for `predictive`: which words are hidden, one by one and two by two."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnscan.hashing import hashed
from attnscan.inputs.batch import EncodedInput
from attnscan.results.dependencies import Help
from attnscan.results.terms import HelpMeasure

_RUN = 4  # sampled words come in runs of neighbours, which are each other's likeliest helpers
_WORDS, _MANY_TOKENS = 32, 1024
"""How many words are asked about by default, and of how long an input no longer so many."""


@dataclass(frozen=True)
class Questions:
    """An input, and how many of its words may be asked about.

    Queries are words with a letter or digit, helpers all words; of more than `most_words`, runs of neighbours spread
    over the input. By default as many as `usual_words` says.
    """

    encoded: EncodedInput
    most_words: int | None = None

    @cached_property
    def tokens(self) -> dict[int, list[int]]:
        """The tokens of each unit."""
        tokens: dict[int, list[int]] = {}
        for token, unit in enumerate(self.encoded.unit):
            tokens.setdefault(unit, []).append(token)
        return tokens

    @cached_property
    def words(self) -> list[int]:
        """All units that are words."""
        return [unit for unit, sentence in enumerate(self.encoded.unit_sentence) if sentence >= 0]

    @cached_property
    def chosen(self) -> list[int]:
        """The words that are hidden."""
        return spread(self.words, self.most_words or usual_words(self.length))

    @cached_property
    def queries(self) -> frozenset[int]:
        """Those of them whose prediction is looked at."""
        punctuation = self.encoded.punctuation
        return frozenset(unit for unit in self.chosen if not all(punctuation[token] for token in self.tokens[unit]))

    @property
    def count(self) -> int:
        """How many sequences there are to ask: every query hidden, then every two words of which one is a query."""
        words, queries = len(self.chosen), len(self.queries)
        return queries + math.comb(words, 2) - math.comb(words - queries, 2)

    @property
    def length(self) -> int:
        """Of each of them, in tokens."""
        return len(self.encoded.tokens)

    def hidden(self) -> Iterator[tuple[int, ...]]:
        """The units to hide in each sequence; those of a single one come first."""
        yield from ((unit,) for unit in sorted(self.queries))
        yield from (pair for pair in itertools.combinations(self.chosen, 2) if self.queries & set(pair))

    @cached_property
    def cells(self) -> NDArray[np.bool_]:
        """Where the answers stand: queries by other words. Shape: [query, key], both over the words that are hidden."""
        queries = np.isin(self.chosen, list(self.queries))
        return queries[:, None] & ~np.eye(len(self.chosen), dtype=bool)

    def help(self, values: NDArray[np.float64], measure: HelpMeasure) -> Help:
        """The answers, put together. Shape: `values` as `cells`, NaN where nothing was asked."""
        by_length = self.most_words is None and len(self.chosen) < min(_WORDS, len(self.words))
        units = self.encoded.unit[-1] + 1
        return Help(values, measure, self.count, tuple(self.chosen), len(self.words), units, by_length)

    @cached_property
    def digest(self) -> str:
        """A hash of all that is asked, and of what a model is given for it; no text is in it."""
        sizes = [len(self.encoded.units), len(self.words)]
        about = [self.encoded.model_inputs, self.chosen, self.encoded.unit, sorted(self.queries), sizes]
        return hashed(json.dumps(about, sort_keys=True).encode())


def usual_words(length: int) -> int:
    """How many words of an input of so many tokens are asked about: 32, as long as all questions together are short.

    >>> [usual_words(length) for length in (512, 1024, 2048, 8192)]
    [32, 32, 22, 11]
    """
    most = _MANY_TOKENS * math.comb(_WORDS + 1, 2) // length  # w words make w + w(w - 1)/2 = w(w + 1)/2 questions
    return max(2, min(_WORDS, (math.isqrt(8 * most + 1) - 1) // 2))


def spread(words: Sequence[int], most: int) -> list[int]:
    """At most `most` of the words, as runs of neighbours spread evenly over them.

    >>> spread(range(20), 8)
    [0, 1, 2, 3, 16, 17, 18, 19]
    """
    if len(words) <= most:
        return list(words)
    runs = max(1, most // _RUN)
    size = most // runs
    starts = np.linspace(0, len(words) - size, runs).astype(int)
    return [words[start + i] for start in starts for i in range(size)]
