"""The map of heads: the screen's letters, and their colours."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from drawn import random_weights, texts
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from small_results import SIGNATURE

from attnscan import PATTERNS, heads
from attnscan.errors import OptionError, SelectionError
from attnscan.results.behaviour import Labels
from attnscan.results.heads import HeadScores
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import NO_HABIT_COLOR, RESTING_OPACITY, letter, on_white, paper_color, words
from attnscan.views.pictures.look import PictureFile
from attnscan.views.pictures.picture import picture


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn of how sure labels are, and of thousands of heads that takes long."""
    monkeypatch.setattr("attnscan.results.behaviour.MOST_HEADS", 0)


def _marks(labels: Labels) -> list[str]:
    """Each head's letter, with a question mark where its label is not sure."""
    both = zip(labels.among_words.flat, labels.unsure.flat, strict=True)
    return [letter(str(name)) + "?" * bool(unsure) for name, unsure in both]


@pytest.mark.parametrize("by", ["weight", "carried"])
@pytest.mark.parametrize("special", ["in", "out"])
def test_the_map_has_the_letter_and_the_colour_of_every_head(article: HeadScores, by: str, special: str) -> None:
    result = article.with_reading(by, special)  # type: ignore[arg-type]
    labels, svg = result.labels, picture(result)
    expected = Counter(_marks(labels))
    assert any(text.endswith("?") for text in expected)
    none = int((labels.among_words == "").sum())
    assert Counter(text for text in texts(svg) if text in expected) == expected
    named = [" ".join(text.split()[:2]) for text in texts(svg)]
    assert all(f"{letter(kind.name)} {words(kind.name).split()[0]}" in named for _, kind in kinds_of(labels))
    resting = int((labels.rests & (labels.among_words == "")).sum())
    assert svg.count(f"fill: {NO_HABIT_COLOR}".encode()) == none - resting + bool(none)
    assert svg.count(f"fill: {on_white(NO_HABIT_COLOR, RESTING_OPACITY)}".encode()) == resting


def test_the_legend_says_what_the_map_is_of_and_what_a_question_mark_is(article: HeadScores) -> None:
    asked = "?: the label changed in more than 5 % of bootstrap resamples of the words, or they are too few."
    for by, said in (("weight", "by attention weight"), ("carried", "by what heads carry")):
        shown = " ".join(texts(picture(article.with_reading(by))))  # type: ignore[arg-type]
        assert f"Map: what each head does, {said}, among words." in shown and asked in shown
    sure = HeadScores(SIGNATURE, article.scores_by, {article.reading: replace(article.labels, stays=None)})
    assert "?" not in " ".join(texts(picture(sure)))


def test_a_cell_too_narrow_for_a_letter_and_a_question_mark_has_the_latter_alone() -> None:
    result, _ = random_weights(2, 24, 9)
    unsure = sum(text.endswith("?") for text in _marks(result.labels))
    assert unsure > 0
    for width, is_narrow in ((3.3, False), (2.1, True)):
        found = texts(picture(result, look=PictureFile("svg", width)))
        assert (found.count("?") > 0) == is_narrow
        assert sum(text.endswith("?") and len(text) < 3 for text in found) == unsure


@pytest.mark.usefixtures("quick")
def test_thousands_of_heads_are_an_image_in_the_same_colours() -> None:
    layers, heads = 70, 100
    result, _ = random_weights(layers, heads, 6)
    labels = result.labels
    assert len(set(labels.among_words.flat)) > 1 and labels.rests.any()
    assert len(picture(result)) < 200_000, "a shape for each head"
    drawn = imread(BytesIO(picture(result, look=PictureFile("png"))))[:, :, :3].reshape(-1, 3)
    counts = Counter(map(tuple, np.round(255 * drawn).astype(int).tolist()))
    expected = Counter(
        on_white(paper_color(str(name)), RESTING_OPACITY if rests else 1)
        for name, rests in zip(labels.among_words.flat, labels.rests.flat, strict=True)
    )
    (area,) = {round(300 * (3.3 - 0.4) / heads) ** 2}
    for color, count in expected.most_common(2):  # larger than any swatch of the legend
        red, green, blue = (round(255 * value) for value in to_rgb(color))
        assert counts[red, green, blue] == pytest.approx(count * area, rel=0.3), color


@pytest.mark.usefixtures("quick")
def test_heads_that_nobody_could_see_are_refused() -> None:
    result, _ = random_weights(1, 2000, 4)
    assert picture(result, "layers")  # one point a layer, however many heads
    for kind in ("map", "scores"):
        with pytest.raises(SelectionError, match=r"1 layers of 2000 heads have no room .* classify --csv"):
            picture(result, kind)  # type: ignore[arg-type]


def test_a_ranking_is_drawn_by_its_labels_and_says_what_it_lacks() -> None:
    bare = heads(
        [("the cat sat", "a cat")] * 2, model="bundled", predictive="off", pattern=[known.id for known in PATTERNS]
    )
    with pytest.raises(OptionError, match="this ranking has no labels"):
        picture(bare)
    with pytest.raises(OptionError, match="a HeadScores of many pairs has no picture 'head'"):
        picture(bare, "head")
    assert texts(picture(bare, "scores"))
