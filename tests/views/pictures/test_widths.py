"""Pictures of every kind at every width: no text leaves the sheet, and none lies on another."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from toy import save_toy_bert
from treebanks import planted_file

import attnscan
from attnscan.results.syntax import Syntax
from attnscan.views.pictures.look import LackingLetters, PictureFile
from attnscan.views.pictures.picture import Drawable, picture

PAIRS = [("the cat sat", "the cat ran"), ("the dog ran", "the cat ran"), ("a cat ran", "a dog sat"), ("a cat", "a cat")]
PLAN = {(0, 0): "next-word", (0, 2): "previous-word", (11, 11): "cross-sentence", (23, 15): "identical"}
KINDS: list[tuple[str, Any, dict[str, Any]]] = [
    ("classification", "map", {}),
    ("classification", "scores", {}),
    ("classification among words", "scores", {}),
    ("classification", "layers", {}),
    ("classification", "profile", {}),
    ("classification", "head", {"heads": "0-2,1-8"}),
    ("classification", "head", {"heads": "0-2,1-8", "lines": True}),
    ("ablation", "ablation", {}),
    ("heads", "ablation", {}),
    ("similarity", "similarity", {}),
    ("comparison", "comparison", {}),
    ("syntax", "syntax", {}),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drawable]:
    directory = tmp_path_factory.mktemp("wide")
    model = str(save_toy_bert(directory / "m", 24, 16, PLAN))
    flat = str(save_toy_bert(directory / "flat", 4, 16, {(0, 0): "next-word"}))  # layers take time, and no width
    classification = attnscan.classify(*PAIRS[0], model=model, predictive="off")
    return {
        "classification": classification,
        "classification among words": classification.with_reading(special="out"),
        "ablation": attnscan.ablate(PAIRS, model=model, predictive="off", draws=2),
        "heads": attnscan.ablate(PAIRS, heads="0-2,11-11", each=True, model=model, draws=2),
        "similarity": attnscan.similar(PAIRS, model=model),
        "comparison": attnscan.compare(model, model, PAIRS),
        "syntax": _with_a_long_relation(attnscan.syntax(planted_file(directory), model=flat)),
    }


def _with_a_long_relation(syntax: Syntax) -> Syntax:
    """All rows but those of `all`, by a name that has no room."""
    rows = tuple(
        row._replace(relation=row.relation if row.relation == "all" else f"{'x' * 99}{row.relation}")
        for row in syntax.rows
    )
    return replace(syntax, rows=rows, held=replace(syntax, rows=rows))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures as they are, in place of files, which take long."""
    figures: list[Figure] = []

    def keep(figure: Figure, *_: Any) -> bytes:
        figures.append(figure)
        return b""

    monkeypatch.setattr("attnscan.views.pictures.picture.to_bytes", keep)
    return figures


def _texts(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Bbox]]:
    """Every text that is drawn, with its place in pixels of 300 an inch."""
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
    results: dict[str, Drawable], drawn: list[Figure], monkeypatch: pytest.MonkeyPatch, result: str, kind: Any,
    how: dict[str, Any], width: float,
) -> None:  # fmt: skip
    picture(results[result], kind, PictureFile("svg", width), **how)
    (figure,) = drawn
    texts = _texts(figure, monkeypatch)
    right, top = figure.bbox.width, figure.bbox.height
    assert right == pytest.approx(300 * width, abs=0.5) and len(texts) > 5
    outside = [text for text, box in texts if box.x0 < -2 or box.x1 > right + 2 or box.y0 < -2 or box.y1 > top + 2]
    assert outside == []
    frames = [ax.get_window_extent() for ax in figure.axes]
    for legend in figure.legends:
        assert not any(frame.y0 < legend.get_window_extent().y1 - 2 for frame in frames)
    if kind in ("similarity", "map"):  # the names and letters of so many heads stand where the heads do
        return
    over = [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(texts, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 4 and min(a.y1, b.y1) - max(a.y0, b.y0) > 9
    ]
    assert over == []


def test_letters_that_no_font_has_are_named_and_the_picture_is_made(tmp_path: Path) -> None:
    model = str(save_toy_bert(tmp_path / "m", 1, 2, {(0, 0): "next-word"}))
    result = attnscan.classify("the cat", model=model, predictive="off")
    assert result.attention is not None
    object.__setattr__(result.attention, "tokens", ("[CLS]", "\U0001faa9", "\u16a0", "[SEP]"))
    for file, words in (("png", "boxes"), ("svg", "as text")):
        with pytest.warns(LackingLetters, match=f"no font here has .*\U0001faa9.*{words}"):
            assert picture(result, "head", PictureFile(file), heads="0-0")  # type: ignore[arg-type]
