"""Feature by feature: BertViz's three views, and where attnscan's page has the same, tried in a browser.

    pip install --no-deps bertviz six boto3 botocore s3transfer jmespath python-dateutil sacremoses sentencepiece
    npm pack d3@5 jquery@3 requirejs          # and unpack each: BertViz's pages load these from a CDN
    python benchmarks/beside_bertviz.py --scripts NPM_DIRECTORY --pictures DIRECTORY

One input, the article's, by the bundled model. BertViz gets the same weights, and for its neuron view, which takes
models of its own copy of transformers alone, the bundled checkpoint read into that copy. Every feature is tried on
BertViz's page where that can be done by hand or by mouse, and on ours. Prints a table in Markdown, and ends with 1
if ours lacks one. Kinds of attention are the toy translator's, of the tests. The features were found in BertViz 1.4.1's
Python and JavaScript, file by file.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bertviz import head_view, model_view
from bertviz.neuron_view import show as neuron_view
from bertviz.transformers_neuron_view import BertConfig, BertModel, BertTokenizer
from PIL import Image
from playwright.sync_api import Browser, Page, Route, sync_playwright
from safetensors.torch import load_file

import attnscan
from attnscan.model.sources import bundled
from attnscan.results.grid import Head
from attnscan.views.page.frame import PageOptions
from attnscan.views.page.kinds import kinds_page
from attnscan.views.page.page import page as page_of

A, B = "I went to the store.", "At the store, I bought fresh strawberries."
LIBRARIES = {"d3.min": "d3.min.js", "jquery.min": "jquery.min.js", "require.min": "require.js"}
Try = Callable[[Page], bool]


@dataclass(frozen=True)
class Feature:
    """What BertViz's users have, and where it is on our page."""

    view: str
    """BertViz's: head, model or neuron; with `, kinds`, on the pages of an encoder-decoder."""
    name: str
    where: str
    """Where ours has it."""
    fragment: str = ""
    """What ours is opened at."""
    ours: Try | None = None
    """Whether it works there; none: it is not there."""
    theirs: Try | None = None
    """Whether it works on BertViz's page; none: it is an argument, or seen in its source alone."""


def settled(page: Page) -> None:
    """Wait until our page has painted what was asked for."""
    page.wait_for_function("document.documentElement.dataset.settled === 'yes'")


def count(selector: str, number: int) -> Try:
    """Whether that many elements are there to be seen."""
    return lambda page: page.locator(f"{selector}:visible").count() == number


def after(act: Callable[[Page], object], then: Try) -> Try:
    """Whether something holds once something was done."""

    def tried(page: Page) -> bool:
        act(page)
        page.wait_for_timeout(150)
        if page.locator("#data").count():
            settled(page)
        return then(page)

    return tried


def js(expression: str) -> Try:
    """Whether an expression holds on the page."""
    return lambda page: bool(page.evaluate(expression))


def hovered(selector: str, nth: int) -> Callable[[Page], object]:
    """Put the pointer on an element."""
    return lambda page: page.locator(selector).nth(nth).hover(force=True)


def clicked(selector: str, nth: int = 0, times: int = 1) -> Callable[[Page], object]:
    """Click an element."""
    return lambda page: page.locator(selector).nth(nth).click(click_count=times, force=True)


def chosen(selector: str, value: str) -> Callable[[Page], object]:
    """Choose an option."""
    return lambda page: page.locator(selector).select_option(value)


def across(left: str, right: str) -> Try:
    """Whether words of the target stand on the left, and those of the source on the right."""
    sides = ((left, TARGET), (right, SOURCE))
    return lambda page: all(set(text.split()) <= set(page.locator(at).all_text_contents()) for at, text in sides)


LINES = "[...document.querySelectorAll('#attention line')]"
SEEN = f"{LINES}.filter((l) => getComputedStyle(l).visibility === 'visible').length"
BOXES = "((id) => document.querySelectorAll(`#${id} .value`)[3].style.getPropertyValue('--boxes') !== 'none')"
HEADS = "[...document.querySelectorAll('.attn_background')]"
TILE = "#vis > svg > g:last-child rect"
TOLD = "Number(/^\\d+/.exec(document.getElementById('lines').ariaLabel)[0])"
LAYER = "#view=head&heads=1-0,1-1,1-2,1-3,1-4,1-5,1-6,1-7,1-8,1-9,1-10,1-11&several=yes"
KINDS = "encoder, decoder and cross attention"
SOURCE, TARGET = "bado fela gumi hora", "AROH IMUG ALEF ODAB"
TRANSLATOR = Path(__file__).parents[1] / "tests" / "data" / "translator"

