"""A real browser for tests; whoever imports this is skipped where there is none, but for CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_MUST_RUN = bool(os.environ.get("CI"))  # there, a browser that is missing is a failure

try:
    from playwright.sync_api import Browser, expect, sync_playwright
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
