"""Pictures: every kind as every file, their text as text, their colours the labels', whatever the tokens say."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner, Result

from attnscan.attention import Attention
from attnscan.cli import app
from attnscan.errors import SelectionError
from attnscan.files.weights import SavedWeights, write_weights
from attnscan.one_input import classify_and_keep, classify_weights_and_keep
from attnscan.options import ScanOptions
from attnscan.pairs import Pair
from attnscan.results import MIXED, Classification
from attnscan.views.lettering import flowed, shortened, width_of, wrapped
from attnscan.views.palette import COLORS, MIXED_COLOR, PARKS, RAMP, letter
from attnscan.views.plot import Look, heads_picture, layers_picture, map_picture, scores_picture

A, B = "I went to the store.", "At the store, I bought fresh strawberries."
KINDS = (["map"], ["scores"], ["layers"], ["head", "--heads", "1-8"], ["head", "--heads", "1-8,0-2", "--lines"])
HOSTILE = (
    *("$x^2$", "$", r"\frac{1}", "</text><script>alert(1)</script>", "&amp;", "a\nb", "\x1b[31m", "\ufffe\x00", "  "),
    *("שלום", "日本語", "👩‍🚀", "\u202eabc", "\U000e0001", "x" * 300, "\ud800"),
)


@pytest.fixture(scope="module")
def kept() -> tuple[Classification, Attention]:
    return classify_and_keep(Pair(A, B), ScanOptions(model="bundled", predictive="off"))


@pytest.fixture(scope="module")
def article(kept: tuple[Classification, Attention]) -> Classification:
    return kept[0]


@pytest.fixture(scope="module")
def attention(kept: tuple[Classification, Attention]) -> Attention:
    return kept[1]


def random(layers: int, heads: int, tokens: int) -> tuple[Classification, Attention]:
    """Random weights over one sentence."""
    rng = np.random.default_rng(0)
    weights = rng.random((layers, heads, tokens, tokens), dtype=np.float32) ** 8 + 1e-6
    weights /= weights.sum(-1, keepdims=True)
    names = ("[CLS]", *(f"word{i}" for i in range(tokens - 2)), "[SEP]")
    special = (True, *[False] * (tokens - 2), True)
    saved = SavedWeights(weights, names, (0,) * tokens, special, (False,) * tokens)
    return classify_weights_and_keep(saved, "random", ScanOptions())


def texts(svg: bytes) -> list[str]:
    """Every text of a picture, in order."""
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def size(picture: bytes, format: str) -> tuple[float, float]:
    """In inches."""
    if format == "png":
        height, width, _ = imread(BytesIO(picture)).shape
        return width / 300, height / 300
    found = re.search(rb'width="([\d.]+)pt"|MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]', picture)
    assert found
    if format == "pdf":
        return float(found[2]) / 72, float(found[3]) / 72
    root = ET.fromstring(picture)
    return float(root.attrib["width"].removesuffix("pt")) / 72, float(root.attrib["height"].removesuffix("pt")) / 72


def plot(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plot", *arguments])


@pytest.mark.parametrize("format", ["svg", "pdf", "png"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind).replace("---", "-"))
def test_every_kind_as_every_file(kind: list[str], format: str, tmp_path: Path) -> None:
    path = tmp_path / f"heads.{format.upper()}"
    result = plot(A, B, "--model", "bundled", "--predictive", "off", "--kind", *kind, "-o", str(path))
    assert (result.exit_code, result.output) == (0, "")
    picture = path.read_bytes()
    assert picture.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[format])
    width, height = size(picture, format)
    assert width == pytest.approx(3.3, abs=0.01) and 0.5 < height <= 9.5


@pytest.mark.parametrize("width", [2.0, 3.3, 6.5])
def test_a_picture_is_as_wide_as_asked(article: Classification, attention: Attention, width: float) -> None:
    for picture in (
        map_picture(article, Look(width=width)),
        scores_picture(article, Look(width=width)),
        layers_picture(article, Look(width=width)),
        heads_picture(attention, [(1, 8)], article.signature, Look(width=width)),
        heads_picture(attention, [(1, 8)], article.signature, Look(width=width), lines=True),
    ):
        assert size(picture, "svg")[0] == pytest.approx(width, abs=0.001)


def test_the_map_has_the_letter_and_the_colour_of_every_label(article: Classification) -> None:
    svg = map_picture(article)
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
    svg = map_picture(article).decode()
    for place in ((0, 2), (1, 11), (2, 9)):
        color, rests = COLORS[str(article.content_label[place])], article.parking[place]
        opacities = [float(o) for o in re.findall(rf"fill: {color}; fill-opacity: ([\d.]+)", svg)]
        assert any(opacity == pytest.approx(1 - 0.8 * rests, abs=1e-5) for opacity in opacities)


@pytest.mark.parametrize("lines", [False, True])
def test_heads_and_tokens_are_text(article: Classification, attention: Attention, lines: bool) -> None:
    found = Counter(texts(heads_picture(attention, [(1, 8), (0, 2)], article.signature, Look(width=6.5), lines=lines)))
    sides = 4 if lines else 3  # side by side, two heat maps share their queries
    assert all(found[token] == sides * count for token, count in Counter(attention.tokens).items())
    assert {"1-8", "0-2"} <= {text.removeprefix("head ") for text in found}
    assert {"query", "key"} <= set(found)


def test_a_heat_map_draws_the_weights(article: Classification, attention: Attention) -> None:
    """The darkest cell of head 0-2, which looks at the previous word alone, is as dark as the scale's end."""
    svg = heads_picture(attention, [(0, 2)], article.signature).decode()
    full = int((attention.weights[0, 2] > 0.995).sum())
    assert full > 10
    assert svg.count(f"fill: {RAMP[-1]}") == full + 1


