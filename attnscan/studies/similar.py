"""Compares every head's weights with every other's over a stream of pairs: one scan, and a look at some queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from torch import Tensor

from attnscan.batch import EncodedInput
from attnscan.engine import OnBad, Seen, tokens_of, windows
from attnscan.errors import InputError
from attnscan.forward import in_halves
from attnscan.options import QUERIES, WITHIN
from attnscan.pairs import Record
from attnscan.scanner import Scanner
from attnscan.studies.divergence import RowKeeper, divergences, queries_of
from attnscan.studies.similarity import DivergenceSums, Similarity
from attnscan.sums import ScoreSums


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
    apart: DivergenceSums | None = None
    seen, done = Seen(), 0

    def look(inputs: Sequence[EncodedInput]) -> tuple[ScoreSums, list[tuple[Sequence[int], Tensor]]]:
        """The scores of some inputs and, of each, the queries that were drawn with all heads' weights there."""
        drawn = [queries_of(one, queries, scanner.options.seed) for one in inputs]
        keeper = RowKeeper(drawn, [len(one.tokens) for one in inputs])
        scores = scanner.score(inputs, also=keeper)
        return scores, list(zip(drawn, keeper.rows(), strict=True))

    with closing(windows(scanner, records, seen, on_bad)) as stream:
        for window, seen_then in stream:
            for batch in window:
                for found, kept in in_halves(batch, look, tokens_of, scanner.device):
                    scores = found if scores is None else scores + found
                    for own, rows in kept:
                        apart = apart or DivergenceSums.of(len(rows))
                        if own:
                            apart.add(divergences(rows).numpy(), len(own))
                done += len(batch)
                if on_batch is not None:
                    on_batch(done)
            seen = seen_then
    if scores is None or apart is None or not apart.n:
        raise InputError("there is no pair to compare heads by", "give a file with at least one")
    signature = scanner.signature(seen.digest, read=seen.read, truncated=seen.truncated, skipped=seen.skipped)
    return Similarity(
        divergence=apart.mean(),
        se=apart.se(),
        scores=scores.finish(),
        queries=apart.n,
        signature=signature,
        within=within,
        threshold=scanner.options.threshold,
    )
