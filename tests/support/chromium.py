"""A real browser for tests; whoever imports this is skipped where there is none, but for CI."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

_PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_MUST_RUN = bool(os.environ.get("CI"))  # there, a browser that is missing is a failure

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Browser, FrameLocator, Page, Request, ViewportSize, expect, sync_playwright
except ImportError:
    if _MUST_RUN:
        raise
    pytest.skip("no playwright: pip install playwright", allow_module_level=True)
if _PATH is None and not _MUST_RUN:
    pytest.skip("no Chromium: apt-get install chromium", allow_module_level=True)

expect.set_options(timeout=60_000)  # on a busy machine, five seconds are too few for a page or a model's answer
Open = Callable[..., Page]
SIZE: ViewportSize = {"width": 1280, "height": 900}


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


def watched(page: Page, troubles: list[str], server: str = "file:") -> Page:
    """A page that notes its errors, its dialogs, and its requests but for pages of files and those of a server."""

    def note_request(request: Request) -> None:
        is_own = request.url.startswith(server) and (server != "file:" or request.is_navigation_request())
        if not is_own and not request.url.startswith(("data:", "blob:", "about:srcdoc")):
            troubles.append(f"request of {request.url}")

    page.set_default_timeout(60_000)
    page.on("request", note_request)
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    if server == "file:":  # of a server's answers, the browser itself says those that are refusals
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
    return page


def settle(page: Page | FrameLocator) -> None:
    """Wait until the page has painted what was last asked of it: each event takes the mark away before it returns."""
    page.locator("html[data-settled='yes']").wait_for(state="attached")  # no script: the policy forbids to evaluate one


def choose_kind(page: Page, kind: str) -> None:
    """Turn the switch of the kinds of attention."""
    page.locator(f"#input [value={kind}]").click()
    expect(page.locator(f"#input [value={kind}]")).to_have_attribute("aria-checked", "true")
    settle(page)


_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental")
_RUN = """async (options) => {
    const { passes, violations } = await axe.run(options);
    return [passes.length, violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`)];
}"""


def violations(page: Page) -> list[str]:
    """Each rule that is broken, with the first element that breaks it."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(Axe().axe_script)
    options = {"runOnly": _RULES, "resultTypes": ["violations"]}
    passed, broken = page.evaluate(_RUN, options)
    assert passed > 20, "axe-core did not look at the page"
    return list(broken)
