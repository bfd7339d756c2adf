"""Makes the README's pictures of the page and of the live page, with a real browser, into
docs/pictures/.

    PYTHONPATH=tests python -m support.page_picture

Not held by a test: what a browser draws differs a little from one to the next.
"""

from tempfile import NamedTemporaryFile

from support.chromium import running, settle
from support.command_line import A, B
from support.pictures import DIRECTORY

import attnscan

if __name__ == "__main__":
    with (
        running() as browser,
        attnscan.serve(A, B, model="bundled") as server,
        NamedTemporaryFile(suffix=".html") as file,
    ):
        attnscan.report(A, B, model="bundled", output=file.name)
        # a word is hidden, heads are switched off
        changed = "#view=head&heads=2-11&hidden=13&without=1-9,1-11"
        for address, height, name in (
            (f"file://{file.name}#view=head", 640, "page.png"),
            (server.url + changed, 820, "serve.png"),
        ):
            page = browser.new_page(viewport={"width": 1100, "height": height})
            page.goto(address)
            settle(page)
            page.screenshot(path=DIRECTORY / name)
