"""What a page says of every head by each reading: the cells of the CSV, labels, statements, where attention goes."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from attnscan.results.files import render
from attnscan.results.heads import HeadScores
from attnscan.results.intervals import half_width
from attnscan.results.terms import Reading
from attnscan.text import plain
from attnscan.views.behaviour import statement, summary
from attnscan.views.page.cargo import compressed

_LEAST_SHARE = 0.01  # of a word's attention; classes with less are not listed
_MOST_HEADS = 600  # whose statements and shares take 50 kB; of more, a page has better things to hold
READINGS = {
    "weight": Reading("weight", "in"),
    "words": Reading("weight", "out"),
    "carried": Reading("carried", "in"),
    "carried-words": Reading("carried", "out"),
}


def results_by_reading(result: HeadScores, *, carried: bool) -> dict[str, HeadScores]:
    """A result by each reading that it has; its own comes last, on which the page opens. Many pairs have one."""
    if not result.of_input:
        return {name: result for name, reading in READINGS.items() if reading == result.reading}
    known = {n: r for n, r in READINGS.items() if r in result.labels_by and (carried or not r.carried)}
    names = sorted(known, key=lambda name: known[name] == result.reading)
    return {name: result.with_reading(known[name].by, known[name].special) for name in names}


def frame_of(result: HeadScores) -> pd.DataFrame:
    """Every head's line of the CSV; of one input with what it puts out, of many pairs with the ends of intervals."""
    columns = result.labels.columns(result.pattern or result.scores.patterns)
    frame = pd.DataFrame({"model": result.signature.model, **columns})
    if result.output is not None:
        frame["output"] = result.output.ravel()
    if not result.of_input:
        for p, pattern in enumerate(result.scores.patterns):
            for end, bound in zip(("low", "high"), result.table.interval, strict=True):
                frame[f"{pattern}_{end}"] = bound[..., p].ravel()
    return frame


def packed_table(results: Mapping[str, HeadScores]) -> str:
    """By each reading the rows, doubts, chance, summary and statements; by weight and carried where attention goes."""
    profiles = {r.reading.by: _profiles(r) for r in results.values() if r.labels.classes is not None}
    told = {"readings": {name: _told(result) for name, result in results.items()}, "profiles": profiles}
    return compressed(json.dumps(told, separators=(",", ":"), allow_nan=False).encode())


def _told(result: HeadScores) -> dict[str, Any]:
    labels, table, grid = result.labels, result.labels.table, result.grid
    chance = np.broadcast_to(table.chance, table.score.shape).reshape(len(grid), -1)
    _, *rows = csv.reader(io.StringIO(render(frame_of(result), "csv").decode()))
    return {
        "rows": rows,
        "unsure": labels.unsure.ravel().astype(int).tolist(),
        "rests": labels.rests.ravel().astype(int).tolist(),
        "chance": [[_rounded(value, 5) for value in of_head] for of_head in chance],
        "summary": plain(summary(result)),
        "does": [statement(labels, head) for head in grid] if len(grid) <= _MOST_HEADS else [],
    }


def _profiles(result: HeadScores) -> list[list[tuple[str, float | None, float | None]]]:
    """Each head's classes with their shares, largest first, and half the 95 % interval over pairs."""
    if len(result.grid) > _MOST_HEADS:
        return []
    profile = result.profile
    half = half_width(profile.se, profile.signature.pairs_read)
    return [
        [
            (plain(name), _rounded(share, 4), _rounded(half[(*head.place, profile.classes.index(name))], 4))
            for name, share in profile.strongest(head, _LEAST_SHARE)
        ]
        for head in profile.grid
    ]


def _rounded(value: float, decimals: int) -> float | None:
    return None if math.isnan(value) else round(float(value), decimals)
