"""A browser for each module, whose pages may not fail, open a dialog, or ask for more than themselves and a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from one_run import classify_and_keep

import attnscan
from attnscan import HeadScores
from attnscan.inputs.sentence import Pair
from attnscan.results.attention import Attention
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAIRS = [(f"The cat number {i} sat on {i % 7} mats.", f"A cat ran {i} times to the store.") for i in range(12)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from chromium import running

    with running() as browser:
        yield browser


@pytest.fixture(scope="module")
def troubles() -> list[str]:
    """What failed on pages since the last test."""
    return []


@pytest.fixture(scope="module")
def tab(browser: Browser, troubles: list[str]) -> Page:
    """A page that most tests of a module share."""
    from chromium import watched

    return watched(browser.new_page(), troubles)


@pytest.fixture(autouse=True)
def _nothing_fails(troubles: list[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Neither on a page nor in a server."""
    yield
    found, troubles[:] = troubles[:], []
    assert found == []
    assert not [record for record in caplog.records if record.name == "attnscan"]


@pytest.fixture
def opened(browser: Browser, tab: Page, troubles: list[str]) -> Iterator[Callable[..., Page]]:
    """Opens a file at a fragment: in the shared tab, or, with `settings`, in a context of its own."""
    from chromium import SIZE, load_anew, settle, watched

    with ExitStack() as stack:

        def open_page(path: Path, fragment: str = "", width: int = SIZE["width"], **settings: Any) -> Page:
            size = SIZE | {"width": width}
            if not settings:
                page = load_anew(tab, path.as_uri() + fragment, size)
            else:
                context = browser.new_context(viewport=size, **settings)
                stack.callback(context.close)
                page = watched(context.new_page(), troubles)
                page.goto(path.as_uri() + fragment)
            settle(page)
            return page

        yield open_page


@pytest.fixture(scope="session")
def article() -> tuple[HeadScores, Attention]:
    """The article's pair, which the bundled model has run."""
    pair = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
    return classify_and_keep(pair, ScanOptions(model="bundled", predictive="off"))


@pytest.fixture(scope="session")
def ranking() -> HeadScores:
    """With labels by weight and by what heads carry, and with profiles by weight."""
    return attnscan.heads(PAIRS, model="bundled", predictive="off")
