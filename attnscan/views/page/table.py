"""Every head's labels and scores as a page holds them: the CSV's cells, with fewer decimals where there is no room.

A page has the table by weight, and beside it what differs from it in its other readings: on words alone and, where that
can be had, by what heads carry.
"""

from __future__ import annotations

import csv
import io
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnscan.results.classification import Classification
from attnscan.results.tables import DECIMALS, render
from attnscan.views.page.cargo import compressed

if TYPE_CHECKING:
    import pandas as pd

_NAMES = 3  # model, layer and head: the first columns of the CSV, which all readings have in common
_COARSER = (4, 3, 2)  # decimals of scores that do not fit with all of them


@dataclass(frozen=True)
class Table:
    """Every head's labels and scores, as the CSV has them."""

    columns: tuple[str, ...]
    readings: tuple[str, ...]
    """What the table is told by beside weights: `words`, and `carried` if that can be had."""
    packed: str
    """JSON, base64 of deflated bytes: a list of the cells of each column, and then of each but the names' by each
    reading."""
    decimals: int
    """Of its numbers. The CSV has 6."""


def tables(result: Classification, *, carried: bool) -> Iterator[Table]:
    """The labels and scores of all heads with all decimals, then with ever fewer."""
    by_weight = result if result.carried is None else result.with_norm(False)
    whole = by_weight.to_frame()
    others = {"words": by_weight.to_frame(without_delimiters=True)}
    if carried:
        others["carried"] = result.with_norm(True).to_frame()
    frames = [whole, *(frame.iloc[:, _NAMES:] for frame in others.values())]
    cells = [column for frame in frames for column in _cells(frame)]
    numbers = [
        frame[name].tolist() if kind.kind == "f" else None for frame in frames for name, kind in frame.dtypes.items()
    ]
    for decimals in (DECIMALS, *_COARSER):
        if decimals < DECIMALS:
            cells = [
                column if values is None else ["" if math.isnan(value) else f"{value:.{decimals}f}" for value in values]
                for column, values in zip(cells, numbers, strict=True)
            ]
        text = json.dumps(cells, separators=(",", ":")).encode()
        yield Table(tuple(whole.columns), tuple(others), compressed(text, zlib.Z_DEFAULT_STRATEGY), decimals)


def _cells(frame: pd.DataFrame) -> list[Sequence[str]]:
    """The cells of the CSV, column by column."""
    _, *rows = csv.reader(io.StringIO(render(frame, "csv").decode(), newline=""))
    return list(zip(*rows, strict=True))
