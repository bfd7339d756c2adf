"""Pictures: the same bytes each time, as wide as asked, no text clipped, every number drawn."""

import itertools
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from support.ablation_effects import effect_of
from support.drawn_pictures import random_weights, size, texts
from support.small_results import SIGNATURE, doing
from support.toy_bert import save_toy_bert
from support.treebanks import planted_file

import attnscan
from attnscan import PATTERNS, heads
from attnscan.errors import OptionError, SelectionError
from attnscan.inputs.weights import weights_of
from attnscan.results.ablation import Ablation, Effect, HeadSet
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.scan.options import ScanOptions
from attnscan.scan.weights import classify_weights
from attnscan.scoring.cross import cross_patterns
from attnscan.text import counted
from attnscan.views import palette
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import letter, mark_of, words
from attnscan.views.pictures.picture import Drawable, picture
from attnscan.views.pictures.weights import draw_weights

NAMES = [pattern.id for pattern in PATTERNS]
BOTH = pytest.mark.parametrize("lines", [False, True])
HOSTILE = (
    *(
        "$x^2$",
        "$",
        r"\frac{1}",
        "</text><script>alert(1)</script>",
        "&amp;",
        "a\nb",
        "\x1b[31m",
        "\ufffe\x00",
        "  ",
    ),
    *("שלום", "日本語", "👩‍🚀", "\u202eabc", "\U000e0001", "x" * 300, "\ud800"),
)


def _said(svg: bytes) -> str:
    return " ".join(texts(svg))


@pytest.fixture(scope="module")
def ranking() -> HeadScores:
    pairs = [(f"The cat number {i} sat.", f"A cat ran {i} times.") for i in range(6)]
    return heads(pairs, model="bundled", predictive="off", pattern=NAMES)


