"""What heads do: a pattern, else a habit, else nothing; `delimiter` of those that rest; one number for each name."""

from __future__ import annotations

import numpy as np
import pytest
from small_results import ABOVE, WINNERS, labels_of, result_of

from attnscan.results.terms import Head, Reading

NAN = float("nan")


@pytest.mark.parametrize(
    ("above", "share", "itself", "among_words"),
    [
        ([0.9, 0.1, 0.1, 0.0], 0.5, 0.0, "next-word"),
        ([0.25, 0.0, 0.0, 0.0], 0.5, 0.0, "next-word"),
        ([0.1, 0.3, 0.9, 0.1], 0.5, 0.0, "cross-sentence"),  # a part wins by itself
        ([0.1, 0.2, 0.3, 0.1], 0.5, 0.0, "cross-sentence"),  # where the whole does not win
        ([0.0, 0.6, 0.5, 0.1], 0.66, 0.0, "identical"),
        ([0.0, 0.6, 0.5, 0.1], 2 / 3, 0.0, "cross-sentence"),  # two thirds of the weight lie across
        ([0.0, 0.6, 0.5, 0.1], NAN, 0.0, "identical"),  # no word has its like in the other sentence
        ([0.3, 0.6, 0.1, 0.1], 0.5, 0.66, "identical"),
        ([0.3, 0.6, 0.1, 0.1], 0.5, 0.67, "next-word"),  # itself is no other word: the next pattern competes
        ([0.1, 0.6, 0.3, 0.1], 0.5, 0.67, "cross-sentence"),  # the part is of others alone
        ([NAN, NAN, NAN, 0.4], 0.5, 0.0, ""),  # among words, delimiter does not compete
        ([-0.2, -0.2, -0.2, -0.1], 0.5, 0.0, ""),
    ],
)
def test_the_pattern_farthest_above_chance_is_followed(
    above: list[float], share: float, itself: float, among_words: str
) -> None:
    assert result_of([above], share, itself).among_words.item() == among_words


def test_with_special_tokens_in_delimiter_competes_too() -> None:
    assert labels_of([[0.3, 0, 0, 0.35]], reading=Reading("weight", "in")).label.item() == "delimiter"
    assert labels_of([[0.3, 0, 0, 0.35]]).label.item() == "next-word"


@pytest.mark.parametrize(("delimiter", "label"), [(0.374, "next-word"), (0.376, "delimiter")])
def test_a_head_rests_with_more_than_half_of_its_attention_on_special_tokens(delimiter: float, label: str) -> None:
    labels = labels_of([[0.9, 0, 0, delimiter]])  # a score of 0.2 + 0.8 x that
    assert labels.label.item() == label and labels.among_words.item() == "next-word"


def test_a_pattern_goes_before_a_habit_and_rest_before_both() -> None:
    labels = labels_of(winners=WINNERS)
    assert labels.among_words.tolist() == [["next-word", "next-3", "even", "", "identical"]]
    assert labels.label.tolist() == [["next-word", "next-3", "even", "", "delimiter"]]
    np.testing.assert_allclose(labels.share, [[0.92, 0.4, 0.8, NAN, 0.52]])
    np.testing.assert_allclose(labels.average, [[np.mean([0.92, 0.36, 0.2, 0.2, 0.2]), 0.2, 0.5, NAN, 0.264]])
    assert labels_of().among_words.tolist() == [["next-word", "", "", "", "identical"]]  # habits not measured


def test_a_habit_that_is_called_as_a_pattern_has_the_patterns_number() -> None:
    labels = labels_of(winners=(0, 0, 2, -1, 2))
    assert labels.among_words[0, 1] == "next-word" and not labels.follows[0, 1]
    assert labels.share[0, 1] == labels.table.score[0, 1, 0] and labels.kinds["next-word"].heads == (
        Head(0, 0),
        Head(0, 1),
    )


def test_kinds_are_those_of_most_heads_first_and_heads_the_strongest_first() -> None:
    kinds = labels_of(winners=(0, 2, 2, -1, 2)).kinds
    assert {name: [head.name for head in kind.heads] for name, kind in kinds.items()} == {
        "even": ["0-2", "0-1"],
        "next-word": ["0-0"],
        "identical": ["0-4"],
    }
    assert next(iter(kinds)) == "even" and kinds["even"].average == 0.5
    assert [head.name for kind in labels_of(ABOVE).resting for head in kind.heads] == ["0-4"]


def test_a_number_stands_beside_chance_the_average_head_and_a_rank() -> None:
    numbers = labels_of(winners=WINNERS).numbers("next-3", Head(0, 1))
    assert (numbers.share, numbers.chance, numbers.average, numbers.rank) == (0.4, 0, 0.2, 2)
    assert labels_of().numbers("next-word", Head(0, 1)).chance == 0.2


def test_what_changes_in_more_than_five_percent_of_resamples_or_rests_on_too_little_is_unsure() -> None:
    unsure = labels_of(winners=WINNERS, stays=[NAN, 0.95, 0.94, NAN, 1]).unsure
    assert unsure.tolist() == [[True, False, True, False, False]]
    assert not labels_of(winners=WINNERS).unsure.any()
