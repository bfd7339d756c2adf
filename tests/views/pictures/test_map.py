"""The map of heads: the letters and the colours of their labels."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from drawn import random_weights, texts
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from attnscan import PATTERNS, heads
from attnscan.errors import OptionError, SelectionError
from attnscan.results.classification import Classification
from attnscan.results.scores import MIXED
from attnscan.views.palette import COLORS, MIXED_COLOR, PARKS, letter, on_white, opacity, paper_color
from attnscan.views.pictures.look import PictureFile
from attnscan.views.pictures.map import ruler_width
from attnscan.views.pictures.picture import picture
from attnscan.views.pictures.sheet import DPI, LINE, MARGIN, MOST_CELLS


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn of how sure labels are, and of thousands of heads that takes long."""
    monkeypatch.setattr("attnscan.scan.one_input.stability", lambda *_: None)


def test_the_map_has_the_letter_and_the_colour_of_every_label(article: Classification) -> None:
    """Of what heads carry among words."""
    svg, mapped = picture(article), article.with_reading("carried")
    labels = mapped.content_label
    expected = Counter(_marks(mapped))
    assert any(text.endswith("?") for text in expected)
    shown = {str(label) for label in labels.flat}
    expected.update(letter(label) for label in shown)  # the key
    names = {pattern.id for pattern in PATTERNS}
    marks = set(expected) | {letter(name) for name in names}
    assert Counter(text for text in texts(svg) if text in marks) == expected
    for label in {*names, MIXED} - {"next-word"}:  # whose colour also shows how pale cells are
        count = int((labels == label).sum())
        assert svg.count(f"fill: {COLORS.get(label, MIXED_COLOR)}".encode()) == count + (count > 0)
    assert svg.count(f"fill: {COLORS['next-word']}".encode()) == (labels == "next-word").sum() + 1 + 3
    assert f"next-word ({(labels == 'next-word').sum()})" in texts(svg)


def _marks(result: Classification) -> list[str]:
    """Each head's letter, small where it rests on delimiters, with a question mark where its label is not sure."""
    letters = [
        letter(label).lower() if rests >= PARKS else letter(label)
        for label, rests in zip(result.content_label.flat, result.parking.flat, strict=True)
    ]
    return [text + "?" * bool(unsure) for text, unsure in zip(letters, result.labels.content_unsure.flat, strict=True)]


def test_the_legend_says_what_the_map_is_of_and_what_a_question_mark_is(article: Classification) -> None:
    asked = "?: the label changed in more than 5 % of bootstrap resamples of the words, or they are too few."
    for result, said in ((article, "carries"), (replace(article, carried=None), "looks at")):
        shown = " ".join(texts(picture(result)))
        assert f"Map: what each head {said} among words." in shown and asked in shown
    sure = replace(article, carried=None, by_weight=replace(article.by_weight, stability=None))
    assert "?" not in " ".join(texts(picture(sure)))


def test_a_cell_too_narrow_for_a_letter_and_a_question_mark_has_the_latter_alone() -> None:
    result, _ = random_weights(2, 24, 9)
    marks = _marks(result)
    unsure = sum(text.endswith("?") for text in marks)
    assert unsure > 0
    for width, alone in ((3.3, 0), (2.2, unsure)):
        assert texts(picture(result, look=PictureFile("svg", width))).count("?") == alone


def test_the_map_is_paler_where_a_head_rests_on_delimiters(article: Classification) -> None:
    """By what comes from delimiters of all that a head carries or, where that cannot be had, by weight."""
    for result in (article.with_reading("carried"), replace(article, carried=None)):
        svg = picture(result).decode()
        assert ("carried from delimiters" in svg) is (result.carried is not None)
        for place in ((0, 2), (1, 11), (2, 9)):
            _check_paleness(result, svg, place)


def _check_paleness(result: Classification, svg: str, place: tuple[int, int]) -> None:
    color, rests = COLORS[str(result.content_label[place])], result.parking[place]
    opacities = [float(o) for o in re.findall(rf"fill: {color}; fill-opacity: ([\d.]+)", svg)]
    assert any(opacity == pytest.approx(1 - 0.8 * rests, abs=1e-5) for opacity in opacities)


@pytest.mark.usefixtures("quick")
def test_thousands_of_heads_are_an_image_in_the_same_colours() -> None:
    layers, heads = 70, 100
    assert layers * heads > MOST_CELLS
    result, _ = random_weights(layers, heads, 6)
    assert len(set(result.content_label.flat)) > 1
    assert len(picture(result)) < 200_000, "a shape for each head"
    drawn = imread(BytesIO(picture(result, look=PictureFile("png"))))
    left = ruler_width(layers)
    side = (3.3 - left - MARGIN) / heads
    for place in np.ndindex(layers, heads):
        x, y = left + (place[1] + 0.5) * side, MARGIN + 2 * LINE + (place[0] + 0.5) * side
        color = on_white(paper_color(str(result.content_label[place])), opacity(float(result.parking[place])))
        assert drawn[int(y * DPI), int(x * DPI), :3] == pytest.approx(to_rgb(color), abs=0.01), place


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["map", "scores", "layers"])
@pytest.mark.parametrize(("layers", "heads"), [(1, 2000), (3000, 1)])
def test_heads_that_nobody_could_see_are_refused(layers: int, heads: int, kind: str) -> None:
    result = _tall(layers) if heads == 1 else random_weights(layers, heads, 4)[0]
    if (kind, layers) == ("layers", 1):  # one point a layer, however many heads
        assert picture(result, "layers")
        return
    with pytest.raises(SelectionError, match=f"{layers} layers of {heads} heads have no room .* classify --csv"):
        picture(result, kind)  # type: ignore[arg-type]


def _tall(layers: int) -> Classification:
    """So many layers of one head, all alike; to score each takes long."""
    result, _ = random_weights(1, 1, 4)
    scores, fields = result.scores, ("score", "chance", "se", "n", "pairs", "effective_pairs", "share", "itself")
    tables = {
        kind: replace(table, share_chance=None, **{name: np.repeat(getattr(table, name), layers, 0) for name in fields})
        for kind, table in (("every_key", scores.every_key), ("words_only", scores.words_only))
    }
    tall = replace(scores, entropy=np.repeat(scores.entropy, layers, 0), **tables)
    return replace(result, by_weight=replace(result.by_weight, scores=tall, stability=None), attention=None)


def test_a_ranking_is_drawn_by_its_labels_and_says_what_it_lacks() -> None:
    bare = heads(
        [("the cat sat", "a cat")] * 2, model="bundled", predictive="off", pattern=[known.id for known in PATTERNS]
    )
    with pytest.raises(OptionError, match="this ranking has no labels"):
        picture(bare)
    with pytest.raises(OptionError, match=r"this ranking has no profile; ask for it: heads\(..., profile=True\)"):
        picture(bare, "profile")
    with pytest.raises(OptionError, match="a Ranking has no picture 'head'"):
        picture(bare, "head")
    assert texts(picture(bare, "scores"))
