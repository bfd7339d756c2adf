"""Pages of an encoder-decoder's kinds of attention and of a treebank's sentences in a real browser."""

import re
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import numpy as np
import pytest
import torch
from chromium import choose_kind, settle, violations
from command_line import run
from numpy.typing import NDArray
from playwright.sync_api import Page, expect
from toy import save_toy_bert
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from treebanks import planted_file

import attnscan

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

TRANSLATOR = Path(__file__).parents[1] / "data" / "translator"
SOURCE, TARGET, LINKS = "bado fela gumi hora jiku", "UKIJ AROH IMUG ALEF", "4-0 3-1 2-2 1-3"
KINDS = {"encoder": "", "decoder": "d", "cross": "c"}


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("links") / "links.txt"
    path.write_text(f"{LINKS}\n")
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, links: Path) -> Path:
    """The page that the command line makes of all kinds."""
    path = tmp_path_factory.mktemp("kinds") / "page.html"
    command = ["report", SOURCE, TARGET, "--model", str(TRANSLATOR), "--attention", "all", "--predictive", "off"]
    run(*command, "--alignments", str(links), "-o", str(path))
    return path


@pytest.fixture(scope="module")
def eager() -> dict[str, NDArray[np.float64]]:
    """Each kind's weights as the model itself tells them. Shape: [layer, head, query, key] each."""
    tokenizer = AutoTokenizer.from_pretrained(TRANSLATOR)
    model = AutoModelForSeq2SeqLM.from_pretrained(TRANSLATOR, attn_implementation="eager").eval()
    source, labels = (tokenizer(text, return_tensors="pt")["input_ids"] for text in (SOURCE, TARGET))
    with torch.no_grad():
        shown = model(input_ids=source, labels=labels, output_attentions=True)
    return {kind: torch.cat(shown[f"{kind}_attentions"]).double().numpy() for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_heads_numbers_and_table(
    opened: chromium.Open, path: Path, links: Path, kind: str, eager: dict[str, NDArray[np.float64]]
) -> None:
    layers, heads, *_ = eager[kind].shape
    page = opened(path, f"#input={kind}")
    names = [f"{KINDS[kind]}{layer}-{head}" for layer in range(layers) for head in range(heads)]
    assert page.locator("#thumbnails .caption b").all_text_contents() == names
    page = opened(path, f"#view=head&heads={names[heads + 1]}&by=weight&special=in")
    expect(page.locator(f"#input [value={kind}]")).to_have_attribute("aria-checked", "true")
    queries, keys = (page.locator(f"#{side} button:visible") for side in ("queries", "keys"))
    for one, others, weights in ((queries, keys, eager[kind][1, 1]), (keys, queries, eager[kind][1, 1].T)):
        assert one.count() == len(weights)
        for place, expected in enumerate(weights):
            one.nth(place).hover()
            found = [float(text) for text in others.locator(".value").all_text_contents()]
            np.testing.assert_allclose(found, expected, atol=0.0006)
    page = opened(path, f"#view=table&by=weight&special=in&input={kind}")
    target, more = ((), {}) if kind == "encoder" else ((TARGET,), {"alignments": links} if kind == "cross" else {})
    frame = attnscan.classify(
        SOURCE, *target, model=str(TRANSLATOR), predictive="off", attention=kind, **more
    ).to_frame()
    with page.expect_download() as saved:
        page.locator("#save").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0].split(",") == list(frame.columns) and len(lines) == 1 + len(frame)
    assert page.locator("#scores tbody th").all_text_contents() == names
    columns = page.locator("#scores thead th").all_text_contents()
    assert ("same-place" in columns) == (kind == "cross") and ("next-word" in columns) == (kind != "cross")


def test_the_switch_leads_there_and_the_browser_back(opened: chromium.Open, path: Path) -> None:
    page = opened(path, "#view=head&heads=1-2&token=q1&by=weight&special=in")
    choose_kind(page, "cross")
    expect(page.locator("#size")).to_have_text("6 source and 5 target tokens")
    expect(page.locator("#by [value=weight]")).to_have_attribute("aria-checked", "true")
    page.locator("#picker [value='c1-3']").click()
    choose_kind(page, "decoder")
    page.go_back()
    expect(page.locator("#heads")).to_have_value("c1-3")
    settle(page)


