"""Pictures of scores: of every head, and of the best in each layer."""

from __future__ import annotations

import re

import numpy as np
from drawn import random_weights, texts

from attnscan.results.classification import Classification
from attnscan.views.palette import COLORS, RAMP, letter
from attnscan.views.pictures.picture import picture


def test_scores_say_what_was_not_measured_and_what_had_no_word() -> None:
    result, _ = random_weights(3, 4, 8)  # one sentence, and no model to ask
    for svg in (picture(result, "scores"), picture(result, "layers")):
        found = texts(svg)
        assert found.count("no eligible word") == 2 and found.count("not measured") == 1
        assert [text for text in found if text[2:] in COLORS] == [f"{letter(p)} {p}" for p in COLORS]
    assert "no score" in texts(picture(result, "scores"))
    assert texts(picture(result, "scores", without_delimiters=True)).count("left out") == 1


def test_every_score_is_drawn_on_one_scale(article: Classification) -> None:
    """Of all cells, the one with a score of 1 alone is as dark as the scale's end."""
    svg = picture(article, "scores").decode()
    assert article.scores.every_key.score[0, 2, 1] > 0.995
    assert svg.count(f"fill: {RAMP[-1]}") == 2


def test_layers_name_the_best_head_of_each_pattern(article: Classification) -> None:
    score = article.scores.every_key.score
    best = [divmod(int(np.nanargmax(score[..., p])), 12) for p, name in enumerate(COLORS) if name != "predictive"]
    found = [text for text in texts(picture(article, "layers")) if re.fullmatch(r"\d+-\d+", text)]
    assert found == [f"{layer}-{head}" for layer, head in best]
