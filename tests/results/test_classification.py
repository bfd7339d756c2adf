"""Labels, runners-up and frames, from small tables written out."""

from __future__ import annotations

import numpy as np
import pytest
from small_results import PATTERNS, SIGNATURE, result_of

from attnscan.results.behaviour import TABLE_COLUMNS, Labels
from attnscan.results.classification import Classification


@pytest.mark.parametrize(
    ("above", "label", "runner_up"),
    [
        ([0.9, 0.1, 0.1, 0.5], "next-word", "delimiter"),
        ([0.3, 0.1, 0.1, 0.9], "delimiter", "next-word"),
        ([0.24, 0.1, 0.1, 0.2], "mixed", "mixed"),
        ([0.25, 0.0, 0.0, 0.0], "next-word", "mixed"),
        ([0.1, 0.3, 0.9, 0.1], "cross-sentence", "mixed"),  # a part wins by itself
        ([0.1, 0.2, 0.3, 0.1], "cross-sentence", "mixed"),  # where the whole does not win
        ([0.1, 0.3, 0.2, 0.1], "identical", "mixed"),
        ([0.5, 0.2, 0.3, 0.1], "next-word", "cross-sentence"),
        ([np.nan, np.nan, np.nan, 0.4], "delimiter", "mixed"),
        ([np.nan, np.nan, np.nan, np.nan], "mixed", "mixed"),
        ([-0.2, -0.2, -0.2, -0.1], "mixed", "mixed"),
    ],
)
def test_labels(above: list[float], label: str, runner_up: str) -> None:
    result = result_of([above], share=0.5)
    assert (result.label.item(), result.runner_up.item()) == (label, runner_up)


@pytest.mark.parametrize(
    ("above", "share", "columns"),
    [
        ([0.1, 0.6, 0.5, 0.1], 0.5, ["label", "content_label", "map_label"]),
        ([0.9, 0.6, 0.5, 0.1], 0.9, ["runner_up"]),
        ([0.1, 0.5, 0.6, 0.1], 0.9, []),  # the part wins by itself
        ([0.9, 0.1, 0.0, 0.8], 0.9, []),  # neither has a label
        ([0.1, 0.6, np.nan, 0.1], np.nan, []),  # no word has its like in the other sentence
    ],
)
def test_where_the_share_decides_it_stands_beside_its_chance(
    above: list[float], share: float, columns: list[str]
) -> None:
    rows = result_of([above], share).to_frame().attrs["shares"]
    pattern = {"layer": 0, "head": 0, "pattern": "cross-sentence", "of": "identical"}
    assert rows == [{**pattern, "column": column, "share": share, "chance": 0.4} for column in columns]


@pytest.mark.parametrize(("share", "label"), [(0.66, "identical"), (2 / 3, "cross-sentence"), (np.nan, "identical")])
def test_an_identical_head_is_cross_sentence_by_two_thirds_of_its_weight(share: float, label: str) -> None:
    assert result_of([[0.0, 0.6, 0.5, 0.1]], share).label.item() == label
    assert result_of([[0.9, 0.6, 0.5, 0.1]], share).runner_up.item() == label


@pytest.mark.parametrize(
    ("above", "itself", "label", "runner_up"),
    [
        ([0.3, 0.6, 0.1, 0.1], 0.66, "identical", "next-word"),
        ([0.3, 0.6, 0.1, 0.1], 0.67, "next-word", "mixed"),  # the next pattern competes
        ([0.1, 0.6, 0.3, 0.1], 0.67, "cross-sentence", "mixed"),  # the part is of others alone
        ([0.3, 0.1, 0.1, 0.6], 0.9, "delimiter", "next-word"),  # of other patterns it says nothing
    ],
)
def test_a_head_that_looks_at_the_word_itself_is_not_identical(
    above: list[float], itself: float, label: str, runner_up: str
) -> None:
    result = result_of([above], share=0.5, itself=itself)
    assert (result.label.item(), result.runner_up.item()) == (label, runner_up)


def test_the_threshold_is_the_results_own() -> None:
    result = result_of([[0.4, 0, 0, 0]])
    strict = Classification(("a",), (0,), Labels(result.scores, False, 0.5), SIGNATURE)
    assert (result.label.item(), strict.label.item()) == ("next-word", "mixed")


def test_content_labels_come_from_words_alone() -> None:
    result = result_of([[0.1, 0, 0, 0.9]], words=[[0.8, 0, 0, np.nan]])
    assert (result.label.item(), result.content_label.item()) == ("delimiter", "next-word")


def test_a_frame_has_the_columns_of_the_contract_in_order() -> None:
    frame = result_of([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]]).to_frame()
    assert frame.columns.tolist() == [
        *("model", "layer", "head", "label", "runner_up", "content_label"),
        *PATTERNS,
        *("entropy", "identical_self", "label_stays", "content_label_stays", "carried_label_stays", "map_label_stays"),
        *("carried_label", "map_label", "output", *TABLE_COLUMNS),
    ]
    assert frame[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]


def test_a_frame_of_chosen_patterns_keeps_the_labels() -> None:
    frame = result_of([[0.1, 0.2, 0.3, 0.9]]).to_frame(["next-word"])
    assert frame.columns.tolist() == [
        "model",
        "layer",
        "head",
        "label",
        "runner_up",
        "content_label",
        "next-word",
        "entropy",
        *("label_stays", "content_label_stays", "carried_label_stays", "map_label_stays"),
        *("carried_label", "map_label", "output", *TABLE_COLUMNS),
    ]
    assert frame["label"].item() == "delimiter"


def test_results_are_frozen() -> None:
    with pytest.raises(AttributeError):
        result_of([[0.1, 0.2, 0.3, 0.4]]).threshold = 0.1  # type: ignore[misc]
