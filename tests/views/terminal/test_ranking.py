"""The screens of `heads`: kinds of behaviour, and the best heads of each pattern."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from behaviours import behaviours_of, doing
from rich.console import Group
from small_results import SIGNATURE

from attnscan.results.behaviour import CANDIDATES, Agreement
from attnscan.results.ranking import Ranking
from attnscan.results.scores import Scores, ScoreTable
from attnscan.results.terms import Scored
from attnscan.views.palette import letter
from attnscan.views.terminal.parts import render
from attnscan.views.terminal.ranking import behaviours_view, best_heads_view


def _screen(ranking: Ranking, width: int = 80) -> str:
    return render(Group(*behaviours_view(ranking, width)), width)


def _small(norm: bool = False) -> Ranking:
    behaviours = behaviours_of(stability=[1, 1, 1, 1, 0.5], stays=[1, 0.5, 1, np.nan, 1])
    labels = replace(behaviours.labels, norm=norm, agreement=Agreement(np.ones((1, 5)), np.ones((1, 5))))
    signature = replace(SIGNATURE, by="carried" if norm else "weight")
    return Ranking(labels.scores, signature, labels=labels, statements=behaviours.statements)


def test_the_screen_to_the_letter() -> None:
    assert (
        _screen(_small(norm=True))
        == """
By what they carry among words, 2 of 5 heads follow a pattern, 2 do something
else of their own, and 1 is like the average head.

kind               heads  average  strongest heads
N next-word            1     0.38  0-0 0.92
D delimiter            1     0.28  0-4? 0.60
N next word            1     0.10  0-1? 0.30
e all keys evenly      1     0.50  0-2 0.80
No head follows identical or cross-sentence. 1 of 2 heads with a pattern and 1
of 2 others stay the same in 95 % of 1,000 bootstrap resamples of the pairs; the
rest have a ?.

      0  1  2  3  4
   0  N  N? e  ·  D?
Map: layers down, heads across; · like the average head. Numbers: scores of
patterns, or shares of attention on what is named; average: over all heads.
"""
    )


def test_where_only_weights_are_known_the_reading_says_so() -> None:
    said = " ".join(_screen(_small()).split())
    assert said.startswith("By their attention weights among words (what they carry is not known here), 2 of 5 heads")


@pytest.mark.parametrize(("layers", "heads", "most"), [(6, 12, 40), (12, 12, 45)])
@pytest.mark.parametrize("kinds", [4, 14, 20, 22])
@pytest.mark.parametrize("width", [80, 120])
def test_the_screen_has_few_lines_and_every_letter_is_explained(
    layers: int, heads: int, most: int, kinds: int, width: int
) -> None:
    ranking = doing(layers, heads, kinds)
    lines = _screen(ranking, width).splitlines()
    frame = 5  # lines above and below: the pairs, the model, a blank line and two of what to try next
    assert len(lines) + frame <= most
    behaviours = ranking.behaviours
    text = "\n".join(lines)
    words = {candidate.id: candidate.words for candidate in CANDIDATES}
    for kind in behaviours.kinds:
        if kind.heads:
            assert f"{letter(kind.name)} {kind.name if kind.labelled else words[kind.name]}" in text
    assert "Map: layers down, heads across; · like the average head." in text


@pytest.mark.parametrize(("layers", "heads"), [(6, 12), (24, 16), (2, 1), (32, 32), (48, 64)])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_head_has_its_letter_and_no_line_is_wider_than_the_screen(layers: int, heads: int, width: int) -> None:
    ranking = doing(layers, heads, 14)
    lines = _screen(ranking, width).splitlines()
    assert all(len(line) <= width or re.match(r"\s*\d+  \S+$", line) for line in lines)
    if 6 + 2 * heads <= width:  # room for a letter and a question mark
        of_heads = rf"(?:^|  ) *\d+  (\D{{{2 * heads - 1},}})$"
        rows = [row[1] for line in lines if (row := re.search(of_heads, line))]
        letters = [re.findall(r"[^? ]", row) for row in rows]
        assert letters == [[letter(kind) for kind in row] for row in ranking.behaviours.kind]


@pytest.mark.parametrize(
    ("heads", "ruler"),
    [
        (16, "      0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15"),
        (32, "      0         5        10        15        20        25        30"),
        (64, "      0 to 63"),
    ],
)
def test_heads_are_numbered_as_often_as_there_is_room(heads: int, ruler: str) -> None:
    assert ruler in _screen(doing(2, heads, 4), 80).splitlines()


def test_a_wide_screen_has_the_map_beside_the_kinds() -> None:
    narrow, wide = (_screen(doing(6, 12, 14), width).splitlines() for width in (80, 120))
    assert len(wide) <= len(narrow) - 8
    assert any(re.match(r"N next-word .*  0  N\? P\?", line) for line in wide)


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


def _best_screen(ranking: Ranking, width: int = 80, top: int = 10) -> str:
    return render(best_heads_view(ranking, ranking.scores.patterns, top, width), width)


def test_a_row_says_what_a_score_is_worth() -> None:
    lines = _best_screen(_ranking()).splitlines()
    row = next(line for line in lines if line.startswith("0-0"))
    assert row.split()[:9] == ["0-0", "0.500", "0.480–0.520", "≈", "0.010", "0.100", "0.444", "111,105", "12,345"]
    assert next(line for line in lines if line.startswith("0-1")).split()[3] == "0.290"


def test_the_best_of_close_heads_is_called_the_luckiest() -> None:
    said = " ".join(_best_screen(_ranking()).split())
    needed = re.search(
        r"0-0 cannot be distinguished from 0-1; about ([\d,]+) pairs would distinguish it from the next\.", said
    )
    assert needed and int(needed[1].replace(",", "")) == pytest.approx(189_699, rel=0.005)
    assert "from the next. --split ranks and scores close heads on separate pairs" in said
    assert "cannot be distinguished" not in _best_screen(_ranking(scores=(0.5, 0.3, 0.2)))


def test_leads_without_errors_claim_nothing() -> None:
    """Of one pair, and of a model so large that its heads' products are not kept."""
    one, large = _best_screen(_ranking(pairs=1, error=np.nan)), _best_screen(_ranking(error=np.nan))
    assert "One pair gives no standard errors: give at least two." in one
    assert "Leads have no standard errors in a model of so many heads." in large
    for screen in (one, large):
        assert "cannot be distinguished from" not in screen and "0.010" not in screen


