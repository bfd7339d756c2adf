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
from attnscan.scan.events import Progress, Steps
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import no_pair
from attnscan.scan.stream import OnBad, Stream
from attnscan.scoring.label_sums import LabelSums
from attnscan.scoring.resampling import labels_of
from attnscan.scoring.sums import PairSums, RatioSums, ScoreSums, added
from attnscan.studies.divergence import RowKeeper, divergences, queries_of


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = WITHIN,
    on_bad: OnBad | None = None,
) -> Steps[Similarity]:
    """How far apart all heads are, over pairs, by at most `queries` words of each; tells of pairs that are done.

    Raises: InputError if there is no pair.
    """
    scanner = scanner.exact()
    scores: ScoreSums | None = None
    labels: LabelSums | None = None
    apart: RatioSums | None = None
    stream = Stream(scanner, records, on_bad)

    def look(own: Scanner, inputs: Sequence[EncodedInput]) -> tuple[ScoreSums, LabelSums, list[tuple[int, FloatArray]]]:
        """The scores of some inputs; of each, how many queries were drawn and the heads' divergences over them."""
        kept: list[PairSums] = []
        drawn = [queries_of(encoded, queries, own.options.seed) for encoded in inputs]
        keeper = RowKeeper(drawn, inputs, own.options.reading)
        scores = own.score(inputs, also=lambda _: keeper, on_pairs=lambda _, sums: kept.append(sums))
        keys = [encoded.known_pair.key for encoded in inputs]
        labels = LabelSums.of(kept[0], scores.scored, keys, own.options.threshold)
        rows_of_heads = zip(drawn, keeper.rows(), strict=True)
        return (
            scores,
            labels,
            [(len(queries_of_input), divergences(rows).numpy()) for queries_of_input, rows in rows_of_heads],
        )

    with closing(stream.worked(look, scanner.crew)) as looked:
        for looks, _ in looked:
            for of_batch, labels_of_batch, divergent in looks:
                scores, labels = added(scores, of_batch), added(labels, labels_of_batch)
                for count, matrix in divergent:
                    apart = added(apart, RatioSums.of(matrix[None], np.full((1, 1, 1), float(count))))
            yield Progress("comparing heads by pairs", stream.done)
    if scores is None or labels is None or apart is None or not apart.n.item():
        raise no_pair("to compare heads by")
    options = scanner.options
    return Similarity(
        divergence=apart.ratio,
        se=apart.se,
        labels=labels_of(scores.finish(), labels, options.threshold, options.seed, norm=options.reading.carried),
        queries=int(apart.n.item()),
        signature=scanner.signature(stream.seen),
        within=within,
    )
