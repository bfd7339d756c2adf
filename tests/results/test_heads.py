"""Scores, labels and rankings: what heads do, in which order, how sure, and by which reading."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.small_results import (
    ABOVE,
    PATTERNS,
    SIGNATURE,
    WINNERS,
    labels_of,
    ranking_of,
    result_of,
    table_of,
)

from attnscan.errors import OptionError
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import Profile
from attnscan.results.scores import best_first
from attnscan.results.signature import AttentionView, Special

NAN = float("nan")
FIRST = [
    "model",
    "layer",
    "head",
    "name",
    "label",
    "label_stays",
    "among_words",
    "share",
    "average",
]


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
    ranking = ranking_of(scores, ranked_by=ranked_by)
    assert ranking.order("next-word").tolist() == order
    assert len(ranking.leads("next-word").se) == max(len(order) - 1, 0)
    frame = ranking.to_frame()
    assert frame["head"].tolist() == order + [head for head in range(3) if head not in order]
    assert frame["rank"].dropna().tolist() == list(range(1, len(order) + 1))
    assert frame["rank"].dtype == "Int64"
    assert ranking.to_frame(top=2)["head"].tolist() == order[:2]


def test_leads_are_sure_beyond_their_own_interval() -> None:
    """By t with 9 degrees of freedom, 2.26 errors."""
    leads = ranking_of(error=0.01).leads("next-word")
    assert leads.difference.tolist() == pytest.approx([0.01, 0.29])
    assert leads.sure.tolist() == [False, True]
    assert ranking_of(error=0.01 / 2.27).leads("next-word").sure.all()
    unknown = ranking_of(error=None).leads("next-word")  # without residuals
    assert np.isnan(unknown.se).all() and not unknown.sure.any()


def test_a_ranking_by_the_other_half_may_have_leads_below_zero() -> None:
    ranking = ranking_of(ranked_by=[0.3, 0.6, 0.2])
    assert ranking.order("next-word").tolist() == [1, 0, 2]
    frame = ranking.to_frame()
    assert frame["score"].tolist() == [0.49, 0.5, 0.2]
    assert ranking.leads("next-word").difference.tolist() == pytest.approx([-0.01, 0.3])
    assert frame.attrs["split"] and not ranking_of().to_frame().attrs["split"]


def test_a_frame_has_the_columns_of_the_contract_in_order() -> None:
    result = result_of([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]])
    frame = result.to_frame()
    assert frame.columns.tolist() == [*FIRST, *PATTERNS, "entropy"]
    assert frame[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]
    assert result.to_frame(["next-word"]).columns.tolist() == [*FIRST, "next-word", "entropy"]
    assert (
        repr(result) == "HeadScores of toy, 0 pairs, 2 cross-sentence, 2 of them rest on delimiter"
    )


def test_what_comes_from_outside_is_safe_in_a_repr() -> None:
    hostile = replace(SIGNATURE, model="\u202e\x1b[31m\n")
    assert repr(replace(result_of([[0, 0, 0, 0]]), signature=hostile)).startswith(
        r"HeadScores of \u202e\x1b[31m\n, 0"
    )


def test_a_reading_that_is_not_there_is_refused_with_a_remedy() -> None:
    result = result_of([[0.1, 0, 0, 0]])
    assert result.select_reading("weight", "out").label.item() == ""
    with pytest.raises(OptionError, match="by attention weight, among words"):
        result.select_reading(special="in")
    with pytest.raises(OptionError, match=r"by attention weight, among words; .*keep all"):
        result.select_reading("carried")


def test_above_chance_is_zero_at_chance_and_one_at_best() -> None:
    table = replace(
        table_of([[0, 0, 0]]),
        score=np.array([[[0.2, 1, 1]]]),
        chance=np.array([[[0.2, 0.2, 1]]]),
    )
    assert table.above_chance[0, 0, :2].tolist() == pytest.approx([0, 1])
    assert np.isnan(table.above_chance[0, 0, 2])


def test_of_equal_heads_the_first_comes_first() -> None:
    result = result_of([[0.1, 0.9, 0, 0], [0.5, 0.2, 0, 0], [NAN, NAN, NAN, NAN], [0.3, 0, 0, 0.6]])
    assert result.order("next-word").tolist() == [1, 3, 0] and result.order().tolist() == [0, 3, 1]
    assert best_first(np.array([[0.5, NAN, 0.7], [0.5, 0.7, NAN]])).tolist() == [2, 4, 0, 3]


@pytest.mark.parametrize(
    ("above", "share", "self_share", "among_words"),
    [
        ([0.9, 0.1, 0.1, 0.0], 0.5, 0.0, "next-word"),
        ([0.25, 0.0, 0.0, 0.0], 0.5, 0.0, "next-word"),
        ([0.1, 0.3, 0.9, 0.1], 0.5, 0.0, "cross-sentence"),  # a part wins by itself
        ([0.1, 0.2, 0.3, 0.1], 0.5, 0.0, "cross-sentence"),  # where the whole does not win
        ([0.0, 0.6, 0.5, 0.1], 0.66, 0.0, "identical"),
        ([0.0, 0.6, 0.5, 0.1], 2 / 3, 0.0, "cross-sentence"),  # two thirds of the weight lie across
        ([0.0, 0.6, 0.5, 0.1], NAN, 0.0, "identical"),  # no word has its like in the other sentence
        ([0.3, 0.6, 0.1, 0.1], 0.5, 0.66, "identical"),
        ([0.3, 0.6, 0.1, 0.1], 0.5, 0.67, "next-word"),  # it looks at itself: the next competes
        ([0.1, 0.6, 0.3, 0.1], 0.5, 0.67, "cross-sentence"),  # the part is of others alone
        ([NAN, NAN, NAN, 0.4], 0.5, 0.0, ""),  # among words, delimiter does not compete
        ([-0.2, -0.2, -0.2, -0.1], 0.5, 0.0, ""),
    ],
)
def test_the_pattern_farthest_above_chance_is_followed(
    above: list[float], share: float, self_share: float, among_words: str
) -> None:
    assert result_of([above], share, self_share).among_words.item() == among_words


@pytest.mark.parametrize("special", ["in", "out"])
def test_delimiter_does_not_compete_among_words(special: Special) -> None:
    above = [[0.3, 0, 0, 0.35]]
    labels = labels_of(above, reading=AttentionView("weight", special))
    assert labels.among_words.item() == "next-word"


@pytest.mark.parametrize(("delimiter", "label"), [(0.374, "next-word"), (0.376, "delimiter")])
def test_more_than_half_on_special_tokens_is_rest(delimiter: float, label: str) -> None:
    labels = labels_of([[0.9, 0, 0, delimiter]])  # a score of 0.2 + 0.8 x that
    assert labels.label.item() == label and labels.among_words.item() == "next-word"


def test_a_pattern_goes_before_a_habit_and_rest_before_both() -> None:
    labels = labels_of(winners=WINNERS)
    assert labels.among_words.tolist() == [["next-word", "next-3", "even", "", "identical"]]
    assert labels.label.tolist() == [["next-word", "next-3", "even", "", "delimiter"]]
    np.testing.assert_allclose(labels.share, [[0.92, 0.4, 0.8, NAN, 0.52]])
    next_word = np.mean([0.92, 0.36, 0.2, 0.2, 0.2])
    np.testing.assert_allclose(labels.average, [[next_word, 0.2, 0.5, NAN, 0.264]])
    without_habits = labels_of()
    assert without_habits.among_words.tolist() == [["next-word", "", "", "", "identical"]]


def test_a_habit_of_a_patterns_name_has_the_patterns_number() -> None:
    labels = labels_of(winners=(0, 0, 2, -1, 2))
    assert labels.among_words[0, 1] == "next-word" and not labels.follows[0, 1]
    assert labels.share[0, 1] == labels.table.score[0, 1, 0]
    assert labels.kinds["next-word"].heads == (Head(0, 0), Head(0, 1))


def test_kinds_of_most_heads_and_strongest_heads_come_first() -> None:
    kinds = labels_of(winners=(0, 2, 2, -1, 2)).kinds
    heads = {name: kind.heads for name, kind in kinds.items()}
    assert heads == {
        "even": (Head(0, 2), Head(0, 1)),
        "next-word": (Head(0, 0),),
        "identical": (Head(0, 4),),
    }
    assert next(iter(kinds)) == "even" and kinds["even"].average == 0.5
    assert [kind.heads for kind in labels_of(ABOVE).resting] == [(Head(0, 4),)]


def test_a_number_stands_beside_chance_average_and_rank() -> None:
    numbers = labels_of(winners=WINNERS).numbers("next-3", Head(0, 1))
    assert (numbers.share, numbers.chance, numbers.average, numbers.rank) == (0.4, 0, 0.2, 2)
    assert labels_of().numbers("next-word", Head(0, 1)).chance == 0.2


def test_what_changes_in_over_five_percent_of_resamples_is_unsure() -> None:
    unsure = labels_of(winners=WINNERS, label_stability=[NAN, 0.95, 0.94, NAN, 1]).unsure
    assert unsure.tolist() == [[True, False, True, False, False]]
    assert not labels_of(winners=WINNERS).unsure.any()


@pytest.mark.parametrize("top", [0, -1, 1.5, True])
def test_a_top_that_is_no_number_of_rows_is_refused(top: Any) -> None:
    with pytest.raises(OptionError, match=r"top is .*; give a whole number, from 1"):
        ranking_of().to_frame(top=top)
    with pytest.raises(OptionError, match="top is "):
        result_of([[0.1, 0, 0, 0]]).to_frame(top=top)


def test_the_top_heads_of_one_input_are_the_best() -> None:
    result = result_of([[0.1, 0, 0, 0], [0.5, 0, 0, 0], [0.3, 0.6, 0, 0]])
    assert result.to_frame(top=2)["head"].tolist() == [2, 1]
    assert result.to_frame(["next-word"], top=2)["head"].tolist() == [1, 2]


@pytest.mark.parametrize(("special", "classes"), [("in", ["start", "next"]), ("out", ["next"])])
def test_special_tokens_are_listed_where_they_are_keys(special: Any, classes: list[str]) -> None:
    share = np.array([[[0.2, 0.7, 0.0]]])
    profile = Profile(
        classes=("next", "start", "end"),
        share=share,
        se=share,
        chance=share,
        clusters=np.full(share.shape, 5),
        grid=Grid((1, 1)),
        signature=replace(SIGNATURE, special=special),
    )
    assert [name for name, _ in profile.strongest("0-0")] == classes
