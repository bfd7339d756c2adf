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

TICK, INTERVAL = "#a8a8a8", f"stroke: {COLORS['next-word']}"


def _drawn(*effects: Effect) -> bytes:
    return picture(Ablation(effects, Grid((1, 4)), "zero", 3, "label, 0.25 above chance", 5, 6, SIGNATURE))


def _ticks(svg: bytes) -> list[float]:
    """Where the controls stand, from left to right, in points."""
    marks = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}use")
    return sorted(float(mark.attrib["x"]) for mark in marks if TICK in mark.attrib.get("style", ""))


def _lines(svg: bytes, style: str) -> list[tuple[float, float]]:
    """From where to where the lines of a style reach, in points."""
    paths = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")
    shapes = [re.findall(r"[ML] ([\d.]+)", path.attrib["d"]) for path in paths if style in path.attrib.get("style", "")]
    lines = [(min(map(float, xs)), max(map(float, xs))) for xs in shapes]
    return [line for line in lines if line[1] > line[0] + 5]  # no marker


def test_every_control_has_a_tick_at_its_distance_from_the_mean() -> None:
    svg = _drawn(effect_of(2.0, (1.0, 1.5, 1.25)), replace(effect_of(2.0, ()), set=HeadSet("y", ())))
    low, middle, high = _ticks(svg)
    assert high - middle == pytest.approx(middle - low, abs=0.01) and high > middle
    assert "no head" in texts(svg) and "Grey: the controls, less their mean." in texts(svg)


def test_the_interval_is_by_students_t_and_the_axis_holds_all_of_it() -> None:
    effect = effect_of(2.0, (1.0, 1.5, 1.25), "next-word")
    svg = _drawn(effect)
    ((left, right),) = _lines(svg, INTERVAL)
    low, _, high = _ticks(svg)
    per_unit = (high - low) / 0.5
    assert (right - left) / per_unit == pytest.approx(2 * effect.interval, rel=0.01)
    assert effect.interval > 2 * effect.se and right < 72 * 3.3


def test_it_has_a_panel_for_each_quantity() -> None:
    effect = effect_of(2.0, (1.0, 1.5))
    accuracy = replace(effect.quantity, name="next-sentence", unit="accuracy", larger_is_better=True)
    svg = _drawn(effect, replace(effect, quantity=accuracy))
    assert sum(text.startswith(("masked-lm: effect", "next-sentence: effect")) for text in texts(svg)) == 2
    low, again, high, last = _ticks(svg)
    assert (low, high) == pytest.approx((again, last)) and low < high  # the same in both
