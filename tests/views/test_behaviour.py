"""What screens and notebooks both tell: what is not there and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from small_results import SIGNATURE, result_of, table_of

from attnscan.results.heads import HeadScores
from attnscan.results.scores import Scores
from attnscan.results.terms import Scored
from attnscan.views.behaviour import why_unscored

NAN = float("nan")
# Patterns: next-word, identical, cross-sentence (a part of identical), delimiter
RESULT = result_of([[0.9, 0.1, 0.1, 0.0], [0.5, NAN, NAN, 0.0], [0.0, 0.0, 0.0, 0.8]], share=0.0)


def _eligible(words: int, of_others: int = 0) -> Scores:
    """Two heads, one pattern: so many eligible words, and so many with special tokens removed."""
    tables = (table_of([[0.5 if n else NAN]] * 2) for n in (words, of_others))
    return Scores((Scored("predictive"),), *tables, np.ones((1, 2)))


def test_why_no_head_has_a_score() -> None:
    ranking = HeadScores(SIGNATURE, {"weight": _eligible(0)})
    assert why_unscored(HeadScores(SIGNATURE, {"weight": _eligible(5, 5)}), "predictive") == ""
    assert why_unscored(ranking, "predictive") == "switched off"
    asked = replace(ranking, signature=replace(SIGNATURE, predictive="cpmi"))
    assert why_unscored(asked, "predictive") == "no word of these pairs is eligible"


def test_some_heads_without_a_score_are_counted() -> None:
    assert why_unscored(RESULT, "identical") == "no word is eligible for 1 of 3 heads"
