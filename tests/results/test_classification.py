"""One input's result: its frame, its readings and the order of heads."""

from __future__ import annotations

import numpy as np
import pytest
from small_results import PATTERNS, result_of

from attnscan.errors import OptionError

FIRST = ["model", "layer", "head", "name", "label", "label_stays", "among_words", "share", "average"]


def test_a_frame_has_the_columns_of_the_contract_in_order() -> None:
    result = result_of([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]])
    frame = result.to_frame()
    assert frame.columns.tolist() == [*FIRST, *PATTERNS, "entropy"]
    assert frame[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]
    assert result.to_frame(["next-word"]).columns.tolist() == [*FIRST, "next-word", "entropy"]


def test_ranking_puts_the_best_first_and_has_no_head_without_a_score() -> None:
    result = result_of([[0.1, 0.9, 0, 0], [0.5, 0.2, 0, 0], [np.nan, np.nan, np.nan, np.nan], [0.3, 0, 0, 0.6]])
    assert result.order("next-word").tolist() == [1, 3, 0]
    assert result.order().tolist() == [0, 3, 1]


def test_a_reading_that_is_not_there_is_refused_with_a_remedy() -> None:
    result = result_of([[0.1, 0, 0, 0]])
    assert result.with_reading("weight", "out").label.item() == ""
    with pytest.raises(OptionError, match="by attention weight, among words"):
        result.with_reading(special="in")
    with pytest.raises(OptionError, match="what heads carry is not in this result"):
        result.with_reading("carried")
