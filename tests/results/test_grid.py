"""The heads of a model: their order, their names, and what is said when there are none of a name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnscan.errors import SelectionError
from attnscan.results.grid import AttentionKind, Grid, Head, attention_named, heads_written, names

GRID = Grid.square(3, 2)
TRANSLATOR = Grid(((AttentionKind.ENCODER, 2, 3), (AttentionKind.DECODER, 1, 2), (AttentionKind.CROSS, 1, 2)))


def test_heads_are_counted_kind_by_kind_and_layer_by_layer() -> None:
    assert names(GRID) == "0-0,0-1,1-0,1-1,2-0,2-1"
    assert names(TRANSLATOR) == "e0-0,e0-1,e0-2,e1-0,e1-1,e1-2,d0-0,d0-1,c0-0,c0-1"
    for grid in (GRID, TRANSLATOR):
        heads = list(grid)
        assert heads == sorted(set(heads)) and len(grid) == len(heads)
        assert [grid[np.int64(number)] for number in range(len(grid))] == heads
        assert [grid.index(head) for head in heads] == list(range(len(grid)))
        assert all(head in grid for head in heads)
    assert names(TRANSLATOR.layer_of(Head(1, 1, kind=AttentionKind.ENCODER))) == "e1-0,e1-1,e1-2"


@pytest.mark.parametrize(
    ("grid", "text", "heads"),
    [
        (GRID, "2-0", "2-0"),
        (GRID, "2-0,0-1", "2-0,0-1"),
        (GRID, " 2-0 , 2-0", "2-0"),
        (GRID, "layer:1", "1-0,1-1"),
        (GRID, "1-1,layer:1", "1-1,1-0"),
        (GRID, "all", "0-0,0-1,1-0,1-1,2-0,2-1"),
        (GRID, "e2-0,layer:e1", "2-0,1-0,1-1"),
        (TRANSLATOR, "c0-1,0-2,layer:d0", "c0-1,e0-2,d0-0,d0-1"),
    ],
)
def test_selected(grid: Grid, text: str, heads: str) -> None:
    selected = grid.select(text)
    assert names(selected) == heads
    assert grid.select(heads) == grid.select(selected) == selected


def test_heads_are_written_in_many_ways() -> None:
    for heads in ("2-0", (2, 0), [2, 0], Head(2, 0), [Head(2, 0)], np.array([[2, 0]]), ["2-0", (2, 0)]):
        assert GRID.select(heads) == [Head(2, 0)]
    with pytest.raises(SelectionError, match="names no head"):
        heads_written(20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12-0", "12-0: this model has layers 0 to 2; give a layer among these"),
        ("0-2", "0-2: this model has heads 0 to 1; give a head among these"),
        ("layer:3", "layer:3: this model has layers 0 to 2; give a layer among these"),
        ("", "'' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("2-0,", "'' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("-1-0", "'-1-0' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("٢-٠x", "'٢-٠x' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("c1-0", "c1-0: this model has no cross attention; name heads as 0-0"),
        ("9" * 5000 + "-0", None),
    ],
)
def test_no_such_head(text: str, message: str | None) -> None:
    with pytest.raises(SelectionError) as error:
        GRID.select(text)
    assert message is None or str(error.value) == message


@pytest.mark.parametrize(
    ("text", "asked", "attention"),
    [
        ("2-0,layer:1", None, "encoder"),
        ("all", None, "encoder"),
        ("e2-0, 0-1", None, "encoder"),
        ("d1-3", None, "decoder"),
        ("all,c1-0,layer:c0", None, "cross"),
        ("1-0,c1-1,layer:0,all", "cross", "cross"),
        ("1-0", "decoder", "decoder"),
        ("e1-0", "encoder", "encoder"),
    ],
)
def test_letters_tell_of_which_attention_heads_are(text: str, asked: Any, attention: str) -> None:
    assert attention_named(text, asked) == attention


@pytest.mark.parametrize(
    ("text", "asked", "message"),
    [
        ("c1-0,0-2", None, "c1-0 is of cross attention and 0-2 is of encoder attention; name heads of one kind at a"),
        ("layer:d0,c1-0", None, "layer:d0 is of decoder attention and c1-0 is of cross attention; name heads of"),
        (
            "0-2,d1-0",
            "cross",
            "d1-0 is of decoder attention, and cross attention was asked for; leave out attention='cross', or name "
            "heads as c1-0",
        ),
    ],
)
def test_heads_of_two_kinds_are_not_read_together(text: str, asked: Any, message: str) -> None:
    with pytest.raises(SelectionError) as error:
        attention_named(text, asked)
    assert str(error.value).startswith(message)
