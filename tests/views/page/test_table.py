"""The shares of attention that a page holds are those of the result."""

from __future__ import annotations

import json

import pytest
from pages import Elements

from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.views.page.page import page


def _held(result: Classification) -> dict[str, list]:  # type: ignore[type-arg]
    held: dict[str, list] = json.loads(Elements(page(result).html).bytes_of("profile-bytes").tobytes())  # type: ignore[type-arg]
    return held


def test_every_head_has_its_classes_in_both_readings(article: tuple[Classification, Attention]) -> None:
    result, _ = article
    held = _held(result)
    assert list(held) == ["weight", "carried"]
    for by in ("weight", "carried"):
        profile = result.with_reading(by).profile
        assert len(held[by]) == 72
        for head, classes in zip(profile.grid, held[by], strict=True):
            expected = profile.strongest(head, 0.01)
            assert [name for name, *_ in classes] == [name for name, _ in expected]
            assert [share for _, share, _ in classes] == pytest.approx([share for _, share in expected], abs=6e-5)
    assert held["weight"] != held["carried"]


def test_a_page_of_norm_holds_the_same(article: tuple[Classification, Attention]) -> None:
    assert _held(article[0].with_reading("carried")) == _held(article[0])
