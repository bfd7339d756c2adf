"""The layout of what a readout measures: columns to patterns."""

from __future__ import annotations

import numpy as np
import torch

from attnscan.scoring.readout import Columns
from attnscan.scoring.targets import Target


def test_columns_split_into_each_target_and_the_wider_one() -> None:
    """Column 1 is a part of column 0; behind the three stand column 0 on its queries, by every key and by words.

    Behind all these stands what lies on the query itself.
    """
    every_key, on_words = [1, 2, 3, 7, 8, 21, 22, 23], [4, 5, 6, 17, 18, 24, 25, 26]
    weight, whole, itself = Columns(3, ((1, 0),)).split(np.array([every_key, on_words], dtype=float))
    assert weight.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert whole.tolist() == [[1, 7, 3], [4, 18, 6]]
    assert itself.tolist() == [[21, 22, 23], [24, 25, 26]]


def test_two_parts_have_their_columns_one_after_the_other() -> None:
    every_key, on_words = [0, 0, 0, 1, 2, 3, 4, 9, 9, 9], [0, 0, 0, 5, 6, 7, 8, 9, 9, 9]
    _, whole, _ = Columns(3, ((1, 0), (2, 0))).split(np.array([every_key, on_words], dtype=float))
    assert whole.tolist() == [[0, 1, 2], [0, 7, 8]]


def test_without_parts_there_is_a_column_a_target() -> None:
    matrix = torch.ones(1, 2, 2)
    columns = Columns.of([Target("wide", matrix), Target("other", matrix, part_of="absent")])
    assert len(columns) == 4
    measured = np.arange(8.0).reshape(2, 4)
    weight, whole, itself = columns.split(measured)
    assert weight.tolist() == whole.tolist() == measured[:, :2].tolist()
    assert itself.tolist() == measured[:, 2:].tolist()
    assert len(Columns.of([Target("wide", matrix), Target("part", matrix, part_of="wide")])) == 6
