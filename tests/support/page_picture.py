"""Makes the README's pictures of the page and of the live page, with a real browser, into docs/pictures/.

    python tests/support/page_picture.py

Not held by a test: what a browser draws differs a little from one to the next.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import chromium
from pictures import DIRECTORY, A, B
from playwright.sync_api import Browser
from typer.testing import CliRunner

from attnscan.cli.app import app


def main() -> None:
    """Open both, and take their pictures."""
    with chromium.running() as browser:
        offline(browser)
        alive(browser)


def offline(browser: Browser) -> None:
    """Write a page, and open it at a head."""
    with tempfile.TemporaryDirectory() as directory:
        page_file = Path(directory) / "page.html"
        result = CliRunner(env={"ATTNSCAN_MODEL": "bundled"}).invoke(app, ["report", A, B, "-o", str(page_file)])
        assert result.exit_code == 0, result.output
        page = browser.new_page(viewport={"width": 1100, "height": 640})
        page.goto(page_file.as_uri())
        page.get_by_role("tab", name="Head").click()
        page.wait_for_timeout(500)
        page.screenshot(path=DIRECTORY / "page.png")


def alive(browser: Browser) -> None:
    """Hide a word and switch heads off."""
    command = [sys.executable, "-m", "attnscan", "serve", A, B, "--model", "bundled"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        page = browser.new_page(viewport={"width": 1100, "height": 820})
        page.goto(server.stdout.readline().strip() + "#view=head&heads=2-11&hidden=13&without=1-9,1-11")
        page.locator("#others figure").nth(1).wait_for()
        page.locator("#facts table.profile").wait_for()
        page.wait_for_timeout(500)
        page.screenshot(path=DIRECTORY / "serve.png")
        server.terminate()


if __name__ == "__main__":
    main()
