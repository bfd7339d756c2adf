"""The heads of a model, their order and names."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from attnscan.errors import SelectionError
from attnscan.results.grid import (
    AttentionKind,
    Grid,
    Head,
    attention_named,
    heads_written,
    parse_heads,
)

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
    assert names(grid) == heads
    assert list(grid) == sorted(set(grid))
    numbers = list(range(len(grid)))
    assert [grid.index(grid[np.int64(number)]) for number in numbers] == numbers
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


def test_a_head_is_itself_wherever_its_layer_stands_in_arrays() -> None:
    assert Head(3, 1, row=1) == Head(3, 1)
    assert hash(Head(3, 1, row=1)) == hash(Head(3, 1))
    assert (Head(3, 1, row=1).place, Head(3, 1).place) == ((1, 1), (3, 1))
    assert Head(3, 1, row=0).place == (0, 1)


def test_a_head_has_a_name_for_people_and_one_for_tables() -> None:
    cross = Head(1, 3, kind=AttentionKind.CROSS)
    assert (repr(cross), cross.table_name) == ("Head(c1-3)", "cL1H3")
    assert cross.columns == {"kind": "cross", "layer": 1, "head": 3}
    assert Head(2, 0).columns == {"layer": 2, "head": 0}


def test_kinds_of_attention_have_letters_and_words() -> None:
    kinds = [(kind.letter, kind.word) for kind in AttentionKind]
    assert kinds == [("", "encoder"), ("e", "encoder"), ("d", "decoder"), ("c", "cross")]


def test_layers_of_a_model_are_ordered_behind_its_kinds() -> None:
    heads = [Head(0, 0, kind=AttentionKind.CROSS), Head(9, 9, kind=AttentionKind.ENCODER)]
    assert sorted(heads) == heads[::-1]


def test_a_grid_says_how_many_layers_and_heads_it_has() -> None:
    assert (str(GRID), str(CROSS)) == ("3 × 2", "cross 1 × 2")


def test_layers_that_all_have_attention_need_no_numbers() -> None:
    assert Grid((2, 2), layers=(0, 1)) == Grid((2, 2))
    assert list(HYBRID.numbers) == [1, 3]


def test_columns_of_heads_have_their_names_where_asked() -> None:
    columns = CROSS.columns([1, 0], with_names=True)
    assert {name: values.tolist() for name, values in columns.items()} == {
        "kind": ["cross", "cross"],
        "layer": [0, 0],
        "head": [1, 0],
        "name": ["cL0H1", "cL0H0"],
    }
    assert "name" not in CROSS.columns()


def test_a_single_head_is_wanted() -> None:
    assert GRID.head("2-1") == GRID.head((2, 1)) == Head(2, 1)
    with pytest.raises(SelectionError, match="layer:1 names 2 heads; name one, as 2-0"):
        GRID.head("layer:1")


@pytest.mark.parametrize("text", ["L2H0", "2.0", "l2h0", "2-0"])
def test_names_are_those_of_tables_too(text: str) -> None:
    (name,) = parse_heads(text)
    assert (name.letter, name.layer, name.head) == ("", 2, 0)


@pytest.mark.parametrize("text", ["2", "x1-0", "1-", "layer:", "1-0-0", "1234567-0", "alle"])
def test_what_names_no_head_is_refused(text: str) -> None:
    with pytest.raises(SelectionError, match="names no head"):
        parse_heads(f"1-0,{text}")
