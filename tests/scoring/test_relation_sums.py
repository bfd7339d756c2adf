"""Sums over trees: what they choose, how they are kept, and that damage is found."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from attnscan.errors import ModelError
from attnscan.results.syntax import FAR, HEAD, OFFSETS, Row
from attnscan.scoring.relation_sums import AXES, DISTANCES, RelationSums, ordered, syntax_of

LAYERS, HEADS = 1, 2
SIZES = {"half": 2, "distance": DISTANCES, "kind": 2, "layer": LAYERS, "head": HEADS, "any_head": HEADS + 1}


def sums_of(rows: list[Row], document: str, **known: Any) -> RelationSums:
    """Of one sentence; what is not `known` is zero, and of everything there is one."""
    sizes = SIZES | {"row": len(rows)}
    sums = {name: np.zeros([sizes[axis] for axis in axes.split()]) for name, axes in AXES.items()}
    sums |= {name: np.asarray(values, dtype=np.float64) for name, values in known.items()}
    sums["links"], sums["words"] = np.ones(2), np.array([2.0, 0])
    of_sentence = {"n": sums["n"].sum(1), "hits": sums["hits"], "offsets": sums["offsets"]}
    return RelationSums.of(rows, sums, [document], {name: values[None] for name, values in of_sentence.items()})


def at_distances(**counts: int) -> np.ndarray[Any, Any]:
    """Of one row: how many targets each half has at some distances, `a` before or `b` behind."""
    offsets = np.zeros((1, 2, DISTANCES))
    for name, count in counts.items():
        half, side, distance = int(name[1]), {"a": -1, "b": 1}[name[2]], int(name[3:])
        offsets[0, half, side * distance + FAR] = count
    return offsets


@pytest.mark.parametrize(
    ("counts", "expected", "right"),
    [
        (
            {"h0a2": 9, "h0b1": 1, "h1b1": 8, "h1a2": 3},
            -2,
            1 + 3,
        ),  # each half by the choice of the other; told is that of more queries
        ({"h0b3": 4, "h0a3": 4, "h1a3": 2, "h1b3": 2}, -3, 4 + 2),  # of equally good ones that before the query
        ({"h0b3": 4, "h0a2": 4, "h1a2": 2}, -2, 4 + 2),  # and the nearest
        ({"h0b10": 5, "h1b10": 5}, 10, 10),
        ({"h0b11": 5, "h1b11": 5}, -1, 0),  # too far for a rule
    ],
)
def test_the_offset_is_chosen_on_the_other_half(counts: dict[str, int], expected: int, right: int) -> None:
    offsets = at_distances(**counts)
    n = offsets.sum(-1)
    sums = sums_of([Row("obj", HEAD)], "a" * 64, offsets=offsets, n=n, met=[30])
    result = syntax_of(sums, None, among=False)  # type: ignore[arg-type]
    assert result.of_rows.offset.tolist() == [expected]
    assert result.of_rows.offset_accuracy[0] == pytest.approx(right / n.sum())


def test_too_many_words_in_no_token_are_no_offsets() -> None:
    row, signature = [Row("obj", HEAD)], SimpleNamespace(model="mine")
    for lost, refused in ((5, False), (6, True)):
        sums = sums_of(row, "a" * 64, spelled=[100, lost], met=[30])
        with pytest.raises(ModelError, match=r"the tokenizer of mine .* 6 of 100") if refused else nullcontext():
            syntax_of(sums, signature, among=False)  # type: ignore[arg-type]


def test_rows_are_in_the_order_of_tables() -> None:
    assert [row.relation for row in ordered([Row("obj", HEAD), Row("all", HEAD), Row("det", HEAD)])] == [
        "all",
        "det",
        "obj",
    ]


def test_sums_are_kept_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    one = sums_of([Row("det", HEAD)], "a" * 64, linked=rng.random((LAYERS, HEADS + 1)))
    total = one + sums_of([Row("all", HEAD), Row("obj", HEAD)], "b" * 64, n=[[1, 0], [2, 5]])
    again = RelationSums.unpacked(total.packed(), (LAYERS, HEADS))
    assert again.rows == total.rows and len(total.rows) == 3
    for name, values in total.sums.items():
        assert_array_equal(again.sums[name], values)
    for name, values in total.documents.stacked().items():
        assert_array_equal(again.documents.stacked()[name], values)


@pytest.mark.parametrize(
    "damage",
    [
        {"rows": np.array([["obj", HEAD], ["det", HEAD]])},
        {"n": np.zeros((1, 2))},
        {"n": np.full((2, 2), np.nan)},
        {"n": np.zeros((2, 2), dtype=np.float32)},
        {"documents.n": np.zeros((1, 3))},
    ],
)
def test_damaged_sums_are_refused(damage: dict[str, Any]) -> None:
    packed = sums_of([Row("det", HEAD), Row("obj", HEAD)], "a" * 64).packed()
    RelationSums.unpacked(packed, (LAYERS, HEADS))
    with pytest.raises(ValueError, match=r"order|shape"):
        RelationSums.unpacked({**packed, **damage}, (LAYERS, HEADS))
    assert sorted(OFFSETS) == [*range(-10, 0), *range(1, 11)]
