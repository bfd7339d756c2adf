"""The page beside BertViz's head view: how large each is, and how long a browser takes to the first
view and to a head.

    pip install --target RIVAL bertviz ipython; npm install requirejs@2.3.6 jquery@2.1.4 d3@5.7.0
    PYTHONPATH=RIVAL python benchmarks/page.py node_modules

BertViz fetches three scripts from a CDN; they come from the folder here, which costs it no time on
a network.
"""

import argparse
import re
import statistics
import tempfile
import time
from pathlib import Path

import torch
from bertviz import head_view
from playwright.sync_api import Browser, sync_playwright
from scan import random_bert
from transformers import AutoTokenizer

import attnscan
from attnscan.model.sources import bundled

PAIR = "I went to the store.", "At the store, I bought fresh strawberries."
SCRIPTS = {
    "require.min.js": "requirejs/require.js",
    "jquery.min.js": "jquery/dist/jquery.min.js",
    "d3.min.js": "d3/dist/d3.min.js",
}
LINES = {"attnscan": "html[data-settled='yes'] #lines", "BertViz": "#vis svg line"}
TO_NEXT_FRAME = (
    "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
)
CHOOSE = {
    "attnscan": "document.querySelector('#picker [value=\"1-0\"]').click();",
    "BertViz": (
        "const list = document.querySelector('#layer');"
        " list.value = '1'; $(list).trigger('change');"
    ),
}
RUNS = 3


def main() -> None:
    """Write both pages of the bundled model and of a model with 144 heads, and time
    them in turn.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node_modules", type=Path)
    scripts = parser.parse_args().node_modules
    print("| input | page | size | first view | another head |\n| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for name, pages in (("72 heads, 19 tokens", small()), ("144 heads, 128 tokens", large())):
            paths = {kind: Path(directory) / f"{kind}.html" for kind in pages}
            for kind, path in paths.items():
                path.write_text(pages[kind], encoding="utf-8")
            times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in paths}
            for _ in range(RUNS):
                for kind, path in paths.items():
                    times[kind].append(open_page(browser, path, scripts))
            for kind, path in paths.items():
                first = statistics.median(seconds[0] for seconds in times[kind])
                other = statistics.median(seconds[1] for seconds in times[kind])
                size = f"{path.stat().st_size / 1e6:.2f} MB"
                print(f"| {name} | {kind} | {size} | {first:.2f} s | {1000 * other:.0f} ms |")
        browser.close()


def small() -> dict[str, str]:
    """The pages of the article's pair in the bundled model."""
    result = attnscan.classify(*PAIR, model="bundled", predictive="off", keep_attention=True)
    attention = result.kept_attention()
    return {
        "attnscan": attnscan.report(result).html,
        "BertViz": rival(attention.weights, list(attention.tokens)),
    }


def large() -> dict[str, str]:
    """The pages of a random model of BERT base's shape on 128 tokens."""
    model = random_bert()
    tokenizer = AutoTokenizer.from_pretrained(bundled().location)
    model.set_attn_implementation("eager")
    text = " ".join(sorted(token for token in tokenizer.get_vocab() if token.isalpha())[:126])
    encoding = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        weights = model(**encoding, output_attentions=True).attentions
    page = attnscan.report(text, model=model, tokenizer=tokenizer, predictive="off").html
    return {"attnscan": page, "BertViz": rival(torch.cat(weights).numpy(), encoding.tokens())}


def rival(weights: object, tokens: list[str]) -> str:
    """BertViz's head view as a file."""
    layers = [layer[None] for layer in torch.as_tensor(weights)]
    return (
        f"<!doctype html><meta charset=utf-8>{head_view(layers, tokens, html_action='return').data}"
    )


def open_page(browser: Browser, path: Path, scripts: Path) -> tuple[float, float]:
    """Seconds to the first view with lines, and to those of a head in another layer."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.route(
        re.compile("^https:"),
        lambda route: route.fulfill(path=scripts / SCRIPTS[Path(route.request.url).name]),
    )
    start = time.perf_counter()
    page.goto(path.as_uri() + ("#view=head&heads=0-0&from=0" if path.stem == "attnscan" else ""))
    page.locator(LINES[path.stem]).first.wait_for(state="attached")
    first = time.perf_counter() - start
    until = (
        "while (document.documentElement.dataset.settled === 'no')"
        " await new Promise((done) => setTimeout(done));"
    )
    script = f"const start = performance.now(); {CHOOSE[path.stem]} {until} {TO_NEXT_FRAME}"
    other = (
        float(page.evaluate(f"async () => {{ {script} return performance.now() - start; }}")) / 1000
    )
    page.close()
    return first, other


if __name__ == "__main__":
    main()
