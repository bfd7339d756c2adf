"""One input and many pairs: the order of heads, leads, frames and readings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_results import PATTERNS, SIGNATURE, result_of

from attnscan.errors import OptionError
from attnscan.results.heads import HeadScores
from attnscan.results.scores import Scores, ScoreTable, best_first
from attnscan.results.terms import Scored

NAN = float("nan")
FIRST = ["model", "layer", "head", "name", "label", "label_stays", "among_words", "share", "average"]


def _ranking(
    se_between: float | None,
    ranked_by: list[float] | None = None,
    scores: tuple[float, float, float] = (0.5, 0.49, 0.2),
) -> HeadScores:
    """Three heads of one layer, scored for one pattern by 10 pairs; all differences are as uncertain."""
    score = np.array(scores).reshape(1, 3, 1)
    residual = None if se_between is None else se_between / 2**0.5 * np.eye(3)[:, None, :, None]
    counts = np.full((1, 3, 1), 40), np.full((1, 3, 1), 10), np.full((1, 3, 1), 10.0)
    rest = (np.full_like(score, 0.01), *counts, np.ones_like(score), 0 * score)
    table = ScoreTable(score, np.full_like(score, 0.1), *rest, residual)
    told = Scores((Scored("next-word"),), table, table, np.ones((1, 3)))
    if ranked_by is None:
        return HeadScores(SIGNATURE, {"weight": told})
    other = replace(table, score=np.array(ranked_by).reshape(1, 3, 1))
    return HeadScores(SIGNATURE, {"weight": told}, ranked_by=replace(told, words_only=other))


@pytest.mark.parametrize(
    ("scores", "ranked_by", "order"),
    [
        ((NAN, 0.2, 0.5), None, [2, 1]),
        ((NAN, NAN, NAN), None, []),
        ((0.5, 0.2, NAN), [0.1, NAN, 0.3], [0]),  # by either half
    ],
)
def test_a_head_without_a_score_has_no_rank(
    scores: tuple[float, float, float], ranked_by: list[float] | None, order: list[int]
) -> None:
    ranking = _ranking(0.5, ranked_by, scores)
    assert ranking.order("next-word").tolist() == order
    assert len(ranking.leads("next-word").se) == max(len(order) - 1, 0)
    frame, rest = ranking.to_frame(), [head for head in range(3) if head not in order]
    assert frame["head"].tolist() == order + rest
    assert frame["rank"].dropna().tolist() == list(range(1, len(order) + 1)) and frame["rank"].dtype == "Int64"
    assert ranking.to_frame(top=2)["head"].tolist() == order[:2]


def test_leads_are_sure_beyond_their_own_interval() -> None:
    """By t with 9 degrees of freedom, 2.26 errors."""
    leads = _ranking(0.01).leads("next-word")
    assert leads.difference.tolist() == pytest.approx([0.01, 0.29])
    assert leads.sure.tolist() == [False, True]
    assert _ranking(0.01 / 2.27).leads("next-word").sure.all()
    unknown = _ranking(None).leads("next-word")  # without residuals
    assert np.isnan(unknown.se).all() and not unknown.sure.any()


def test_a_ranking_by_the_other_half_may_have_leads_below_zero() -> None:
    ranking = _ranking(0.01, ranked_by=[0.3, 0.6, 0.2])
    assert ranking.order("next-word").tolist() == [1, 0, 2]
    frame = ranking.to_frame()
    assert frame["score"].tolist() == [0.49, 0.5, 0.2]
    assert ranking.leads("next-word").difference.tolist() == pytest.approx([-0.01, 0.3])
    assert frame.attrs["split"] and not _ranking(0.01).to_frame().attrs["split"]


def test_a_frame_has_the_columns_of_the_contract_in_order() -> None:
    result = result_of([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]])
    frame = result.to_frame()
    assert frame.columns.tolist() == [*FIRST, *PATTERNS, "entropy"]
    assert frame[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]
    assert result.to_frame(["next-word"]).columns.tolist() == [*FIRST, "next-word", "entropy"]
    assert repr(result) == "HeadScores of toy, 0 pairs, 2 delimiter"


def test_what_comes_from_outside_is_safe_in_a_repr() -> None:
    hostile = replace(SIGNATURE, model="\u202e\x1b[31m\n")
    assert repr(replace(result_of([[0, 0, 0, 0]]), signature=hostile)).startswith(r"HeadScores of \u202e\x1b[31m\n, 0")


def test_a_reading_that_is_not_there_is_refused_with_a_remedy() -> None:
    result = result_of([[0.1, 0, 0, 0]])
    assert result.with_reading("weight", "out").label.item() == ""
    with pytest.raises(OptionError, match="by attention weight, among words"):
        result.with_reading(special="in")
    with pytest.raises(OptionError, match="what heads carry is not in this result"):
        result.with_reading("carried")


def test_above_chance_is_zero_at_chance_and_one_at_best_and_nan_where_chance_is_all() -> None:
    nothing = np.full((1, 1, 3), np.nan)
    table = ScoreTable(np.array([[[0.2, 1, 1]]]), np.array([[[0.2, 0.2, 1]]]), *[nothing] * 6)
    assert table.above_chance[0, 0, :2].tolist() == pytest.approx([0, 1])
    assert np.isnan(table.above_chance[0, 0, 2])


def test_of_equal_heads_the_first_comes_first_and_those_without_a_score_nowhere() -> None:
    result = result_of([[0.1, 0.9, 0, 0], [0.5, 0.2, 0, 0], [NAN, NAN, NAN, NAN], [0.3, 0, 0, 0.6]])
    assert result.order("next-word").tolist() == [1, 3, 0] and result.order().tolist() == [0, 3, 1]
    assert best_first(np.array([[0.5, NAN, 0.7], [0.5, 0.7, NAN]])).tolist() == [2, 4, 0, 3]
