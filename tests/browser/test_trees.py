"""The page of a treebank's sentences in a real browser: arcs that heads follow, other sentences, the keyboard."""

from __future__ import annotations

import re
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import pytest
from playwright.sync_api import Page, expect
from toy import save_toy_bert
from treebanks import planted_file

import attnscan

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

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
