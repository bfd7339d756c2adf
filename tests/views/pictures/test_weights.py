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
from attnscan.scan.options import ScanOptions
from attnscan.scan.weights import classify_weights
from attnscan.scoring.cross import cross_patterns
from attnscan.views.palette import RAMP
from attnscan.views.pictures import picture

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
