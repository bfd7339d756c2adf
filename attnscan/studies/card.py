"""A closer look at some heads by the first pairs: links, examples, likeness and what they go by.

A `HeadWatcher` looks on while a scan scores all pairs, so that the model runs over them once. What
follows from a change is measured by `explain`, on a few pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.results.card import Card, Example, main_kind_of
from attnscan.results.choices import QUERIES
from attnscan.results.explanation import SHUFFLES
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.scores import FloatArray
from attnscan.scan.pair_scan import OnBad, scan
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import no_pair
from attnscan.scoring.blocks import KEY_SETS, SumsByName
from attnscan.studies.comparison import RowKeeper, divergences
from attnscan.studies.explanation import columns_of, explain

LOOKED_AT = 128  # pairs, at most, read word by word
EXPLAINED_BY = 16  # pairs, at most, read with something changed
_FEWEST_SHUFFLES = 2
_WEIGHTS = 1 << 27  # of an input's rows that are looked at: 512 MB
_LINKED = 1 << 26  # numbers that links are counted over
_LINKS = 10
_EXAMPLES = 3
_ALIKE = 5
_FEWEST = 5  # eligible words of an example


@dataclass(frozen=True)
class LookedAt:
    """What was seen of some heads on one pair."""

    encoded: EncodedInput
    rows: tuple[int, ...]
    """The units whose rows were looked at."""
    shares: FloatArray
    """Of the average head, and of each of the heads. Shape: [1 + head, row, unit]."""
    weight: FloatArray
    """On patterns and habits, summed over words. Shape: [head, pattern or habit]."""
    n: FloatArray
    """The words that count. Shape: [head, pattern or habit]."""
    apart: FloatArray
    """How far apart all heads are, summed over `queries` words. Shape: [head, head]."""
    queries: int


class HeadWatcher:
    """Looks at some heads while pairs are scored: at the first of them, as `PairObserver` says."""

    def __init__(self, scanner: Scanner, heads: Sequence[Head]) -> None:
        self._options = scanner.options
        self._grid = scanner.grid()
        self.heads = tuple(heads)
        self._seen: list[LookedAt] = []

    @property
    def pairs(self) -> list[LookedAt]:
        """What was seen, in the order of the stream."""
        return sorted(self._seen, key=lambda looked: looked.encoded.number)

    def consumers(self, inputs: Sequence[EncodedInput]) -> list[Consumer]:
        """What looks at the attention of a batch; nothing behind the first pairs."""
        if all(encoded.number > LOOKED_AT for encoded in inputs):
            return []
        reading = self._options.reading
        rows = RowKeeper(inputs, QUERIES, self._options.seed, reading)
        shares = ShareKeeper(inputs, self._grid, self.heads, words_only=reading.words_only)
        return [rows, shares]

    def measure(
        self, inputs: Sequence[EncodedInput], consumers: Sequence[Consumer], sums: SumsByName
    ) -> list[LookedAt]:
        """What was seen of the pairs of a batch, whose own sums these are."""
        if not consumers:
            return []
        row_keeper, share_keeper = consumers
        assert isinstance(row_keeper, RowKeeper) and isinstance(share_keeper, ShareKeeper)
        columns = columns_of(sums, self._options.reading)
        layers, heads = zip(*(head.place for head in self.heads), strict=True)
        looked = []
        for number, (encoded, rows) in enumerate(zip(inputs, row_keeper.rows(), strict=True)):
            if encoded.number > LOOKED_AT:
                continue
            looked.append(
                LookedAt(
                    encoded=encoded,
                    rows=share_keeper.rows[number],
                    shares=share_keeper.shares(number),
                    weight=columns["weight"][number, layers, heads],
                    n=columns["n"][number, layers, heads],
                    apart=divergences(rows).numpy(),
                    queries=len(row_keeper.queries[number]),
                )
            )
        return looked

    def take(self, measured: list[LookedAt]) -> None:
        """Keep what was seen of a batch."""
        self._seen += measured


class ShareKeeper:
    """A consumer that keeps what words give each other, by the average head and by some heads."""

    def __init__(
        self,
        inputs: Sequence[EncodedInput],
        grid: Grid,
        heads: Sequence[Head],
        *,
        words_only: bool,
    ) -> None:
        """With `words_only`, each row is renormalised over words."""
        self._heads = [head.place for head in heads]
        self._count = len(grid)
        self._words_only = words_only
        self._inputs = inputs
        self.rows = [_rows_looked_at(encoded, len(grid)) for encoded in inputs]
        """Of each input, the units whose rows are kept."""
        self._sums = [
            torch.zeros(1 + len(heads), len(rows), len(encoded.units))
            for encoded, rows in zip(inputs, self.rows, strict=True)
        ]
        """Of each input, of all heads together, and of each of the heads."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        first_input, _, _ = block.inputs.indices(len(self._inputs))
        first_head, last_head, _ = block.heads.indices(block.grid.shape[1])
        for number, weights in enumerate(block.weights, first_input):
            shares = self._shares(number, weights.cpu(), block.rows.start)
            sums = self._sums[number]
            keys = slice(shares.shape[2])
            sums[0, :, keys] += shares.sum(0)
            for place, (layer, head) in enumerate(self._heads, 1):
                if layer == block.layer and first_head <= head < last_head:
                    sums[place, :, keys] = shares[head - first_head]

    def shares(self, number: int) -> FloatArray:
        """Those of one input. Shape: [1 + head, row, unit]."""
        sums = self._sums[number]
        return torch.cat([sums[:1] / self._count, sums[1:]]).numpy()

    def _shares(self, number: int, weights: Tensor, first_row: int) -> Tensor:
        """A block's weights on one input, by units.

        Shape: [head, token, token] -> [head, row, unit].
        """
        encoded = self._inputs[number]
        unit = np.array(encoded.unit)
        rows = np.array(self.rows[number], dtype=int)
        key_unit = unit[: encoded.source or None]
        is_word = torch.tensor(np.array(encoded.unit_sentence)[: key_unit[-1] + 1] >= 0)
        if len(encoded.units) == len(unit):
            shares = weights[:, rows - first_row, : len(unit)]
        else:
            # A word is given its pieces' sum, and gives their mean
            is_piece = torch.tensor(unit[first_row:] == rows[:, None])
            mean = is_piece.float() / is_piece.sum(-1, keepdim=True)
            into = torch.tensor(key_unit[:, None] == np.arange(key_unit[-1] + 1)).float()
            rows_of_tokens = weights[:, : is_piece.shape[1], : len(key_unit)]
            shares = mean @ rows_of_tokens @ into
        if self._words_only:
            shares = shares * is_word[: shares.shape[2]]
            totals = shares.sum(-1, keepdim=True)
            shares = torch.where(totals > 0, shares / totals, 0)
        return shares


