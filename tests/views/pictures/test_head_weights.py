"""Heat maps and lines: every weight drawn, every token as text, whatever the tokens say."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn import random_weights, size, texts

from attnscan.errors import SelectionError
from attnscan.inputs.weights import weights_of
from attnscan.results.attention import Attention
from attnscan.results.heads import HeadScores
from attnscan.scan.one_input import classify_weights
from attnscan.scan.options import ScanOptions
from attnscan.scoring.cross import cross_patterns
from attnscan.views.palette import RAMP
from attnscan.views.pictures.look import PictureFile
from attnscan.views.pictures.picture import picture

HOSTILE = (
    *("$x^2$", "$", r"\frac{1}", "</text><script>alert(1)</script>", "&amp;", "a\nb", "\x1b[31m", "\ufffe\x00", "  "),
    *("שלום", "日本語", "👩‍🚀", "\u202eabc", "\U000e0001", "x" * 300, "\ud800"),
)


@pytest.mark.parametrize("lines", [False, True])
def test_heads_and_tokens_are_text(article: HeadScores, attention: Attention, lines: bool) -> None:
    found = Counter(texts(picture(article, "head", PictureFile(width=6.5), heads=[(1, 8), (0, 2)], lines=lines)))
    sides = 4 if lines else 3  # side by side, two heat maps share their queries
    assert all(found[token] == sides * count for token, count in Counter(attention.tokens).items())
    assert {"1-8", "0-2"} <= {text.removeprefix("head ") for text in found}
    assert (found["query"], found["key"]) == (2 if lines else 1, 2)


def test_words_are_drawn_where_words_are_scored() -> None:
    """Of a word in two pieces: to it goes what goes to both, and from it the mean of what they give."""
    result, attention = random_weights(1, 2, 4)
    merged = replace(attention, tokens=("[CLS]", "straw", "##berries", "[SEP]"), unit=(0, 1, 1, 2))
    words = replace(
        result,
        units=("[CLS]", "strawberries", "[SEP]"),
        attention=merged,
        signature=replace(result.signature, unit="word"),
    )
    found = Counter(texts(picture(words, "head", heads=[(0, 1)])))
    assert found["strawberries"] == 2 and not {"straw", "##berries"} & set(found)
    own = merged.weights[0, 1]
    expected = [
        [sum(sum(own[i, j] for j in k) for i in q) / len(q) for k in ([0], [1, 2], [3])] for q in ([0], [1, 2], [3])
    ]
    np.testing.assert_allclose(merged.in_words(words.units).weights[0, 1], expected, rtol=1e-6)


def test_a_heat_map_draws_the_weights(article: HeadScores, attention: Attention) -> None:
    """The darkest cell of head 0-2, which looks at the previous word alone, is as dark as the scale's end."""
    svg = picture(article, "head", heads=[(0, 2)]).decode()
    full = int((attention.weights[0, 2] > 0.995).sum())
    assert full > 10
    assert svg.count(f"fill: {RAMP[-1]}") == full + 1


def test_lines_are_as_many_as_the_weights_worth_drawing(article: HeadScores, attention: Attention) -> None:
    svg = picture(article, "head", heads=[(0, 2)], lines=True).decode()
    drawn = re.findall(rf"stroke: {RAMP[6]}", svg)
    assert len(drawn) == (attention.weights[0, 2] >= 0.01).sum() + 3  # and the key's


@pytest.mark.parametrize("twentieth", range(1, 21))
def test_weights_a_little_above_a_twentieth_are_drawn(twentieth: int) -> None:
    """0.2 is 0.2000000030 in float32: a line of an opacity above 1 is a ValueError."""
    result, attention = random_weights(1, 1, 4)
    for top in (np.float32(twentieth / 20), np.nextafter(np.float32(twentieth / 20), np.float32(2))):
        weights = np.full((1, 1, 4, 4), (1 - top) / 3, dtype=np.float32)
        weights[0, 0, range(4), range(4)] = top
        shown = replace(result, attention=replace(attention, weights=weights))
        svg = picture(shown, "head", heads=[(0, 0)], lines=True).decode()
        assert svg.count(f"stroke: {RAMP[6]}") == (weights >= 0.01).sum() + 3


@pytest.mark.parametrize("format", ["svg", "pdf", "png"])
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.filterwarnings("ignore::attnscan.views.pictures.look.LackingLetters")
@pytest.mark.filterwarnings("error")
def test_hostile_tokens_are_text(format: Any, lines: bool) -> None:
    result, attention = random_weights(2, 2, len(HOSTILE))
    signature = replace(result.signature, model="<b>$\\frac\x1b\ud800")
    hostile = replace(result, attention=replace(attention, tokens=HOSTILE), signature=signature)
    content = picture(hostile, "head", PictureFile(format, 6.5), heads=[(0, 1)], lines=lines)
    if format == "svg":
        found = texts(content)
        assert all(
            found.count(text) == 2 for text in ("$x^2$", "$", r"\frac{1}", "&amp;", r"a\nb", r"\x1b[31m", "日本語")
        )
        assert any(text.startswith("</text>") for text in found) and b"<script" not in content
        assert r"\ufffe\x00" in found and "שלום" in found and r"\u202eabc" in found and "␣" in found
        assert any(re.fullmatch("x+…", text) for text in found)