FEATURES = (
    Feature(
        "head",
        "choose a layer: all of its heads",
        "number of the layer, beside the small map",
        "#view=head",
        after(clicked("#picker .layer", 1), count("#switches button", 12)),
        after(chosen("#layer", "1"), js("document.querySelector('#layer').value === '1'")),
    ),
    Feature(
        "head",
        "lines, the darker the more weight, a colour a head",
        "head view, colours with several heads",
        LAYER,
        js(
            f"{TOLD} > 100 && new Set([...document.querySelectorAll('#switches button')]"
            ".map((b) => b.style.getPropertyValue('--color'))).size === 12"
        ),
        js(f"new Set({LINES}.map((l) => l.getAttribute('stroke'))).size >= 10"),
    ),
    Feature(
        "head",
        "coloured squares above: a click switches a head off and on",
        "squares with names above the lines",
        LAYER,
        after(clicked("#switches button", 3), count("#switches button[aria-pressed='false']", 1)),
        after(clicked(TILE, 3), js(f"{LINES}.filter((l) => l.getAttribute('stroke-opacity') === '0').length >= 361")),
    ),
    Feature(
        "head",
        "double click: this head alone, and all again",
        "the same; Shift and click or Enter, too",
        LAYER,
        after(clicked("#switches button", 3, 2), count("#switches button[aria-pressed='true']", 1)),
        after(
            lambda page: page.locator(TILE).nth(3).dblclick(),
            js(f"{LINES}.filter((l) => +l.getAttribute('stroke-opacity') > 0).length <= 361"),
        ),
    ),
    Feature(
        "head",
        "pointing at a token on the left: its lines alone, and a box a head on every token of the right",
        "the same, also by keyboard and touch",
        LAYER,
        after(
            hovered("#queries button", 4),
            js(f"{TOLD} <= 12 * 19 && {BOXES}('keys')"),
        ),
        after(hovered("#left text", 4), js(f"{SEEN} <= 12 * 19")),
    ),
    Feature(
        "head",
        "pointing at a token on the right: who looks at it",
        "the same",
        LAYER,
        after(
            hovered("#keys button", 4),
            js(f"{TOLD} <= 12 * 19 && {BOXES}('queries')"),
        ),
        after(hovered("#right text", 4), js(f"{SEEN} <= 12 * 19")),
    ),
    Feature(
        "head",
        "attention within or between sentences",
        "Attention, above all views",
        "#view=head&by=weight&special=in",
        after(chosen("#pairs", "ab"), count("#queries button", 8)),
        after(chosen("#filter", "3"), js("document.querySelectorAll('#left text').length === 8")),
    ),
    Feature(
        "head",
        "layer= and heads=: what is chosen at first",
        "the address: #view=head&heads=2-0,2-3",
        "#view=head&heads=2-0,2-3&several=yes",
        count("#switches button", 2),
        None,
    ),
    Feature(
        "head",
        "include_layers=: carry some layers alone",
        "report --heads layer:1,layer:2",
        "",
        lambda _: ours_with_heads(),
        None,
    ),
    Feature(
        "head",
        "prettify_tokens: pieces without Ġ, ▁ and </w>",
        "tokens are decoded; those of saved weights stay as they are",
        "",
        js("![...document.querySelectorAll('#queries bdi')].some((b) => /[Ġ▁]|<\\/w>/.test(b.textContent))"),
        None,
    ),
    Feature(
        "head, kinds",
        KINDS,
        "Attention, above all views; a head's letter says its kind; gold links outlined with --alignments",
        "#view=head",
        after(clicked("#attention [value='cross']"), across("#queries bdi", "#keys bdi")),
        after(
            lambda page: page.locator("#filter").select_option(label="Cross"),
            across("#left text", "#right text"),
        ),
    ),
    Feature(
        "head",
        "html_action='return': the HTML as a string",
        "report -o FILE; attnscan's result in a notebook",
        "",
        js("document.title !== ''"),
        js("true"),
    ),
    Feature(
        "model",
        "every head as a thumbnail of lines, layers downwards, heads across, numbered",
        "model view; squares in place of lines",
        "",
        count("#thumbnails canvas", 72),
        js("document.querySelectorAll('.attn_background').length === 72"),
    ),
    Feature(
        "model",
        "a colour a layer",
        "colours are labels; layers are rows, numbered",
        "",
        js("document.querySelectorAll('#thumbnails .axis').length === 1 + 12 + 6"),
        js(f"new Set({HEADS}.map((r) => r.getAttribute('stroke'))).size === 6"),
    ),
    Feature(
        "model",
        "a click opens a head with tokens and lines, another one closes it",
        "a click opens it; Back or Model returns",
        "",
        after(
            clicked("#thumbnails button", 3),
            lambda page: "heads=0-3" in page.url and page.go_back() is None and "view=head" not in page.url,
        ),
        after(clicked("#vis > svg > g rect:last-child", 20), js("document.querySelectorAll('.detail').length > 3")),
    ),
    Feature(
        "model",
        "in the open head, pointing at a token: its lines alone",
        "head view, both sides",
        "#view=head&heads=1-8",
        after(hovered("#queries button", 4), js(f"{TOLD} <= 19")),
        None,
    ),
    Feature(
        "model",
        "attention within or between sentences",
        "Attention, above all views",
        "#by=weight&special=in",
        after(
            chosen("#pairs", "ab"),
            js("(({width, height}) => width === 11 && height === 8)(document.querySelector('#thumbnails canvas'))"),
        ),
        after(chosen("#filter", "3"), js("document.querySelectorAll('.attn_background').length === 72")),
    ),
    Feature(
        "model",
        "display_mode: light and dark",
        "Dark and Light, above; at first as the system is",
        "",
        after(clicked("#theme"), js("document.documentElement.dataset.theme === 'dark'")),
        None,
    ),
    Feature(
        "model",
        "include_layers=, include_heads=",
        "report --heads; a legend's click dims all but one pattern",
        "",
        after(clicked("#legend button", 1), js("document.querySelectorAll('#thumbnails .dimmed').length > 0")),
        None,
    ),
    Feature(
        "model, kinds",
        KINDS,
        "Attention, above all views",
        "#by=weight&special=in",
        after(
            clicked("#attention [value='cross']"),
            js("document.querySelector('#thumbnails .caption b').textContent === 'c0-0'"),
        ),
        after(
            lambda page: page.locator("#filter").select_option(label="Cross"),
            js("document.querySelectorAll('.attn_background').length === 8"),
        ),
    ),
    Feature(
        "neuron",
        "choose layer and head",
        "the small map beside; arrow keys",
        "#view=neuron",
        after(clicked("#picker button[value='3-4']"), js("location.hash.includes('3-4')")),
        after(chosen("#att_head", "4"), js("document.querySelector('#att_head').value === '4'")),
    ),
    Feature(
        "neuron",
        "attention within or between sentences",
        "Attention, above all views",
        "#view=neuron",
        after(chosen("#pairs", "ab"), count("#key-names button", 11)),
        after(chosen("#filter", "ab"), js("document.querySelectorAll('#expanded #rightText text').length === 11")),
    ),
    Feature(
        "neuron",
        "lines first; a plus opens the neurons, a minus closes them",
        "tabs Head and Neuron; a held token stays",
        "#view=head&token=q4",
        after(clicked("#tab-neuron"), lambda page: "the (4)" in page.locator("#story").inner_text()),
        after(
            opened_neurons := clicked("#collapsed #leftText rect:last-child", 4),
            js("document.querySelector('#expanded').getAttribute('visibility') === 'visible'"),
        ),
    ),
    Feature(
        "neuron",
        "pointing at a token makes it the query",
        "the same; a click holds it",
        "#view=neuron",
        after(hovered("#asked button", 4), lambda page: "the (4)" in page.locator("#story").inner_text()),
        after(
            lambda page: (opened_neurons(page), hovered("#expanded #leftText text", 5)(page)),
            js("document.querySelector('#dotproducts').style.opacity === '1'"),
        ),
    ),
    Feature(
        "neuron",
        "every key's neurons, two colours for above and below zero",
        "strip k",
        "#view=neuron",
        js("document.getElementById('key-strip').offsetHeight === 19 * 20"),
        js("document.querySelectorAll('#keys .vector').length === 19"),
    ),
    Feature(
        "neuron",
        "every token's query neurons at once",
        "Neurons: q",
        "#view=neuron",
        after(
            clicked("#strip button[value='q']"), js("document.getElementById('left-name').textContent === 'q of each'")
        ),
        js("document.querySelectorAll('#queries .vector').length === 19"),
    ),
    Feature(
        "neuron",
        "products neuron by neuron (q × k)",
        "strip q × k, each number read out",
        "#view=neuron",
        after(
            lambda page: page.locator("#product-strip").hover(position={"x": 30, "y": 30}),
            lambda page: "Neuron" in page.locator("#neuron-reading").inner_text(),
        ),
        js("document.querySelectorAll('#product .vector').length === 19"),
    ),
    Feature(
        "neuron",
        "q·k and softmax",
        "both as bars and as numbers; BertViz has colours alone",
        "#view=neuron",
        lambda page: page.locator("#logits div").count() == page.locator("#softmax div").count() == 19,
        js("document.querySelectorAll('.dotproduct').length === 19"),
    ),
    Feature(
        "neuron",
        "lines from the query to the keys that it looks at",
        "bars of weight; Keys by weight puts them on top",
        "#view=neuron",
        after(chosen("#key-order", "weight"), js("location.hash.includes('keys=weight')")),
        js("document.querySelectorAll('.qk-line-group').length === 19"),
    ),
    Feature(
        "neuron",
        "keys that a decoder's query does not see are blank",
        "they say: not seen (held by a browser test)",
    ),
    Feature(
        "neuron",
        "layer= and head=, display_mode=",
        "the address; Dark and Light",
        "#view=neuron&heads=2-3&theme=dark",
        js("document.querySelector('#story b').textContent + document.documentElement.dataset.theme === '2-3dark'"),
        None,
    ),
)