def _rows_looked_at(encoded: EncodedInput, heads: int) -> tuple[int, ...]:
    """The words that are queries; of a long input, some that are spread over it."""
    sentence = np.array(encoded.unit_sentence)
    is_query = (sentence >= 0) & (np.arange(len(sentence)) >= encoded.unit[encoded.source])
    words = np.flatnonzero(is_query)
    step = max(1, math.ceil(len(words) * heads * len(encoded.unit) / _WEIGHTS))
    return tuple(words[::step].tolist())


def look_at(
    scanner: Scanner, records: Iterable[Record], watcher: HeadWatcher, on_bad: OnBad | None = None
) -> None:
    """Let a watcher see the first pairs, where it has not looked on while all were scored."""
    scanner = scanner.exact().with_options(labelled=True)
    scan(scanner, islice(records, LOOKED_AT), None, on_bad, observer=watcher)


def cards(scanner: Scanner, ranking: HeadScores, watcher: HeadWatcher) -> tuple[Card, ...]:
    """Make the cards of the heads that were watched. Raises: InputError if no pair was seen."""
    scanner = scanner.exact().with_options(labelled=True)
    heads = watcher.heads
    looked = watcher.pairs
    if not looked:
        raise no_pair("to look at")
    names = [main_kind_of(ranking, head) for head in heads]
    if "predictive" in names:
        looked = [_with_predictive(scanner, pair, heads) for pair in looked]
    else:
        scanner = replace(scanner, measure=None)
    readable = [Record(pair.encoded.known_pair, "a pair") for pair in looked[:EXPLAINED_BY]]
    # The mean of many pairs needs fewer shuffles of each
    shuffles = max(_FEWEST_SHUFFLES, math.ceil(SHUFFLES / len(readable)))
    explained = explain(
        scanner, readable, heads, labels=ranking.labels, neurons=False, shuffles=shuffles
    )
    links = _links(looked, len(heads))
    apart = _mean_divergence(looked)
    results = []
    for number, (head, name) in enumerate(zip(heads, names, strict=True)):
        results.append(
            Card(
                head=head,
                ranking=ranking,
                main_kind=name,
                links=links[number],
                examples=_examples(looked, number, explained.names.index(name)),
                alike=_most_alike(apart, ranking.grid, head),
                why=explained.row(head, name),
                evidence=explained.evidence(head, name),
                pairs=len(looked),
            )
        )
    return tuple(results)


