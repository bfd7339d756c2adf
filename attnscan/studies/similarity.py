"""Which heads attend alike: Jensen-Shannon divergences between all heads of a model, over a stream of pairs.

    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2, in nats, from 0 (the same weights) to ln 2 (no key in common),

as in Clark et al., "What Does BERT Look At?" (2019), here averaged over queries of words. Every two heads need a
logarithm for each key, so of each input some queries are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.running import check_finite
from attnscan.results.grid import Grid
from attnscan.results.signature import Reading
from attnscan.results.similarity import Similarity
from attnscan.results.terms import QUERIES, WITHIN
from attnscan.scan.local import OnBad, each
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import no_pair
from attnscan.scoring.blocks import Blocks, error, ratio, residuals
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.scoring.targets import Targets
from attnscan.scoring.units import LEAST_LEFT
from attnscan.studies.passes import drawn, sums_over


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = WITHIN,
    on_bad: OnBad | None = None,
) -> Similarity:
    """How far apart all heads are, over pairs, by at most `queries` words of each.

    Raises: InputError if there is no pair.
    """
    scanner = scanner.exact().with_options(labelled=True)
    options = scanner.options

    def compare_heads(inputs: Sequence[EncodedInput]) -> Blocks:
        """Sums for scores and labels, and for the divergences of all heads over some queries of each input."""
        keeper = RowKeeper(inputs, queries, options.seed, options.reading)
        classes = list[ClassScorer]()

        def beside(targets: Targets) -> Consumer:
            classes.append(ClassScorer(targets.units, special=not options.reading.among_words))
            return partial(each, (keeper, classes[0]))

        sums = {**scanner.score(inputs, also=beside), **classes[0].sums()}
        sums["apart"] = np.stack([divergences(rows).numpy() for rows in keeper.rows()])
        sums["queries"] = np.array([[[float(len(own))]] for own in keeper.queries])
        return Blocks.of([encoded.known_pair.key for encoded in inputs], sums)

    total, seen = sums_over(scanner, records, compare_heads, "comparing heads by pairs", on_bad)
    if total is None or not total.sums["queries"].any():
        raise no_pair("to compare heads by")
    sums = total.sums
    scored = [pattern.scored for pattern in options.patterns]
    scores = scores_of(sums, scored, options.kind, scanner.grid().layers)
    return Similarity(
        divergence=ratio(sums["apart"], sums["queries"]),
        se=error(residuals(sums["apart"], sums["queries"])),
        labels=labels_of(scores, units_of(sums, options.reading), options.reading, options.threshold, options.seed),
        queries=int(sums["queries"].sum()),
        signature=scanner.signature(seen),
        within=within,
    )


class RowKeeper:
    """A consumer that keeps the rows of some queries of each input, of every head."""

    def __init__(self, inputs: Sequence[EncodedInput], most: int, seed: int, reading: Reading) -> None:
        """At most so many words ask, drawn by the input and the seed; among words, rows are renormalised over these."""
        self._among_words = reading.among_words
        self.queries: list[list[int]] = []
        """Those of each input, by token."""
        self._keys: list[Tensor] = []
        for encoded in inputs:
            word = np.array(encoded.sentence) >= 0
            asks = word & (np.arange(len(word)) >= encoded.source)
            self.queries.append(drawn(encoded, np.flatnonzero(asks).tolist(), most, seed))
            keys = word[: encoded.source or None]
            self._keys.append(torch.from_numpy(np.flatnonzero(keys if reading.among_words else keys | True)))
        self._kept: list[Tensor] = []
        self._grid: Grid | None = None

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        if block.grid != self._grid:
            self._grid = block.grid
            sizes = [(len(queries), len(keys)) for queries, keys in zip(self.queries, self._keys, strict=True)]
            self._kept = [block.weights.new_zeros(*block.grid.shape, *size) for size in sizes]
        start, _, _ = block.inputs.indices(len(self.queries))
        for number, weights in enumerate(block.weights, start):
            queries = torch.tensor(self.queries[number], dtype=torch.int64) - block.rows.start
            rows = weights[:, queries[:, None], self._keys[number]]
            if self._among_words:
                rows = rows / rows.sum(-1, keepdim=True).clip(LEAST_LEFT)
            self._kept[number][block.layer, block.heads] = rows

    def rows(self) -> list[Tensor]:
        """Of each input. Shape: [head, query x key]. Raises: CaptureError if the model's attention is not finite."""
        for kept in self._kept:
            check_finite(kept, "the attention weights")
        return [kept.flatten(0, 1).flatten(1) for kept in self._kept]


def divergences(rows: Tensor) -> Tensor:
    """The divergence between every two heads, summed over queries. In nats.

    Shape: `rows` [head, query x key], each query's weights adding up to 1 -> [head, head], float64 on the CPU.
    """
    half, entropy = rows / 2, rows.new_zeros(len(rows), len(rows))
    for head in range(len(rows)):  # one head beside those behind it at a time stays in the cache
        mean = half[head] + half[head:]
        logs = mean.clip(torch.finfo(mean.dtype).tiny).log_()  # three times as fast as torch.xlogy
        entropy[head, head:] = -logs.mul_(mean).sum(-1)
    total = entropy.cpu().double()
    own = total.diagonal()
    upper = (total - (own[:, None] + own) / 2).clip(0).triu(1)
    return upper + upper.T
