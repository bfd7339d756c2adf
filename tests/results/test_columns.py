"""The columns of tables are those that are declared, and no own pattern is called as one."""

import pytest
from support.small_results import PATTERNS, ranking_of, result_of

from attnscan.errors import OptionError
from attnscan.results.columns import HEAD_COLUMNS, MEAN_COLUMNS, RANKING_COLUMNS, reserved_names
from attnscan.scoring.patterns import Pattern, chosen


def test_a_table_of_heads_has_the_declared_columns() -> None:
    before = [column.name for column in HEAD_COLUMNS]
    behind = [column.name for column in MEAN_COLUMNS]
    frame = result_of([[0.1, 0.2, 0.3, 0.4]]).to_frame()
    assert frame.columns.tolist()[4:] == [*before, *PATTERNS, *behind]


def test_a_ranking_has_the_declared_columns() -> None:
    frame = ranking_of().to_frame()
    assert frame.columns.tolist()[6:] == [column.name for column in RANKING_COLUMNS]


def test_every_column_of_a_table_is_reserved() -> None:
    tables = (result_of([[0.1, 0, 0, 0]]).to_frame([]), ranking_of().to_frame())
    for table in tables:
        assert set(table.columns) - set(PATTERNS) <= set(reserved_names())


@pytest.mark.parametrize("name", [*reserved_names(), "Label"])
def test_a_reserved_name_is_no_name_of_a_pattern(name: str) -> None:
    own = Pattern(id=name, letter="X", target=None, counts="")
    with pytest.raises(OptionError, match=f"are called '{name}'"):
        chosen([own])
