"""The page in a real browser: every view is opened, used and read back; nothing fails, fetches or runs by itself."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import numpy as np
import pytest
from axe import violations
from hostile.texts import NASTY
from one_run import classify, classify_and_keep
from pages import HOSTILE, made_up, without_neurons
from playwright.sync_api import Browser, FrameLocator, Locator, Page, Request, ViewportSize, expect

from attnscan import HeadScores
from attnscan.inputs.sentence import Pair
from attnscan.results.attention import Attention
from attnscan.results.files import render
from attnscan.results.intervals import half_width
from attnscan.results.scores import Labels
from attnscan.results.terms import By, Head, Special
from attnscan.scan.options import ScanOptions
from attnscan.text import plain
from attnscan.views.behaviour import statement, summary
from attnscan.views.notebook import heads_html
from attnscan.views.page.frame import PageOptions
from attnscan.views.page.page import page
from attnscan.views.palette import COLORS, letter, words

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

Open = Callable[..., Page]

PAIR = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
OPTIONS = ScanOptions(model="bundled", predictive="off")
SIZE: ViewportSize = {"width": 1280, "height": 900}
COPY = (
    "canvas => { const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');"
    " copy.drawImage(canvas, 0, 0); const { data } = copy.getImageData(0, 0, canvas.width, canvas.height); "
)
TEXT = "return Array.from(data, (value) => String.fromCharCode(value)).join(''); }"
PIXELS = COPY + TEXT
"""A canvas's values as a text's characters: as a list, they take the browser's protocol seconds."""
DIGEST = """canvases => {
    let [size, sum, lit] = [0, 0, 0];
    for (const canvas of canvases) {
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
        for (const value of data) { sum = (Math.imul(sum, 31) + value) | 0; lit += value > 0; }
        size += data.length;
    }
    return [size, sum, lit];
}"""
"""Of all pixels of some canvases, one after the other: how many values, their hash, and how many are not 0."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.running() as browser:
        yield browser


@pytest.fixture(scope="module")
def troubles() -> list[str]:
    return []


@pytest.fixture(scope="module")
def tab(browser: Browser, troubles: list[str]) -> Page:
    """A page that most tests share."""
    return watched(browser.new_page(), troubles)


def watched(page: Page, troubles: list[str]) -> Page:
    """A page, with what fails there, what is asked beside pages themselves, and dialogs told."""
    page.set_default_timeout(60_000)

    def note_request(request: Request) -> None:
        is_page = request.is_navigation_request() and request.url.startswith("file:")
        if not is_page and not request.url.startswith(("data:", "blob:", "about:srcdoc")):
            troubles.append(f"request of {request.url}")

    page.on("request", note_request)
    page.on("console", lambda message: troubles.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    return page


@pytest.fixture
def opened(browser: Browser, tab: Page, troubles: list[str]) -> Iterator[Open]:
    """Opens a page at a fragment; at the end, no page may have failed, asked for anything, or shown a dialog.

    With `settings`, it is a page of its own, which is left to the test.
    """
    contexts = []

    def open_page(path: Path, fragment: str = "", viewport: ViewportSize = SIZE, **settings: object) -> Page:
        if settings:
            contexts.append(browser.new_context(viewport=viewport, **settings))
            page = watched(contexts[-1].new_page(), troubles)
            page.goto(path.as_uri() + fragment)
        else:
            page = chromium.load_anew(tab, path.as_uri() + fragment, viewport)
        settle(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    told, troubles[:] = troubles[:], []
    assert not told


@pytest.fixture(scope="module")
def classified_anew() -> dict[str, HeadScores]:
    """The input as the command line classifies it with `--by` and `--special`, by itself."""
    asked = {name: replace(OPTIONS, by=by, special=special) for name, (by, special) in READINGS.items()}
    return {name: classify(PAIR, options) for name, options in asked.items()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a page, once for each name."""
    directory = tmp_path_factory.mktemp("pages")

    def save(name: str, result: HeadScores, attention: Attention, options: PageOptions | None = None) -> Path:
        path: Path = directory / f"{name}.html"
        if not path.exists():
            path.write_text(page(replace(result, attention=attention), options).html, encoding="utf-8")
        return path

    return save


@pytest.fixture
def article_page(saved: Callable[..., Path], article: tuple[HeadScores, Attention]) -> Path:
    return saved("article", *article)


