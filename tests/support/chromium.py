"""A real browser for tests; whoever imports this is skipped where there is none, but for CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

_PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_MUST_RUN = bool(os.environ.get("CI"))  # there, a browser that is missing is a failure

try:
    from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright
except ImportError:
    if _MUST_RUN:
        raise
    pytest.skip("no playwright: pip install playwright", allow_module_level=True)
if _PATH is None and not _MUST_RUN:
    pytest.skip("no Chromium: apt-get install chromium", allow_module_level=True)

expect.set_options(timeout=60_000)  # on a busy machine, five seconds are too few for a page or a model's answer


@contextmanager
def running() -> Iterator[Browser]:
    """A browser, closed afterwards."""
    assert _PATH, "there is no Chromium: .ci/run installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_PATH, args=["--no-sandbox"])
        yield browser
        browser.close()


_loads = count()


def load_anew(page: Page, address: str, viewport: ViewportSize | None = None) -> Page:
    """Load an address in a page that other tests have used, as in a new one, which takes a browser thrice as long.

    What is left is what tests have told the context, such as a clock of its own: they have to use another one.
    """
    page.mouse.move(0, 0)
    page.emulate_media(media="null", color_scheme="null")
    if viewport is not None:
        page.set_viewport_size(viewport)
    before, mark, fragment = address.partition("#")
    page.goto(f"{before}{'&' if '?' in before else '?'}load={next(_loads)}{mark}{fragment}")
    return page