PAGES: dict[str, Path] = {}


def ours_with_heads() -> bool:
    """Whether a page made with `heads=` carries these alone."""
    return set(re.findall(r'id="weights-(\d+-\d+)"', PAGES["two heads"].read_text())) == {"1-0", "2-3"}


def copied_model(directory: Path) -> tuple[BertModel, BertTokenizer]:
    """The bundled checkpoint in BertViz's own copy of transformers."""
    known = BertConfig().__dict__.keys()
    config = json.loads((directory / "config.json").read_text())
    made = BertConfig(**{name: value for name, value in config.items() if name in known and name != "vocab_size"})
    made.vocab_size, made.output_attentions = config["vocab_size"], True
    model = BertModel(made)
    missing, unexpected = model.load_state_dict(load_file(directory / "model.safetensors"), strict=False)
    assert not missing and all(name.endswith("position_ids") for name in unexpected), (missing, unexpected)
    return model, BertTokenizer(str(directory / "vocab.txt"), do_lower_case=True)


def write_pages(directory: Path) -> None:
    """Ours, and BertViz's three, of the same input."""
    result = attnscan.classify(A, B, model="bundled", predictive="off")
    attention = result.kept_attention()
    tokens, second = list(attention.tokens), attention.segments.index(1)
    layers = [layer[None] for layer in torch.from_numpy(attention.weights)]
    model, tokenizer = copied_model(Path(bundled().location))
    pages = {
        "attnscan": page_of(result).html,
        "two heads": page_of(result, PageOptions(heads=(Head(1, 0), Head(2, 3)))).html,
        "head": head_view(layers, tokens, second, html_action="return").data,
        "model": model_view(layers, tokens, second, display_mode="light", html_action="return").data,
        "neuron": neuron_view(model, "bert", tokenizer, A, B, display_mode="light", html_action="return").data,
    }
    kinds = attnscan.classify(SOURCE, TARGET, model=TRANSLATOR, predictive="off", attention="all")
    given: dict[str, Any] = {}
    for kind, of_kind in kinds.items():
        kept = of_kind.kept_attention()
        weights = np.ascontiguousarray(kept.weights[:, :, kept.source :, : kept.keys])
        given[f"{kind}_attention"] = [layer[None] for layer in torch.from_numpy(weights)]
    given |= {"encoder_tokens": [*SOURCE.split(), "</s>"], "decoder_tokens": ["<pad>", *TARGET.split()]}
    pages |= {
        "kinds": kinds_page(list(kinds.values()), PageOptions()).html,
        "head, kinds": head_view(**given, html_action="return").data,
        "model, kinds": model_view(**given, display_mode="light", html_action="return").data,
    }
    shown = json.loads(re.search(r"window.bertviz_params = (.*)", pages["neuron"])[1])["attention"]["all"]
    assert shown["left_text"] == tokens, "BertViz's tokenizer makes other tokens"
    apart = float(np.abs(np.array(shown["attn"]) - attention.weights).max())
    print(f"The neuron view's weights are off ours by {apart:.1e} at most: the same model.\n", file=sys.stderr)
    for name, html in pages.items():
        PAGES[name] = directory / f"{re.sub('[, ]+', '-', name)}.html"
        PAGES[name].write_text(html, encoding="utf-8")