def test_long_inputs_name_fewer_tokens_and_say_so() -> None:
    result, _ = random_weights(1, 2, 60)
    found = texts(picture(result, "head", heads=[(0, 0)]))
    assert "Of the 60 tokens every third is named." in found and "word2" in found and "word3" not in found
    result, _ = random_weights(1, 1, 512)
    for lines in (False, True):
        svg = picture(result, "head", heads=[(0, 0)], lines=lines)
        said = " ".join(texts(svg))
        assert "512 tokens, too many to name: their positions." in said and "word3" not in said
        assert len(svg) < 2_000_000 and size(svg, "svg")[1] < 10


def test_padding_is_not_drawn() -> None:
    result, attention = random_weights(1, 1, 8)
    padded = replace(attention, sentence=(*attention.sentence[:6], -2, -2))
    found = texts(picture(replace(result, attention=padded), "head", heads=[(0, 0)]))
    assert "word4" in found and "word5" not in found and "[SEP]" not in found


def test_all_heads_of_a_model_stand_in_rows_of_layers(article: HeadScores) -> None:
    every = [(layer, head) for layer in range(6) for head in range(12)]
    found = texts(picture(article, "head", PictureFile(width=6.5), heads=every))
    assert [text for text in found if re.fullmatch(r"\d+-\d+", text)] == [f"{layer}-{head}" for layer, head in every]
    assert "19 tokens, too many to name: their positions." in found and "store" not in found


def test_more_heads_than_a_page_has_room_for_are_refused() -> None:
    result, _ = random_weights(24, 16, 6)
    every = [(layer, head) for layer in range(24) for head in range(16)]
    with pytest.raises(SelectionError, match=r"384 heads have no room in a picture 3\.3 inches wide; name fewer"):
        picture(result, "head", heads=every)
    with pytest.raises(SelectionError):
        picture(result, "head", heads=every, lines=True)


class TestKindsOfAttention:
    """Of cross attention, rows are the target's tokens and columns the source's."""

    @pytest.fixture
    def cross(self) -> HeadScores:
        source, target = ("le", "chat", "noir", "</s>"), ("the", "cat")
        even = np.full((1, 2, 2, 4), 0.25, np.float32)
        given = {"cross_attention": even, "encoder_tokens": source, "decoder_tokens": ("<pad>", "the")}
        saved = weights_of({**given, "predicted_tokens": target}, "cross")
        options = ScanOptions(attention="cross", patterns=cross_patterns())
        return replace(classify_weights(saved, "kinds", options, keep=True), links=((4, 0), (5, 1)))

    @pytest.mark.parametrize("lines", [False, True])
    def test_every_token_is_named_once(self, cross: HeadScores, lines: bool) -> None:
        found = Counter(texts(picture(cross, "head", heads="c0-1", lines=lines)))
        assert all(found[token] == 1 for token in ("le", "chat", "noir", "</s>", "the", "cat", "target", "source"))
        words = " ".join(texts(picture(cross, "head", PictureFile(width=6), heads="c0-1", lines=lines)))
        assert "Cross attention, by attention weight, with special tokens. Gold links are" in words
        assert f"Gold links are {'dotted' if lines else 'outlined'}." in words

    def test_cells_are_square_and_gold_links_outlined(self, cross: HeadScores) -> None:
        svg = picture(cross, "head", heads="c0-1")
        assert svg.count(b"#d55e00") == 2
        assert b"#d55e00" not in picture(replace(cross, links=()), "head", heads="c0-1")
        paths = re.findall(r'<path d="([^"]*)"[^>]*#d55e00', svg.decode())
        corners = [np.array(re.findall(r"[\d.]+", path), float).reshape(-1, 2) for path in paths]
        (width, height), (other, _) = (np.ptp(corner, axis=0) for corner in corners)
        assert width == pytest.approx(height, rel=1e-3) == other
        assert corners[1][:, 0].min() - corners[0][:, 0].min() == pytest.approx(width, rel=1e-3)  # a row and a key on

    @pytest.mark.parametrize("kind", ["map", "scores", "layers"])
    def test_other_pictures_say_which_attention_they_are_of(self, cross: HeadScores, kind: Any) -> None:
        assert "of cross attention" in " ".join(texts(picture(cross, kind, PictureFile(width=6))))
