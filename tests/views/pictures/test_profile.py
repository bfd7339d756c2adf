"""Profiles drawn: bars as high as shares, curves through them, and colours that every reader tells apart."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from drawn import size, texts
from matplotlib.colors import to_hex
from matplotlib.image import imread
from small_results import SIGNATURE

from attnscan.errors import SelectionError
from attnscan.results.intervals import half_width
from attnscan.results.profile import OFFSETS, Fit, Profile, parts_of
from attnscan.views.palette import COLORS, ITSELF_COLOR, OTHER_COLOR
from attnscan.views.pictures.look import PictureFile
from attnscan.views.pictures.map import ruler_width
from attnscan.views.pictures.picture import picture
from attnscan.views.pictures.profile import FAMILIES, families_of
from attnscan.views.pictures.sheet import DPI, LINE, MARGIN

SVG = "{http://www.w3.org/2000/svg}"


def _profile(layers: int = 2, heads: int = 3, others: tuple[str, ...] = (), pairs: int = 40) -> Profile:
    """Shares at random that add to less than 1."""
    rng, parts = np.random.default_rng(0), parts_of(others)
    share = rng.dirichlet(np.full(len(parts) + 1, 0.3), (layers, heads))[..., 1:]
    se = 0.05 * rng.random(share.shape)
    explained, error, even = (np.full((layers, heads), value) for value in (0.8, 0.01, 0.3))
    fit = Fit(share, se, explained, error, np.ones((layers, len(parts))), even)
    return Profile(parts, fit, replace(SIGNATURE, pairs_read=pairs))


def _with(profile: Profile, share: np.ndarray[Any, Any], se: float | None = None) -> Profile:
    errors = profile.fit.se if se is None else np.full(share.shape, se)
    return replace(profile, fit=replace(profile.fit, share=share, se=errors))


def _boxes(svg: bytes, color: str) -> list[tuple[float, float, float, float]]:
    """Left, top, width and height of the filled shapes of a colour, in inches, in the order in which they are drawn."""
    boxes = []
    for path in ET.fromstring(svg).iter(f"{SVG}path"):
        if path.attrib.get("style", "").startswith(f"fill: {color}"):
            x, y = np.array(re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path.attrib["d"]), dtype=float).T / 72
            boxes.append((float(x.min()), float(y.min()), float(np.ptp(x)), float(np.ptp(y))))
    return boxes


def _families(profile: Profile) -> dict[str, np.ndarray[Any, Any]]:
    """Each colour's share of every head, summed anew."""
    return {
        family.color: sum(
            np.nan_to_num(profile.fit.share[..., p]) for p, part in enumerate(profile.parts) if part in family.parts
        )
        for family in families_of(profile)
    }


def test_a_bar_is_as_high_as_the_shares() -> None:
    profile = _profile(others=("predictive", "subject-verb"))
    svg = picture(profile)
    heights = {color: [height for *_, height in _boxes(svg, color)] for color in _families(profile)}
    unit = heights[COLORS["identical"]][0] / profile.fit.share[0, 0, profile.parts.index("identical")]
    for color, share in _families(profile).items():
        drawn = [height for height in heights[color] if height != pytest.approx(0.11, abs=1e-6)]  # but the key's
        assert np.array(drawn) / unit == pytest.approx(share.ravel(), abs=1e-3), color


def test_bars_stand_on_one_line_without_gaps_and_leave_the_rest_blank() -> None:
    profile = _profile(1, 1)
    drawn = [_boxes(svg, family.color)[0] for svg in [picture(profile)] for family in families_of(profile)]
    for (_, top, _, _), (_, upper, _, height) in itertools.pairwise(drawn):
        assert upper + height == pytest.approx(top, abs=1e-4)
    left = 1 - np.nansum(profile.fit.share)
    assert f"blank: none of these ({left:.2f})" in texts(picture(profile))


def test_shares_that_add_to_more_than_1_fill_the_bar_and_no_more() -> None:
    profile = _profile(1, 2)
    share = profile.fit.share.copy()
    share[0, 0] *= 1.2 / share[0, 0].sum()
    full = _with(profile, share)
    svg = picture(full)
    below = {first[1] + first[3] for first in [_boxes(svg, FAMILIES[0].color)[0]]}
    tops = min(_boxes(svg, family.color)[0][1] for family in FAMILIES if family.name != "predictive")
    one = (0.3 * 1.5) - 2 * 0.1 * 0.3  # of a cell as large as cells get
    assert below.pop() - tops == pytest.approx(one, abs=1e-4)
    said = "Where shares add to more than 1, they are drawn smaller."
    assert said in " ".join(texts(svg)) and said not in " ".join(texts(picture(profile)))