def test_a_notebook_shows_the_same_views_and_saves_the_table(opened: Open, tmp_path: Path, article: tuple) -> None:
    result, attention = article
    path, kept = tmp_path / "cell.html", replace(result, attention=attention)
    path.write_text(f"<!doctype html><html data-settled='yes'><body>{heads_html(kept)}", encoding="utf-8")
    shown = opened(path)
    frame = shown.frame_locator("iframe")
    for view in ("Head", "Neuron", "Model"):
        frame.get_by_role("tab", name=view).click()
        expect(frame.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
        settle(frame)
    assert drawn(frame.locator("canvas").first) > 0
    frame.get_by_role("tab", name="Table").click()
    with shown.expect_download() as download:
        frame.get_by_role("button", name="Save CSV").click()
    assert Path(download.value.path()).read_bytes().count(b"\n") == 73


READINGS: dict[str, tuple[By, Special]] = {
    "weight": ("weight", "in"),
    "words": ("weight", "out"),
    "carried": ("carried", "in"),
    "carried-words": ("carried", "out"),
}
"""What the two switches say for each reading."""


def address_of(reading: str) -> str:
    """How an address says a reading."""
    return "by={}&special={}".format(*READINGS[reading])


def turn(shown: Page, reading: str) -> None:
    """Turn both switches to a reading."""
    for switch, value in zip(("by", "special"), READINGS[reading], strict=True):
        shown.click(f"#{switch} button[value='{value}']")


def labels_of(result: HeadScores, reading: str) -> Labels:
    """What heads do by a reading."""
    return result.with_reading(*READINGS[reading]).labels


def words_of(labels: Labels) -> list[str]:
    """What each head does, in words."""
    return [words(str(name)) for name in labels.among_words.flat]


def carried_by_hand(attention: Attention, layer: int, head: int, query: int) -> list[float]:
    """What a query is given from each key: weight times norm, as a share of its row."""
    assert attention.norms is not None
    weights, norms = attention.weights[layer, head, query].tolist(), attention.norms[layer, head].tolist()
    products = [weight * norm for weight, norm in zip(weights, norms, strict=True)]
    return [product / (sum(products) or 1) for product in products]


def numbers_of(attention: Attention, layer: int, head: int, reading: str) -> np.ndarray:
    """A head's numbers by a reading, from the unrounded ones: among words, each row's as shares of its words'."""
    found = attention.weights[layer, head].astype(float)
    if reading.startswith("carried"):
        found = np.array([carried_by_hand(attention, layer, head, query) for query in range(len(found))])
    if reading.endswith("words"):
        found = found * (np.array(attention.sentence) >= 0)
        found /= found.sum(-1, keepdims=True)
    return found


def told_of(attention: Attention, layer: int, head: int, query: int) -> str:
    """What the page says of a query by weight."""

    def named(index: int) -> str:
        return attention.tokens[index] + (f" {index}" if attention.tokens.count(attention.tokens[index]) > 1 else "")

    row = attention.weights[layer, head, query]
    first, second = (f"{named(key)} ({row[key]:.2f})" for key in np.argsort(-row, kind="stable")[:2].tolist())
    return f"{named(query)} looks most at {first}, then {second}."


def marks_of(labels: Labels) -> list[str]:
    """What stands for each head on the map."""
    heads = zip(labels.among_words.flat, labels.unsure.flat, strict=True)
    return [letter(str(name)) + "?" * bool(unsure) for name, unsure in heads]


def told_to_readers(shown: Page) -> list[str]:
    """What each head of the map does, as screen readers hear it, without numbers and doubts."""
    settle(shown)
    told = shown.locator("#thumbnails button").evaluate_all("all => all.map(button => button.ariaLabel)")
    return [re.sub(r", (not sure|rests on special tokens)", "", text).split(", ", 1)[1] for text in told]


def settle(page: Page | FrameLocator) -> None:
    """Wait until the page has painted what was last asked of it: each event takes the mark away before it returns."""
    page.locator("html[data-settled='yes']").wait_for(state="attached")  # no script: the policy forbids to evaluate one


def expect_address(page: Page, *parts: str, without: str | None = None) -> None:
    """Wait until the address, of which the browser tells after an event, has these parts in this order."""
    if parts:
        expect(page).to_have_url(re.compile(".*".join(map(re.escape, parts))))
    if without:
        expect(page).not_to_have_url(re.compile(re.escape(without)))


def go(shown: Page, fragment: str) -> None:
    """To another address of the same page, which is not loaded again; done when the page has heard of it."""
    heard = "new Promise((done) => window.addEventListener('hashchange', () => done(0), { once: true }))"
    shown.evaluate(f"(fragment) => {{ const heard = {heard}; location.hash = fragment; return heard; }}", fragment)
    settle(shown)


def pixels(canvas: Locator) -> list[int]:
    """A canvas's values: red, green, blue and alpha of each pixel."""
    return list(str(canvas.evaluate(PIXELS)).encode("latin-1"))


def drawn(canvas: Locator) -> int:
    """How many of a canvas's pixels are not blank."""
    settle(canvas.page)
    count: int = canvas.evaluate(
        COPY + "let count = 0; for (let i = 3; i < data.length; i += 4) count += data[i] > 0; return count; }"
    )
    return count


def told_by(switch: Locator) -> tuple[str, str]:
    """Which of a switch's choices is on, and which takes part in the tab order."""
    settle(switch.page)
    on, reached = (switch.locator(f"[role=radio][{state}]") for state in ("aria-checked='true'", "tabindex='0'"))
    return on.inner_text(), reached.inner_text()


def texts(locator: Locator) -> list[str]:
    settle(locator.page)
    return [text.strip() for text in locator.all_text_contents()]


class TestModelView:
    def test_every_head_is_there_in_its_colour_and_drawn(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        shown = opened(article_page)
        buttons = shown.locator("#thumbnails button")
        expect(buttons).to_have_count(72)
        labels = article[0].labels
        assert told_to_readers(shown) == words_of(labels)
        expect(shown.locator("#summary")).to_have_text(summary(article[0]))
        count = (labels.among_words == "previous-word").sum()
        expect(shown.locator("#legend button[value='previous-word'] .count")).to_have_text(str(count))
        marks = marks_of(labels)
        assert texts(shown.locator("#thumbnails .caption > span")) == marks and {"P", "e", "-"} <= set(marks)
        hint = shown.locator("#model-hint")
        expect(hint).to_contain_text("What each head does, by attention weight, among words, by letter and colour")
        expect(hint).to_contain_text(
            "?: the label changed in more than 5 % of bootstrap resamples of the words, or they are too few."
        )
        assert all(
            drawn(shown.locator(f"#thumbnails button[value='{name}'] canvas")) for name in ("0-2", "1-8", "5-11")
        )

    def test_squares_colours_and_counts_follow_the_reading(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        result, attention = article
        shown = opened(article_page)
        labels = {reading: labels_of(result, reading) for reading in READINGS}
        words = np.flatnonzero(np.array(attention.sentence) >= 0)
        assert not (labels["weight"].label == labels["carried"].label).all()
        for reading in ("carried", "words", "weight", "carried-words", "carried"):
            turn(shown, reading)
            settle(shown)
            by = labels[reading]
            assert told_to_readers(shown) == words_of(by)
            expect(shown.locator("#summary")).to_contain_text(summary(result.with_reading(*READINGS[reading])))
            resting = str((by.label == "delimiter").sum())
            expect(shown.locator("#legend button[value='delimiter'] .count")).to_have_text(resting)
            kept = words if reading.endswith("words") else np.arange(19)
            for head in (attention.grid[number] for number in (2, 21, 35, 71)):
                true = numbers_of(attention, *head.place, reading)[np.ix_(kept, kept)]
                values = pixels(shown.locator(f"#thumbnails button[value='{head.name}'] canvas"))
                alphas = np.array(values[3::4]).reshape(len(kept), len(kept))
                assert np.abs(alphas - 255 * np.sqrt(true)).max() <= 0.51
                color = COLORS.get(by.among_words[head.place], "#64748b")
                strongest = int(alphas.argmax())
                found = values[4 * strongest : 4 * strongest + 3]
                np.testing.assert_allclose(found, [int(color[i : i + 2], 16) for i in (1, 3, 5)], atol=4)

    def test_order_by_a_pattern_is_the_ranking(self, opened: Open, article_page: Path, article: tuple) -> None:
        shown = opened(article_page, "#by=weight&special=in")
        shown.select_option("#order", "next-word")
        by_weight = article[0].with_reading("weight", "in")
        order = by_weight.order("next-word")
        assert texts(shown.locator("#thumbnails b")) == [article[0].scores.grid[number].name for number in order]
        scores = np.sort(by_weight.table.score[..., 0].ravel())[::-1]
        captions = texts(shown.locator("#thumbnails .caption > span"))
        np.testing.assert_allclose([float(text) for text in captions], scores, atol=0.005 + 1e-9)
        go(shown, "#order=delimiter&by=carried&special=in")
        order = article[0].with_reading("carried", "in").order("delimiter")
        assert texts(shown.locator("#thumbnails b")) == [article[0].scores.grid[number].name for number in order]
        go(shown, "#order=delimiter&by=weight&special=out")  # of all attention too
        assert texts(shown.locator("#thumbnails b")) == [
            article[0].scores.grid[number].name for number in article[0].order("delimiter")
        ]

    def test_one_pattern_can_stand_out(self, opened: Open, article_page: Path, article: tuple) -> None:
        shown = opened(article_page)
        shown.click("#legend button[value='next-word']")
        expect(shown.locator("#thumbnails button:not(.dimmed)")).to_have_count(
            int((article[0].labels.among_words == "next-word").sum())
        )
        expect(shown.locator("#model-hint")).not_to_contain_text("No head does this")
        shown.click("#legend button[value='bag-of-words']")
        expect(shown.locator("#model-hint")).to_contain_text("No head does this: its own sentence evenly.")
        shown.click("#legend button[value='next-3']")
        habit = article[0].labels.among_words == "next-3"
        expect(shown.locator("#thumbnails button:not(.dimmed)")).to_have_count(int(habit.sum()))
        assert habit.any()
        expect_address(shown, "only=next-3")
        shown.click("#tab-table")
        expect(shown.locator("#only")).to_have_value("next-3")
        expect(shown.locator("#scores tbody tr")).to_have_count(int(habit.sum()))


class TestHeadView:
    def test_numbers_beside_tokens_are_the_weights(self, opened: Open, article_page: Path, article: tuple) -> None:
        attention = article[1]
        shown = opened(article_page, "#view=head&heads=1-8&by=weight&special=in")
        tokens = texts(shown.locator("#queries bdi"))
        assert tokens == list(attention.tokens)
        shown.click("#queries button[value='5']")
        values = [float(text) for text in texts(shown.locator("#keys .value"))]
        np.testing.assert_allclose(values, attention.weights[1, 8, 5], atol=0.0005 + 0.00005)
        expect(shown.locator("#reading")).to_have_text(told_of(attention, 1, 8, 5))
        shown.click("#keys button[value='0']")
        values = [float(text) for text in texts(shown.locator("#queries .value"))]
        np.testing.assert_allclose(values, attention.weights[1, 8, :, 0], atol=0.0005 + 0.00005)
        shown.keyboard.press("Escape")
        shown.mouse.move(640, 890)
        assert set(texts(shown.locator(".value"))) == {""}
        shown.focus("#queries button[value='4']")
        shown.keyboard.press("ArrowDown")
        expect(shown.locator("#reading[aria-live='polite']")).to_have_text(told_of(attention, 1, 8, 5))
        keys = shown.get_by_role("listbox", name="Tokens that are looked at: keys")  # for screen readers
        told = keys.get_by_role("option").evaluate_all("all => all.map(each => each.ariaLabel)")
        heard = [text.rpartition(", token ") for text in told]
        assert [(text.rpartition(" ")[0], int(i)) for text, _, i in heard] == [
            (of, i) for i, of in enumerate(attention.tokens)
        ]
        values = [float(text.rpartition(" ")[2]) for text, _, _ in heard]
        np.testing.assert_allclose(values, attention.weights[1, 8, 5], atol=0.0005 + 0.0001)

    def test_a_token_says_which_words_are_related_to_it(self, opened: Open, saved: Callable[..., Path]) -> None:
        options = ScanOptions(model="bundled", predictive="off")
        result, attention = classify_and_keep(Pair("The king saw a queen."), options)
        shown = opened(saved("related", result, attention), "#view=head&heads=0-0&by=weight&special=in")
        shown.click("#queries button[value='2']")
        expect(shown.locator("#reading")).to_have_text(told_of(attention, 0, 0, 2) + " Related: queen (5).")
        shown.click("#keys button[value='3']")
        expect(shown.locator("#reading")).to_contain_text("saw is looked at most by ")

    def test_pointing_at_a_line_tells_its_weight(self, opened: Open, article_page: Path, article: tuple) -> None:
        shown = opened(article_page, "#view=head&heads=0-2&from=0.5&by=weight&special=in")
        box = shown.locator("#lines").bounding_box()
        assert box is not None
        shown.mouse.move(box["x"] + 5, box["y"] + 12 + 24 * 9 - 0.35)  # where the line of the tenth token starts
        weight = article[1].weights[0, 2, 9, 8]
        expect(shown.locator("#reading")).to_have_text(f"the (9) → at (8) {weight:.3f} in head 0-2")

    def test_several_heads_show_a_box_each_in_a_colour_of_their_own(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        shown = opened(article_page, "#view=head&heads=1-8&by=weight&special=in")
        one = drawn(shown.locator("#lines"))
        shown.click("#picker button[value='0-2']", modifiers=["Shift"])
        expect(shown.locator("#facts h2")).to_have_count(2)
        expect(shown.locator("#heads")).to_have_value("1-8, 0-2")
        assert drawn(shown.locator("#lines")) > one
        shown.hover("#queries button[value='5']")
        boxes = shown.locator("#keys .value").evaluate_all(
            "all => all.map(each => [...each.children].map(box => Number(box.style.opacity)))"
        )
        np.testing.assert_allclose(np.array(boxes), article[1].weights[[1, 0], [8, 2], 5].T, atol=0.0005 + 0.00005)
        shades = shown.locator("#picker [aria-pressed='true']").evaluate_all(
            "all => all.map(each => each.style.getPropertyValue('--color'))"
        )
        assert len(set(shades)) == 2 and not set(shades) & set(COLORS.values())
        shown.fill("#heads", "2-9, 9-9")
        shown.press("#heads", "Enter")
        expect(shown.locator("#unknown-heads")).to_contain_text(
            "there is no head 9-9: this model has 6 layers of 12 heads"
        )
        expect(shown.locator("#facts h2")).to_have_count(2)
        shown.fill("#heads", "2-9")
        shown.press("#heads", "Enter")
        label = words(str(labels_of(article[0], "weight").among_words[2, 9]))
        unsure = "?" if labels_of(article[0], "weight").unsure[2, 9] else ""
        expect(shown.locator("#facts h2")).to_have_text([f"Head 2-9 {label}{unsure}"])
        expect(shown.locator("#unknown-heads")).to_be_hidden()

    def test_a_matrix_beside_the_lines_holds_the_same_numbers(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        shown = opened(article_page, viewport={"width": 1440, "height": 900})
        for reading in READINGS:
            go(shown, f"#view=head&heads=1-8&{address_of(reading)}")
            self.check_matrix(shown, article[1], reading)

    def check_matrix(self, shown: Page, attention: Attention, reading: str) -> None:
        stage, matrix = (shown.locator(name).bounding_box() for name in ("#stage", "#matrices canvas"))
        assert stage and matrix and stage["x"] + stage["width"] <= matrix["x"] and matrix["y"] < stage["y"] + 150
        words = reading.endswith("words")
        kept = np.flatnonzero((np.array(attention.sentence) >= 0) | (not words))
        true = numbers_of(attention, 1, 8, reading)[np.ix_(kept, kept)]
        alphas = np.array(pixels(shown.locator("#matrices canvas"))[3::4]).reshape(true.shape)
        assert np.abs(alphas - 255 * np.sqrt(true)).max() <= 255 * 0.0001**0.5
        assert np.abs(alphas[true > 0.01] - 255 * np.sqrt(true[true > 0.01])).max() <= 0.7
        shown.focus("#matrices canvas")
        for key in ("Shift+Tab", "Tab", "ArrowDown", "ArrowDown", "ArrowRight"):
            shown.keyboard.press(key)
        query, key = kept[2], kept[1]
        told = str(shown.locator("#reading").text_content())
        start = f"{attention.tokens[query]} ({query}) → {attention.tokens[key]} ({key}) "
        assert told.startswith(start) and told.endswith(" in head 1-8")
        assert float(told.removeprefix(start).split()[0]) == pytest.approx(true[2, 1], abs=0.0006)

    def test_long_lists_are_as_high_as_their_rows_and_the_strongest_lines_are_drawn(
        self, opened: Open, saved: Callable[..., Path]
    ) -> None:
        page = opened(
            saved("longer", *made_up(1, 2, 300, neurons=4)), "#view=head&heads=0-0&by=weight&special=in&from=0"
        )
        assert page.locator("#queries").evaluate("list => list.offsetHeight") == 300 * 16
        assert page.locator("#lines").evaluate("canvas => canvas.offsetHeight") == 300 * 16
        expect(page.locator("#most-lines")).to_have_text(
            re.compile(r"^The 2,000 strongest of 89,\d{3} lines are drawn\.$")
        )
        page.hover("#keys button[value='3']")
        expect(page.locator("#most-lines")).to_be_hidden()

    def test_only_lines_between_these_sentences_and_above_the_threshold(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        tokens, segments = article[1].tokens, article[1].segments
        shown = opened(article_page, "#view=head&by=weight&special=in")
        for pairs in ("aa", "ab", "ba", "bb"):
            shown.select_option("#pairs", pairs)
            for name, sentence in zip(("queries", "keys"), pairs, strict=True):
                expected = [token for token, of in zip(tokens, segments, strict=True) if "ab"[of] == sentence]
                assert texts(shown.locator(f"#{name} button:visible bdi")) == expected
        go(shown, "#view=head&heads=1-8&by=weight&special=in")
        for limit in ("0.3", "0.9"):
            shown.fill("#threshold", limit)
            settle(shown)
            count = int((article[1].weights[1, 8] >= float(limit)).sum())
            label = shown.locator("#lines").get_attribute("aria-label")
            assert str(label).startswith(f"{count} lines of weight {float(limit):.2f} or more")

    def test_the_picker_and_the_facts_follow_the_reading(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        result = article[0]
        labels = {reading: labels_of(result, reading) for reading in READINGS}
        differ = np.argwhere(labels["weight"].among_words != labels["carried"].among_words)
        layer, head = differ[0].tolist()
        told = {
            reading: words_of(of)[12 * layer + head] + "?" * bool(of.unsure[layer, head])
            for reading, of in labels.items()
        }
        shown = opened(article_page, f"#view=head&heads={layer}-{head}&by=weight&special=in")
        expect(shown.locator("#facts h2 span")).to_have_text(told["weight"])
        for reading, said in (("words", "by attention weight"), ("carried-words", "by what heads carry")):
            expect(shown.locator("#facts")).to_contain_text(f"{said}, among words: {told[reading]};")
        expect(shown.locator("#facts")).to_contain_text(f"writes {12 * result.output[layer, head]:.1f} times its share")
        for reading in ("carried-words", "words", "carried"):
            turn(shown, reading)
            expect(shown.locator("#facts h2 span")).to_have_text(told[reading])
            label, stays = labels[reading].label[layer, head], labels[reading].stays[layer, head]
            if label and not np.isnan(stays):
                sure = f"label {label}: the same in {round(100 * stays, 1):g} % of bootstrap resamples of the words"
                expect(shown.locator("#facts")).to_contain_text(sure)
        said = told["carried"].replace("?", ", not sure")
        button = shown.locator(f"#picker button[value='{layer}-{head}']")
        mark = button.inner_text()
        expect(button).to_have_attribute("aria-label", f"{mark} {layer}-{head}, {said}")
        table = labels["carried"].table
        scores = table.score[layer, head]
        measured = [
            float(text) if text != "–" else np.nan
            for text in texts(shown.locator("#facts table.scores td:nth-child(2)"))
        ]
        np.testing.assert_allclose(measured, scores, atol=0.005 + 1e-9)
        chance = np.broadcast_to(table.chance, (6, 12, 7))[layer, head][~np.isnan(scores)]
        beside = [float(text) for text in texts(shown.locator("#facts td.chance")) if text]
        np.testing.assert_allclose(beside, chance, atol=0.005 + 1e-9)
        above = np.nan_to_num(table.above_chance[layer, head]).clip(0)
        bars = shown.locator("#facts table.scores .bar").evaluate_all(
            "all => all.map(bar => Number(bar.style.getPropertyValue('--share')))"
        )
        np.testing.assert_allclose(bars, above, atol=1e-4)
        assert 0 in bars[:4] and max(bars) > 0.05

    def test_its_card_has_the_links_of_the_reading_and_the_command_for_the_rest(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        attention = article[1]
        words, names = np.array(attention.sentence) >= 0, [re.sub(r"\W*$", "", token) for token in attention.tokens]
        shown = opened(article_page, "#view=head&heads=1-4")
        for reading, pairs in (*((reading, "all") for reading in READINGS), ("words", "ab")):
            turn(shown, reading)
            shown.select_option("#pairs", pairs)
            of_words = numbers_of(attention, 1, 4, reading) * words[:, None]
            if pairs == "ab":
                of_words *= np.outer(*(np.array(attention.segments) == segment for segment in (0, 1)))
            order = np.argsort(-of_words, axis=None, kind="stable")[:5]
            values = [f"{of_words.flat[place]:.2f}" for place in order]
            expect(shown.locator("#facts .links td:nth-child(2)")).to_have_text(values)
            links = zip(shown.locator("#facts .links th").all(), order, strict=True)
            for link, (query, key) in ((link, divmod(int(place), len(words))) for link, place in links):
                expect(link).to_have_text(re.compile(rf"{re.escape(names[query])}.* → {re.escape(names[key])}"))
        expect(shown.locator("#facts .more code")).to_have_text("attnscan head 1-4 --model bundled")
        shown.click("#picker button[value='2-9']")
        expect(shown.locator("#facts .more code")).to_have_text("attnscan head 2-9 --model bundled")


class TestQuestion:
    """A link that a cell stands for, and the heads that have it."""

    def ranked(self, shown: Page) -> dict[str, float]:
        """Every head's number in the ranking, in its order."""
        settle(shown)
        return {text.split()[0]: float(text.split()[-1]) for text in texts(shown.locator("#ranked button"))}

    @pytest.mark.parametrize("reading", ["weight", "carried-words"])
    def test_a_click_on_a_cell_ranks_heads_by_its_link(
        self, opened: Open, article_page: Path, article: tuple, reading: str
    ) -> None:
        shown = opened(article_page, f"#view=head&heads=0-2&{address_of(reading)}")
        matrix = shown.locator("#matrices canvas")
        cell = matrix.evaluate("canvas => canvas.offsetWidth / canvas.width")
        row = shown.locator("#queries button:visible").evaluate_all("all => all.findIndex(each => each.value === '14')")
        matrix.click(position={"x": (row + 1.5) * cell, "y": (row + 0.5) * cell})
        expect_address(shown, "link=14-15")
        expect(shown.locator("#ranked-by")).to_contain_text("fresh → straw")
        ranked, attention = self.ranked(shown), article[1]
        true = {name: numbers_of(attention, *map(int, name.split("-")), reading)[14, 15] for name in ranked}
        assert len(ranked) == 72 and list(ranked.values()) == sorted(ranked.values(), reverse=True)
        assert ranked == pytest.approx(true, abs=0.0006)
        told = str(shown.locator("#ranked-by").text_content())
        assert float(told.rpartition(" ")[2]) == pytest.approx(np.mean(list(true.values())), abs=0.0006)
        shown.click("#ranked button >> nth=0")
        expect(shown.locator("#heads")).to_have_value(next(iter(ranked)))
        shown.click("#clear-link")
        expect(shown.locator("#question")).to_be_hidden()

    def test_by_keyboard(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page, "#view=head&heads=0-2&by=weight&special=in")
        shown.focus("#matrices canvas")
        for key in ("Shift+Tab", "Tab", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
            shown.keyboard.press(key)
        expect_address(shown, "link=1-2")
        expect(shown.locator("#matrices canvas")).to_be_focused()
        shown.keyboard.press("Enter")
        expect(shown.locator("#question")).to_be_hidden()

    def test_heads_that_the_page_does_not_hold_are_left_out(
        self, opened: Open, saved: Callable[..., Path], article: tuple
    ) -> None:
        path = saved("three-heads", *article, PageOptions(heads=(Head(0, 2), Head(1, 8), Head(2, 0))))
        shown = opened(path, "#view=head&heads=0-2&link=2-1")
        assert set(self.ranked(shown)) == {"0-2", "1-8", "2-0"}
        expect(shown.locator("#ranked-by")).to_contain_text("of the 3 heads whose weights are on this page")


class TestNeuronView:
    def test_its_numbers_are_the_models_of_the_query_that_is_pointed_at_or_held(
        self, opened: Open, article_page: Path, article: tuple
    ) -> None:
        attention = article[1]
        shown = opened(
            article_page, "#view=neuron&heads=1-8&token=q4&by=carried&special=in"
        )  # which changes nothing here
        expect(shown.locator("#story")).to_contain_text("the query the (4) looks most at store (5)")
        logits = [float(text.replace("−", "-")) for text in texts(shown.locator("#sheet tbody td:nth-child(4)"))]
        weights = [float(text) for text in texts(shown.locator("#sheet tbody td:nth-child(5)"))]
        np.testing.assert_allclose(logits, attention.products(Head(1, 8), 4).sum(-1), atol=0.02)
        np.testing.assert_allclose(weights, attention.weights[1, 8, 4], atol=0.0005 + 0.00005)
        assert drawn(shown.locator("#query-strip canvas")) and drawn(shown.locator("#sheet .of-product canvas").nth(3))
        shown.hover("#asked button[value='9']")
        expect(shown.locator("#story")).to_contain_text("the query the (9) looks most at store (10)")
        weights = [float(text) for text in texts(shown.locator("#sheet tbody td:nth-child(5)"))]
        np.testing.assert_allclose(weights, attention.weights[1, 8, 9], atol=0.0005 + 0.0001)
        shown.mouse.move(5, 5)
        expect(shown.locator("#story")).to_contain_text("the query the (4) looks most at")
        expect_address(shown, "token=q4")
        shown.click("#asked button[value='9']")
        shown.mouse.move(5, 5)
        expect_address(shown, "token=q9")
        expect(shown.locator("#story")).to_contain_text("the query the (9)")
        shown.select_option("#keys", "weight")
        order = np.argsort(-attention.weights[1, 8, 9], kind="stable")
        assert texts(shown.locator("#sheet tbody button"))[:3] == [attention.tokens[key] for key in order[:3]]

    def test_a_neuron_reads_as_a_product(self, opened: Open, article_page: Path, article: tuple) -> None:
        attention = article[1]
        shown = opened(article_page, "#view=neuron&heads=1-8&token=q4")
        shown.focus("#sheet tbody button >> nth=0")
        for key in ("ArrowDown", "ArrowDown"):
            shown.keyboard.press(key)
        text = str(shown.locator("#neuron-reading").text_content()).replace("−", "-")
        match = re.fullmatch(r"Neuron (\d+): q (\S+) × k of went \(2\) (\S+) × 0.177 = (\S+)", text)
        assert match, text
        neuron = int(match[1])
        expected = [
            attention.query[1, 8, 4, neuron],
            attention.key[1, 8, 2, neuron],
            attention.products(Head(1, 8), 4)[2, neuron],
        ]
        np.testing.assert_allclose([float(match[i]) for i in (2, 3, 4)], expected, atol=0.01)

    def test_where_there_are_none_there_is_no_tab_and_it_says_why(
        self, opened: Open, saved: Callable[..., Path], article: tuple
    ) -> None:
        result, attention = article
        shown = opened(saved("bare", result, without_neurons(attention)), "#view=neuron")
        assert texts(shown.locator("#tabs button")) == ["Model", "Head", "Table"]
        expect(shown.locator("#model")).to_be_visible()
        why = "There is no neuron view: this architecture does not show its queries and keys."
        expect(shown.locator("#about")).to_contain_text(why)
        path = saved("bare-of-numbers", result, attention, PageOptions(neurons=False))
        expect(opened(path).locator("#about")).to_contain_text("made without queries and keys (--no-neurons)")

    def test_keys_that_a_query_does_not_see_have_no_product(self, opened: Open, saved: Callable[..., Path]) -> None:
        result, attention = made_up(1, 2, 4)
        causal = np.tril(np.ones((1, 4, 4), dtype=bool))
        shown = opened(saved("causal", result, replace(attention, visible=causal)), "#view=neuron&token=q2")
        assert [text == "not seen" for text in texts(shown.locator("#sheet tbody td:nth-child(4)"))] == [False] * 3 + [
            True
        ]


class TestManyPairs:
    @pytest.fixture
    def pairs_page(self, ranking: HeadScores, tmp_path: Path) -> Path:
        path = tmp_path / "pairs.html"
        path.write_text(page(ranking).html, encoding="utf-8")
        return path

    def test_the_model_view_is_the_map_in_letters(self, opened: Open, pairs_page: Path, ranking: HeadScores) -> None:
        shown = opened(pairs_page)
        marks = marks_of(ranking.labels)
        expect(shown.locator("#summary")).to_contain_text(summary(ranking))
        assert texts(shown.locator("#thumbnails .face b")) == marks and len(set(marks)) > 3
        low, high = (bound[0, 2, 1] for bound in ranking.table.interval)
        face = shown.locator("#thumbnails button[value='0-2'] .face")
        expect(face.locator("small")).to_have_text(f"{low:.2f}–{high:.2f}")
        assert texts(shown.locator("#tabs button")) == ["Model", "Head", "Table"]
        shown.click("#thumbnails button[value='0-2']")
        expect(shown.locator("#cards h2")).to_have_text("Head 0-2 the previous word")

    def test_a_head_has_its_scores_with_intervals_and_its_profile(
        self, opened: Open, pairs_page: Path, ranking: HeadScores
    ) -> None:
        shown = opened(pairs_page, "#view=head&heads=1-9")
        table = ranking.table
        low, high = table.interval
        row = shown.locator("#cards table.scores tbody tr").nth(1).locator("td")
        score, chance = (f"{values[1, 9, 1]:.3f}" for values in np.broadcast_arrays(table.score, table.chance))
        expect(row).to_have_text([score, f"{low[1, 9, 1]:.3f}–{high[1, 9, 1]:.3f}", chance, ""])
        bars = shown.locator("#cards table.scores .bar").evaluate_all(
            "all => all.map(bar => Number(bar.style.getPropertyValue('--share')) > 0)"
        )
        beyond = low[1, 9] > np.broadcast_to(table.chance, table.score.shape)[1, 9]
        assert bars == beyond.tolist() and set(bars) == {True, False}  # none where the interval reaches chance
        labels = ranking.labels
        told = (
            f"label {labels.label[1, 9]}: the same in {round(100 * labels.stays[1, 9], 1):g} % of bootstrap resamples"
        )
        expect(shown.locator("#cards")).to_contain_text(told)
        profile = ranking.profile
        place = (1, 9, profile.classes.index("previous"))
        share, half = profile.share[place], float(half_width(profile.se[place], ranking.signature.pairs_read))
        previous = shown.locator("#cards table.profile tr").first
        expect(previous.locator("td")).to_have_text([f"{share:.3f}", f"± {half:.3f}", ""])
        expect(shown.locator("#cards .does")).to_have_text(statement(labels, Head(1, 9)))
        shown.click("#picker button[value='0-2']", modifiers=["Shift"])
        expect(shown.locator("#cards article")).to_have_count(2)


class TestTable:
    def test_it_shows_the_csvs_numbers(self, opened: Open, article_page: Path, article: tuple) -> None:
        shown = opened(article_page, "#view=table")
        for reading in READINGS:
            turn(shown, reading)
            settle(shown)
            self.check_table(shown, article[0], reading)

    def check_table(self, shown: Page, result: HeadScores, reading: str) -> None:
        shown.click("#tab-model")
        told = told_to_readers(shown)
        shown.click("#tab-table")
        assert told == texts(shown.locator("#scores tbody td:nth-child(4)"))  # what it does among words
        labels = labels_of(result, reading)
        assert shown.locator("#scores tbody td b").count() == labels.unsure.sum() > 0
        shown.evaluate("document.querySelectorAll('#scores td b').forEach((mark) => mark.remove())")
        rows = shown.locator("#scores tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        text = render(result.with_reading(*READINGS[reading]).to_frame(), "csv").decode()
        columns, *lines = csv.reader(io.StringIO(text))
        assert columns[4:9] == ["label", "label_stays", "among_words", "share", "average"]
        for place, name in enumerate(columns[4:], 1):
            shown_cells, true = [row[place] for row in rows], [line[place + 3] for line in lines]
            if name in ("label", "among_words"):
                assert shown_cells == [words(label) for label in true]
            else:
                assert [cell == "" for cell in shown_cells] == [cell == "" for cell in true]
                full = shown.locator(f"#scores tbody td:nth-child({place + 1})").evaluate_all(
                    "all => all.map(c => c.title)"
                )
                assert [cell for cell in full if cell] == [cell for cell in true if "." in cell]
                told = [(float(a), float(b)) for a, b in zip(shown_cells, true, strict=True) if b]
                np.testing.assert_allclose(*zip(*told, strict=True), atol=0.005 + 1e-9) if told else None
        headings = texts(shown.locator("#scores thead button"))
        assert headings[:6] == ["head", "label", "label stays", "among words", "share", "average head"]

    def test_it_is_sorted_and_filtered(self, opened: Open, article_page: Path, article: tuple) -> None:
        result = article[0]
        carried = labels_of(result, "carried").among_words
        shown = opened(article_page, "#view=table&by=carried&special=in&only=previous-word&sort=-output")
        heads = [tuple(place) for place in np.argwhere(carried == "previous-word").tolist()]
        heads.sort(key=lambda place: -result.output[place])
        assert texts(shown.locator("#scores tbody th")) == [f"{layer}-{head}" for layer, head in heads]
        shown.click("#scores thead button[value='among_words']")
        expect(shown.locator("#scores thead th[aria-sort='ascending']")).to_have_text("among words")
        go(shown, "#view=table&by=weight&special=in")
        names = shown.locator("#scores tbody th")
        shown.click("#scores thead button[value='previous-word']")
        by_weight = result.with_reading("weight", "in")
        best = [by_weight.scores.grid[number].name for number in by_weight.order("previous-word")]
        assert texts(names) == best
        expect(shown.locator("#scores thead th[aria-sort='descending']")).to_have_text("previous-word")
        shown.click("#scores thead button[value='previous-word']")
        assert texts(names)[-1] == best[0]
        shown.select_option("#only", "next-word")
        expect(names).to_have_count(int((labels_of(article[0], "weight").among_words == "next-word").sum()))
        expect(shown.locator("#count")).to_contain_text("of 72 heads")
        shown.click("#tab-model")
        expect(shown.locator("#legend button[aria-pressed='true']")).to_contain_text("the next word")

    def test_the_saved_csv_is_that_of_classify_sorted_and_filtered_as_shown(
        self, opened: Open, article_page: Path, classified_anew: dict[str, HeadScores]
    ) -> None:
        shown = opened(article_page)
        for reading in READINGS:
            go(shown, f"#view=table&{address_of(reading)}")
            with shown.expect_download() as download:
                shown.click("#save")
            assert Path(download.value.path()).read_bytes() == render(classified_anew[reading].to_frame(), "csv")
        assert download.value.suggested_filename == "heads.csv"
        go(shown, "#view=table&only=next-word&sort=-entropy&by=weight&special=in")
        with shown.expect_download() as download:
            shown.click("#save")
        frame = classified_anew["weight"].to_frame()
        expected = frame[frame["among_words"] == "next-word"].sort_values("entropy", ascending=False)
        assert Path(download.value.path()).read_bytes() == render(expected, "csv")


class TestEveryView:
    VIEWS = ("model", "head", "neuron", "table")

    def test_tabs_by_click_and_by_keyboard(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page)
        for view in self.VIEWS:
            shown.click(f"#tab-{view}")
            assert texts(shown.locator("[role=tabpanel]:visible")) and shown.locator(f"#{view}").is_visible()
        shown.keyboard.press("Home")
        expect(shown.locator("#tab-model")).to_be_focused()
        for view in self.VIEWS[1:]:
            shown.keyboard.press("ArrowRight")
            expect(shown.locator(f"#tab-{view}")).to_have_attribute("aria-selected", "true")
            expect(shown.locator(f"#{view}")).to_be_visible()

    def test_heads_and_tokens_by_keyboard(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page)
        shown.focus("#thumbnails button[value='0-0']")
        for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
            shown.keyboard.press(key)
        expect(shown.locator("#thumbnails button[value='1-2']")).to_be_focused()
        shown.keyboard.press("Enter")
        expect(shown.locator("#heads")).to_have_value("1-2")
        shown.focus("#picker button[value='1-2']")
        shown.keyboard.press("ArrowDown")
        expect(shown.locator("#heads")).to_have_value("2-2")
        shown.keyboard.press("Shift+ArrowRight")
        expect(shown.locator("#heads")).to_have_value("2-2, 2-3")
        shown.focus("#queries button[value='1']")
        shown.keyboard.press("ArrowDown")
        shown.keyboard.press("Enter")
        expect_address(shown, "token=q2")
        outline = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"  # the focus is visible

    def test_five_keys_lead_from_the_top_to_reading_a_token(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page)
        for key in ("Tab", "Enter"):
            shown.keyboard.press(key)
        expect(shown.locator("#thumbnails button[value='1-8']")).to_be_focused()
        shown.keyboard.press("Enter")
        expect(shown.locator("#queries button[value='1']")).to_be_focused()
        expect(shown.locator("#reading")).to_contain_text("looks most at went")
        go(shown, "#view=table")
        shown.focus("#scores tbody tr:nth-child(9) button")
        shown.evaluate("document.getElementById('theme').click()")  # all rows are made anew
        settle(shown)
        expect(shown.locator("#scores tbody tr:nth-child(9) button")).to_be_focused()

    def test_an_address_restores_what_was_shown(self, opened: Open, article_page: Path) -> None:
        first = opened(article_page)
        first.click("#tab-head")
        first.fill("#heads", "0-2, 2-8")
        first.press("#heads", "Enter")
        first.select_option("#pairs", "ab")
        first.fill("#threshold", "0.11")
        first.click("#queries button[value='4']")
        expect_address(first, "token=q4", "pairs=ab")
        fragment = first.url.split("#")[1]
        again = opened(article_page, f"#{fragment}")
        for name, value in (("heads", "0-2, 2-8"), ("pairs", "ab"), ("threshold", "0.11")):
            expect(again.locator(f"#{name}")).to_have_value(value)
        expect(again.locator("#queries button[value='4']")).to_have_attribute("aria-selected", "true")

    def test_the_two_switches_by_keyboard_and_with_every_view(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page)
        by, special = (shown.get_by_role("radiogroup", name=name) for name in ("Head", "Special tokens"))
        assert [told_by(switch) for switch in (by, special)] == [("looks", "looks"), ("out", "out")]
        shown.focus("#by button[value='weight']")
        for key, told in (("ArrowRight", "carries"), ("ArrowLeft", "looks"), ("End", "carries")):
            shown.keyboard.press(key)
            expect(by.get_by_role("radio", name=told)).to_be_focused()
            assert told_by(by) == (told, told) and told_by(special) == ("out", "out")
        shown.keyboard.press("Tab")
        shown.keyboard.press("ArrowLeft")
        expect(special.get_by_role("radio", name="in")).to_be_focused()
        assert told_by(special) == ("in", "in")
        expect(shown).to_have_url(re.compile("#by=carried&special=in$"))
        expect(shown.locator("#model-hint")).to_contain_text("What each head does, by what heads carry")
        shown.click("#tab-head")
        assert (
            told_by(by) == ("carries", "carries") and texts(shown.locator("#queries button:visible bdi"))[0] == "[CLS]"
        )
        shown.click("#tab-neuron")
        expect(by).to_be_hidden()
        expect(special).to_be_hidden()

    @pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (768, "dark"), (390, "dark")])
    def test_axe_core_has_nothing_to_say(
        self, opened: Open, article_page: Path, ranking: HeadScores, tmp_path: Path, width: int, theme: str
    ) -> None:
        shown = opened(article_page, viewport={"width": width, "height": 844})
        for view in (
            *self.VIEWS,
            "head&heads=1-8,0-2&token=q5",
            "model&order=identical",
            "head&link=5-13",
        ):
            go(shown, f"#view={view}&theme={theme}")
            assert violations(shown) == [], view
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
        of_pairs = tmp_path / "pairs.html"
        of_pairs.write_text(page(ranking).html, encoding="utf-8")
        shown = opened(of_pairs, viewport={"width": width, "height": 844})
        for view in ("model", "head", "table"):
            go(shown, f"#view={view}&theme={theme}")
            assert violations(shown) == [], view

    def test_dark_and_light(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page, color_scheme="dark")
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = shown.evaluate(ground)
        shown.click("#theme")
        settle(shown)
        assert shown.evaluate(ground) == "rgb(255, 255, 255)" != dark
        shown.emulate_media(color_scheme="light")
        assert shown.evaluate(ground) == "rgb(255, 255, 255)"
        assert opened(article_page, "#theme=dark").evaluate(ground) == dark

    def test_paper_shows_the_view_and_no_controls(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page)
        shown.emulate_media(media="print")
        for view in self.VIEWS:
            go(shown, f"#view={view}&theme=dark")
            shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
            settle(shown)
            expect(shown.locator(f"#{view}")).to_be_visible()
            assert not shown.locator("#tabs").is_visible()
            assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            shown.evaluate("window.dispatchEvent(new Event('afterprint'))")

    def test_on_paper_nothing_is_cut_off(
        self, opened: Open, article_page: Path, ranking: HeadScores, tmp_path: Path
    ) -> None:
        of_pairs = tmp_path / "pairs.html"
        of_pairs.write_text(page(ranking).html, encoding="utf-8")
        millimetre = 96 / 25.4
        for path in (article_page, of_pairs):
            for view, width in (("table", 297 - 24), ("model", 210 - 24)):
                shown = opened(path, f"#view={view}", viewport={"width": int(width * millimetre), "height": 900})
                sheet = re.search(rb"/MediaBox \[0 0 (\d+)", shown.pdf(format="A4", prefer_css_page_size=True))
                assert sheet and int(sheet[1]) == {"table": 842, "model": 595}[view]
                shown.emulate_media(media="print")
                assert shown.evaluate("document.documentElement.scrollWidth") <= int(width * millimetre)
                if view == "table":  # its headings are repeated on each sheet, as no box is
                    styles = "all => all.map(button => getComputedStyle(button).display)"
                    assert set(shown.locator("#scores thead button").evaluate_all(styles)) == {"contents"}
                last = shown.locator("#scores tr:last-child td:last-child, #thumbnails > :last-child")
                edge = last.locator("visible=true").evaluate("element => element.getBoundingClientRect().right")
                assert edge <= int(width * millimetre)

    def test_hostile_text_runs_nothing(self, opened: Open, saved: Callable[..., Path]) -> None:
        tokens = [*HOSTILE, *NASTY]
        result, attention = made_up(1, 2, tokens)
        signature = replace(result.signature, model=HOSTILE[0])
        shown = opened(saved("hostile", replace(result, signature=signature, notes=HOSTILE[:3]), attention))
        assert shown.locator("h1").text_content() == HOSTILE[0]
        for view in self.VIEWS:
            go(shown, f"#view={view}&token=q2")
            expect(shown.locator(f"#{view}")).to_be_visible()
            assert shown.locator("img, svg, b > script, body script:not([type])").count() == 0
        go(shown, "#view=head&token=q2&special=in")
        expected = ["[CLS]", *(plain(token.strip()) or "␣" for token in tokens), "[SEP]"]
        assert shown.locator("#queries bdi").all_text_contents() == expected
        shown.hover("#queries button[value='3']")
        assert HOSTILE[2] in str(shown.locator("#reading").text_content())

    def test_heads_that_are_not_carried_say_so(self, opened: Open, saved: Callable[..., Path], article: tuple) -> None:
        shown = opened(saved("two", *article, PageOptions(heads=(Head(1, 8), Head(0, 2)))), "#view=head")
        expect(shown.locator("#heads")).to_have_value("1-8")
        expect(shown.locator("#head-notice")).to_be_hidden()
        shown.click("#picker button[value='3-3']")
        expect(shown.locator("#head-notice")).to_contain_text(
            "The weights of 3-3 are not on this page, only the thumbnail"
        )
        expect(shown.locator("#head-notice")).to_contain_text("attnscan report … --heads 3-3")
        settle(shown)
        side = int(shown.locator("#matrices canvas").evaluate("canvas => canvas.width"))
        small = np.array(pixels(shown.locator("#matrices canvas"))[3::4])
        words = np.flatnonzero(np.array(article[1].sentence) >= 0)
        true = numbers_of(article[1], 3, 3, "words")[np.ix_(words, words)]
        assert side == 16 and np.abs(small - 255 * np.sqrt(true).ravel()).max() <= 0.51
        shown.click("#tab-neuron")
        expect(shown.locator("#neuron-notice")).to_contain_text("--heads")
        shown.click("#tab-table")
        expect(shown.locator("#scores tbody tr")).to_have_count(72)
