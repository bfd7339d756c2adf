"""The map of heads: the letters and the colours of their labels."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from drawn import texts

from attnscan.results.classification import Classification
from attnscan.results.scores import MIXED
from attnscan.views.palette import COLORS, MIXED_COLOR, PARKS, letter
from attnscan.views.pictures.picture import picture


def test_the_map_has_the_letter_and_the_colour_of_every_label(article: Classification) -> None:
    svg = picture(article)
    labels = article.content_label
    expected = Counter(
        letter(label).lower() if rests >= PARKS else letter(label)
        for label, rests in zip(labels.flat, article.parking.flat, strict=True)
    )
    shown = {str(label) for label in labels.flat}
    expected.update(letter(label) for label in shown)  # the key
    marks = set(expected) | {letter(pattern) for pattern in COLORS}
    assert Counter(text for text in texts(svg) if text in marks) == expected
    for label in {*COLORS, MIXED} - {"next-word"}:  # whose colour also shows how pale cells are
        count = int((labels == label).sum())
        assert svg.count(f"fill: {COLORS.get(label, MIXED_COLOR)}".encode()) == count + (count > 0)
    assert svg.count(f"fill: {COLORS['next-word']}".encode()) == (labels == "next-word").sum() + 1 + 3
    assert f"next-word ({(labels == 'next-word').sum()})" in texts(svg)


def test_the_map_is_paler_where_a_head_rests_on_delimiters(article: Classification) -> None:
    svg = picture(article).decode()
    for place in ((0, 2), (1, 11), (2, 9)):
        color, rests = COLORS[str(article.content_label[place])], article.parking[place]
        opacities = [float(o) for o in re.findall(rf"fill: {color}; fill-opacity: ([\d.]+)", svg)]
        assert any(opacity == pytest.approx(1 - 0.8 * rests, abs=1e-5) for opacity in opacities)
