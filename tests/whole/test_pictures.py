"""The pictures beside the README are the program's own, small, and ask no server for anything."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from pictures import DIRECTORY, pictures
from readme import README

MADE = {path.name: path.read_bytes() for path in sorted(DIRECTORY.glob("*.svg"))}


def texts(svg: bytes) -> list[str]:
    """Every text of a picture, in order."""
    return [element.text or "" for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_they_say_what_the_program_says() -> None:
    """If this fails: run `make readme`, and look at what changed."""
    now = pictures()
    assert set(now) == set(MADE)
    for name, picture in now.items():
        assert texts(picture) == texts(MADE[name]), name


@pytest.mark.parametrize("name", MADE)
def test_they_are_small_and_self_contained(name: str) -> None:
    picture = MADE[name].decode()
    assert len(picture) < 150_000
    assert not re.search(r"@font-face|<script|<image|@import|url\((?!#)|href=\"(?!#)", picture)


def test_the_readme_shows_pictures_that_are_there() -> None:
    shown = set(re.findall(r"docs/pictures/([\w.-]+)\"", README.read_text(encoding="utf-8")))
    assert {"terminal.svg", "map.svg"} <= shown
    assert all((DIRECTORY / name).is_file() for name in shown)
