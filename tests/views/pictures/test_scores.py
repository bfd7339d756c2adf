"""Pictures of scores: of every head, and of the best in each layer."""

from __future__ import annotations

import re

import numpy as np
from drawn import random_weights, texts

from attnscan import PATTERNS, heads
from attnscan.results.heads import HeadScores
from attnscan.views.palette import RAMP, letter
from attnscan.views.pictures.look import PictureFile
from attnscan.views.pictures.picture import picture

NAMES = [pattern.id for pattern in PATTERNS]


def test_scores_say_what_was_not_measured_and_what_had_no_word() -> None:
    result, _ = random_weights(3, 4, 8)  # one sentence, and no model to ask
    for svg in (picture(result, "scores"), picture(result, "layers")):
        found = texts(svg)
        assert found.count("no eligible word") == 2 and found.count("not measured") == 1
        assert [text for text in found if text[2:] in NAMES] == [f"{letter(p)} {p}" for p in NAMES]
    assert "no value" in texts(picture(result, "scores"))


def test_the_reading_is_named(article: HeadScores) -> None:
    carried = article.with_reading("carried", "out")
    for kind in ("scores", "layers"):
        assert "Scores by attention weight, with special tokens." in texts(
            picture(article.with_reading(special="in"), kind)
        )
        said = "Scores by what heads carry, among words. Special tokens are removed, and rows renormalised."
        assert said in " ".join(texts(picture(carried, kind)))


def test_every_score_is_drawn_on_one_scale(article: HeadScores) -> None:
    """Of all cells, the one with a score of 1 alone is as dark as the scale's end."""
    svg = picture(article, "scores").decode()
    assert article.scores.every_key.score[0, 2, 1] > 0.995
    assert svg.count(f"fill: {RAMP[-1]}") == 2


def test_layers_name_the_best_head_of_each_pattern(article: HeadScores) -> None:
    score = article.table.score
    grid = article.scores.grid
    best = [grid[np.nanargmax(score[..., p])].name for p, name in enumerate(NAMES) if name != "predictive"]
    found = [text for text in texts(picture(article, "layers")) if re.fullmatch(r"\d+-\d+", text)]
    assert found == best


def test_layers_over_pairs_have_intervals_of_the_best_heads() -> None:
    pairs = [(f"The cat number {i} sat.", f"A cat ran {i} times.") for i in range(6)]
    ranking = heads(pairs, model="bundled", predictive="off", pattern=[known.id for known in PATTERNS])
    one = heads(pairs[:1], model="bundled", predictive="off", pattern=[known.id for known in PATTERNS])
    said = "Upright lines: 95 % intervals of the best heads over pairs."
    found, without = picture(ranking, "layers", PictureFile(width=6)), picture(one, "layers", PictureFile(width=6))
    assert said in texts(found) and said not in texts(without)
    table = ranking.table
    p, left = ranking.scores.patterns.index("next-word"), []
    low, high = (np.broadcast_to(bound, table.score.shape)[..., p] for bound in table.interval)
    for layer, scores in enumerate(table.above_chance[..., p]):
        left.append(72 * 0.85 * (high - low)[layer, scores.argmax()] / (1 - table.chance[..., p].ravel()[0]))
    upright = [
        abs(float(y1) - float(y2))
        for x1, y1, x2, y2 in re.findall(r'd="M ([\d.]+) ([\d.]+)\s+L ([\d.]+) ([\d.]+)\s*"', found.decode())
        if x1 == x2
    ]
    for height in left:
        assert any(abs(height - each) < 0.1 for each in upright), (left, upright)
