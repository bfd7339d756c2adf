"""The heads of a model, their order and names."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from attnscan.errors import SelectionError
from attnscan.results.grid import AttentionKind, Grid, Head, attention_named, heads_written

GRID = Grid((3, 2))
CROSS = Grid((1, 2), AttentionKind.CROSS)
HYBRID = Grid((2, 2), layers=(1, 3))


def names(heads: Iterable[Head]) -> str:
    return ",".join(head.name for head in heads)


@pytest.mark.parametrize(
    ("grid", "heads"),
    [(GRID, "0-0,0-1,1-0,1-1,2-0,2-1"), (CROSS, "c0-0,c0-1"), (HYBRID, "1-0,1-1,3-0,3-1")],
)
def test_heads_are_counted_layer_by_layer(grid: Grid, heads: str) -> None:
    assert names(grid) == heads and list(grid) == sorted(set(grid)) and len(grid) == len(list(grid))
    assert [grid.index(grid[np.int64(number)]) for number in range(len(grid))] == list(
        range(len(grid))
    )
    assert names(grid.layer_of(grid[1])) == ",".join(heads.split(",")[:2])
    values = np.arange(len(grid)).reshape(grid.shape)
    assert [values[head.place] for head in grid] == list(range(len(grid)))
    assert [*zip(*list(grid.columns([1]).values())[-2:], strict=True)] == [(grid[1].layer, 1)]


@pytest.mark.parametrize(
    ("grid", "text", "heads"),
    [
        (GRID, "2-0,0-1", "2-0,0-1"),
        (GRID, " 2-0 , 2-0", "2-0"),
        (GRID, "layer:1", "1-0,1-1"),
        (GRID, "1-1,layer:1", "1-1,1-0"),
        (GRID, "all", "0-0,0-1,1-0,1-1,2-0,2-1"),
        (GRID, "e2-0,layer:e1", "2-0,1-0,1-1"),
        (CROSS, "c0-1,0-0,layer:c0", "c0-1,c0-0"),
        (HYBRID, "layer:3", "3-0,3-1"),
    ],
)
def test_selected(grid: Grid, text: str, heads: str) -> None:
    selected = grid.select(text)
    assert names(selected) == heads
    assert grid.select(heads) == grid.select(selected) == selected


def test_heads_are_written_in_many_ways() -> None:
    for heads in ("2-0", (2, 0), Head(2, 0), np.array([[2, 0]]), ["2-0", (2, 0)]):
        assert GRID.select(heads) == [Head(2, 0)]
    with pytest.raises(SelectionError, match="names no head"):
        heads_written(20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12-0", "12-0: this model has layers 0 to 2; give a layer among these"),
        ("0-2", "0-2: this model has heads 0 to 1; give a head among these"),
        ("", "'' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all"),
        ("c1-0", "c1-0: this model has no cross attention; name heads as 0-0"),
    ],
)
def test_no_such_head(text: str, message: str) -> None:
    with pytest.raises(SelectionError) as error:
        GRID.select(text)
    assert str(error.value) == message
    with pytest.raises(
        SelectionError, match="2-0: this model has layers 1, 3; give a layer among these"
    ):
        HYBRID.select("2-0")


@pytest.mark.parametrize(
    ("text", "option", "attention"),
    [
        ("all", None, "encoder"),
        ("e2-0, 0-1", None, "encoder"),
        ("d1-3", None, "decoder"),
        ("all,c1-0,layer:c0", None, "cross"),
        ("1-0,c1-1,layer:0,all", "cross", "cross"),
        ("1-0", "decoder", "decoder"),
    ],
)
def test_letters_tell_of_which_attention_heads_are(text: str, option: Any, attention: str) -> None:
    assert attention_named(text, option) == attention


def test_heads_of_two_kinds_are_not_read_together() -> None:
    with pytest.raises(
        SelectionError,
        match="c1-0 is of cross attention and 0-2 is of encoder attention; name heads",
    ):
        attention_named("c1-0,0-2")
    with pytest.raises(
        SelectionError,
        match="d1-0 is of decoder attention, and cross attention was asked for; leave",
    ):
        attention_named("0-2,d1-0", "cross")
