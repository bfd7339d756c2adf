"""The picture of `ablate`: effects with their intervals, and every control beside them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from ablated import effect_of
from drawn import texts
from small_results import SIGNATURE

from attnscan.results.ablation import Ablation, Effect, HeadSet
from attnscan.results.grid import Grid
from attnscan.views.palette import COLORS
from attnscan.views.pictures.picture import picture

TICK, INTERVAL = "fill: #c4c4c4", f"stroke: {COLORS['next-word']}"


def _drawn(*effects: Effect) -> bytes:
    return picture(Ablation(effects, Grid.square(1, 4), "zero", 3, "label, 0.25 above chance", 5, 6, SIGNATURE))


def _spans(svg: bytes, style: str) -> list[tuple[float, float]]:
    """From where to where the shapes of a style reach, from left to right, in points."""
    paths = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")
    shapes = [re.findall(r"[ML] ([\d.]+)", path.attrib["d"]) for path in paths if style in path.attrib.get("style", "")]
    return sorted((min(map(float, xs)), max(map(float, xs))) for xs in shapes)


def test_every_control_has_a_tick_at_its_distance_from_the_mean() -> None:
    svg = _drawn(effect_of(2.0, (1.0, 1.5, 1.25)), replace(effect_of(2.0, ()), set=HeadSet("y", ())))
    low, middle, high = (left for left, _ in _spans(svg, TICK))
    assert high - middle == pytest.approx(middle - low, abs=0.01) and high > middle
    assert "no head" in texts(svg) and "grey: the controls, less their mean" in texts(svg)


def test_the_interval_is_by_students_t_and_the_axis_holds_all_of_it() -> None:
    effect = effect_of(2.0, (1.0, 1.5, 1.25), "next-word")
    svg = _drawn(effect)
    ((left, right),) = _spans(svg, INTERVAL)
    low, _, high = (left for left, _ in _spans(svg, TICK))
    per_unit = (high - low) / 0.5
    assert (right - left) / per_unit == pytest.approx(2 * effect.interval, rel=0.01)
    assert effect.interval > 2 * effect.se and right < 72 * 3.3


def test_it_has_a_panel_for_each_quantity() -> None:
    effect = effect_of(2.0, (1.0, 1.5))
    accuracy = replace(effect.quantity, name="next-sentence", unit="accuracy", larger_is_better=True)
    svg = _drawn(effect, replace(effect, quantity=accuracy))
    assert sum(text.startswith(("masked-lm: effect", "next-sentence: effect")) for text in texts(svg)) == 2
    low, again, high, last = (left for left, _ in _spans(svg, TICK))
    assert (low, high) == pytest.approx((again, last)) and low < high  # the same in both
