"""The README and docs show what the program prints, and every command and module is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from families import NOT_CARRIED, TAPPED, UNTAPPED
from readme import PAGES, README, updated

import attnscan
from attnscan.cli.app import COMMANDS
from attnscan.inputs.read import COLUMNS, shipped_pairs

TEXT = README.read_text(encoding="utf-8")
DOCS = README.parent / "docs"
RUNS_A_MODEL = re.compile(r"<!-- \$ attnscan (?!patterns|models)(?!.*--help).* -->\n```text")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long if RUNS_A_MODEL.search(page.read_text(encoding="utf-8")) else ())
        for page in PAGES
    ],
    ids=lambda page: page.name,
)
def test_output_in_pages_is_real(page: Path) -> None:
    """If this fails: run `make readme`, and look at what changed."""
    text = page.read_text(encoding="utf-8")
    assert updated(text) == text


def test_every_room_is_in_the_tour() -> None:
    rooms = {
        path.name
        for path in Path(attnscan.__file__).parent.iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    }
    assert rooms <= {*(DOCS / "code.md").read_text(encoding="utf-8").replace("/", "").split()}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_with_all_of_its_options(command: str) -> None:
    """In a table that is made from the command itself, to which `test_output_in_pages_is_real` holds the page."""
    assert f"(docs/commands/{command}.md)" in TEXT
    page = (DOCS / "commands" / f"{command}.md").read_text(encoding="utf-8")
    assert f"<!-- options of {command} -->\n| option" in page and "(options.md" in page
    assert f"commands/{command}.md" in (README.parent / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_docs() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert not [name for name in attnscan.__all__ if name[0] != "_" and not re.search(rf"[`. ]{name}[`\n]", page)]


def test_every_attribute_in_the_docs_has_a_meaning() -> None:
    items = re.findall(r"^- `\w+[:(].*$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(items) > 10 and not [item for item in items if not re.match(r"- `.+`: \S", item)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [(page.parent / path, anchor) for path, anchor in re.findall(r"\]\(([^)#:]+?)(?:#([^)]*))?\)", text)]
    inside = [(page, anchor) for anchor in re.findall(r"\]\(#([^)]*)\)", text)]
    pictures = [(page.parent / path, "") for path in re.findall(r'src="([^":]+)"', text)]
    assert not [(str(path), anchor) for path, anchor in (*links, *inside, *pictures) if not _leads(path, anchor)]


def _leads(path: Path, anchor: str) -> bool:
    """Whether a file is there and has such a heading, as GitHub and MkDocs name headings."""
    if not anchor or not path.exists():
        return path.exists()
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_counts_in_prose_are_those_of_the_program() -> None:
    pairs = f"the {len(list(shipped_pairs()))} sentence pairs that ship with attnscan"
    assert pairs in TEXT and pairs in (DOCS / "index.md").read_text(encoding="utf-8")
    carried = len(TAPPED) + len(UNTAPPED) - len(NOT_CARRIED)
    assert f"In the {carried} families that\nshow it" in (DOCS / "carried.md").read_text(encoding="utf-8")


def test_the_names_of_columns_are_all_told_in_their_order() -> None:
    section = (DOCS / "pairs.md").read_text(encoding="utf-8").partition("## Columns")[2].partition("\n\n`--columns")[0]
    quoted = re.findall(r"`([^`]+)`", section)
    told = [tuple(name.strip().casefold() for name in names.split(",")) for names in quoted if names != "--columns"]
    assert told == list(COLUMNS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_in_the_menu_and_names_tests_that_are_there(page: Path) -> None:
    named = set(re.findall(r"`(tests/[\w/]+(?:\.py)?)`", page.read_text(encoding="utf-8")))
    assert not {name for name in named if not (README.parent / name).exists()}
    menu = (README.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert page == README or f": {page.relative_to(DOCS)}\n" in menu
