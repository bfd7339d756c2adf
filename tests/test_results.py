"""Labels, runners-up, rankings and frames, from small tables written out."""

from __future__ import annotations

import numpy as np
import pytest

from attnscan.results import Classification, Scores, ScoreTable, Signature

PATTERNS = ("next-word", "identical", "cross-sentence", "delimiter")
PART_OF = (None, None, "identical", None)
SIGNATURE = Signature(
    model="toy",
    revision=None,
    attnscan="0",
    torch="0",
    transformers=None,
    dtype="float32",
    device="cpu",
    unit="token",
    pattern_set="1",
    input_hash="0",
    read_by="tap",
    predictive="off",
)


def _table(above: list[list[float]], share: float = 1.0) -> ScoreTable:
    """One layer; chance is 0.2 everywhere, so that a score is 0.2 + 0.8 x above."""
    score = 0.2 + 0.8 * np.array([above], dtype=float)
    counts = np.where(np.isnan(score), 0, 5)
    chance = np.where(np.isnan(score), np.nan, 0.2)
    return ScoreTable(score, chance, np.full_like(score, np.nan), counts, counts, np.full_like(score, share))


def _result(above: list[list[float]], share: float = 1.0, words: list[list[float]] | None = None) -> Classification:
    table = _table(above, share)
    scores = Scores(PATTERNS, PART_OF, table, _table(words or above, share), np.ones((1, len(above))))
    return Classification(("a",), (0,), scores, SIGNATURE)


def test_above_chance_is_zero_at_chance_and_one_at_best_and_nan_where_chance_is_all() -> None:
    nothing = np.full((1, 1, 3), np.nan)
    table = ScoreTable(np.array([[[0.2, 1, 1]]]), np.array([[[0.2, 0.2, 1]]]), nothing, nothing, nothing, nothing)
    assert table.above_chance[0, 0, :2].tolist() == pytest.approx([0, 1])
    assert np.isnan(table.above_chance[0, 0, 2])


@pytest.mark.parametrize(
    ("above", "label", "runner_up"),
    [
        ([0.9, 0.1, 0.1, 0.5], "next-word", "delimiter"),
        ([0.3, 0.1, 0.1, 0.9], "delimiter", "next-word"),
        ([0.24, 0.1, 0.1, 0.2], "mixed", "mixed"),
        ([0.25, 0.0, 0.0, 0.0], "next-word", "mixed"),
        ([0.1, 0.3, 0.9, 0.1], "identical", "mixed"),  # a part does not win by itself
        ([np.nan, np.nan, np.nan, 0.4], "delimiter", "mixed"),
        ([np.nan, np.nan, np.nan, np.nan], "mixed", "mixed"),
        ([-0.2, -0.2, -0.2, -0.1], "mixed", "mixed"),
    ],
)
def test_labels(above: list[float], label: str, runner_up: str) -> None:
    result = _result([above], share=0.5)
    assert (result.label.item(), result.runner_up.item()) == (label, runner_up)


@pytest.mark.parametrize(("share", "label"), [(0.66, "identical"), (2 / 3, "cross-sentence"), (np.nan, "identical")])
def test_an_identical_head_is_cross_sentence_by_two_thirds_of_its_weight(share: float, label: str) -> None:
    assert _result([[0.0, 0.6, 0.5, 0.1]], share).label.item() == label
    assert _result([[0.9, 0.6, 0.5, 0.1]], share).runner_up.item() == label


def test_the_threshold_is_the_results_own() -> None:
    result = _result([[0.4, 0, 0, 0]])
    strict = Classification(("a",), (0,), result.scores, SIGNATURE, threshold=0.5)
    assert (result.label.item(), strict.label.item()) == ("next-word", "mixed")


def test_content_labels_come_from_words_alone() -> None:
    result = _result([[0.1, 0, 0, 0.9]], words=[[0.8, 0, 0, np.nan]])
    assert (result.label.item(), result.content_label.item()) == ("delimiter", "next-word")


def test_ranking_puts_the_best_first_and_nan_last() -> None:
    result = _result([[0.1, 0.9, 0, 0], [0.5, 0.2, 0, 0], [np.nan, np.nan, np.nan, np.nan], [0.3, 0, 0, 0.6]])
    assert result.ranking("next-word").tolist() == [1, 3, 0, 2]
    assert result.ranking().tolist() == [0, 3, 1, 2]


def test_a_frame_has_the_columns_of_the_contract_in_order() -> None:
    frame = _result([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]]).to_frame()
    assert frame.columns.tolist() == [
        *("model", "layer", "head", "label", "runner_up", "content_label"),
        *PATTERNS,
        "entropy",
    ]
    assert frame[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]


def test_a_frame_of_chosen_patterns_keeps_the_labels() -> None:
    frame = _result([[0.1, 0.2, 0.3, 0.9]]).to_frame(["next-word"])
    assert frame.columns.tolist() == [
        "model",
        "layer",
        "head",
        "label",
        "runner_up",
        "content_label",
        "next-word",
        "entropy",
    ]
    assert frame["label"].item() == "delimiter"


def test_results_are_frozen() -> None:
    with pytest.raises(AttributeError):
        _result([[0.1, 0.2, 0.3, 0.4]]).threshold = 0.1  # type: ignore[misc]