def test_a_split_ranking_says_by_which_pairs() -> None:
    whole = _ranking()
    split = replace(whole, ranked_by=whole.scores)
    said = " ".join(_best_screen(split).split())
    assert "Heads are ranked by 12,345 pairs; the scores are those of the other 12,345." in said
    assert "luckiest" not in said


def test_only_patterns_of_others_show_how_much_is_the_word_itself() -> None:
    assert " self " not in _best_screen(_ranking())
    lines = _best_screen(_ranking(Scored("identical", of_others=True))).splitlines()
    assert next(line for line in lines if line.startswith("0-0")).split()[5] == "0.375"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("of_others", [False, True])
def test_lines_fit(width: int, of_others: bool) -> None:
    screen = _best_screen(_ranking(Scored("identical", of_others=of_others)), width)
    assert all(len(line) <= max(width, 72) for line in screen.splitlines())


def test_nothing_eligible_is_said() -> None:
    screen = _best_screen(_ranking(scores=(np.nan, np.nan)))
    assert "no word of these pairs is eligible" in screen and "0-0" not in screen and "lead" not in screen


def test_a_head_without_a_score_is_not_listed() -> None:
    screen = _best_screen(_ranking(scores=(0.5, np.nan, 0.2)))
    assert re.findall(r"^0-\d", screen, re.MULTILINE) == ["0-0", "0-2"]
    assert "no word is eligible for 1 of 3 heads" in screen


def _bar(line: str) -> int:
    return line.count("█")


def test_a_bar_is_how_far_above_chance_a_score_is_and_what_may_be_chance_has_none() -> None:
    """Chance is 0.1, and the standard error 0.01: the interval of 0.118 holds chance, that of 0.13 does not."""
    ranking = _ranking(scores=(1.0, 0.55, 0.13, 0.118, 0.05))
    full, half, little, *nothing = [line for line in _best_screen(ranking, 120).splitlines() if line.startswith("0-")]
    assert (_bar(full), _bar(half), _bar(little)) == (30, 15, 1)
    assert not any(map(_bar, nothing))
    assert not _bar(_best_screen(_without_errors(ranking), 120))


def _without_errors(ranking: Ranking) -> Ranking:
    scores = ranking.scores
    table = replace(scores.every_key, se=np.full_like(scores.every_key.se, np.nan))
    return replace(ranking, scores=replace(scores, every_key=table))


def test_that_no_head_does_it_is_said() -> None:
    said = "No head follows this pattern. Closest: 0-1, 0.11 above chance (a label needs 0.25 above)."
    assert said in " ".join(_best_screen(_ranking(scores=(0.15, 0.2))).split())
    assert "No head follows this pattern" not in _best_screen(_ranking(scores=(0.15, 0.5)))


def test_a_list_that_is_not_whole_says_how_to_see_the_rest() -> None:
    ranking = _ranking(scores=(0.5, 0.4, 0.3))
    assert _best_screen(ranking, top=2).splitlines()[-1] == "2 of 3 heads; --top 3 for all."
    assert "--top" not in _best_screen(ranking, top=3)
