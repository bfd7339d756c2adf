"""A browser for each module, pages for it to open, and results that the pages are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.command_line import run
from support.toy_bert import save_toy_bert
from support.translator import TRANSLATOR
from support.treebanks import planted_file

import attnscan
from attnscan import HeadScores

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from support.chromium import running

    with running() as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Page]]:
    """Opens a file or a server's address, each in a context of its own.

    No page may fail, open a dialog, or ask for more than itself and its server; nor may the server
    fail.
    """
    from support.chromium import settle

    troubles: list[str] = []

    def open_page(place: Path | str, rest: str = "", width: int = 1280, **settings: Any) -> Page:
        page = browser.new_context(viewport={"width": width, "height": 900}, **settings).new_page()
        address = place.as_uri() if isinstance(place, Path) else place

        def note_request(request: Request) -> None:
            is_own = request.is_navigation_request() or not isinstance(place, Path)
            if not (is_own and request.url.startswith(address)) and not request.url.startswith(
                ("data:", "blob:")
            ):
                troubles.append(f"request of {request.url}")

        page.set_default_timeout(60_000)
        page.on("request", note_request)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "dialog",
            lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        )
        if isinstance(
            place, Path
        ):  # of a server's answers, the browser itself says those that are refusals
            page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.goto(address + rest)
        settle(page)
        return page

    yield open_page
    for context in browser.contexts:
        context.close()
    assert troubles == []
    assert not [record for record in caplog.get_records("call") if record.name == "attnscan"]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def article_page(pages: Path, article: HeadScores) -> Path:
    """The article's pair, in which went and bought are said to be related."""
    attnscan.report(replace(article, related=((2, 13),)), output=pages / "article.html")
    return pages / "article.html"


@pytest.fixture(scope="session")
def pairs_page(pages: Path, ranking: HeadScores) -> Path:
    attnscan.report(ranking, output=pages / "pairs.html")
    return pages / "pairs.html"


@pytest.fixture(scope="session")
def kinds_page(pages: Path) -> Path:
    """The page that the command line makes of all kinds of attention."""
    (pages / "links.txt").write_text("4-0 3-1 2-2 1-3\n")
    command = [
        "report",
        "bado fela gumi hora jiku",
        "UKIJ AROH IMUG ALEF",
        "--model",
        str(TRANSLATOR),
    ]
    command += [
        "--attention",
        "all",
        "--predictive",
        "off",
        "--alignments",
        str(pages / "links.txt"),
    ]
    run(*command, "-o", str(pages / "kinds.html"))
    return pages / "kinds.html"


@pytest.fixture(scope="session")
def trees_page(pages: Path) -> Path:
    """Three sentences of a treebank, of which head 0-0 follows articles to nouns."""
    plan = {(0, 0): "articles to nouns", (0, 1): "previous-word"}
    model = str(save_toy_bert(pages / "toy", 2, 3, plan, carries=True))
    trees = planted_file(pages)
    page = pages / "trees.html"
    attnscan.report(
        treebank=trees, sentences="30,288,1", model=model, predictive="off", output=page
    )
    return page