def _with_predictive(scanner: Scanner, pair: LookedAt, heads: Sequence[Head]) -> LookedAt:
    """What was seen on a pair, with `predictive`, which the scan of all pairs does not measure."""
    word_dependencies = scanner.word_dependencies([pair.encoded])
    sums = scanner.score([pair.encoded], word_dependencies, only=["predictive"])
    key_set = KEY_SETS[scanner.options.reading.words_only]
    column = [pattern.id for pattern in scanner.options.patterns].index("predictive")
    layers, head_numbers = zip(*(head.place for head in heads), strict=True)
    weight = pair.weight.copy()
    weight[:, column] = sums[f"{key_set}.weight"][0, layers, head_numbers, column]
    n = pair.n.copy()
    n[:, column] = sums[f"{key_set}.n"][0, layers, head_numbers, column]
    return replace(pair, weight=weight, n=n)


def _examples(looked: Sequence[LookedAt], head: int, column: int) -> tuple[Example, ...]:
    """The pairs in which a head does it most, the strongest first; `column` is what it does."""
    examples = []
    for pair in looked:
        n = float(pair.n[head, column])
        if n < _FEWEST:
            continue
        excess = pair.shares[1 + head] - pair.shares[0]
        row, key = divmod(int(excess.argmax()), excess.shape[1])
        examples.append(
            Example(
                share=float(pair.weight[head, column]) / n,
                query=pair.rows[row],
                key=key,
                units=pair.encoded.units,
                sentences=pair.encoded.known_pair.texts,
            )
        )
    strongest = sorted(examples, key=lambda example: -example.share)
    return tuple(strongest[:_EXAMPLES])


def _mean_divergence(looked: Sequence[LookedAt]) -> FloatArray:
    """How far apart heads are on average. Shape: [head, head].

    Raises: InputError without a word.
    """
    queries = sum(pair.queries for pair in looked)
    if not queries:
        raise no_pair("to compare heads by")
    total: FloatArray = np.sum([pair.apart for pair in looked], axis=0) / queries
    return total


def _most_alike(apart: FloatArray, grid: Grid, head: Head) -> tuple[tuple[Head, float], ...]:
    """The heads that attend most alike, nearest first, with their divergence."""
    divergence = apart[grid.index(head)]
    order = np.argsort(divergence, kind="stable").tolist()
    alike = [(grid[number], float(divergence[number])) for number in order if grid[number] != head]
    return tuple(alike[:_ALIKE])


def _links(looked: Sequence[LookedAt], heads: int) -> list[pd.DataFrame]:
    """Of each head, the pairs of words that it links most beyond the average head.

    These are told by their mean excess times the root of how often they stand in one input.
    """
    grouped = pd.concat(_cells(looked)).groupby(["query", "key"], sort=False)
    means = grouped.mean()
    links = []
    for head in range(1, 1 + heads):
        table = pd.DataFrame({"share": means[head], "average": means[0], "count": grouped.size()})
        excess = (table["share"] - table["average"]) * table["count"] ** 0.5
        strongest = excess[excess > 0].sort_values(ascending=False, kind="stable").index[:_LINKS]
        links.append(table.loc[strongest].reset_index())
    return links


def _cells(looked: Sequence[LookedAt]) -> list[pd.DataFrame]:
    """A row for every two words that attention is between: their texts, and shares.

    Of as many pairs as there is room for.
    """
    cells: list[pd.DataFrame] = []
    room = _LINKED
    for pair in looked:
        if cells and pair.shares.size > room:
            continue
        room -= pair.shares.size
        texts = np.array([text.strip() for text in pair.encoded.units], dtype=object)
        rows = texts[list(pair.rows)]
        keys = texts[: pair.shares.shape[2]]
        frame = pd.DataFrame(pair.shares.reshape(len(pair.shares), -1).T)
        frame = frame.assign(query=np.repeat(rows, len(keys)), key=np.tile(keys, len(rows)))
        cells.append(frame)
    return cells
