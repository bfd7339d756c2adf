"""The picture of `syntax`: the map has every head's letter, and bars are as long as accuracies."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from drawn import texts
from toy import save_toy_bert
from treebanks import planted, planted_file

import attnscan
from attnscan.results.intervals import half_width
from attnscan.results.syntax import HEAD, Row, Syntax
from attnscan.views.palette import SYNTAX_COLORS, contrast, on_white, readable_on, syntax_opacity
from attnscan.views.pictures.picture import picture

PLAN = {(0, 0): "articles to nouns", (0, 1): "previous-word"}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Syntax:
    directory = tmp_path_factory.mktemp("toy")
    return attnscan.syntax(planted_file(directory), model=str(save_toy_bert(directory / "m", 2, 3, PLAN)))


def _boxes(svg: bytes, color: str) -> list[tuple[float, float]]:
    """Where the shapes of a colour begin, and how wide they are, in points."""
    paths = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")
    shapes = [re.findall(r"[ML] ([\d.]+)", path.attrib["d"]) for path in paths if color in path.attrib.get("style", "")]
    return [(min(map(float, xs)), max(map(float, xs)) - min(map(float, xs))) for xs in shapes if xs]


def test_the_map_has_every_letter_and_names_its_reading(result: Syntax) -> None:
    shown = texts(picture(result))
    assert "Map: what heads follow in 288 sentences, by attention weight, among words." in " ".join(shown)
    letters = [result.letter(head) for head in result.grid]
    assert shown.count("F") == letters.count("F") == 1
    assert any(text.split() == ["F", "function", "word", "(1)"] for text in shown)


def test_bars_are_as_long_as_accuracies_and_the_line_is_the_interval_of_the_gain(result: Syntax) -> None:
    """Of one relation, `det`, whose head 0-0 is always right."""
    row = result.rows.index(Row("det", HEAD))
    alone = replace(result, se=result.se * 0 + 0.05)
    svg = picture(alone)
    bars = _boxes(svg, f"fill: {SYNTAX_COLORS['F']}")
    left, whole = max(bars, key=lambda bar: bar[1])
    offsets = [width for x, width in _boxes(svg, "fill: #8a8a8a") if x == pytest.approx(left, abs=0.01)]
    expected = whole * float(result.rule_accuracy[row])
    assert any(width == pytest.approx(expected, rel=0.01) for width in offsets)
    half = float(half_width(0.05, result.clusters))
    lines = [width for _, width in _boxes(svg, "stroke: #111111")]
    assert any(width == pytest.approx(whole * half, rel=0.02) for width in lines)  # its right half is beyond 1
    assert sum(text.startswith("0-0*") for text in texts(svg)) >= 1


def test_a_small_treebank_has_the_map_and_says_why_there_are_no_bars(tmp_path: Path) -> None:
    trees = tmp_path / "few.conllu"
    trees.write_text("\n\n".join(planted().split("\n\n")[:5]) + "\n\n", encoding="utf-8")
    model = str(save_toy_bert(tmp_path / "m", 1, 2, {(0, 0): "articles to nouns"}))
    with pytest.warns(UserWarning, match="5 sentences are few"):
        few = attnscan.syntax(str(trees), model=model)
    shown = " ".join(texts(picture(few)))
    assert "Below 200 sentences, results may not hold in other texts." in shown
    assert (
        "No relation is in 30 sentences" in shown and "nothing of these (" in shown and "best fixed rule" not in shown
    )


@pytest.mark.parametrize("mark", [*SYNTAX_COLORS, *"smfwcpd"])
def test_letters_stand_out_on_their_colours(mark: str) -> None:
    color = on_white(SYNTAX_COLORS[mark.upper()], syntax_opacity(mark))
    assert contrast(readable_on(color), color) >= 4.5
