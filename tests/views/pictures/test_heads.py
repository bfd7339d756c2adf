"""Pictures of all heads: the screen's letters, their colours, and scores on one scale."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from drawn import random_weights, texts

from attnscan import PATTERNS, heads
from attnscan.errors import OptionError
from attnscan.results.heads import HeadScores
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import NO_HABIT_COLOR, RAMP, RESTING_OPACITY, letter, on_white, words
from attnscan.views.pictures import picture

NAMES = [pattern.id for pattern in PATTERNS]
PAIRS = [(f"The cat number {i} sat.", f"A cat ran {i} times.") for i in range(6)]


def _said(svg: bytes) -> str:
    return " ".join(texts(svg))


@pytest.mark.parametrize(("by", "said"), [("weight", "by attention weight"), ("carried", "by what heads carry")])
def test_the_map_has_the_letter_and_the_colour_of_every_head(article: HeadScores, by: Any, said: str) -> None:
    result = article.with_reading(by)
    labels, svg = result.labels, picture(result)
    both = zip(labels.among_words.flat, labels.unsure.flat, strict=True)
    expected = Counter(letter(str(name)) + "?" * bool(unsure) for name, unsure in both)
    assert any(text.endswith("?") for text in expected)
    assert Counter(text for text in texts(svg) if text in expected) == expected
    named = [" ".join(text.split()[:2]) for text in texts(svg)]
    assert all(f"{letter(kind.name)} {words(kind.name).split()[0]}" in named for _, kind in kinds_of(labels))
    none = labels.among_words == ""
    resting = int((labels.rests & none).sum())
    assert svg.count(f"fill: {NO_HABIT_COLOR}".encode()) == none.sum() - resting + none.any()
    assert svg.count(f"fill: {on_white(NO_HABIT_COLOR, RESTING_OPACITY)}".encode()) == resting
    assert f"Map: what each head does, {said}, among words." in _said(svg)
    assert "?: the label changed in more than 5 % of bootstrap resamples of the words" in _said(svg)


def test_thousands_of_heads_are_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscan.scoring.labels.MOST_HEADS", 0)  # how sure labels are takes long
    result, _ = random_weights(70, 100, 6)
    assert len(picture(result)) < 200_000, "a shape for each head"


def test_a_ranking_without_labels_has_scores_alone() -> None:
    bare = heads(PAIRS[:2], model="bundled", predictive="off", pattern=NAMES)
    with pytest.raises(OptionError, match="this ranking has no labels"):
        picture(bare)
    assert "W predictive: switched off" in _said(picture(bare, "scores", width=6))


def test_scores_say_what_was_not_measured_and_what_had_no_word() -> None:
    result, _ = random_weights(3, 4, 8)  # one sentence, and no model to ask
    for kind in ("scores", "layers"):
        said = _said(picture(result, kind, width=6))
        assert said.count(": no word") == 2 and said.count(": not measured") == 1
        assert all(f"{letter(name)} {name}" in said for name in NAMES)
    assert "Hatched: no value." in _said(picture(result, "scores", width=6))


def test_every_score_is_drawn_on_one_scale(article: HeadScores) -> None:
    """Of all cells, the one with a score of 1 alone is as dark as the scale's end."""
    svg = picture(article, "scores")
    assert article.scores.every_key.score[0, 2, 1] > 0.995
    assert svg.decode().count(f"fill: {RAMP[-1]}") == 2
    said = "Scores by attention weight, among words. Special tokens are removed, and rows renormalised."
    assert said in _said(svg)


def test_layers_name_the_best_head_of_each_pattern(article: HeadScores) -> None:
    score, grid = article.table.score, article.grid
    best = [grid[np.nanargmax(score[..., p])].name for p, name in enumerate(NAMES) if name != "predictive"]
    assert [text for text in texts(picture(article, "layers")) if re.fullmatch(r"\d+-\d+", text)] == best


def test_layers_over_pairs_have_intervals_of_the_best_heads() -> None:
    ranking = heads(PAIRS, model="bundled", predictive="off", pattern=NAMES)
    svg = picture(ranking, "layers", width=6)
    assert "Upright: 95 % intervals of the best heads over pairs." in _said(svg)
    table, p = ranking.table, NAMES.index("next-word")
    low, high = (np.broadcast_to(bound, table.score.shape)[..., p] for bound in table.interval)
    upright = [
        abs(float(y1) - float(y2))
        for x1, y1, x2, y2 in re.findall(r'd="M ([\d.]+) ([\d.]+)\s+L ([\d.]+) ([\d.]+)\s*"', svg.decode())
        if x1 == x2
    ]
    for layer, scores in enumerate(table.above_chance[..., p]):
        height = 72 * 0.85 * (high - low)[layer, scores.argmax()] / (1 - table.chance[..., p].ravel()[0])
        assert any(abs(height - each) < 0.3 for each in upright), (height, upright)