def test_lines_are_as_many_as_the_weights_worth_drawing(article: Classification, attention: Attention) -> None:
    svg = heads_picture(attention, [(0, 2)], article.signature, lines=True).decode()
    drawn = re.findall(rf"stroke: {RAMP[6]}", svg)
    assert len(drawn) == (attention.weights[0, 2] >= 0.01).sum() + 3  # and the key's


def test_scores_say_what_was_not_measured_and_what_had_no_word() -> None:
    result, _ = random(3, 4, 8)  # one sentence, and no model to ask
    for svg in (scores_picture(result), layers_picture(result)):
        found = texts(svg)
        assert found.count("no eligible word") == 2 and found.count("not measured") == 1
        assert [text for text in found if text[2:] in COLORS] == [f"{letter(p)} {p}" for p in COLORS]
    assert "no score" in texts(scores_picture(result))
    assert texts(scores_picture(result, without_delimiters=True)).count("left out") == 1


def test_every_score_is_drawn_on_one_scale(article: Classification) -> None:
    """Of all cells, the one with a score of 1 alone is as dark as the scale's end."""
    svg = scores_picture(article).decode()
    assert article.scores.every_key.score[0, 2, 1] > 0.995
    assert svg.count(f"fill: {RAMP[-1]}") == 2


def test_layers_name_the_best_head_of_each_pattern(article: Classification) -> None:
    score = article.scores.every_key.score
    best = [divmod(int(np.nanargmax(score[..., p])), 12) for p, name in enumerate(COLORS) if name != "predictive"]
    found = [text for text in texts(layers_picture(article)) if re.fullmatch(r"\d+-\d+", text)]
    assert found == [f"{layer}-{head}" for layer, head in best]


