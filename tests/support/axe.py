"""What axe-core finds on a page: every rule for people who hear a page, press keys or see little contrast."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

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
