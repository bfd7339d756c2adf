"""Makes the README's pictures of the page and of the live page, with a real browser, into docs/pictures/.

    python tests/support/page_picture.py

Not held by a test: what a browser draws differs a little from one to the next.
"""

import subprocess
import sys
import tempfile

import chromium
from command_line import A, B, run
from pictures import DIRECTORY

SERVE = [sys.executable, "-m", "attnscan", "serve", A, B, "--model", "bundled"]

if __name__ == "__main__":
    with chromium.running() as browser, tempfile.NamedTemporaryFile(suffix=".html") as file:
        run("report", A, B, "--model", "bundled", "-o", file.name)
        page = browser.new_page(viewport={"width": 1100, "height": 640})
        page.goto(f"file://{file.name}")
        page.get_by_role("tab", name="Head").click()
        page.wait_for_timeout(500)
        page.screenshot(path=DIRECTORY / "page.png")
        with subprocess.Popen(SERVE, stdout=subprocess.PIPE, text=True) as server:  # hide a word, switch heads off
            assert server.stdout is not None
            page = browser.new_page(viewport={"width": 1100, "height": 820})
            page.goto(server.stdout.readline().strip() + "#view=head&heads=2-11&hidden=13&without=1-9,1-11")
            page.locator("#matrices figure").wait_for()
            page.locator("#facts table.profile").wait_for()
            page.wait_for_timeout(500)
            page.screenshot(path=DIRECTORY / "serve.png")
            server.terminate()
