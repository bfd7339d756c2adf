"""What `import attnscan` offers, for notebooks and programs. Options are the fields of `options.ScanOptions`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from attnscan import one_input
from attnscan.attention import Attention
from attnscan.engine import ScanState, scan
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record
from attnscan.results import Classification, Ranking
from attnscan.scanner import Scanner


def classify(a: str, b: str | None = None, *, model: str | None = None, **options: Any) -> Classification:
    """What every head of a model does on one sentence, or on a pair. `to_frame()` is its table.

    A notebook shows its labels and scores, and below them the views of `attnscan report`, offline.

    `model` is a hub id, a directory or `bundled`, as on the command line.

    Raises: AttnscanError, which says what to do about it; TypeError for an option that there is not.
    """
    result, attention = one_input.classify_and_keep(Pair(a, b), ScanOptions(model=model, **options))
    return replace(result, attention=attention)


def classify_and_keep(
    a: str, b: str | None = None, *, model: str | None = None, **options: Any
) -> tuple[Classification, Attention]:
    """The same, and the attention itself, token by token.

    Raises: as `classify`.
    """
    return one_input.classify_and_keep(Pair(a, b), ScanOptions(model=model, **options))


def rank_heads(
    pairs: Iterable[str | tuple[str, str]], *, model: str | None = None, on_long: Any = "truncate", **options: Any
) -> Ranking:
    """Every head's scores over many sentences or pairs of them, read one by one. `to_frame()` ranks the heads.

    Raises: as `classify`.
    """
    with Scanner(ScanOptions(model=model, on_long=on_long, **options)) as scanner:
        state = ScanState()
        for after in scan(scanner, _records(pairs)):
            state = after
        return state.finish(scanner)


def _records(pairs: Iterable[str | tuple[str, str]]) -> Iterator[Record]:
    for number, pair in enumerate(pairs, 1):
        yield Record(Pair(pair) if isinstance(pair, str) else Pair(*pair), f"pair {number}")
