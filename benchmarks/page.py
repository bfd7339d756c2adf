"""How large the page of `report` is and how soon it is there, beside BertViz's pages of the same input.

    pip install --no-deps bertviz && pip install ipython playwright && apt-get install chromium
    python benchmarks/page.py [--runs 5] [--layers 12] [--heads 12] [--tokens 128]

A model of BERT base's shape with random weights and the bundled tokenizer, on words that come along. For each: the
size of the HTML, the time to make it once the attention is there, and in Chromium the time to first paint. A page
of BertViz fetches its scripts from CDNs and shows nothing without them; here these requests are refused at once,
so its time is that of its HTML alone, and it would be longer. The other way round, ours has bounds for what a user
waits for, painting included: 1 s until the page is usable, 80 ms from a click on a head to its lines, also at 512
tokens (--layers 2 --heads 4 --tokens 512), and 250 ms for the lines and matrices of half of all heads at once. What
each page lets its users do is compared by `beside_bertviz.py`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from bertviz import head_view, model_view
from playwright.sync_api import Browser, sync_playwright
from transformers import AutoTokenizer, BertConfig, BertModel

import attnscan
from attnscan.inputs.pairs import Pair, shipped_pairs
from attnscan.model.sources import bundled
from attnscan.views.page.page import page

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SETTLED = "html[data-settled='yes']"
NOTE_WHEN_SETTLED = """new MutationObserver(() => {
    if (document.documentElement.dataset.settled === 'yes') window.settledAt ??= performance.now();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ['data-settled'] })"""


def pair_of(tokenizer: object, tokens: int) -> Pair:
    """Two halves of as many words as make that many tokens, each word one token."""
    words = " ".join(f"{record.pair.a} {record.pair.b}" for record in shipped_pairs()).split()
    whole = [word for word in words if len(tokenizer.tokenize(word)) == 1][: tokens - 3]  # [CLS], [SEP], [SEP]
    return Pair(" ".join(whole[: len(whole) // 2]), " ".join(whole[len(whole) // 2 :]))


def save_model(directory: str, layers: int, heads: int) -> None:
    """A random BERT whose weights are far from even, and the bundled tokenizer."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(bundled().location)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64 * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        initializer_range=0.06,
    )
    BertModel(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def first_paint(browser: Browser, path: Path) -> float:
    """Milliseconds until something is on the screen, with everything but the file refused."""
    shown = browser.new_page()
    shown.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    shown.goto(path.as_uri())
    paint = shown.evaluate(PAINT)
    while paint is None:  # nothing has been painted yet
        shown.wait_for_timeout(10)
        paint = shown.evaluate(PAINT)
    shown.close()
    return float(paint)


PAINTED = """async (act) => {
    const start = performance.now();
    act();
    while (document.documentElement.dataset.settled !== 'yes') await new Promise((next) => setTimeout(next));
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
    return performance.now() - start;
}"""
"""Milliseconds from what a user does until it is painted."""


def use(browser: Browser, path: Path, layers: int) -> tuple[float, list[float], list[float]]:
    """Milliseconds until the model view is complete, from ten clicks on heads, and from choosing so many layers."""
    shown = browser.new_page()
    shown.add_init_script(NOTE_WHEN_SETTLED)
    shown.goto(path.as_uri())
    shown.locator(SETTLED).wait_for(state="attached")
    usable = float(shown.evaluate("window.settledAt"))
    clicks, several = shown.evaluate(
        """async (names) => {
            const painted = PAINTED;
            const [clicks, several] = [[], []];
            for (const button of [...document.querySelectorAll('#thumbnails button')].slice(0, 10)) {
                clicks.push(await painted(() => button.click()));
                await painted(() => document.getElementById('tab-model').click());
            }
            document.getElementById('tab-head').click();
            const box = document.getElementById('heads');
            const choose = (text) => painted(() => {
                box.value = text;
                box.dispatchEvent(new Event('change'));
            });
            for (let i = 0; i < 5; i++) {
                several.push(await choose(names));
                await choose('0-0');
            }
            return [clicks, several];
        }""".replace("PAINTED", PAINTED),
        " ".join(f"layer:{layer}" for layer in range(layers)),
    )
    shown.close()
    return usable, clicks, several


def main() -> None:
    """Print a line for each page, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("runs", 5), ("layers", 12), ("heads", 12), ("tokens", 128)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        save_model(directory, asked.layers, asked.heads)
        pair = pair_of(AutoTokenizer.from_pretrained(directory), asked.tokens)
        result = attnscan.classify(pair.a, pair.b, model=directory, predictive="off")
        attention = result.attention
        assert attention is not None
        tokens, second = list(attention.tokens), attention.segments.index(1)
        layers = [layer[None] for layer in torch.from_numpy(attention.weights)]
        makers: dict[str, Callable[[], str]] = {
            "attnscan": lambda: page(result).html,
            "BertViz head": lambda: head_view(layers, tokens, second, html_action="return").data,
            "BertViz model": lambda: model_view(layers, tokens, second, html_action="return").data,
        }
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        print(f"{asked.layers} × {asked.heads} heads, {len(tokens)} tokens, medians of {asked.runs} runs")
        print(f"{'page':14} {'size':>10} {'made in':>9} {'first paint':>12}")
        numbers = {}
        for name, make in makers.items():
            path = Path(directory) / f"{name}.html"
            making, painting = [], []
            for _ in range(asked.runs):
                start = time.perf_counter()
                html = make()
                making.append(time.perf_counter() - start)
                path.write_text(html, encoding="utf-8")
                painting.append(first_paint(browser, path))
            numbers[name] = (path.stat().st_size, statistics.median(making), statistics.median(painting))
            size, made, paint = numbers[name]
            print(f"{name:14} {size / 1e6:>7.2f} MB {made:>7.2f} s {paint:>9.0f} ms")
        for name in list(makers)[1:]:
            ratios = (rival / own for rival, own in zip(numbers[name], numbers["attnscan"], strict=True))
            print("{:14} {:>9.1f}× {:>8.1f}× {:>11.1f}×".format(f"  / {name.split()[1]}", *ratios))
        usable, clicks, several = use(browser, Path(directory) / "attnscan.html", asked.layers // 2)
        browser.close()
    print(f"attnscan: usable after {usable:.0f} ms (bound 1000); ten clicks on heads were answered", end=" ")
    print(f"within {statistics.median(clicks):.0f} ms in the median, {max(clicks):.0f} at most (bound 80)")
    count = asked.layers // 2 * asked.heads
    print(f"{count} heads at once within {statistics.median(several):.0f} ms in the median (bound 250)")
    print("BertViz's pages need scripts from CDNs, which are refused here: what they paint is not the view.")


if __name__ == "__main__":
    main()