@pytest.mark.parametrize("format", ["svg", "pdf", "png"])
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.filterwarnings("error")
def test_hostile_tokens_are_text(format: Any, lines: bool) -> None:
    result, attention = random(2, 2, len(HOSTILE))
    attention = replace(attention, tokens=HOSTILE)
    signature = replace(result.signature, model="<b>$\\frac\x1b\ud800")
    picture = heads_picture(attention, [(0, 1)], signature, Look(format, 6.5), lines=lines)
    if format == "svg":
        found = texts(picture)
        assert all(
            found.count(text) == 2 for text in ("$x^2$", "$", r"\frac{1}", "&amp;", r"a\nb", r"\x1b[31m", "日本語")
        )
        assert any(text.startswith("</text>") for text in found) and b"<script" not in picture
        assert r"\ufffe\x00" in found and "שלום" in found and r"\u202eabc" in found and "␣" in found
        assert any(re.fullmatch("x+…", text) for text in found)


def test_the_same_input_gives_the_same_bytes(article: Classification, attention: Attention) -> None:
    def pictures(look: Look) -> list[bytes]:
        scores = [draw(article, look) for draw in (map_picture, scores_picture, layers_picture)]
        return [*scores, heads_picture(attention, [(1, 8)], article.signature, look, lines=True)]

    for look in (Look("svg"), Look("pdf"), Look("png")):
        assert pictures(look) == pictures(look)