def test_the_key_names_the_families_that_occur_with_their_means() -> None:
    profile = _profile(others=("subject-verb", "object-verb"))
    share = profile.fit.share.copy()
    share[..., profile.parts.index("punctuation")] = np.nan
    share[..., profile.parts.index("cross-sentence")] = 0
    profile = _with(profile, share)
    found = texts(picture(profile, look=PictureFile(width=6.5)))
    own = sum(share[..., profile.parts.index(name)].mean() for name in ("subject-verb", "object-verb"))
    assert f"subject-verb + object-verb ({own:.2f})" in found
    assert f"offset+1 ({share[..., profile.parts.index('offset+1')].mean():.2f})" in found
    assert {text.split(" (")[0] for text in found} >= {
        "offset-2..-8",
        "offset+0",
        "own-sentence",
        "start + middle + end",
    }
    assert not [text for text in found if text.startswith(("punctuation", "cross-sentence", "predictive"))]
    assert _boxes(picture(profile), OTHER_COLOR)


def test_a_picture_of_what_heads_carry_says_so() -> None:
    profile = _profile()
    carried = replace(profile, signature=replace(profile.signature, by="carried"))
    for kind, heads in (("profile", ()), ("distance", "0-1")):
        words, other = (" ".join(texts(picture(each, kind, heads=heads))) for each in (carried, profile))  # type: ignore[arg-type]
        assert "what a head carries" in words and "carries" not in other


def _points(svg: bytes, *colors: str) -> dict[str, list[tuple[float, float]]]:
    """The places of the markers of each colour, in points."""
    found: dict[str, list[tuple[float, float]]] = {color: [] for color in colors}
    for use in ET.fromstring(svg).iter(f"{SVG}use"):
        for color in colors:
            if f"fill: {color}" in use.attrib.get("style", ""):
                found[color].append((float(use.attrib["x"]), float(use.attrib["y"])))
    return found


def _strokes(svg: bytes, color: str) -> list[tuple[float, float, float]]:
    """Where the upright lines of a colour stand, and from where to where they reach, in points."""
    lines = []
    for path in ET.fromstring(svg).iter(f"{SVG}path"):
        places = re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path.attrib["d"])
        if f"stroke: {color}" in path.attrib.get("style", "") and len(places) == 2 and places[0][0] == places[1][0]:
            low, high = sorted(float(y) for _, y in places)
            lines.append((float(places[0][0]), low, high))
    return lines


SIDES = (COLORS["previous-word"], ITSELF_COLOR, COLORS["next-word"])


def test_a_curve_goes_through_the_shares_and_the_errors_are_95_percent_by_t() -> None:
    profile = _profile()
    svg = picture(profile, "distance", heads="1-2")
    points = [place for places in _points(svg, *SIDES).values() for place in places]
    assert len(points) == len(OFFSETS) and points == sorted(points)
    share = profile.fit.share[1, 2, : len(OFFSETS)]
    x, y = np.array(points).T
    assert np.diff(x) == pytest.approx(np.diff(x).mean(), abs=0.01)
    slope, zero = np.polyfit(share, y, 1)
    assert y == pytest.approx(zero + slope * share, abs=0.01) and slope < 0
    bars = sorted(stroke for color in SIDES for stroke in _strokes(svg, color))
    interval = half_width(profile.fit.se[1, 2, : len(OFFSETS)], 32)  # blocks, of 40 pairs
    assert [high - low for _, low, high in bars] == pytest.approx(2 * interval * -slope, abs=0.02)
    assert [(low + high) / 2 for _, low, high in bars] == pytest.approx(y, abs=0.02)
    assert max(high for *_, high in bars) < 72 * size(svg, "svg")[1]


def test_the_word_itself_stands_between_words_before_and_after() -> None:
    profile = _profile(1, 1)
    share = np.zeros_like(profile.fit.share)
    share[0, 0, profile.parts.index("offset+2")] = 0.5
    svg = picture(_with(profile, share), "distance", heads="0-0")
    before, itself, after = _points(svg, *SIDES).values()
    assert (len(before), len(itself), len(after)) == (8, 1, 8)
    assert min(after, key=lambda place: place[1]) == after[1]  # upwards is less
    found = texts(svg)
    assert [text for text in found if re.fullmatch(r"[−+]?\d", text)] == ["0", "−8", "−4", "0", "+4", "+8"]
    assert found.index("words before") < found.index("words after")