def open_page(browser: Browser, name: str, fragment: str, scripts: Path) -> Page:
    """A page with the libraries that BertViz asks a CDN for, and nothing else from outside."""
    files = {name: next(scripts.rglob(file)) for name, file in LIBRARIES.items() if next(scripts.rglob(file), None)}

    def answer(route: Route) -> None:
        asked = next((file for part, file in files.items() if part in route.request.url), None)
        route.fulfill(path=asked, content_type="text/javascript") if asked else route.abort()

    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.route(lambda url: url.startswith("http"), answer)
    page.goto(PAGES[name].as_uri() + fragment)
    if name in ("attnscan", "kinds"):
        settled(page)
    else:
        page.locator("#vis svg").first.wait_for()
    return page


def tried(browser: Browser, name: str, fragment: str, scripts: Path, attempt: Try | None) -> str:
    """Yes, no, or a dash if there is nothing to try."""
    if attempt is None:
        return "–"
    page = open_page(browser, name, fragment, scripts)
    works = attempt(page)
    page.close()
    return "yes" if works else "no"


def take_pictures(browser: Browser, scripts: Path, directory: Path) -> None:
    """Both side by side, view by view, as a user finds them with a token pointed at."""
    acts: dict[str, tuple[str, Callable[[Page], object], Callable[[Page], object]]] = {
        "head": (LAYER + "&by=weight&special=in", hovered("#queries button", 4), hovered("#left text", 4)),
        "model": ("#by=weight&special=in", lambda _: None, lambda _: None),
        "neuron": (
            "#view=neuron&heads=1-8",
            hovered("#asked button", 4),
            lambda page: (
                chosen("#layer", "1")(page),
                chosen("#att_head", "8")(page),
                opened_neurons(page),
                hovered("#expanded #leftText text", 4)(page),
            ),
        ),
    }
    for view, (fragment, ours, theirs) in acts.items():
        for name, act in (("attnscan", ours), (view, theirs)):
            page = open_page(browser, name, fragment if name == "attnscan" else "", scripts)
            if name == "head":
                chosen("#layer", "1")(page)
            act(page)
            page.wait_for_timeout(400)
            whose = "attnscan" if name == "attnscan" else "bertviz"
            page.screenshot(path=directory / f"{view}-{whose}.png", full_page=view == "model")
            page.close()
    draw_together(directory)


