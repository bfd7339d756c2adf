"""Pictures of studies: every control beside an effect, every letter of a map, and all texts at every width."""

import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ablated import effect_of
from drawn import texts
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from small_results import SIGNATURE
from toy import save_toy_bert
from treebanks import planted_file

import attnscan
from attnscan.results.ablation import Ablation, Effect, HeadSet
from attnscan.results.terms import Grid
from attnscan.views.palette import COLORS, SYNTAX_COLORS, contrast, on_white, readable_on
from attnscan.views.pictures import Drawable, picture

PAIRS = [("the cat sat", "the cat ran"), ("the dog ran", "the cat ran"), ("a cat ran", "a dog sat"), ("a cat", "a cat")]
PLAN = {(0, 0): "next-word", (0, 2): "previous-word", (11, 11): "cross-sentence", (23, 15): "identical"}
KINDS: list[tuple[str, Any, dict[str, Any]]] = [
    *(("classification", kind, {}) for kind in ("map", "scores", "layers", "profile")),
    *(("classification", "head", {"heads": "0-2,1-8", "lines": lines}) for lines in (False, True)),
    *((study, None, {}) for study in ("ablation", "heads", "similarity", "comparison", "syntax")),
]


def _drawn(*effects: Effect) -> bytes:
    return picture(Ablation(effects, Grid((1, 4)), "zero", 3, "label, 0.25 above chance", 5, 6, SIGNATURE))


def _ticks(svg: bytes) -> list[float]:
    """Where the controls stand, from left to right, in points."""
    marks = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}use")
    return sorted(float(mark.attrib["x"]) for mark in marks if "#a8a8a8" in mark.attrib.get("style", ""))


def test_every_control_has_a_tick_at_its_distance_from_the_mean() -> None:
    svg = _drawn(effect_of(2.0, (1.0, 1.5, 1.25)), replace(effect_of(2.0, ()), set=HeadSet("y", ())))
    low, middle, high = _ticks(svg)
    assert high - middle == pytest.approx(middle - low, abs=0.01) and high > middle
    assert " no head" in texts(svg) and "Grey: the controls, less their mean." in texts(svg)


def test_the_interval_is_by_students_t_and_the_axis_holds_all_of_it() -> None:
    effect = effect_of(2.0, (1.0, 1.5, 1.25), "next-word")
    svg = _drawn(effect)
    paths = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")
    own = [path for path in paths if f"stroke: {COLORS['next-word']}" in path.attrib.get("style", "")]
    ends = [list(map(float, re.findall(r"[ML] ([\d.]+)", path.attrib["d"]))) for path in own]
    ((left, right),) = [(min(xs), max(xs)) for xs in ends if max(xs) > min(xs) + 5]  # no marker
    low, _, high = _ticks(svg)
    assert (right - left) / (high - low) * 0.5 == pytest.approx(2 * effect.interval, rel=0.01)
    assert effect.interval > 2 * effect.se and right < 72 * 3.3


def test_an_ablation_has_a_panel_for_each_quantity() -> None:
    effect = effect_of(2.0, (1.0, 1.5))
    accuracy = replace(effect.quantity, name="next-sentence", unit="accuracy", larger_is_better=True)
    svg = _drawn(effect, replace(effect, quantity=accuracy))
    assert sum(text.startswith(("masked-lm: effect", "next-sentence: effect")) for text in texts(svg)) == 2
    low, again, high, last = _ticks(svg)
    assert (low, high) == pytest.approx((again, last)) and low < high  # the same in both


@pytest.mark.parametrize("mark", [*SYNTAX_COLORS, *"smfwcpd"])
def test_letters_stand_out_on_their_colours(mark: str) -> None:
    color = on_white(SYNTAX_COLORS[mark.upper()], 0.5 if mark.islower() else 1)
    assert contrast(readable_on(color), color) >= 4.5


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drawable]:
    directory = tmp_path_factory.mktemp("wide")
    model = str(save_toy_bert(directory / "m", 24, 16, PLAN))
    flat = str(save_toy_bert(directory / "flat", 2, 3, {(0, 0): "articles to nouns", (0, 1): "previous-word"}))
    return {
        "classification": attnscan.classify(*PAIRS[0], model=model, predictive="off"),
        "ablation": attnscan.ablate(PAIRS, model=model, predictive="off", draws=2),
        "heads": attnscan.ablate(PAIRS, heads="0-2,11-11", each=True, model=model, draws=2),
        "similarity": attnscan.similar(PAIRS, model=model),
        "comparison": attnscan.compare(model, model, PAIRS),
        "syntax": attnscan.syntax(planted_file(directory), model=flat),
    }


def test_the_map_of_syntax_has_every_letter_and_names_its_reading(results: dict[str, Any]) -> None:
    result = results["syntax"]
    said = " ".join(texts(picture(result)))
    assert "Map: what heads follow in 288 sentences, by attention weight, among words." in said
    assert texts(picture(result)).count("F") == 1 and "F  function word (1)" in texts(picture(result))
    few = replace(result, signature=replace(result.signature, pairs_read=5, pairs_skipped=0))
    assert "Below 200 sentences, results may not hold in other texts." in " ".join(texts(picture(few)))


def _texts(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Bbox]]:
    """Every text that is drawn, with its place in pixels of 100 an inch."""
    there: dict[Text, None] = {}
    canvas: Any = FigureCanvasAgg(figure)
    draw: Any = Text.draw

    def seen(text: Text, *args: Any) -> None:
        if text.get_text().strip() and text.get_visible():
            there[text] = None
        draw(text, *args)

    monkeypatch.setattr(Text, "draw", seen)
    canvas.draw()
    return [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in there]


@pytest.mark.parametrize("width", [2, 3.3, 6.5, 20])
@pytest.mark.parametrize(("result", "kind", "how"), KINDS)
def test_no_text_is_clipped_or_covered_and_no_legend_lies_on_data(
    results: dict[str, Drawable], monkeypatch: pytest.MonkeyPatch, result: str, kind: Any, how: Any, width: float
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    picture(results[result], kind, "svg", width, **how)
    (figure,) = figures
    texts = _texts(figure, monkeypatch)
    right, top = figure.bbox.width, figure.bbox.height
    assert right == pytest.approx(figure.dpi * width, abs=0.5) and len(texts) > 5
    outside = [text for text, box in texts if box.x0 < -2 or box.x1 > right + 2 or box.y0 < -2 or box.y1 > top + 2]
    assert outside == []
    frames = [ax.get_window_extent() for ax in figure.axes]
    for legend in figure.legends:
        assert not any(frame.y0 < legend.get_window_extent().y1 - 2 for frame in frames)
    if result == "similarity" or kind == "map":  # the names and letters of so many heads stand where the heads do
        return
    over = [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(texts, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 2 and min(a.y1, b.y1) - max(a.y0, b.y0) > 3
    ]
    assert over == []


def test_letters_that_no_font_has_are_named_and_the_picture_is_made(tmp_path: Path) -> None:
    model = str(save_toy_bert(tmp_path / "m", 1, 2, {(0, 0): "next-word"}))
    result = attnscan.classify("the cat", model=model, predictive="off")
    assert result.attention is not None
    object.__setattr__(result.attention, "tokens", ("[CLS]", "\U0001faa9", "\u16a0", "[SEP]"))
    with pytest.warns(UserWarning, match="no font here has .*\U0001faa9.*: install one"):
        assert picture(result, "head", "png", heads="0-0")
