"""The first screen: every kind of behaviour in a line, every head on the map, within the screen's height and width."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from behaviours import behaviours_of, doing
from rich.console import Group
from small_results import SIGNATURE

from attnscan.results.labels import Agreement
from attnscan.results.ranking import Ranking
from attnscan.results.statement import CANDIDATES
from attnscan.views.palette import letter
from attnscan.views.terminal.behaviour import behaviours_view
from attnscan.views.terminal.parts import render


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


def test_a_wide_screen_has_the_map_beside_the_kinds() -> None:
    narrow, wide = (_screen(doing(6, 12, 14), width).splitlines() for width in (80, 120))
    assert len(wide) <= len(narrow) - 8
    assert any(re.match(r"N next-word .*  0  N\? P\?", line) for line in wide)
