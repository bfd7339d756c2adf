"""A real browser for tests; whoever imports this is skipped where there is none, but for CI."""

import base64
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

_PATH = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
_MUST_RUN = bool(os.environ.get("CI"))  # there, a browser that is missing is a failure

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Browser, FrameLocator, Page, expect, sync_playwright
except ImportError:
    if _MUST_RUN:
        raise
    pytest.skip("no playwright: pip install playwright", allow_module_level=True)
if _PATH is None and not _MUST_RUN:
    pytest.skip("no Chromium: apt-get install chromium", allow_module_level=True)

expect.set_options(
    timeout=60_000
)  # on a busy machine, five seconds are too few for a page or a model's answer
Open = Callable[..., Page]
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental")


@contextmanager
def running() -> Iterator[Browser]:
    """A browser, closed afterwards."""
    assert _PATH, "there is no Chromium: .ci/run installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_PATH, args=["--no-sandbox"])
        yield browser
        browser.close()


def settle(page: Page | FrameLocator) -> None:
    """Wait until the page has painted what was last asked of it, by a live page's server, too.

    Each event takes the mark away before it returns.
    """
    settled = page.locator("html[data-settled='yes']:not([data-asking='yes'])")
    settled.wait_for(state="attached")  # no script: the policy forbids to evaluate one


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def choose(page: Page, switch: str, value: str) -> None:
    """Turn a switch: `input`, the kinds of attention, `by` or `special`."""
    button = page.locator(f"#{switch} [value='{value}']")
    button.click()
    expect(button).to_have_attribute("aria-checked", "true")
    settle(page)


def picture_at(address: str) -> NDArray[np.float64]:
    """The pixels of a `data:` address, in [0, 1]. Shape: [y, x, red green blue alpha]."""
    return np.asarray(imread(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


def expect_address(page: Page, *parts: str) -> None:
    """Wait until the address, of which the browser tells after an event, has these parts in this
    order.
    """
    expect(page).to_have_url(re.compile(".*".join(map(re.escape, parts))))


def check_accessibility(page: Page, view: str) -> None:
    """That axe-core finds nothing, and that nothing is wider than the window.

    Raises: AssertionError.
    """
    results = Axe().run(page, options={"runOnly": _RULES, "resultTypes": ["violations"]})
    assert len(results.response["passes"]) > 20, "axe-core did not look at the page"
    assert results.violations_count == 0, f"{view}: {results.generate_report()}"
    assert (
        page.viewport_size
        and page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    )
