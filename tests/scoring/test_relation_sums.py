"""Sums over trees: what they choose, and that they add whatever rows they are of."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnscan.errors import ModelError
from attnscan.results.syntax import HEAD, RULES, Row
from attnscan.scoring.blocks import Blocks, added
from attnscan.scoring.relations import RelationSums, by_row, rows_of, syntax_of

LAYERS, HEADS = 1, 2
OF_HEADS = LAYERS, HEADS
OF_ROWS: dict[str, tuple[int, ...]] = {"met": ()}
OF_ROWS |= dict.fromkeys(("weight", "on_words", "eligible", "chance", "chance_eligible"), OF_HEADS)
OF_SENTENCE = {"n": (2,), "hits": OF_HEADS, "rules": (2, len(RULES))}


def sums_of(rows: list[Row], document: str, **known: Any) -> RelationSums:
    """Of one sentence; what is not `known` is zero, and of everything there is one."""
    of_rows, of_sentence = (
        {name: np.zeros((len(rows), *shape)) for name, shape in shapes.items()} for shapes in (OF_ROWS, OF_SENTENCE)
    )
    of_all = {"linked": np.zeros(OF_HEADS), "links": np.ones(2), "words": np.array([2.0, 0])}
    for sums in (of_rows, of_all, of_sentence):
        sums |= {name: np.asarray(known[name], dtype=np.float64) for name in {*sums} & {*known}}
    of_sentences = {name: values[None] for name, values in of_sentence.items()}
    whole = {name: values[None] for name, values in of_all.items()}
    whole |= by_row(rows, {name: values[None] for name, values in of_rows.items()})
    documents = Blocks.of([document], by_row(rows, of_sentences))
    return {"whole": Blocks.of(["0" * 16], whole, 1), "documents": documents}


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
    assert result.rule.tolist() == [expected]
    assert result.rule_accuracy[0] == pytest.approx(right / n.sum())


def test_too_many_words_in_no_token_are_no_offsets() -> None:
    row, signature = [Row("obj", HEAD)], SimpleNamespace(model="mine")
    for lost, refused in ((50, False), (51, True)):
        sums = sums_of(row, "a" * 64, words=[100, lost], met=[30])
        with pytest.raises(ModelError, match=r"the tokenizer of mine .* 51 of 100") if refused else nullcontext():
            syntax_of(sums, signature, among=False)  # type: ignore[arg-type]


def test_sums_of_other_rows_add() -> None:
    one = sums_of([Row("det", HEAD)], "a" * 64, linked=np.ones((LAYERS, HEADS)))
    total = added(one, sums_of([Row("all", HEAD), Row("obj", HEAD)], "b" * 64, n=[[1, 0], [2, 5]]))
    assert [row.relation for row in rows_of(total)] == ["all", "det", "obj"]
    assert total["whole"].sums["linked"].sum() == HEADS
    assert total["documents"].sums[f"n|obj|{HEAD}"].tolist() == [[0, 0], [2, 5]]  # a document each
