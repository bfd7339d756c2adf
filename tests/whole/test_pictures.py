"""The pictures beside the README are the program's own, small, and ask no server for anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import get_args

import pytest
from drawn import texts
from pictures import DIRECTORY, of_command, pictures, screens, studies
from readme import README

from attnscan.cli.app import COMMANDS
from attnscan.cli.commands.pictures_and_pages import Kind

GALLERY = (README.parent / "docs" / "gallery.md").read_text(encoding="utf-8")
MADE = {path.name: path.read_bytes() for path in sorted(DIRECTORY.glob("*.svg"))}


@pytest.mark.parametrize(
    "made", [pictures, pytest.param(studies, marks=pytest.mark.long), pytest.param(screens, marks=pytest.mark.long)]
)
def test_they_say_what_the_program_says(made: Callable[[], dict[str, bytes]]) -> None:
    """If this fails: run `make readme`, and look at what changed."""
    for name, picture in made().items():
        assert texts(picture) == texts(MADE[name]), name


def test_the_gallery_shows_every_command_kind_and_picture() -> None:
    commands = {name for command in COMMANDS for name in of_command(command)}
    for name in (*MADE, *commands):
        assert f"](pictures/{name})" in GALLERY and (DIRECTORY / name).is_file()
    assert all(re.search(rf"\]\(pictures/{kind}\.(svg|png)\)", GALLERY) for kind in get_args(Kind))


@pytest.mark.parametrize("name", MADE)
def test_they_are_small_and_self_contained(name: str) -> None:
    picture = MADE[name].decode()
    assert len(picture) < 400_000  # a shape for each head and class
    assert not re.search(r"@font-face|<script|<image|@import|url\((?!#)|href=\"(?!#)", picture)


def test_the_readme_shows_pictures_that_are_there() -> None:
    shown = set(re.findall(r"docs/pictures/([\w.-]+)\"", README.read_text(encoding="utf-8")))
    assert {"screen-classify.svg", "map.svg"} <= shown
    assert all((DIRECTORY / name).is_file() for name in shown)
