"""What a screen and a notebook both tell: tokens by sentence, counts, strongest heads, what is not there and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_results import SIGNATURE, result_of, table_of

from attnscan.results.grid import Head
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED, Scores
from attnscan.results.terms import Scored
from attnscan.views.summary import PatternRow, notes, pattern_rows, token_lines, why_unscored, worth

NAN = float("nan")
# Patterns: next-word, identical, cross-sentence (a part of identical), delimiter
RESULT = result_of([[0.9, 0.1, 0.1, 0.0], [0.5, NAN, NAN, 0.0], [0.0, 0.0, 0.0, 0.8]], share=0.0)


def test_a_closing_delimiter_goes_with_its_sentence_and_a_blank_token_is_seen() -> None:
    units, sentence = ("[CLS]", "the", " ", "[SEP]", "a\x1b", "[SEP]"), (-1, 0, 0, -1, 1, -1)
    lines = token_lines(replace(RESULT, units=units, sentence=sentence))
    assert lines == {
        "A": [("[CLS]", True), ("the", False), ("␣", False), ("[SEP]", True)],
        "B": [(r"a\x1b", False), ("[SEP]", True)],
    }


def test_a_row_has_the_strongest_heads_best_first() -> None:
    row, *_, delimiter, mixed = pattern_rows(RESULT, RESULT.scores.patterns, 2)
    assert (row.pattern, row.counts, row.why_none) == ("next-word", ("2", "2"), "")
    assert [(head, round(score, 2)) for head, score in row.strongest] == [(Head(0, 0), 0.92), (Head(0, 1), 0.6)]
    assert delimiter.counts == ("1", "–")
    assert mixed == PatternRow(MIXED, ("0", "0"), (), "no pattern is far enough above chance")


def test_a_row_without_heads_says_why() -> None:
    nothing = result_of([[0.9, NAN, NAN, 0.0]])
    asked = replace(nothing, not_measured={"identical": "a\x1bb"})
    _, identical, part, _ = pattern_rows(asked, ("next-word", "identical", "cross-sentence"), 5)
    assert identical == PatternRow("identical", ("", ""), (), r"not measured: a\x1bb")
    assert part == PatternRow("cross-sentence", ("0", "0"), (), "no word of this input is eligible")


def _eligible(words: int, of_others: int = 0) -> Scores:
    """Two heads, one pattern: so many eligible words, and so many with special tokens removed."""
    tables = (table_of([[0.5 if n else NAN]] * 2) for n in (words, of_others))
    return Scores((Scored("predictive"),), *tables, np.ones((1, 2)))


@pytest.mark.parametrize(
    ("ranking", "without_delimiters", "why"),
    [
        (Ranking(_eligible(5, 5), SIGNATURE), True, ""),
        (Ranking(_eligible(0), SIGNATURE), False, "not measured: the model was not asked"),
        (Ranking(_eligible(0), replace(SIGNATURE, predictive="cpmi")), False, "no word of these pairs is eligible"),
        (
            Ranking(_eligible(5), replace(SIGNATURE, predictive="cpmi")),
            True,
            "no word is eligible with special tokens removed",
        ),
        (
            Ranking(_eligible(5), replace(SIGNATURE, predictive="cpmi"), ranked_by=_eligible(0)),
            False,
            "no word of one half of these pairs is eligible",
        ),
    ],
)
def test_why_no_head_has_a_score(ranking: Ranking, without_delimiters: bool, why: str) -> None:
    assert why_unscored(ranking, "predictive", without_delimiters=without_delimiters) == why


def test_some_heads_without_a_score_are_counted() -> None:
    assert why_unscored(RESULT, "identical") == "no word is eligible for 1 of 3 heads"


def test_scores_on_words_rank_heads_anew() -> None:
    result = result_of([[0.9, 0, 0, 0], [0.1, 0, 0, 0]], words=[[0.1, 0, 0, 0], [0.9, 0, 0, 0]])
    best = [next(pattern_rows(result, ("next-word",), 1, without_delimiters=flag)) for flag in (False, True)]
    assert [row.strongest[0][0] for row in best] == [Head(0, 0), Head(0, 1)]


def test_notes_begin_with_the_threshold() -> None:
    above, *others = notes(replace(RESULT, notes=("one\nline",), threshold=0.1))
    assert "0.1 above chance or more" in above and others == [r"one\nline"]


def test_what_a_score_is_worth_has_nothing_for_nan() -> None:
    table = table_of([[0.5, NAN]])
    names = ("score", "interval", "chance", "above_chance", "itself", "n", "pairs")
    assert [worth(table, (0, 0, 0))[name] for name in names] == ["0.600", "", "0.200", "0.500", "0.000", "5", "5"]
    assert [worth(table, (0, 0, 1))[name] for name in names] == ["", "", "", "", "", "0", "0"]
    assert worth(replace(table, n=np.full((1, 1, 2), 12345)), (0, 0, 0))["n"] == "12,345"
    assert worth(replace(table, se=np.full((1, 1, 2), 0.01)), (0, 0, 0))["interval"] == "0.569–0.631"