def test_a_users_settings_change_nothing_and_are_not_changed(article: Classification) -> None:
    before = map_picture(article)
    with mpl.rc_context({"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "savefig.bbox": "tight"}):
        settings = mpl.rcParams.copy()
        assert map_picture(article) == before
        assert mpl.rcParams.copy() == settings


def test_nothing_of_matplotlib_that_is_global_is_loaded(article: Classification, tmp_path: Path) -> None:
    """No pyplot, which would choose a window system."""
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(article))
    script = (
        "import pickle, pathlib, sys\n"
        "from attnscan.views.plot import Look, layers_picture, map_picture, scores_picture\n"
        f"result = pickle.loads(pathlib.Path({str(tmp_path / 'result.pickle')!r}).read_bytes())\n"
        "for draw in (map_picture, scores_picture, layers_picture):\n"
        "    for format in ('svg', 'pdf', 'png'):\n"
        "        draw(result, Look(format))\n"
        "print(sorted({'matplotlib.pyplot', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_long_inputs_name_fewer_tokens_and_say_so() -> None:
    result, attention = random(1, 2, 60)
    found = texts(heads_picture(attention, [(0, 0)], result.signature))
    assert "Of the 60 tokens every third is named." in found and "word2" in found and "word3" not in found
    result, attention = random(1, 2, 512)
    for lines in (False, True):
        picture = heads_picture(attention, [(0, 0), (0, 1)], result.signature, lines=lines)
        said = " ".join(texts(picture))
        assert "512 tokens, too many to name: their positions." in said and "word3" not in said
        assert len(picture) < 2_000_000 and size(picture, "svg")[1] < 9.5


def test_padding_is_not_drawn() -> None:
    result, attention = random(1, 1, 8)
    padded = replace(attention, sentence=(*attention.sentence[:6], -2, -2))
    found = texts(heads_picture(padded, [(0, 0)], result.signature))
    assert "word4" in found and "word5" not in found and "[SEP]" not in found


def test_all_heads_of_a_model_stand_in_rows_of_layers(article: Classification, attention: Attention) -> None:
    every = [(layer, head) for layer in range(6) for head in range(12)]
    found = texts(heads_picture(attention, every, article.signature, Look(width=6.5)))
    assert [text for text in found if re.fullmatch(r"\d+-\d+", text)] == [f"{layer}-{head}" for layer, head in every]
    assert "19 tokens, queries downwards, keys across." in found and "store" not in found


def test_more_heads_than_a_page_has_room_for_are_refused() -> None:
    result, attention = random(24, 16, 6)
    every = [(layer, head) for layer in range(24) for head in range(16)]
    with pytest.raises(SelectionError, match=r"384 heads have no room in a picture 3\.3 inches wide; name fewer"):
        heads_picture(attention, every, result.signature)
    with pytest.raises(SelectionError):
        heads_picture(attention, every, result.signature, lines=True)


@pytest.mark.parametrize(("layers", "heads"), [(24, 16), (32, 32), (1, 1), (2, 1), (1, 40), (48, 64)])
@pytest.mark.parametrize("width", [2.0, 3.3])
def test_any_model_has_a_map_and_scores(layers: int, heads: int, width: float) -> None:
    result, _ = random(layers, heads, 4)
    found = texts(map_picture(result, Look(width=width)))
    crowded = "no room for letters: --width gives more" in found
    marks = [text for text in found if len(text) == 1 and not text.isdigit()]
    assert crowded or len(marks) >= layers * heads
    assert not (crowded and heads <= 16)
    for picture in (scores_picture(result, Look(width=width)), layers_picture(result, Look(width=width))):
        assert len(picture) < 3_000_000


def test_saved_weights_are_drawn_without_a_model(attention: Attention, tmp_path: Path) -> None:
    path, out = tmp_path / "weights.npz", tmp_path / "out.svg"
    path.write_bytes(write_weights(attention.saved()))
    for kind in KINDS:
        result = plot("--weights", str(path), "--unit", "word", "--kind", *kind, "-o", str(out))
        assert (result.exit_code, result.output) == (0, "")
    assert "##berries" in texts(out.read_bytes())


@pytest.mark.parametrize("name", ["heads.jpg", "heads", "heads.svg.gz", "svg"])
def test_another_suffix_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    result = plot("A b.", "-o", str(path))
    assert result.exit_code == 1 and not path.exists()
    assert result.output == (
        f"attnscan: cannot tell what kind of picture {path} is to be by its suffix; use one of .png .svg .pdf\n"
    )


def test_without_the_library_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = plot("A b.", "-o", str(tmp_path / "heads.svg"))
    assert result.exit_code == 1
    assert result.output == (
        "attnscan: pictures need matplotlib, which is not installed; run: pip install 'attnscan[plot]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A b."], "Missing option '--output'"),
        (["-o", "x.svg"], "give a sentence"),
        (["A b.", "-o", "x.svg", "--kind", "head"], "--kind head needs --heads"),
        (["A b.", "-o", "x.svg", "--heads", "0-0"], "--kind head needs --heads"),
        (["A b.", "-o", "x.svg", "--lines"], "need --kind head"),
        (["A b.", "-o", "x.svg", "--without-delimiters"], "--kind scores and --kind layers"),
        (["A b.", "-o", "x.svg", "--width", "1"], "--width"),
        (["A b.", "-o", "x.svg", "--kind", "pie"], "--kind"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = plot(*arguments)
    assert result.exit_code == 2 and message in result.output and not Path("x.svg").exists()


def test_no_such_head_is_said_before_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("attnscan.one_input.classify_and_keep", lambda *_: pytest.fail("the model was loaded"))
    result = plot("A b.", "-o", str(tmp_path / "x.svg"), "--kind", "head", "--heads", "first")
    assert (result.exit_code, result.output) == (
        1,
        "attnscan: 'first' names no head; name heads as 2-0, as 2-0,6-11, as layer:2 or as all\n",
    )


def test_the_ramp_darkens_in_equal_steps() -> None:
    """Lightness, CIE L*, of each colour: the eye sees twice the weight twice as dark."""
    rgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in RAMP])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lightness = 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16
    assert np.abs(np.diff(lightness) - np.diff(lightness).mean()).max() < 0.5


def test_texts_fit_where_they_are_put() -> None:
    assert width_of("WWWW") > width_of("iiii") > 0
    assert width_of(shortened("strawberries and cream", 0.5)) <= 0.5
    assert all(width_of(line) <= 1.5 for line in wrapped("the quick brown fox jumps over the lazy dog", 1.5))
    assert flowed([2, 2, 5], 4) == [(0, 0), (2, 0), (0, 1)]