def draw_together(directory: Path) -> None:
    """The six pictures as one, BertViz's on the left."""
    whole = Image.new("RGB", (1280, 1460), "white")
    top = 0
    for view, height in (("head", 450), ("model", 506), ("neuron", 450)):
        for place, whose in enumerate(("bertviz", "attnscan")):
            picture = Image.open(directory / f"{view}-{whose}.png").convert("RGB")
            whole.paste(picture.resize((632, 632 * picture.height // picture.width)), (place * 648, top))
        top += height + 18
    whole.quantize(64).save(directory / "beside-bertviz.png", optimize=True)


def main() -> None:
    """Print the table, write the pictures, and end with 1 if a feature that was built does not work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, required=True)
    asked = parser.parse_args()
    asked.pictures.mkdir(parents=True, exist_ok=True)
    write_pages(asked.pictures)
    lacking = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take_pictures(browser, asked.scripts, asked.pictures)
        print(f"BertViz {version('bertviz')}; each tried in Chromium {browser.version}.\n")
        print("| view | what BertViz's users have | works there | attnscan's page | works here |")
        print("| --- | --- | --- | --- | --- |")
        for each in FEATURES:
            there = tried(browser, each.view, "", asked.scripts, each.theirs)
            here = tried(
                browser, "kinds" if "kinds" in each.view else "attnscan", each.fragment, asked.scripts, each.ours
            )
            lacking += here == "no"
            print(f"| {each.view} | {each.name} | {there} | {each.where} | {here} |", flush=True)
        browser.close()
    sys.exit(bool(lacking))


if __name__ == "__main__":
    main()
