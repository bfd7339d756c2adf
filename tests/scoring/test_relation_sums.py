"""Sums over trees: what they choose, how they are kept, and that damage is found."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from attnscan.errors import ModelError
from attnscan.results.syntax import HEAD, RULES, Row
from attnscan.scoring.relation_sums import AXES, RelationSums, ordered, syntax_of

LAYERS, HEADS = 1, 2
SIZES = {"half": 2, "rule": len(RULES), "kind": 2, "layer": LAYERS, "head": HEADS, "any_head": HEADS + 1}


def sums_of(rows: list[Row], document: str, **known: Any) -> RelationSums:
    """Of one sentence; what is not `known` is zero, and of everything there is one."""
    sizes = SIZES | {"row": len(rows)}
    sums = {name: np.zeros([sizes[axis] for axis in axes.split()]) for name, axes in AXES.items()}
    sums |= {name: np.asarray(values, dtype=np.float64) for name, values in known.items()}
    sums["links"], sums["words"] = np.ones(2), np.array([2.0, 0])
    of_sentence = {"n": sums["n"].sum(1), "hits": sums["hits"], "rules": sums["rules"]}
    return RelationSums.of(rows, sums, [document], {name: values[None] for name, values in of_sentence.items()})


def pointed(*counts: tuple[int, str, int]) -> np.ndarray[Any, Any]:
    """Of one row: to how many targets of a half a rule points."""
    rules = np.zeros((1, 2, len(RULES)))
    for half, rule, count in counts:
        rules[0, half, RULES.index(rule)] = count
    return rules


@pytest.mark.parametrize(
    ("counts", "expected", "right"),
    [
        (  # each half by the choice of the other; told is that of more queries
            [(0, "2 before", 9), (0, "1 behind", 1), (1, "1 behind", 8), (1, "2 before", 3)],
            "2 before",
            1 + 3,
        ),
        # of equally good ones that before the query, then the nearest, and a distance before a part of speech
        ([(0, "3 behind", 4), (0, "3 before", 4), (1, "3 before", 2), (1, "3 behind", 2)], "3 before", 4 + 2),
        ([(0, "3 behind", 4), (0, "2 before", 4), (1, "2 before", 2)], "2 before", 4 + 2),
        ([(0, "10 behind", 5), (1, "10 behind", 5)], "10 behind", 10),
        ([(0, "10 behind", 5), (0, "NOUN behind", 6), (1, "10 behind", 5), (1, "NOUN behind", 6)], "NOUN behind", 12),
    ],
)
def test_the_rule_is_chosen_on_the_other_half(counts: list[tuple[int, str, int]], expected: str, right: int) -> None:
    rules = pointed(*counts)
    n = rules.sum(-1)
    sums = sums_of([Row("obj", HEAD)], "a" * 64, rules=rules, n=n, met=[30])
    result = syntax_of(sums, None, among=False)  # type: ignore[arg-type]
    assert result.of_rows.rule.tolist() == [expected]
    assert result.of_rows.rule_accuracy[0] == pytest.approx(right / n.sum())


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
