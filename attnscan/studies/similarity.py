"""Compares every head's weights with every other's over a stream of pairs: one scan, and a look at some queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

import numpy as np

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Record
from attnscan.results.scores import FloatArray
from attnscan.results.similarity import Similarity
from attnscan.results.terms import QUERIES, WITHIN
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import no_pair
from attnscan.scan.stream import OnBad, OnBatch, Stream
from attnscan.scoring.sums import RatioSums, ScoreSums
from attnscan.studies.divergence import RowKeeper, divergences, queries_of


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = WITHIN,
    on_bad: OnBad | None = None,
    on_batch: OnBatch | None = None,
) -> Similarity:
    """How far apart all heads are, over pairs, by at most `queries` words of each.

    Raises: InputError if there is no pair.
    """
    scores: ScoreSums | None = None
    apart: RatioSums | None = None
    stream = Stream(scanner, records, on_bad, on_batch)

    def look(own: Scanner, inputs: Sequence[EncodedInput]) -> tuple[ScoreSums, list[tuple[int, FloatArray]]]:
        """The scores of some inputs; of each, how many queries were drawn and the heads' divergences over them."""
        drawn = [queries_of(one, queries, own.options.seed) for one in inputs]
        keeper = RowKeeper(drawn, [len(one.tokens) for one in inputs])
        scores = own.score(inputs, also=lambda _: keeper)
        return scores, [(len(each), divergences(rows).numpy()) for each, rows in zip(drawn, keeper.rows(), strict=True)]

    with closing(stream.worked(look)) as looked:
        for looks, _ in looked:
            for of_batch, divergent in looks:
                scores = of_batch if scores is None else scores + of_batch
                for count, matrix in divergent:
                    pair = RatioSums.of(matrix[None], np.full((1, 1, 1), float(count)))
                    apart = pair if apart is None else apart + pair
    if scores is None or apart is None or not apart.n.item():
        raise no_pair("to compare heads by")
    return Similarity(
        divergence=apart.ratio,
        se=apart.se,
        scores=scores.finish(),
        queries=int(apart.n.item()),
        signature=scanner.signature(stream.seen),
        within=within,
        threshold=scanner.options.threshold,
    )
