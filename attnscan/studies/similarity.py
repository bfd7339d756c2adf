"""Which heads attend alike: Jensen-Shannon divergences between all heads of a model, over a stream of pairs.

    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2, in nats, from 0 (the same weights) to ln 2 (no key in common),

as in Clark et al., "What Does BERT Look At?" (2019), here averaged over queries of words. Every two heads need a
logarithm for each key, so of each input some queries are drawn, and heads are taken in tiles that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
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
from attnscan.scan.local import OnBad, Stream, each
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import no_pair
from attnscan.scoring.blocks import Blocks, added, error, ratio, residuals
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.scoring.merging import LEAST_LEFT
from attnscan.scoring.targets import Targets
from attnscan.studies.draws import drawn

_TILE, _GPU_TILE = 1 << 17, 1 << 26  # weights of two heads' mean at a time: 512 KiB of float32 on a CPU


def queries_of(encoded: EncodedInput, most: int, seed: int) -> list[int]:
    """At most so many of an input's words that ask, by token, drawn by the input itself and a seed."""
    words = [place for place, s in enumerate(encoded.sentence) if s >= 0 and place >= encoded.source]
    return drawn(encoded, words, most, seed)


class RowKeeper:
    """A consumer that keeps the rows of some queries, of every head."""

    def __init__(self, queries: Sequence[Sequence[int]], inputs: Sequence[EncodedInput], reading: Reading) -> None:
        """With special tokens out, rows are of words alone, and renormalised."""
        self._among_words = reading.among_words
        self._queries = [torch.tensor(own, dtype=torch.int64) for own in queries]
        self._keys = [
            torch.tensor([k for k, s in enumerate(encoded.sentence[:keys]) if s >= 0 or not reading.among_words])
            for encoded in inputs
            for keys in (encoded.source or None,)
        ]
        self._kept: list[Tensor] = []
        self._grid: Grid | None = None

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; a block that comes again replaces what it said before."""
        if block.grid != self._grid:
            self._grid = block.grid
            self._kept = [
                block.weights.new_zeros(*block.grid.shape, len(queries), len(keys))
                for queries, keys in zip(self._queries, self._keys, strict=True)
            ]
        start, _, _ = block.inputs.indices(len(self._queries))
        for number, weights in enumerate(block.weights, start):
            own = weights[:, (self._queries[number] - block.rows.start)[:, None], self._keys[number]]
            if self._among_words:
                own = own / own.sum(-1, keepdim=True).clip(LEAST_LEFT)
            self._kept[number][block.layer, block.heads] = own

    def rows(self) -> list[Tensor]:
        """Of each input. Shape: [head, query x key]. Raises: CaptureError if the model's attention is not finite."""
        for kept in self._kept:
            check_finite(kept, "the attention weights")
        return [kept.flatten(0, 1).flatten(1) for kept in self._kept]


def divergences(rows: Tensor) -> Tensor:
    """The divergence between every two heads, summed over queries. In nats.

    Shape: `rows` [head, query x key], each query's weights adding up to 1 -> [head, head], float64 on the CPU.
    """
    heads, cells = rows.shape
    tile = _TILE if rows.device.type == "cpu" else _GPU_TILE
    entropy = rows.new_zeros(heads, heads)
    half = rows / 2
    start = 0
    while start < heads:
        stop = min(heads, start + max(1, tile // (cells * (heads - start))))
        mean = half[start:stop, None] + half[None, start:]
        logs = mean.clip(torch.finfo(mean.dtype).tiny).log_()
        entropy[start:stop, start:] = -(logs.mul_(mean)).sum(-1)
        start = stop
    total = entropy.cpu().double()
    own = total.diagonal()
    upper = (total - (own[:, None] + own[None]) / 2).clip(0).triu(1)
    return upper + upper.T


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = WITHIN,
    on_bad: OnBad | None = None,
) -> Similarity:
    """How far apart all heads are, over pairs, by at most `queries` words of each; tells of pairs that are done.

    Raises: InputError if there is no pair.
    """
    scanner = scanner.exact().with_options(labelled=True)
    total: Blocks | None = None
    stream = Stream(scanner, records, on_bad)

    def look(inputs: Sequence[EncodedInput]) -> Blocks:
        """What some inputs say of scores and labels, and each of the divergences of heads over some of its queries."""
        drawn = [queries_of(encoded, queries, scanner.options.seed) for encoded in inputs]
        reading = scanner.options.reading
        keeper, classes = RowKeeper(drawn, inputs, reading), list[ClassScorer]()

        def beside(targets: Targets) -> Consumer:
            classes.append(ClassScorer(targets.batch, special=not reading.among_words, units=targets.units))
            return partial(each, (keeper, classes[0]))

        sums = {**scanner.score(inputs, also=beside), **classes[0].sums()}
        sums["apart"] = np.stack([divergences(rows).numpy() for rows in keeper.rows()])
        sums["queries"] = np.array([[[float(len(own))]] for own in drawn])
        return Blocks.of([encoded.known_pair.key for encoded in inputs], sums)

    with closing(stream.worked(look)) as looked:
        for looks, _ in looked:
            for of_batch in looks:
                total = added(total, of_batch)
            scanner.tell("comparing heads by pairs", stream.done)
    if total is None or not total.sums["queries"].any():
        raise no_pair("to compare heads by")
    options, sums = scanner.options, total.sums
    scored = [pattern.scored for pattern in options.patterns]
    scores = scores_of(sums, scored, options.kind, scanner.grid().layers)
    return Similarity(
        divergence=ratio(sums["apart"], sums["queries"]),
        se=error(residuals(sums["apart"], sums["queries"])),
        labels=labels_of(scores, units_of(sums, options.reading), options.reading, options.threshold, options.seed),
        queries=int(sums["queries"].sum()),
        signature=scanner.signature(stream.seen),
        within=within,
    )
