"""What axe-core finds on a page: every rule for people who hear a page, press keys or see little contrast."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental")


def violations(page: Page) -> list[str]:
    """Each rule that is broken, with the first element that breaks it."""
    told = Axe().run(page, options={"runOnly": _RULES, "resultTypes": ["violations"]}).response
    assert len(told["passes"]) > 20, "axe-core did not look at the page"
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in told["violations"]]
