"""The profiles that a page holds are those of the result."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from one_run import classify_and_keep
from pages import Elements

from attnscan.inputs.pairs import Pair
from attnscan.results.classification import Classification
from attnscan.scan.options import ScanOptions
from attnscan.views.page.page import page

PAIR = Pair("I went to the store.", "At the store, I bought fresh strawberries.")


@pytest.fixture(scope="module")
def article() -> Classification:
    result, attention = classify_and_keep(PAIR, ScanOptions(model="bundled", predictive="off"))
    return replace(result, attention=attention)


def _held(result: Classification) -> dict[str, list]:  # type: ignore[type-arg]
    held: dict[str, list] = json.loads(Elements(page(result).html).bytes_of("profile-bytes").tobytes())  # type: ignore[type-arg]
    return held


def test_every_head_has_its_parts_in_both_readings(article: Classification) -> None:
    held = _held(article)
    assert list(held) == ["weight", "carried"]
    for name, norm in (("weight", False), ("carried", True)):
        profile = article.with_reading("carried" if norm else "weight").profile
        assert profile is not None and len(held[name]) == 72
        for head, (explained, even, parts) in zip(profile.grid, held[name], strict=True):
            assert explained == pytest.approx(profile.fit.explained[head.place], abs=6e-5)
            assert even == pytest.approx(profile.fit.by_even[head.place], abs=6e-5)
            expected = profile.strongest(head)[:6]
            assert [part for part, _ in parts] == [part for part, _ in expected]
            assert [share for _, share in parts] == pytest.approx([share for _, share in expected], abs=6e-4)
    assert held["weight"] != held["carried"]


def test_a_page_of_norm_holds_the_same(article: Classification) -> None:
    assert _held(article.with_reading("carried")) == _held(article)


def test_without_profiles_there_is_nothing_of_them(article: Classification) -> None:
    bare = replace(article, carried=None, fits={})
    html = page(bare).html
    assert "profile-bytes" not in Elements(html).text and "<b>Profile.</b>" not in html
