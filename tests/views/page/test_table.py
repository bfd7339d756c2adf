"""The profiles that a page holds are those of the result."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pages import Elements

from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.views.page.page import page


def _held(result: Classification) -> dict[str, list]:  # type: ignore[type-arg]
    held: dict[str, list] = json.loads(Elements(page(result).html).bytes_of("profile-bytes").tobytes())  # type: ignore[type-arg]
    return held


def test_every_head_has_its_parts_in_both_readings(article: tuple[Classification, Attention]) -> None:
    result, _ = article
    held = _held(result)
    assert list(held) == ["weight", "carried"]
    for name, norm in (("weight", False), ("carried", True)):
        profile = result.with_reading("carried" if norm else "weight").profile
        assert profile is not None and len(held[name]) == 72
        for head, (explained, even, parts) in zip(profile.grid, held[name], strict=True):
            assert explained == pytest.approx(profile.fit.explained[head.place], abs=6e-5)
            assert even == pytest.approx(profile.fit.by_even[head.place], abs=6e-5)
            expected = profile.strongest(head)[:6]
            assert [part for part, _ in parts] == [part for part, _ in expected]
            assert [share for _, share in parts] == pytest.approx([share for _, share in expected], abs=6e-4)
    assert held["weight"] != held["carried"]


def test_a_page_of_norm_holds_the_same(article: tuple[Classification, Attention]) -> None:
    assert _held(article[0].with_reading("carried")) == _held(article[0])


def test_without_profiles_there_is_nothing_of_them(article: tuple[Classification, Attention]) -> None:
    bare = replace(article[0], fits={})
    html = page(bare).html
    assert "profile-bytes" not in Elements(html).text and "<b>Profile.</b>" not in html
