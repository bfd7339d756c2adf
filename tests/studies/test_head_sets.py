"""Sets of heads, and the controls beside them."""

from __future__ import annotations

import pytest

from attnscan.studies.head_sets import with_controls


def test_controls_are_as_many_heads_of_the_same_layers() -> None:
    heads = [(0, 1), (0, 2), (2, 0)]
    found = with_controls("x", heads, 12, 20, 0)
    for control in found.controls:
        assert [layer for layer, _ in control] == [0, 0, 2] and len(set(control)) == 3
        assert not set(control) & set(heads)
    assert found.overlap == 0 and len(set(found.controls)) > 10
    assert with_controls("x", heads, 12, 20, 0) == found != with_controls("x", heads, 12, 20, 1)


def test_controls_of_crowded_layers_share_heads_with_the_set_and_say_so() -> None:
    found = with_controls("x", [(0, 0), (0, 1), (0, 2), (1, 0)], 4, 20, 0)
    assert all({(0, 3)} < set(control) for control in found.controls)
    assert found.overlap == pytest.approx(2 / 4)
    assert with_controls("x", [(0, head) for head in range(4)], 4, 20, 0).controls == ()
