"""The page of an encoder-decoder's kinds of attention in a real browser: the switch, rectangles, gold links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import numpy as np
import pytest
import torch
from axe import violations
from command_line import run
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, expect
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import attnscan

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

TRANSLATOR = Path(__file__).parents[2] / "data" / "translator"
SOURCE, TARGET, LINKS = "bado fela gumi hora jiku", "UKIJ AROH IMUG ALEF", "4-0 3-1 2-2 1-3"
OPTIONS = {"model": str(TRANSLATOR), "predictive": "off"}
KINDS = {"encoder": "", "decoder": "d", "cross": "c"}
SETTLED = "html[data-settled='yes']"
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.running() as browser:
        yield browser


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("links") / "links.txt"
    path.write_text(f"{LINKS}\n")
    return path


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, links: Path) -> str:
    """The page that the command line makes of all kinds."""
    path = tmp_path_factory.mktemp("kinds") / "page.html"
    command = ["report", SOURCE, TARGET, "--model", str(TRANSLATOR), "--attention", "all", "--predictive", "off"]
    run(*command, "--alignments", str(links), "-o", str(path))
    return path.as_uri()


@pytest.fixture(scope="module")
def errors() -> list[str]:
    return []


@pytest.fixture(scope="module")
def tab(browser: Browser, errors: list[str]) -> Page:
    """A page that all tests share."""
    tab = browser.new_page()
    tab.set_default_timeout(60_000)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text))
    return tab


@pytest.fixture
def opened(tab: Page, address: str, errors: list[str]) -> Iterator[Open]:
    """Opens the page at a fragment; at the end, no script may have failed, nor the page be wider than its window."""

    def open_page(fragment: str = "", width: int = 1280, at: str = address) -> Page:
        chromium.load_anew(tab, at + fragment, {"width": width, "height": 900})
        settle(tab)
        return tab

    yield open_page
    assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth")
    told, errors[:] = errors[:], []
    assert told == []


def settle(page: Page) -> None:
    page.locator(SETTLED).wait_for(state="attached")


def choose(page: Page, kind: str) -> None:
    page.locator(f"#input [value={kind}]").click()
    expect(page.locator(f"#input [value={kind}]")).to_have_attribute("aria-checked", "true")
    settle(page)


@pytest.fixture(scope="module")
def eager() -> dict[str, NDArray[np.float64]]:
    """Each kind's weights as the model itself tells them. Shape: [layer, head, query, key] each."""
    tokenizer = AutoTokenizer.from_pretrained(TRANSLATOR)
    model = AutoModelForSeq2SeqLM.from_pretrained(TRANSLATOR, attn_implementation="eager").eval()
    source, labels = (tokenizer(text, return_tensors="pt")["input_ids"] for text in (SOURCE, TARGET))
    with torch.no_grad():
        shown = model(input_ids=source, labels=labels, output_attentions=True)
    return {kind: torch.cat(shown[f"{kind}_attentions"]).double().numpy() for kind in KINDS}


def captions(page: Page) -> list[str]:
    return page.locator("#thumbnails .caption b").all_text_contents()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_opened_first_by_its_address(opened: Open, kind: str, eager: dict[str, NDArray]) -> None:
    layers, heads = eager[kind].shape[:2]
    page = opened(f"#input={kind}")
    names = [f"{KINDS[kind]}{layer}-{head}" for layer in range(layers) for head in range(heads)]
    assert captions(page) == names
    by_name = opened(f"#view=head&heads={names[5]}")
    expect(by_name.locator(f"#input [value={kind}]")).to_have_attribute("aria-checked", "true")
    expect(by_name.locator("#facts h2")).to_contain_text(f"Head {names[5]}")


def test_the_switch_leads_there_and_the_browser_back(opened: Open) -> None:
    page = opened("#view=head&heads=1-2&token=q1&by=weight&special=in")
    choose(page, "cross")
    expect(page.locator("#size")).to_have_text("6 source and 5 target tokens")
    expect(page.locator("#by [value=weight]")).to_have_attribute("aria-checked", "true")
    page.locator("#picker [value='c1-3']").click()
    choose(page, "decoder")
    page.go_back()
    expect(page.locator("#heads")).to_have_value("c1-3")
    settle(page)


@pytest.mark.parametrize("kind", KINDS)
def test_a_words_numbers_are_those_of_eager_attention(opened: Open, kind: str, eager: dict[str, NDArray]) -> None:
    page = opened(f"#view=head&heads={KINDS[kind]}1-1&by=weight&special=in&input={kind}")
    queries = page.locator("#queries button:visible")
    assert queries.count() == eager[kind].shape[2]
    for place in range(queries.count()):
        queries.nth(place).hover()
        told = [float(text) for text in page.locator("#keys button:visible .value").all_text_contents()]
        np.testing.assert_allclose(told, eager[kind][1, 1, place], atol=0.0006)
    for place in range(page.locator("#keys button:visible").count()):
        page.locator("#keys button:visible").nth(place).hover()
        told = [float(text) for text in page.locator("#queries button:visible .value").all_text_contents()]
        np.testing.assert_allclose(told, eager[kind][1, 1, :, place], atol=0.0006)


def test_outlines_stand_at_the_gold_links(opened: Open) -> None:
    """The picture of outlines in a matrix has its colour around the linked cells and nowhere else."""
    page = opened("#view=head&heads=c1-1&by=weight&special=in")
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
    choose(page, "decoder")
    assert page.evaluate("document.querySelector('#matrices figure').style.getPropertyValue('--gold')") == "none"


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_rows_are_those_of_classify(opened: Open, kind: str, links: Path) -> None:
    page = opened(f"#view=table&by=weight&special=in&input={kind}")
    more = {"alignments": links, "attention": kind} if kind == "cross" else {"attention": kind}
    target = () if kind == "encoder" else (TARGET,)
    frame = attnscan.classify(SOURCE, *target, **OPTIONS, **more).to_frame()
    with page.expect_download() as saved:
        page.locator("#save").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0].split(",") == list(frame.columns) and len(lines) == 1 + len(frame)
    heads = page.locator("#scores tbody th").all_text_contents()
    assert heads == [f"{KINDS[kind]}{layer}-{head}" for layer, head in zip(frame["layer"], frame["head"], strict=True)]
    columns = page.locator("#scores thead th").all_text_contents()
    assert ("same-place" in columns) == (kind == "cross") and ("next-word" in columns) == (kind != "cross")


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (768, "light"), (1280, "dark")])
def test_axe_core_finds_nothing(opened: Open, width: int, theme: str) -> None:
    page = opened(f"#theme={theme}", width)
    for kind in KINDS:
        choose(page, kind)
        for view in ("model", "head", "table"):
            page.locator(f"#tab-{view}").click()
            settle(page)
            assert violations(page) == [], (kind, view)
