"""The page beside BertViz's head view: how large each is, and how long a browser takes to the first view and to a head.

    pip install --target RIVAL bertviz ipython; npm install requirejs@2.3.6 jquery@2.1.4 d3@5.7.0
    PYTHONPATH=RIVAL python benchmarks/page.py node_modules

BertViz fetches three scripts from a CDN; they come from the folder here, which costs it no time on a network.
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
from transformers import BertConfig, BertModel, BertTokenizerFast

import attnscan

PAIR = "I went to the store.", "At the store, I bought fresh strawberries."
SCRIPTS = {
    "require.min.js": "requirejs/require.js",
    "jquery.min.js": "jquery/dist/jquery.min.js",
    "d3.min.js": "d3/dist/d3.min.js",
}
OURS, THEIRS = "html[data-settled='yes'] #lines", "#vis svg line"
TO_NEXT_FRAME = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
CHOOSE_OURS = "document.querySelector('#picker [value=\"1-0\"]').click();"
CHOOSE_THEIRS = "const list = document.querySelector('#layer'); list.value = '1'; $(list).trigger('change');"
RUNS = 3


def main() -> None:
    """Write both pages of the bundled model and of a model with 144 heads, and time them in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node_modules", type=Path)
    scripts = parser.parse_args().node_modules
    print("| input | page | size | first view | another head |\n| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, pages in (("72 heads, 19 tokens", bundled()), ("144 heads, 128 tokens", large(Path(directory)))):
            paths = {kind: Path(directory) / f"{kind}.html" for kind in pages}
            for kind, path in paths.items():
                path.write_text(pages[kind], encoding="utf-8")
            times = [{kind: opened(browser, path, scripts) for kind, path in paths.items()} for _ in range(RUNS)]
            for kind, path in paths.items():
                first, other = (statistics.median(of[kind][place] for of in times) for place in (0, 1))
                print(
                    f"| {name} | {kind} | {path.stat().st_size / 1e6:.2f} MB | {first:.2f} s | {1000 * other:.0f} ms |"
                )
        browser.close()


def bundled() -> dict[str, str]:
    """The pages of the article's pair."""
    result = attnscan.classify(*PAIR, model="bundled", predictive="off", keep_attention=True)
    attention = result.kept_attention()
    return {"attnscan": attnscan.report(result).html, "BertViz": rival(attention.weights, list(attention.tokens))}


def large(directory: Path) -> dict[str, str]:
    """The pages of a random model of BERT base's shape on 128 tokens."""
    torch.manual_seed(0)
    (directory / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words()]))
    model = BertModel(BertConfig(vocab_size=131, attn_implementation="eager")).eval()
    tokenizer = BertTokenizerFast(str(directory / "vocab.txt"))
    text = " ".join(words())
    with torch.no_grad():
        weights = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
    page = attnscan.report(text, model=model, tokenizer=tokenizer, predictive="off").html
    return {"attnscan": page, "BertViz": rival(torch.cat(weights).numpy(), ["[CLS]", *words(), "[SEP]"])}


def words() -> list[str]:
    """126 words."""
    return [a + b for a in "bcdfghjklmnprstvwxyz" for b in ("a", "e", "i", "o", "u", "ai", "ou")][:126]


def rival(weights: object, tokens: list[str]) -> str:
    """BertViz's head view as a file."""
    layers = [layer[None] for layer in torch.as_tensor(weights)]
    return f"<!doctype html><meta charset=utf-8>{head_view(layers, tokens, html_action='return').data}"


def opened(browser: Browser, path: Path, scripts: Path) -> tuple[float, float]:
    """Seconds to the first view with lines, and to those of a head in another layer."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.route(
        re.compile("^https:"), lambda route: route.fulfill(path=scripts / SCRIPTS[route.request.url.rpartition("/")[2]])
    )
    is_ours = path.stem == "attnscan"
    start = time.perf_counter()
    page.goto(path.as_uri() + ("#view=head&heads=0-0&from=0" if is_ours else ""))
    page.locator(OURS if is_ours else THEIRS).first.wait_for(state="attached")
    first = time.perf_counter() - start
    choose = CHOOSE_OURS if is_ours else CHOOSE_THEIRS
    until = "while (document.documentElement.dataset.settled === 'no') await new Promise((done) => setTimeout(done));"
    steps = f"const start = performance.now(); {choose} {until} {TO_NEXT_FRAME} return performance.now() - start;"
    other = float(page.evaluate(f"async () => {{ {steps} }}")) / 1000
    page.close()
    return first, other


if __name__ == "__main__":
    main()
