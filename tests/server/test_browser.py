"""A live page in a real browser, with a real server and real models behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import pytest
from live import TOKEN
from loaded_models import LoadedModels
from playwright.sync_api import Browser, Page, ViewportSize, expect
from toy_mlm import save_toy_mlm, sentence

import attnscan
from attnscan.inputs.sentence import Pair
from attnscan.model.sources import choose
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.server.app import app_of, listening, served
from attnscan.server.question import Question
from attnscan.server.session import Loaded, Session
from attnscan.views.behaviour import summary
from attnscan.views.palette import words

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

FIRST = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
TOKENS = 19  # of FIRST
SIZE: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, _loaded_models: LoadedModels) -> Iterator[str]:
    """Of a server with the bundled model, a masked LM whose answers are known."""
    toy = save_toy_mlm(tmp_path_factory.mktemp("toy"))
    with ExitStack() as stack:
        own = stack.enter_context(listening(None))
        options = [ScanOptions(model=name, predictive="off") for name in ("bundled", str(toy))]
        anew = _loaded_models.anew  # models of its own: they may run when a test has ended
        scanners = [stack.enter_context(Scanner(each, anew(choose(each.model)))) for each in options]
        session = Session([Loaded.of(scanner) for scanner in scanners], Question(a=FIRST.a, b=FIRST.b))
        port = own.getsockname()[1]
        stack.enter_context(served(app_of(session, TOKEN), own))
        yield f"http://127.0.0.1:{port}/{TOKEN}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.running() as browser:
        yield browser


@pytest.fixture(scope="module")
def failures() -> list[str]:
    return []


@pytest.fixture(scope="module")
def tab(browser: Browser, address: str, failures: list[str]) -> Page:
    """A page that most tests share."""
    return watched(browser.new_page(viewport=SIZE), address, failures)


@pytest.fixture
def page(tab: Page, failures: list[str]) -> Iterator[Page]:
    """On a desktop; nothing may fail, and nothing else may be asked than the server."""
    tab.set_viewport_size(SIZE)
    yield tab
    tab.unroute_all(behavior="ignoreErrors")
    told, failures[:] = failures[:], []
    assert not told


@pytest.fixture
def phone(browser: Browser, address: str, failures: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 360, "height": 780}, has_touch=True, is_mobile=True)
    yield watched(context.new_page(), address, failures)
    context.close()
    assert not failures


def watched(page: Page, address: str, failures: list[str]) -> Page:
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith((address, "data:", "blob:")) else failures.append(asked.url),
    )
    return page


def opened(page: Page, address: str) -> Page:
    return answered(chromium.load_anew(page, address if "#" in address else f"{address}#view=head&special=in"))


def answered(page: Page) -> Page:
    """Once what is shown is what is asked for."""
    expect(page.locator("html[data-settled=yes][data-asking=no]")).to_be_attached()
    return page


def tokens(page: Page) -> list[str]:
    return page.locator("#queries bdi").all_text_contents()


class TestTyping:
    def test_heads_answer_to_what_is_typed(self, page: Page, address: str) -> None:
        opened(page, address)
        assert len(tokens(page)) == TOKENS
        page.fill("#sentence-b", "")
        page.fill("#sentence-a", "the cat sat on the mat")
        expect(page.locator("#queries button")).to_have_count(8)
        answered(page)
        assert tokens(page) == ["[CLS]", "the", "cat", "sat", "on", "the", "mat", "[SEP]"]
        true = attnscan.classify("the cat sat on the mat", model="bundled", predictive="off", special="in")
        expect(page.locator("#summary")).to_contain_text(summary(true))  # statements come with the rest
        labels = [each.split(", ")[1] for each in labels_of(page)]
        assert labels == [words(str(name)).split(", ")[0] for name in true.among_words.flat]

    @pytest.mark.parametrize("view", ["model", "head", "neuron", "table"])
    def test_every_view_may_be_opened_first_and_follows_an_edit(self, page: Page, address: str, view: str) -> None:
        opened(page, address + f"#view={view}&heads=2-0&by=weight&special=in")
        words = page.locator({"head": "#queries bdi", "neuron": "#key-names button"}.get(view, "#words button"))
        expect(words).to_have_count(TOKENS)
        page.fill("#sentence-b", "")
        page.fill("#sentence-a", "the cat sat")
        answered(page)
        expect(words).to_have_text(["[CLS]", "the", "cat", "sat", "[SEP]"])
        expect(page.locator("#size")).to_have_text("5 tokens")
        if view == "model":
            expect(page.locator("#thumbnails canvas").first).to_have_attribute("width", "5")
        if view == "neuron":
            expect(page.locator("#story")).to_contain_text("the query the (1) looks most at")
        if view == "table":
            true = attnscan.classify("the cat sat", model="bundled", predictive="off", special="in")
            cell = page.locator("#scores tbody tr").first.locator("td.score").first
            expect(cell).to_have_attribute("title", f"{true.table.score[0, 0, 0]:.6f}")

    def test_a_head_is_as_the_model_has_it(self, page: Page, address: str) -> None:
        opened(page, address + "#view=head&heads=2-0&by=weight&special=in&a=the+cat+sat&b=")
        true = attnscan.classify("the cat sat", model="bundled", predictive="off").attention
        assert true is not None
        page.locator("#queries button").nth(1).focus()  # what comes later may move words from under a pointer
        expect(page.locator("#reading")).to_contain_text("the looks most at")
        told = page.locator("#keys .value").all_text_contents()
        assert [float(text) for text in told] == pytest.approx(true.weights[2, 0, 1].tolist(), abs=6e-4)

    def test_a_link_ranks_heads_on_every_input_and_goes_with_its_words(self, page: Page, address: str) -> None:
        opened(page, address + "#view=head&heads=2-0&by=weight&special=in&link=14-13")
        expect(page.locator("#ranked li")).to_have_count(72)
        page.fill("#sentence-b", "At the store, I bought much fresh bread.")
        expect(page.locator("#ranked-by")).to_contain_text("much → bought")
        true = attnscan.classify(FIRST.a, "At the store, I bought much fresh bread.", model="bundled", predictive="off")
        mean = true.kept_attention().weights[:, :, 14, 13].mean()
        expect(page.locator("#ranked-by")).to_contain_text(f"average head {mean:.3f}")
        page.fill("#sentence-b", "")
        answered(page)
        expect(page).not_to_have_url(re.compile("link="))
        expect(page.locator("#question")).to_be_hidden()

    def test_what_cannot_be_read_is_said_and_nothing_is_lost(self, page: Page, address: str) -> None:
        opened(page, address)
        page.fill("#sentence-a", "  ")
        expect(page.locator("#refused")).to_have_text("A is empty: type a sentence")
        page.fill("#sentence-a", "word " * 600)
        expect(page.locator("#refused")).to_contain_text("the model reads at most 512: shorten it")
        expect(page.locator("#refused")).not_to_contain_text("--")
        assert len(tokens(page)) == TOKENS
        page.fill("#sentence-a", "I ran.")
        expect(page.locator("#refused")).to_be_hidden()
        answered(page)
        assert tokens(page)[:4] == ["[CLS]", "i", "ran", "."]

    def test_fast_typing_ends_on_the_last_word(self, page: Page, address: str) -> None:
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        opened(page, address).focus("#sentence-b")
        page.keyboard.press("Control+a")
        page.keyboard.type("The dog ran home and slept.", delay=15)
        expect(page.locator("#queries")).to_contain_text("slept")
        answered(page)
        assert tokens(page)[-8:] == ["the", "dog", "ran", "home", "and", "slept", ".", "[SEP]"]
        page.click("#tab-head")
        expect(page.locator("#facts")).to_contain_text("bootstrap resamples")
        assert not errors  # a question that another one replaces is none


def labels_of(page: Page) -> list[str]:
    """What each head of the map is told to be."""
    page.click("#tab-head")
    answered(page)
    return [str(each.get_attribute("aria-label")) for each in page.locator("#picker button:not(.layer)").all()]


class TestChanges:
    def test_a_hidden_word_is_predicted(self, page: Page, address: str) -> None:
        """The toy's only head that matters knows each word from the one before it."""
        opened(page, f"{address}?model=1#view=head&special=in&a={sentence(5).replace(' ', '+')}&b=")
        expect(page.locator("#predictions")).to_contain_text("hide a word")
        page.click("#words button >> nth=3")
        caption = page.locator("#predictions caption")
        expect(caption).to_have_text(f"In place of {sentence(3).split()[2]} (3)")
        answered(page)
        assert tokens(page)[3] == "[MASK]"
        row = page.locator("#predictions tbody tr").first
        expect(row.locator("th")).to_have_text(sentence(3).split()[2])
        before = float(row.locator("td").inner_text())
        page.fill("#without", "0-0")
        page.press("#without", "Enter")
        expect(page.locator("#predictions thead")).to_contain_text("before")
        truth = page.locator("#predictions tr.truth td")
        assert float(truth.nth(0).inner_text()) == before > 0.5
        assert float(truth.nth(1).inner_text()) < 0.1

    def test_hidden_words_stay_hidden_when_others_change(self, page: Page, address: str) -> None:
        opened(page, address).click("#words button >> nth=13")
        expect(page.locator("#queries")).to_contain_text("[MASK]")
        page.fill("#sentence-a", "Yesterday evening I went to the store.")
        expect(page.locator("#words [aria-pressed=true]")).to_have_text("bought")
        answered(page)
        assert tokens(page).index("[MASK]") == 15

    def test_heads_are_switched_off_one_by_one_and_by_the_layer(self, page: Page, address: str) -> None:
        opened(page, address + "#view=head&heads=2-0")
        before = page.locator("#facts").inner_text()
        page.click("#switch-off")
        expect(page.locator("#without")).to_have_value("2-0")
        page.fill("#without", "2-0, 9-9")
        page.press("#without", "Enter")
        expect(page.locator("#refused")).to_contain_text("there is no head 9-9: this model has 6 layers of 12 heads")
        page.click("#tab-model")  # and whatever else is shown meanwhile
        page.click("#tab-head")
        answered(page)
        expect(page.locator("#refused")).to_contain_text("there is no head 9-9")
        expect(page.locator("#without")).to_have_value("2-0, 9-9")
        expect(page.locator("#picker .out")).to_have_count(1)
        page.fill("#without", "layer:0")
        page.press("#without", "Enter")
        expect(page.locator("#picker .out")).to_have_count(12)
        answered(page)
        expect(page.locator("#facts")).not_to_have_text(before)
        expect(page.locator("#predictions caption")).to_contain_text("Vectors turned")

    def test_positions_and_segments(self, page: Page, address: str) -> None:
        opened(page, address + "#view=head&heads=1-8&by=weight&special=out")
        score = page.locator("#facts tr", has_text="next-word").locator("td").first
        before = float(score.inner_text())
        page.select_option("#positions", "shuffled")
        answered(page)
        expect(score).not_to_have_text(f"{before:.2f}")
        assert float(score.inner_text()) < before - 0.3
        page.select_option("#positions", "kept")
        page.select_option("#segments", "swapped")
        answered(page)
        page.fill("#sentence-b", "")
        expect(page.locator("#segments")).to_be_hidden()


