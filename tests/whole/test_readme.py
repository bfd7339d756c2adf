"""The README and docs show what the program prints, and every command and module is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from readme import PAGES, README, updated

import attnscan
from attnscan.cli.app import COMMANDS

TEXT = README.read_text(encoding="utf-8")
ROOMS = sorted(
    path.name
    for path in Path(attnscan.__file__).parent.iterdir()
    if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
)


LONG = ("article.md", "recipes.md")  # which show what scripts print


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long if page.name in LONG else ()) for page in PAGES],
    ids=lambda page: page.name,
)
def test_output_in_pages_is_real(page: Path) -> None:
    """If this fails: run `make readme`, and look at what changed."""
    text = page.read_text(encoding="utf-8")
    assert updated(text) == text


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_in_the_tour(room: str) -> None:
    tour = TEXT.split("## How the code is laid out")[1].split("##")[0]
    assert room in tour.replace("/", "").split()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_with_all_of_its_options(command: str) -> None:
    """The page shows `--help`, which `test_output_in_pages_is_real` holds to be what the program prints."""
    assert f"(docs/commands/{command}.md)" in TEXT
    page = (README.parent / "docs" / "commands" / f"{command}.md").read_text(encoding="utf-8")
    assert f"<!-- $ attnscan {command} --help -->" in page
    assert f"commands/{command}.md" in (README.parent / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", attnscan.__all__)
def test_every_public_name_is_in_the_docs(name: str) -> None:
    page = (README.parent / "docs" / "api.md").read_text(encoding="utf-8")
    assert f"::: attnscan.{name}\n" in page or name == "__version__"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    pictures = re.findall(r'src="([^":]+)"', page.read_text(encoding="utf-8"))
    assert not [link for link in (*links, *pictures) if not (page.parent / link).exists()]


def test_every_check_that_the_readme_names_is_there() -> None:
    written = (README.parent / "tests" / "whole" / "test_families.py").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert named and not {name for name in named if f"def {name}(" not in written}