@pytest.mark.parametrize(
    ("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]
)
def test_the_same_input_gives_the_same_bytes_as_wide_as_asked(format: Any, start: bytes) -> None:
    for options in ({"kind": "map"}, {"kind": "head", "heads": "1-2", "lines": True}):
        first = picture(random_weights(2, 3, 5)[0], format=format, width=2.7, **options)
        again = picture(random_weights(2, 3, 5)[0], format=format, width=2.7, **options)
        assert first == again
        assert first.startswith(start)
        assert size(first, format)[0] == pytest.approx(2.7, abs=0.01)


def test_settings_of_the_user_change_nothing_and_are_not_changed() -> None:
    result, _ = random_weights(2, 3, 5)
    before = picture(result)
    with mpl.rc_context(
        {"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "savefig.bbox": "tight"}
    ):
        settings = mpl.rcParams.copy()
        assert picture(result) == before
        assert mpl.rcParams.copy() == settings
    assert "matplotlib.pyplot" not in sys.modules  # it would choose a window system


@pytest.mark.parametrize(
    ("layers", "heads"), [(1, 1), (1, 40), pytest.param(48, 64, marks=pytest.mark.long)]
)
def test_any_model_has_a_map_and_scores(layers: int, heads: int) -> None:
    result, _ = random_weights(layers, heads, 4)
    found = texts(picture(result, "map", width=2))
    crowded = "No room for letters: --width gives more." in " ".join(found)
    marks = [text for text in found if re.fullmatch(r"\D\??'?", text)]
    assert len(marks) >= layers * heads if heads <= 16 else crowded
    assert all(len(picture(result, kind, width=2)) < 3_000_000 for kind in ("scores", "layers"))


def test_thousands_of_heads_are_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscan.scoring.labels.MOST_HEADS", 0)  # how sure labels are takes long
    assert len(picture(random_weights(70, 100, 3)[0])) < 200_000, "a shape for each head"


@pytest.mark.parametrize(
    ("error", "options", "says"),
    [
        (
            OptionError,
            {"kind": "ablation"},
            "HeadScores 'ablation'; give map, scores, layers, profile or head",
        ),
        (OptionError, {"heads": "0-2"}, "the picture 'map' has no heads; heads is for head"),
        (
            OptionError,
            {"kind": "layers", "pattern": ["next-word"]},
            "has no patterns; patterns is for comparison",
        ),
        (OptionError, {"width": 0.5}, "the picture's width is 0.5 inches; give 2 to 20"),
        (OptionError, {"width": float("nan")}, "give 2 to 20"),
        (SelectionError, {"kind": "head", "heads": [(7, 0)]}, "7-0: this model has layers 0 to 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    error: type[Exception], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(error, match=says):
        attnscan.plot(random_weights(2, 3, 5)[0], **options)


def test_results_without_pictures_attention_or_labels_are_refused(ranking: HeadScores) -> None:
    result, _ = random_weights(2, 3, 5)
    with pytest.raises(OptionError, match="there is no picture of a Scores; "):
        picture(result.scores)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="this result has not kept its attention; "):
        picture(replace(result, attention=None), "head", heads="all")
    with pytest.raises(SelectionError, match="names no head"):
        picture(result, "head")
    with pytest.raises(OptionError, match="this ranking has no labels"):
        picture(ranking)
    assert "W predictive: switched off" in _said(picture(ranking, "scores", width=6))


@pytest.mark.parametrize(
    ("by", "said"), [("weight", "by attention weight"), ("carried", "by what heads carry")]
)
def test_the_map_has_the_letter_and_the_colour_of_every_head(
    article: HeadScores, by: Any, said: str
) -> None:
    result = article.select_reading(by)
    labels = result.labels
    svg = picture(result)
    expected = Counter(mark_of(labels, head) for head in result.grid)
    assert any("?" in text for text in expected)
    assert Counter(text for text in texts(svg) if text in expected) == expected
    named = [" ".join(text.split()[:2]) for text in texts(svg)]
    for group, kind in kinds_of(labels):
        entry = f"{letter(kind.name)} {words(kind.name).split()[0]}"
        assert (entry in named) == (group != "rest")
    resting = int(labels.rests.sum())
    if resting:
        assert f"Pale, ': {counted(resting, 'head rests', 'heads rest')}, with more" in _said(svg)
    none = labels.among_words == ""
    resting_without = int((labels.rests & none).sum())
    grey = f"fill: {palette.NO_HABIT_COLOR}".encode()
    assert svg.count(grey) == none.sum() - resting_without + none.any()
    pale_grey = palette.on_white(palette.NO_HABIT_COLOR, palette.RESTING_OPACITY)
    assert svg.count(f"fill: {pale_grey}".encode()) == resting_without
    assert f"Map: what each head does, {said}, among words." in _said(svg)
    assert "?: the label changed in more than 5 % of bootstrap resamples of the words" in _said(svg)


def test_scores_say_what_was_not_measured_and_what_had_no_word() -> None:
    result, _ = random_weights(3, 4, 8)  # one sentence, and no model to ask
    for kind, hatched in (("scores", True), ("layers", False)):
        said = _said(picture(result, kind, width=6))
        assert said.count(": no word") == 2 and said.count(": not measured") == 1
        assert all(f"{letter(name)} {name}" in said for name in NAMES)
        assert ("Hatched: no value." in said) == hatched


def test_empty_panel_says_why() -> None:
    """Every head is even over both sentences, and so none is above chance for bag-of-words."""
    result, _ = random_weights(2, 3, 12)
    even = attnscan.classify(
        weights={
            "attention": np.full((2, 3, 12, 12), 1 / 12, np.float32),
            "tokens": np.array(result.units),
            "segments": np.array([0] * 6 + [1] * 6),
        }
    )
    said = _said(picture(even, "scores", width=6))
    assert "B bag-of-words: no head is above chance" in said
    assert "it is a habit (e, all words evenly)" in said


def test_every_score_is_drawn_on_one_scale(article: HeadScores) -> None:
    """Of all cells, the one with a score of 1 alone is as dark as the scale's end."""
    svg = picture(article, "scores")
    assert article.scores.every_key.score[0, 2, 1] > 0.995
    assert svg.decode().count(f"fill: {palette.RAMP[-1]}") == 2
    said = _said(svg)
    assert "Scores by attention weight, among words. Special tokens are removed, and rows" in said


def test_layers_name_the_best_head_of_each_pattern(ranking: HeadScores) -> None:
    svg = picture(ranking, "layers", width=6)
    table = ranking.table
    best = [
        ranking.grid[np.nanargmax(table.score[..., p])].name
        for p, n in enumerate(NAMES)
        if n != "predictive"
    ]
    assert [text for text in texts(svg) if re.fullmatch(r"\d+-\d+", text)] == best


def test_layers_have_the_intervals_of_the_best_heads(ranking: HeadScores) -> None:
    svg = picture(ranking, "layers", width=6)
    table = ranking.table
    assert "Upright: 95 % intervals of the best heads over pairs." in _said(svg)
    p = NAMES.index("next-word")
    low, high = np.broadcast_arrays(*table.interval, table.score)[:2]
    upright = [
        abs(float(y1) - float(y2))
        for x1, y1, x2, y2 in re.findall(
            r'd="M ([\d.]+) ([\d.]+)\s+L ([\d.]+) ([\d.]+)\s*"', svg.decode()
        )
        if x1 == x2
    ]
    above_chance = 1 - table.chance[..., p].ravel()[0]
    for layer, scores in enumerate(table.above_chance[..., p]):
        best = (layer, scores.argmax(), p)
        height = 72 * 0.85 * (high - low)[best] / above_chance
        assert any(abs(height - each) < 0.3 for each in upright), (height, upright)


@BOTH
def test_every_head_token_and_weight_is_drawn(article: HeadScores, lines: bool) -> None:
    """In heat maps, the weights of 1 and the scale's end are as dark as the ramp is."""
    attention = article.kept_attention()
    svg = picture(article, "head", width=6.5, heads=[(1, 8), (0, 2)], lines=lines)
    found = Counter(texts(svg))
    sides = 4 if lines else 3  # side by side, two heat maps share their queries
    assert all(found[token] == sides * count for token, count in Counter(attention.tokens).items())
    assert {"1-8", "0-2"} <= {*found}
    assert (found["query"], found["key"]) == (1, 2)
    weights = attention.weights[[1, 0], [8, 2]]
    full = int((weights > 0.995).sum())
    assert full > 10
    if lines:
        count = int((weights >= 0.01).sum())
        assert svg.decode().count(f"stroke: {palette.RAMP[6]}") == count
    else:
        assert svg.decode().count(f"fill: {palette.RAMP[-1]}") == full + 1
    if lines:  # the weaker a weight, the paler its line
        opacities = [
            float(opacity) for opacity in re.findall(r"stroke-opacity: ([\d.]+)", svg.decode())
        ]
        assert sorted(opacities) == pytest.approx(np.sort(weights[weights >= 0.01]), abs=1e-3)
    assert svg == picture(article, "head", width=6.5, heads="1-8,0-2", lines=lines)


def test_words_are_drawn_where_words_are_scored_and_padding_is_not() -> None:
    """To a word in two pieces goes what goes to both, and from it the mean of what they give."""
    result, attention = random_weights(1, 2, 5)
    tokens = ("[CLS]", "straw", "##berries", "[SEP]", "[PAD]")
    merged = replace(
        attention, tokens=tokens, unit=(0, 1, 1, 2, 3), sentence=(*attention.sentence[:4], -2)
    )
    units = ("[CLS]", "strawberries", "[SEP]", "[PAD]")
    signature = replace(result.signature, unit="word")
    words = replace(result, units=units, attention=merged, signature=signature)
    found = Counter(texts(picture(words, "head", heads=[(0, 1)])))
    assert found["strawberries"] == 2 and not {"straw", "##berries", "[PAD]"} & set(found)
    to_words = np.add.reduceat(merged.weights[0, 1], (0, 1, 3, 4), axis=1)
    expected = np.add.reduceat(to_words, (0, 1, 3, 4), axis=0) / [[1], [2], [1], [1]]
    np.testing.assert_allclose(merged.in_words(units).weights[0, 1], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("format", "lines"), [("svg", False), ("svg", True), ("pdf", True), ("png", False)]
)
@pytest.mark.filterwarnings("error", "ignore:no font here has")
def test_hostile_tokens_are_text(format: Any, lines: bool) -> None:
    result, attention = random_weights(2, 2, len(HOSTILE))
    signature = replace(result.signature, model="<b>$\\frac\x1b\ud800")
    hostile = replace(result, attention=replace(attention, tokens=HOSTILE), signature=signature)
    content = picture(hostile, "head", format, 6.5, heads=[(0, 1)], lines=lines)
    if format == "svg":
        found = texts(content)
        assert all(
            found.count(text) == 2
            for text in ("$x^2$", "$", "&amp;", r"a\nb", r"\x1b[31m", "日本語", "שלום")
        )
        assert any(text.startswith("</text>") for text in found) and b"<script" not in content
        assert {r"\ufffe\x00", r"\u202eabc", "␣"} <= {*found} and any(
            re.fullmatch("x+…", text) for text in found
        )


def test_letters_that_no_font_has_are_named() -> None:
    result, attention = random_weights(1, 2, 4)
    runes = replace(
        result, attention=replace(attention, tokens=("[CLS]", "\U0001faa9", "\u16a0", "[SEP]"))
    )
    with pytest.warns(UserWarning, match="no font here has .*\U0001faa9.*: install one") as warned:
        assert picture(runes, "head", "png", heads="0-0")
    assert len(warned) == 1


@BOTH
def test_long_inputs_name_fewer_tokens_and_say_so(lines: bool) -> None:
    svg = picture(random_weights(1, 1, 256)[0], "head", heads="0-0", lines=lines)
    (step,) = re.findall(r"One token in (\d+) is named\.", _said(svg))
    found = texts(svg)
    assert f"word{int(step) - 1}" in found and "word1" not in found  # [CLS] is the first
    assert len(svg) < 2_000_000 and size(svg, "svg")[1] < 10


def test_all_heads_stand_in_rows_of_layers_or_have_no_room() -> None:
    figure = draw_weights(random_weights(3, 4, 6)[0], 6.5, "all")
    names = [ax.get_title() for ax in figure.axes]
    grid = figure.axes[0].get_gridspec()
    assert names[:12] == [f"{layer}-{head}" for layer, head in np.ndindex(3, 4)]
    assert grid is not None and 4 % grid.ncols == 0
    large, _ = random_weights(24, 16, 6)
    for lines in (False, True):
        with pytest.raises(
            SelectionError,
            match=r"384 heads have no room in a picture 3\.3 inches wide; name fewer",
        ):
            picture(large, "head", heads="all", lines=lines)


@BOTH
def test_rows_of_cross_attention_are_the_target_and_links_gold(lines: bool) -> None:
    source = ("le", "chat", "noir", "</s>")
    target = ("the", "cat")
    even = np.full((1, 2, 2, 4), 0.25, np.float32)
    fields = {"cross_attention": even, "encoder_tokens": source, "decoder_tokens": ("<pad>", "the")}
    saved = weights_of({**fields, "predicted_tokens": target}, "cross")
    options = ScanOptions(attention="cross", patterns=cross_patterns())
    cross = replace(classify_weights(saved, "kinds", options, keep=True), links=((4, 0), (5, 1)))
    svg = picture(cross, "head", width=6, heads="c0-1", lines=lines)
    found = Counter(texts(svg))
    assert all(found[token] == 1 for token in (*source, *target, "target", "source"))
    said = "Cross attention, by attention weight, with special tokens. Gold links are"
    assert f"{said} {'dotted' if lines else 'outlined'}." in _said(svg)
    assert b"#d55e00" in svg and b"#d55e00" not in picture(
        replace(cross, links=()), "head", heads="c0-1", lines=lines
    )
    assert "of cross attention" in _said(picture(cross, "scores", width=6))


def _ablation(*effects: Effect) -> Ablation:
    return Ablation(
        effects=effects,
        grid=Grid((24, 16)),
        replace="zero",
        draws=3,
        chosen_by="label, 0.25 above chance",
        choosing_pairs=5,
        measured_pairs=6,
        signature=SIGNATURE,
    )


def test_ablation_has_a_tick_for_each_control_and_intervals() -> None:
    effect = effect_of(2.0, (1.0, 1.5, 1.25), "next-word")
    nothing = replace(effect_of(2.0, ()), set=HeadSet("y", ()))
    accuracy = replace(
        effect.quantity, name="next-sentence", unit="accuracy", larger_is_better=True
    )
    svg = picture(
        _ablation(
            effect, nothing, *(replace(each, quantity=accuracy) for each in (effect, nothing))
        )
    )
    found = texts(svg)
    shapes = [element.attrib for element in ET.fromstring(svg).iter()]
    assert (
        sum(text.startswith(("masked-lm: effect", "next-sentence: effect")) for text in found) == 2
    )
    assert found.count(" no head") == 2 and "Grey: the controls, less their mean." in found
    ticks = sorted(
        float(shape["x"])
        for shape in shapes
        if "#a8a8a8" in shape.get("style", "") and "x" in shape
    )
    low, middle, high = ticks[::2]
    assert ticks == pytest.approx([low, low, middle, middle, high, high])  # the same in both panels
    assert high - middle == pytest.approx(middle - low, abs=0.01) and high > middle
    color = f"stroke: {palette.COLORS['next-word']}"
    paths = [shape["d"] for shape in shapes if color in shape.get("style", "") and "d" in shape]
    ends = [list(map(float, re.findall(r"[ML] ([\d.]+)", path))) for path in paths]
    lines = [xs for xs in ends if max(xs) > min(xs) + 5]  # no marker
    first, again = [(min(xs), max(xs)) for xs in lines]
    left, right = first
    assert first == pytest.approx(again)
    assert right < 72 * 3.3
    assert (right - left) / (high - low) * 0.5 == pytest.approx(2 * effect.interval, rel=0.01)
    assert effect.interval > 2 * effect.se


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drawable]:
    """Something of each kind to draw, of 24 layers of 16 heads."""
    directory = tmp_path_factory.mktemp("drawn")
    flat = str(
        save_toy_bert(
            directory / "flat", 2, 3, {(0, 0): "articles to nouns", (0, 1): "previous-word"}
        )
    )
    classified, _ = random_weights(24, 16, 8)
    habits = doing(24, 16, 22)
    places = np.random.default_rng(0).random((384, 2))
    distances = ((places[:, None] - places) ** 2).sum(-1)
    comparison = Comparison(
        model_labels=(habits.labels, habits.labels),
        se=np.full(habits.table.score.shape, 0.01),
        matched=np.moveaxis(np.indices((24, 16)), 0, -1),
        divergence=np.full((24, 16), np.nan),
        match="place",
        signatures=(SIGNATURE, SIGNATURE),
    )
    similarity = Similarity(
        divergence=distances,
        se=0 * distances,
        labels=habits.labels,
        queries=9,
        signature=SIGNATURE,
    )
    single = [
        replace(effect_of(2.0, (1.0, 1.5)), set=HeadSet(h.name, (h,)))
        for h in (Head(0, 2), Head(11, 11))
    ]
    return {
        "classification": classified,
        "habits": habits,
        "ablation": _ablation(
            *(effect_of(2.0, (1.0, 1.5), name) for name in (*NAMES, "four heads of mine"))
        ),
        "heads": _ablation(*single),
        "similarity": similarity,
        "comparison": comparison,
        "syntax": attnscan.syntax(planted_file(directory), model=flat),
    }


def test_the_map_of_syntax_has_every_letter_and_names_its_reading(results: dict[str, Any]) -> None:
    result = results["syntax"]
    svg = picture(result)
    assert "Map: what heads follow in 288 sentences, by attention weight, among words." in _said(
        svg
    )
    assert texts(svg).count("F") == 1 and "F  function word (1)" in texts(svg)
    few = replace(result, signature=replace(result.signature, pairs_read=5, pairs_skipped=0))
    assert "Below 200 sentences, results may not hold in other texts." in _said(picture(few))


@pytest.mark.parametrize(
    "width", [2, *(pytest.param(width, marks=pytest.mark.long) for width in (3.3, 6.5, 20))]
)
@pytest.mark.parametrize(
    ("result", "kind", "how"),
    [
        ("habits", "map", {}),
        *(("classification", kind, {}) for kind in ("scores", "layers")),
        pytest.param("classification", "profile", {}, marks=pytest.mark.long),
        *(
            ("classification", "head", {"heads": "0-2,1-8", "lines": lines})
            for lines in (False, True)
        ),
        *(
            (study, None, {})
            for study in ("ablation", "heads", "similarity", "comparison", "syntax")
        ),
    ],
)
def test_no_text_is_clipped_or_covered_and_no_legend_lies_on_data(
    results: dict[str, Drawable],
    monkeypatch: pytest.MonkeyPatch,
    result: str,
    kind: Any,
    how: Any,
    width: float,
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    picture(results[result], kind, "svg", width, **how)
    (figure,) = figures
    drawn: dict[Text, None] = {}
    canvas = FigureCanvasAgg(figure)
    draw = Text.draw

    def seen(text: Text, *args: Any) -> None:
        if text.get_text().strip() and text.get_visible():
            drawn[text] = None
        draw(text, *args)

    monkeypatch.setattr(Text, "draw", seen)
    canvas.draw()
    texts = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in drawn
    ]  # pixels, 100 an inch
    right = figure.bbox.width
    top = figure.bbox.height
    assert right == pytest.approx(figure.dpi * width, abs=0.5) and len(texts) > 5
    outside = [
        text
        for text, box in texts
        if box.x0 < -2 or box.x1 > right + 2 or box.y0 < -2 or box.y1 > top + 2
    ]
    assert outside == []
    frames = [ax.get_window_extent() for ax in figure.axes]
    for legend in figure.legends:
        assert not any(frame.y0 < legend.get_window_extent().y1 - 2 for frame in frames)
    if (
        result == "similarity" or kind == "map"
    ):  # the names and letters of so many heads stand where the heads do
        return
    over = [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(texts, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 2 and min(a.y1, b.y1) - max(a.y0, b.y0) > 3
    ]
    assert over == []