class TestComingBack:
    def test_history_links_and_the_back_button(self, page: Page, address: str) -> None:
        expect(opened(page, address).locator("#past li")).to_have_count(1)
        page.fill("#sentence-a", "The dog ran.")
        expect(page.locator("#past li")).to_have_count(2)
        page.click("#words button >> nth=2")
        expect(page.locator("#past li")).to_have_count(3)
        page.click("#past summary")
        expect(page.locator("#past li").first).to_contain_text("hidden: dog")
        link = page.locator("#past a").first.get_attribute("href")
        page.locator("#past a").last.click()
        expect(page.locator("#sentence-a")).to_have_value(FIRST.a)
        page.go_back()
        expect(page.locator("#sentence-a")).to_have_value("The dog ran.")
        page.goto(page.url.partition("#")[0] + str(link))  # of the same page: it is not loaded again
        expect(page.locator("#queries bdi").nth(2)).to_have_text("[MASK]")

    def test_the_offline_page_holds_what_is_shown(self, page: Page, address: str, tmp_path: Path) -> None:
        expect(opened(page, address).locator("#past li")).to_have_count(1)
        page.fill("#sentence-a", "The dog ran.")
        expect(page.locator("#past li")).to_have_count(2)
        answered(page)
        with page.expect_download() as download:
            page.click("#offline")
        download.value.save_as(tmp_path / "page.html")
        html = (tmp_path / "page.html").read_text(encoding="utf-8")
        (text,) = re.findall('<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
        data = json.loads(text)
        assert data["inputs"][0]["tokens"] == tokens(page) and data["live"] is None

    def test_an_answer_that_the_server_has_dropped_is_asked_for_again(self, page: Page, address: str) -> None:
        opened(page, f"{address}#view=model")
        gone: list[str] = []

        def once(route) -> None:  # type: ignore[no-untyped-def]
            gone.append(route.request.url)
            if len(gone) == 1:
                route.fulfill(status=410, json={"gone": True})
            else:
                route.continue_()

        page.route("**/numbers/**", once)
        page.click("#tab-head")
        expect(page.locator("#matrices canvas").first).to_be_visible()
        assert len(gone) == 2

    def test_a_server_that_has_ended_is_told_of(self, page: Page, address: str) -> None:
        opened(page, address).route("**/answer", lambda route: route.abort())
        page.fill("#sentence-a", "The dog ran.")
        expect(page.locator("#refused")).to_contain_text("start attnscan serve again")


class TestOtherHands:
    def test_by_touch_at_360_pixels(self, phone: Page, address: str) -> None:
        opened(phone, address).fill("#sentence-b", "")
        expect(phone.locator("#queries button")).to_have_count(8)
        phone.tap("#changes summary >> nth=0")
        phone.tap("#words button >> nth=2")
        expect(phone.locator("#queries")).to_contain_text("[MASK]")
        phone.tap("#tab-head")
        phone.tap("#switch-off")
        answered(phone)
        assert phone.evaluate("document.documentElement.scrollWidth") == 360
        chips = "[...document.querySelectorAll('#words button:enabled')]"
        phone.wait_for_function(f"() => {chips}.length && {chips}.every(chip => chip.offsetHeight >= 24)")

    def test_by_keyboard_alone(self, page: Page, address: str) -> None:
        opened(page, address)
        press = page.keyboard.press
        for _ in range(30):
            press("Tab")
            if page.evaluate("document.activeElement.id") == "sentence-a":
                break
        press("Control+a")
        page.keyboard.type("The cat sat.")
        expect(page.locator("#queries")).to_contain_text("sat")
        answered(page)
        press("Tab")
        press("Tab")
        assert page.evaluate("document.activeElement.parentElement.id") == "words"
        press("ArrowRight")
        press("Enter")
        expect(page.locator("#words [aria-pressed=true]")).to_have_text("cat")
        expect(page.locator("#queries")).to_contain_text("[MASK]")
        answered(page)
        expect(page.locator("#words button").nth(2)).to_be_focused()  # though it was made anew
        press("ArrowRight")
        press("Space")
        expect(page.locator("#words [aria-pressed=true]")).to_have_text(["cat", "sat"])
        page.click("#tab-model")
        page.focus("#thumbnails button[value='1-4']")
        press("Enter")
        expect(page.locator("#queries [tabindex='0']")).to_be_focused()
