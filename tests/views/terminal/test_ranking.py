"""The screen of `heads`: what it says of a rank, at 80 columns."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from small_results import SIGNATURE

from attnscan.results.ranking import Ranking
from attnscan.results.scores import Scores, ScoreTable
from attnscan.results.terms import Scored
from attnscan.views.terminal.parts import render
from attnscan.views.terminal.ranking import best_heads_view


def _ranking(
    scored: Scored = Scored("next-word"),  # noqa: B008
    scores: tuple[float, ...] = (0.5, 0.49, 0.2),
    pairs: int = 12_345,
    error: float = 0.02,
) -> Ranking:
    """Heads of one layer, by so many pairs; every difference has the same error."""
    score = np.array([[[each] for each in scores]])
    counts = np.where(np.isnan(score), 0, pairs)
    between = np.full((1, len(scores), len(scores)), error)
    numbers = 9 * counts, counts, counts.astype(float)
    rest = (np.full_like(score, 0.01), *numbers, np.ones_like(score), 0.75 * score, between)
    table = ScoreTable(score, np.full_like(score, 0.1), *rest)
    return Ranking(Scores((scored,), table, table, np.ones((1, len(scores)))), replace(SIGNATURE, pairs_read=12_345))


def _screen(ranking: Ranking, width: int = 80, top: int = 10) -> str:
    return render(best_heads_view(ranking, ranking.scores.patterns, top, width), width)


def test_a_row_says_what_a_score_is_worth() -> None:
    lines = _screen(_ranking()).splitlines()
    row = next(line for line in lines if line.startswith("0-0"))
    assert row.split()[:9] == ["0-0", "0.500", "0.480–0.520", "≈", "0.010", "0.100", "0.444", "111,105", "12,345"]
    assert next(line for line in lines if line.startswith("0-1")).split()[3] == "0.290"


def test_the_best_of_close_heads_is_called_the_luckiest() -> None:
    said = " ".join(_screen(_ranking()).split())
    needed = re.search(r"0-0 cannot be told from 0-1; about ([\d,]+) pairs would tell it from the next\.", said)
    assert needed and int(needed[1].replace(",", "")) == pytest.approx(189_699, rel=0.005)
    assert "in part the luckiest: --split" in said
    assert "cannot be told" not in _screen(_ranking(scores=(0.5, 0.3, 0.2)))


def test_leads_without_errors_claim_nothing() -> None:
    """Of one pair, and of a model so large that its heads' products are not kept."""
    one, large = _screen(_ranking(pairs=1, error=np.nan)), _screen(_ranking(error=np.nan))
    assert "One pair cannot tell heads apart: give at least two." in one
    assert "Leads have no errors in so large a model." in large
    for screen in (one, large):
        assert "cannot be told from" not in screen and "0.010" not in screen


def test_a_split_ranking_says_by_which_pairs() -> None:
    whole = _ranking()
    split = replace(whole, ranked_by=whole.scores)
    said = " ".join(_screen(split).split())
    assert "Heads are ranked by 12,345 pairs; the scores are those of the other 12,345." in said
    assert "luckiest" not in said


def test_only_patterns_of_others_show_how_much_is_the_word_itself() -> None:
    assert " self " not in _screen(_ranking())
    lines = _screen(_ranking(Scored("identical", of_others=True))).splitlines()
    assert next(line for line in lines if line.startswith("0-0")).split()[5] == "0.375"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("of_others", [False, True])
def test_lines_fit(width: int, of_others: bool) -> None:
    screen = _screen(_ranking(Scored("identical", of_others=of_others)), width)
    assert all(len(line) <= max(width, 72) for line in screen.splitlines())


def test_nothing_eligible_is_said() -> None:
    screen = _screen(_ranking(scores=(np.nan, np.nan)))
    assert "no word of these pairs is eligible" in screen and "0-0" not in screen and "lead" not in screen


def test_a_head_without_a_score_is_not_listed() -> None:
    screen = _screen(_ranking(scores=(0.5, np.nan, 0.2)))
    assert re.findall(r"^0-\d", screen, re.MULTILINE) == ["0-0", "0-2"]
    assert "no word is eligible for 1 of 3 heads" in screen


def _bar(line: str) -> int:
    return line.count("█")


def test_a_bar_is_how_far_above_chance_a_score_is_and_what_may_be_chance_has_none() -> None:
    """Chance is 0.1, and the standard error 0.01: the interval of 0.118 holds chance, that of 0.13 does not."""
    ranking = _ranking(scores=(1.0, 0.55, 0.13, 0.118, 0.05))
    full, half, little, *nothing = [line for line in _screen(ranking, 120).splitlines() if line.startswith("0-")]
    assert (_bar(full), _bar(half), _bar(little)) == (30, 15, 1)
    assert not any(map(_bar, nothing))
    assert not _bar(_screen(_without_errors(ranking), 120))


def _without_errors(ranking: Ranking) -> Ranking:
    scores = ranking.scores
    table = replace(scores.every_key, se=np.full_like(scores.every_key.se, np.nan))
    return replace(ranking, scores=replace(scores, every_key=table))


def test_that_no_head_does_it_is_said() -> None:
    said = "No head does this: 0-1 is the farthest above chance, by 0.11, and a label takes 0.25."
    assert said in " ".join(_screen(_ranking(scores=(0.15, 0.2))).split())
    assert "No head does this" not in _screen(_ranking(scores=(0.15, 0.5)))


def test_a_list_that_is_not_whole_says_how_to_see_the_rest() -> None:
    ranking = _ranking(scores=(0.5, 0.4, 0.3))
    assert _screen(ranking, top=2).splitlines()[-1] == "2 of 3 heads; --top 3 for all."
    assert "--top" not in _screen(ranking, top=3)
