"""Compares every head's weights with every other's over a stream of pairs: one scan, and a look at some queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

import numpy as np

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Record
from attnscan.results.scores import FloatArray
from attnscan.results.similarity import Similarity
from attnscan.results.terms import QUERIES, WITHIN
from attnscan.scan.scanner import Scanner
from attnscan.scan.stream import OnBad, Seen, each_batch
from attnscan.scoring.sums import RatioSums, ScoreSums
from attnscan.studies.divergence import RowKeeper, divergences, queries_of


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = WITHIN,
    on_bad: OnBad | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Similarity:
    """How far apart all heads are, over pairs, by at most `queries` words of each.

    Raises: InputError if there is no pair.
    """
    scores: ScoreSums | None = None
    apart: RatioSums | None = None
    seen, done = Seen(), 0

    def look(own: Scanner, inputs: Sequence[EncodedInput]) -> tuple[ScoreSums, list[tuple[int, FloatArray]]]:
        """The scores of some inputs; of each, how many queries were drawn and the heads' divergences over them."""
        drawn = [queries_of(one, queries, own.options.seed) for one in inputs]
        keeper = RowKeeper(drawn, [len(one.tokens) for one in inputs])
        scores = own.score(inputs, also=keeper)
        return scores, [(len(each), divergences(rows).numpy()) for each, rows in zip(drawn, keeper.rows(), strict=True)]

    with closing(each_batch(scanner, records, seen, on_bad, look)) as looked:
        for batch, looks, seen_then in looked:
            for found, divergent in looks:
                scores = found if scores is None else scores + found
                for count, matrix in divergent:
                    pair = RatioSums.of(matrix[None], np.full((1, 1, 1), float(count)))
                    apart = pair if apart is None else apart + pair
            done += len(batch)
            if on_batch is not None:
                on_batch(done)
            seen = seen_then or seen
    if scores is None or apart is None or not apart.n.item():
        raise InputError("there is no pair to compare heads by", "give a file with at least one")
    signature = scanner.signature(seen.digest, read=seen.read, truncated=seen.truncated, skipped=seen.skipped)
    return Similarity(
        divergence=apart.ratio,
        se=apart.se,
        scores=scores.finish(),
        queries=int(apart.n.item()),
        signature=signature,
        within=within,
        threshold=scanner.options.threshold,
    )
