"""Pictures of heads: the same bytes each time, as wide as asked, every letter, score, weight and token."""

import pickle
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from command_line import A, B
from drawn import random_weights, size, texts

import attnscan
from attnscan import PATTERNS, heads
from attnscan.errors import OptionError, SelectionError
from attnscan.inputs.weights import weights_of
from attnscan.results.attention import Attention
from attnscan.results.heads import HeadScores
from attnscan.scan.options import ScanOptions
from attnscan.scan.weights import classify_weights
from attnscan.scoring.cross import cross_patterns
from attnscan.views.behaviour import kinds_of
from attnscan.views.palette import NO_HABIT_COLOR, RAMP, RESTING_OPACITY, letter, on_white, words
from attnscan.views.pictures import picture


@pytest.fixture(scope="module")
def article() -> HeadScores:
    return attnscan.classify(A, B, model="bundled", predictive="off")


@pytest.mark.parametrize(("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_the_same_input_gives_the_same_bytes_as_wide_as_asked(article: HeadScores, format: Any, start: bytes) -> None:
    for options in ({"kind": "map"}, {"kind": "head", "heads": "1-8", "lines": True}):
        first, again = (picture(article, format=format, width=2.7, **options) for _ in range(2))
        assert first == again and first.startswith(start)
        assert size(first, format)[0] == pytest.approx(2.7, abs=0.01)


def test_a_users_settings_change_nothing_and_are_not_changed(article: HeadScores) -> None:
    before = picture(article)
    with mpl.rc_context({"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "savefig.bbox": "tight"}):
        settings = mpl.rcParams.copy()
        assert picture(article) == before
        assert mpl.rcParams.copy() == settings


@pytest.mark.parametrize(("layers", "heads"), [(24, 16), (1, 1), (1, 40), (48, 64)])
def test_any_model_has_a_map_and_scores(layers: int, heads: int) -> None:
    result, _ = random_weights(layers, heads, 4)
    found = texts(picture(result, "map", width=2))
    crowded = "No room for letters: --width gives more." in " ".join(found)
    marks = [text for text in found if len(text.removesuffix("?")) <= 1 and not text.isdigit()]
    assert len(marks) >= layers * heads if heads <= 16 else crowded
    assert all(len(picture(result, kind, width=2)) < 3_000_000 for kind in ("scores", "layers"))


def test_heads_may_be_named_by_text(article: HeadScores) -> None:
    assert picture(article, "head", heads="0-2,1-8") == picture(article, "head", heads=[(0, 2), (1, 8)])
    with pytest.raises(SelectionError, match="7-0: this model has layers 0 to 5"):
        picture(article, "head", heads=[(7, 0)])
    with pytest.raises(SelectionError, match="names no head"):
        picture(article, "head")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "mapp"}, "there is no picture of a HeadScores 'mapp'; did you mean 'map'"),
        ({"kind": "ablation"}, "no picture of a HeadScores 'ablation'; give map, scores, layers, profile or head"),
        ({"heads": "0-2"}, "the picture 'map' has no heads; heads is for head"),
        ({"kind": "layers", "pattern": ["next-word"]}, "has no patterns; patterns is for comparison"),
        ({"format": "sgv"}, "there is no picture format 'sgv'; did you mean 'svg'"),
        ({"format": "jpeg"}, "give png, svg or pdf"),
        ({"width": 0.5}, "the picture's width is 0.5 inches; give 2 to 20"),
        ({"width": float("nan")}, "give 2 to 20"),
    ],
)
def test_what_cannot_be_drawn_is_refused(article: HeadScores, options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        attnscan.plot(article, **options)


def test_results_without_pictures_and_without_attention_are_refused(article: HeadScores) -> None:
    with pytest.raises(OptionError, match="there is no picture of a Scores; "):
        picture(article.scores)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="this result has not kept its attention; "):
        picture(replace(article, attention=None), "head", heads="all")


