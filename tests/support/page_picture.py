"""Makes the README's picture of the page, with a real browser, into docs/pictures/page.png.

    python tests/support/page_picture.py

Not held by a test: what a browser draws differs a little from one to the next.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pictures import DIRECTORY, A, B
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from attnscan.cli.app import app

CHROMIUM = "/usr/bin/chromium"


def main() -> None:
    """Write a page, open it at a head, and take its picture."""
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        page_file = Path(directory) / "page.html"
        result = CliRunner(env={"ATTNSCAN_MODEL": "bundled"}).invoke(app, ["report", A, B, "-o", str(page_file)])
        assert result.exit_code == 0, result.output
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 640})
        page.goto(page_file.as_uri())
        page.get_by_role("tab", name="Head").click()
        page.wait_for_timeout(500)
        page.screenshot(path=DIRECTORY / "page.png")
        browser.close()


if __name__ == "__main__":
    main()