def test_outlines_stand_at_the_gold_links(opened: chromium.Open, path: Path) -> None:
    """The picture of outlines in a matrix has its colour around the linked cells and nowhere else."""
    page = opened(path, "#view=head&heads=c1-1&by=weight&special=in")
    colored = page.evaluate(
        """async () => {
            const figure = document.querySelector('#matrices figure');
            const cell = figure.querySelector('canvas').clientWidth / 6;
            const picture = new Image();
            picture.src = figure.style.getPropertyValue('--gold').slice(4, -1).replaceAll('"', '');
            await picture.decode();
            const { width, height } = picture, settings = { willReadFrequently: true };
            const copy = new OffscreenCanvas(width, height).getContext('2d', settings);
            copy.drawImage(picture, 0, 0);
            const scale = picture.width / (6 * cell + 4), at = (place) => Math.round(scale * place);
            const lit = (x, y) => {
                const data = copy.getImageData(at(x) - 1, at(y) - 1, 3, 3).data;
                return data.some((value, i) => i % 4 === 0 && data[i + 3] > 200 && value > data[i + 2] + 60);
            };
            const sides = [[0, 0.5], [1, 0.5], [0.5, 0], [0.5, 1]];
            return [...Array(5).keys()].map((row) => [...Array(6).keys()].map((column) =>
                sides.every(([x, y]) => lit(2 + (column + x) * cell, 2 + (row + y) * cell))));
        }"""
    )
    linked = {(int(target), int(source)) for source, target in (link.split("-") for link in LINKS.split())}
    assert {(row, column) for row in range(5) for column in range(6) if colored[row][column]} == linked
    choose_kind(page, "decoder")
    assert page.evaluate("document.querySelector('#matrices figure').style.getPropertyValue('--gold')") == "none"


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_axe_core_finds_nothing(opened: chromium.Open, path: Path, width: int, theme: str) -> None:
    page = opened(path, f"#theme={theme}", width)
    for kind in KINDS:
        choose_kind(page, kind)
        for view in ("model", "head", "table"):
            page.locator(f"#tab-{view}").click()
            settle(page)
            assert violations(page) == [], (kind, view)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


FOLLOWED = re.compile("followed")


@pytest.fixture(scope="module")
def page_of_trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trees")
    plan = {(0, 0): "articles to nouns", (0, 1): "previous-word"}
    model = str(save_toy_bert(directory / "m", 2, 3, plan, carries=True))
    path: Path = directory / "page.html"
    trees = planted_file(directory)
    attnscan.report(treebank=trees, sentences="30,288,1", model=model, predictive="off", output=path)
    return path


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["desktop", "phone"])
def shown(opened: chromium.Open, request: pytest.FixtureRequest, page_of_trees: Path) -> Page:
    """The page at its first sentence and the head of articles."""
    width, scheme = request.param
    page = opened(page_of_trees, "#view=head&by=weight&heads=0-0", width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    return page


def test_arcs_that_heads_follow_stand_out_in_every_sentence(shown: Page) -> None:
    arcs, words, hint = shown.locator(".labels button"), shown.locator(".words bdi"), shown.locator("#tree .hint")
    expect(words).to_have_text(["the", "straw", "straw", "cat", "ran", "ran", "."])
    expect(arcs).to_have_text(["det", "amod", "amod", "nsubj", "conj", "punct"])
    expect(arcs.nth(0)).to_have_class(FOLLOWED)  # what else 0-0 attends to, it does evenly
    expect(hint).to_contain_text("By attention weight, head 0-0 follows")
    expect(hint).to_contain_text("of 6 arcs from a word to its head")
    expect(hint).to_contain_text(
        "Over 288 sentences, by attention weight, among words: determiner → its noun; det dep → head right for 1.00"
    )
    shown.locator("#heads").fill("0-1")  # the word before
    shown.keyboard.press("Enter")
    expect(hint).to_contain_text("head 0-1 follows")
    for place in (2, 3, 4):
        expect(arcs.nth(place)).to_have_class(FOLLOWED)
    for place in (1, 5):
        expect(arcs.nth(place)).not_to_have_class(FOLLOWED)
    shown.locator("#input").select_option("1")
    expect(words).to_have_text(["the", "cat", "sat", "."])
    expect(arcs).to_have_text(["det", "nsubj", "punct"])
    expect(shown.locator("#queries button:visible")).to_have_count(4)
    assert "input=1" in shown.url


def test_arcs_are_told_by_pointer_and_keyboard(shown: Page) -> None:
    arcs, hint = shown.locator(".labels button"), shown.locator("#tree .hint")
    article = "det: the → cat 1.00, its most attended word; cat → the 0.14"
    expect(arcs.nth(0)).to_have_attribute("aria-label", re.compile(article))
    arcs.nth(0).focus()
    expect(hint).to_contain_text(article)
    shown.keyboard.press("ArrowRight")
    expect(hint).to_contain_text("amod: straw → cat 0.14")
    shown.keyboard.press("Enter")  # holds its word as the query
    expect(shown.locator("#queries [aria-selected='true'] bdi")).to_have_text("straw")
    arcs.nth(4).hover()
    expect(hint).to_contain_text("conj: ran → ran 0.14")