def test_nothing_of_matplotlib_that_is_global_is_loaded(article: HeadScores, tmp_path: Path) -> None:
    """No pyplot, which would choose a window system."""
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(article))
    script = (
        "import pickle, pathlib, sys\n"
        "from attnscan.views.pictures import picture\n"
        f"result = pickle.loads(pathlib.Path({str(tmp_path / 'result.pickle')!r}).read_bytes())\n"
        "for kind, format in (('map', 'svg'), ('scores', 'pdf'), ('layers', 'png')):\n"
        "    picture(result, kind, format)\n"
        "print(sorted({'matplotlib.pyplot', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


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


HOSTILE = (
    *("$x^2$", "$", r"\frac{1}", "</text><script>alert(1)</script>", "&amp;", "a\nb", "\x1b[31m", "\ufffe\x00", "  "),
    *("שלום", "日本語", "👩‍🚀", "\u202eabc", "\U000e0001", "x" * 300, "\ud800"),
)


@pytest.mark.parametrize("lines", [False, True])
def test_heads_and_tokens_are_text(article: HeadScores, attention: Attention, lines: bool) -> None:
    found = Counter(texts(picture(article, "head", width=6.5, heads=[(1, 8), (0, 2)], lines=lines)))
    sides = 4 if lines else 3  # side by side, two heat maps share their queries
    assert all(found[token] == sides * count for token, count in Counter(attention.tokens).items())
    assert {"1-8", "0-2"} <= {*found}
    assert (found["query"], found["key"]) == (1, 2)


def test_words_are_drawn_where_words_are_scored() -> None:
    """Of a word in two pieces: to it goes what goes to both, and from it the mean of what they give."""
    result, attention = random_weights(1, 2, 4)
    merged = replace(attention, tokens=("[CLS]", "straw", "##berries", "[SEP]"), unit=(0, 1, 1, 2))
    units, signature = ("[CLS]", "strawberries", "[SEP]"), replace(result.signature, unit="word")
    words = replace(result, units=units, attention=merged, signature=signature)
    found = Counter(texts(picture(words, "head", heads=[(0, 1)])))
    assert found["strawberries"] == 2 and not {"straw", "##berries"} & set(found)
    own, parts = merged.weights[0, 1], ([0], [1, 2], [3])
    expected = [[sum(sum(own[i, j] for j in k) for i in q) / len(q) for k in parts] for q in parts]
    np.testing.assert_allclose(merged.in_words(units).weights[0, 1], expected, rtol=1e-6)


def test_every_weight_is_drawn(article: HeadScores, attention: Attention) -> None:
    """The darkest cell of head 0-2, which looks at the previous word alone, is as dark as the scale's end."""
    weights = attention.weights[0, 2]
    matrix, lines = (picture(article, "head", heads="0-2", lines=lines).decode() for lines in (False, True))
    assert (full := int((weights > 0.995).sum())) > 10
    assert matrix.count(f"fill: {RAMP[-1]}") == full + 1  # and the scale's
    assert lines.count(f"stroke: {RAMP[6]}") == (weights >= 0.01).sum()


@pytest.mark.parametrize("format", ["svg", "pdf", "png"])
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.filterwarnings("error", "ignore:no font here has")
def test_hostile_tokens_are_text(format: Any, lines: bool) -> None:
    result, attention = random_weights(2, 2, len(HOSTILE))
    signature = replace(result.signature, model="<b>$\\frac\x1b\ud800")
    hostile = replace(result, attention=replace(attention, tokens=HOSTILE), signature=signature)
    content = picture(hostile, "head", format, 6.5, heads=[(0, 1)], lines=lines)
    if format == "svg":
        found = texts(content)
        assert all(found.count(text) == 2 for text in ("$x^2$", "$", "&amp;", r"a\nb", r"\x1b[31m", "日本語", "שלום"))
        assert any(text.startswith("</text>") for text in found) and b"<script" not in content
        assert {r"\ufffe\x00", r"\u202eabc", "␣"} <= {*found} and any(re.fullmatch("x+…", text) for text in found)


@pytest.mark.parametrize("lines", [False, True])
def test_long_inputs_name_fewer_tokens_and_say_so(lines: bool) -> None:
    result, _ = random_weights(1, 1, 512)
    svg = picture(result, "head", heads="0-0", lines=lines)
    (step,) = re.findall(r"One token in (\d+) is named\.", " ".join(texts(svg)))
    found = texts(svg)
    assert f"word{int(step) - 1}" in found and "word1" not in found  # [CLS] is the first
    assert len(svg) < 2_000_000 and size(svg, "svg")[1] < 10


def test_padding_is_not_drawn() -> None:
    result, attention = random_weights(1, 1, 8)
    padded = replace(attention, sentence=(*attention.sentence[:6], -2, -2))
    found = texts(picture(replace(result, attention=padded), "head", heads=[(0, 0)]))
    assert "word4" in found and "word5" not in found and "[SEP]" not in found


def test_all_heads_stand_in_rows_of_layers_or_have_no_room(article: HeadScores) -> None:
    found = texts(picture(article, "head", width=6.5, heads="all"))
    names = [f"{layer}-{head}" for layer in range(6) for head in range(12)]
    assert [text for text in found if re.fullmatch(r"\d+-\d+", text)] == names
    large, _ = random_weights(24, 16, 6)
    for lines in (False, True):
        with pytest.raises(SelectionError, match=r"384 heads have no room in a picture 3\.3 inches wide; name fewer"):
            picture(large, "head", heads="all", lines=lines)


@pytest.mark.parametrize("lines", [False, True])
def test_of_cross_attention_rows_are_the_targets_tokens_and_links_are_gold(lines: bool) -> None:
    source, target = ("le", "chat", "noir", "</s>"), ("the", "cat")
    even = np.full((1, 2, 2, 4), 0.25, np.float32)
    given = {"cross_attention": even, "encoder_tokens": source, "decoder_tokens": ("<pad>", "the")}
    saved = weights_of({**given, "predicted_tokens": target}, "cross")
    options = ScanOptions(attention="cross", patterns=cross_patterns())
    cross = replace(classify_weights(saved, "kinds", options, keep=True), links=((4, 0), (5, 1)))
    svg = picture(cross, "head", width=6, heads="c0-1", lines=lines)
    found = Counter(texts(svg))
    assert all(found[token] == 1 for token in (*source, *target, "target", "source"))
    said = "Cross attention, by attention weight, with special tokens. Gold links are"
    assert f"{said} {'dotted' if lines else 'outlined'}." in " ".join(texts(svg))
    assert b"#d55e00" in svg and b"#d55e00" not in picture(replace(cross, links=()), "head", heads="c0-1", lines=lines)
    assert "of cross attention" in " ".join(texts(picture(cross, "scores", width=6)))