def test_distances_that_no_words_have_break_the_curve_and_one_pair_has_no_errors() -> None:
    profile = _profile(pairs=1)
    share = profile.fit.share.copy()
    share[..., profile.parts.index("offset-8")] = np.nan
    svg = picture(_with(profile, share, np.nan), "distance", heads="0-0")
    assert [len(places) for places in _points(svg, *SIDES).values()] == [7, 1, 8]
    assert not [stroke for color in SIDES for stroke in _strokes(svg, color)]
    assert "95 %" not in " ".join(texts(svg)) and "nan" not in svg.decode().lower().replace("dominant", "")


def test_all_panels_have_one_scale() -> None:
    profile = _profile(1, 2)
    share = np.zeros_like(profile.fit.share)
    share[0, 0, 7], share[0, 1, 7] = 0.8, 0.2
    svg = picture(_with(profile, share, 0.0), "distance", heads="all")
    ((_, high), (_, low)) = (
        min(side, key=lambda place: place[1]) for side in _halves(_points(svg, SIDES[0])[SIDES[0]])
    )
    ground = max(y for _, y in _points(svg, SIDES[0])[SIDES[0]])
    assert (ground - high) / (ground - low) == pytest.approx(4, rel=0.01)
    assert "0.8" in texts(svg) and "0.4" in texts(svg)


def _halves(places: list[tuple[float, float]]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    return places[:8], places[8:]


def test_thousands_of_heads_are_an_image_in_the_same_colours() -> None:
    layers, heads = 30, 40
    profile = _profile(layers, heads)
    assert len(picture(profile)) < 400_000, "a shape for each part of each head"
    pixels = imread(BytesIO(picture(profile, look=PictureFile("png", 6.5))))
    shares = _families(profile)
    colors, tops = list(shares), np.cumsum(list(shares.values()), 0)
    left = ruler_width(layers)
    across = (6.5 - left - MARGIN) / heads
    down = min(1.5 * across, 9 / layers)
    foot = MARGIN + 2 * LINE
    wrong = 0
    for layer, head in np.ndindex(layers, heads):
        x = int((left + (head + 0.5) * across) * DPI)
        for height in (0.15, 0.5, 0.85):
            if abs(tops[:, layer, head] - height).min() < 0.05:
                continue  # at a border
            y = int((foot + (layer + 1 - height * 0.9) * down) * DPI)
            family = int((tops[:, layer, head] <= height).sum())
            wrong += to_hex(pixels[y, x, :3]) != (colors[family] if family < len(colors) else "#ffffff")
    assert wrong == 0


@pytest.mark.parametrize(("layers", "heads"), [(1, 2000), (3000, 1), (400, 12)])
def test_heads_that_nobody_could_see_are_refused(layers: int, heads: int) -> None:
    with pytest.raises(
        SelectionError, match=f"{layers} layers of {heads} heads have no room .* attnscan profile --csv"
    ):
        picture(_profile(layers, heads))


def test_more_distances_than_a_page_has_room_for_are_refused() -> None:
    profile = _profile(24, 16)
    with pytest.raises(SelectionError, match=r"384 heads have no room in a picture 3\.3 inches wide; name fewer"):
        picture(profile, "distance", heads="all")
    found = texts(picture(profile, "distance", heads="layer:0,layer:1"))
    names = [text.removeprefix("head ") for text in found if re.search(r"\d-\d+$", text)]
    assert names == [f"{layer}-{head}" for layer in (0, 1) for head in range(16)]
    assert "From left to right: 8 words before to 8 after" in " ".join(found)


# How colours look to who has no red or no green cones, by linear RGB.
# Source: Machado, Oliveira and Fernandes, IEEE Trans. Vis. Comput. Graph. 15 (2009), severity 1.
SEEN = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def _lab(color: str, seen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """CIE L*a*b*."""
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(seen @ linear, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", SEEN)
def test_every_reader_tells_the_families_apart(eyes: str) -> None:
    """Some 2 units of distance are the least that can be seen, side by side."""
    names = {family.name or "own": family.color for family in families_of(_profile(others=("predictive", "own")))}
    places = {name: _lab(color, SEEN[eyes]) for name, color in {**names, "blank": "#ffffff"}.items()}
    near = {
        (one, other): round(float(np.linalg.norm(places[one] - places[other])))
        for one, other in itertools.combinations(places, 2)
    }
    assert len(near) == 105
    assert {pair: distance for pair, distance in near.items() if distance < 15} == {}
