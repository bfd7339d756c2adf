"""A live page in a real browser, with a real server and real models behind it."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import numpy as np
import pytest
from chromium import choose_kind, load_anew, watched
from live import TOKEN, listened
from loaded_models import LoadedModels
from pages import Elements
from playwright.sync_api import Browser, Page, expect
from toy_mlm import save_toy_mlm, sentence

import attnscan
from attnscan.inputs.annotations import link_words
from attnscan.inputs.sentence import Pair
from attnscan.model.sources import choose
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.cross import CROSS_PATTERNS
from attnscan.scoring.patterns import PATTERNS
from attnscan.server.session import Loaded, Question, Session
from attnscan.views.behaviour import summary
from attnscan.views.palette import words

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

FIRST = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
TOKENS = 19  # of FIRST


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, _loaded_models: LoadedModels) -> Iterator[str]:
    """Of a server with the bundled model, and a masked LM whose answers are known."""
    toy = save_toy_mlm(tmp_path_factory.mktemp("toy"))
    with ExitStack() as stack:
        options = [ScanOptions(model=name, predictive="off") for name in ("bundled", str(toy))]
        anew = _loaded_models.anew  # models of its own: they may run when a test has ended
        scanners = [stack.enter_context(Scanner(each, anew(choose(each.model)))) for each in options]
        session = Session([Loaded.of(scanner) for scanner in scanners], Question(a=FIRST.a, b=FIRST.b))
        yield f"http://127.0.0.1:{stack.enter_context(listened(session))}/{TOKEN}/"


@pytest.fixture(scope="module")
def tab(browser: Browser, address: str, troubles: list[str]) -> Page:
    """A page that most tests share."""
    return watched(browser.new_page(viewport=chromium.SIZE), troubles, address)


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    yield tab
    tab.unroute_all(behavior="ignoreErrors")


def visit(page: Page, address: str) -> Page:
    return answered(load_anew(page, address if "#" in address else f"{address}#view=head&special=in"))


def answered(page: Page) -> Page:
    """Once what is shown is what is asked for."""
    expect(page.locator("html[data-settled=yes][data-asking=no]")).to_be_attached()
    return page


def tokens(page: Page) -> list[str]:
    return page.locator("#queries bdi").all_text_contents()


class TestTyping:
    @pytest.mark.parametrize("view", ["model", "head", "neuron", "table"])
    def test_every_view_may_be_opened_first_and_follows_an_edit(self, page: Page, address: str, view: str) -> None:
        visit(page, address + f"#view={view}&heads=2-0&by=weight&special=in")
        names = page.locator({"head": "#queries bdi", "neuron": "#key-names button"}.get(view, "#words button"))
        expect(names).to_have_count(TOKENS)
        page.fill("#sentence-b", "")
        page.fill("#sentence-a", "the cat sat")
        answered(page)
        expect(names).to_have_text(["[CLS]", "the", "cat", "sat", "[SEP]"])
        expect(page.locator("#size")).to_have_text("5 tokens")
        true = attnscan.classify("the cat sat", model="bundled", predictive="off", special="in")
        if view == "model":
            expect(page.locator("#thumbnails canvas").first).to_have_attribute("width", "5")
            expect(page.locator("#summary")).to_contain_text(summary(true))
        elif view == "head":
            page.locator("#queries button").nth(1).focus()  # what comes later may move words from under a pointer
            expect(page.locator("#reading")).to_contain_text("the looks most at")
            shown = [float(text) for text in page.locator("#keys .value").all_text_contents()]
            assert shown == pytest.approx(true.kept_attention().weights[2, 0, 1].tolist(), abs=6e-4)
            buttons = page.locator("#picker button:not(.layer)").all()
            labels = [str(button.get_attribute("aria-label")).split(", ")[1] for button in buttons]
            assert labels == [words(str(name)).split(", ")[0] for name in true.among_words.flat]
        elif view == "neuron":
            expect(page.locator("#story")).to_contain_text("the query the (1) looks most at")
        else:
            cell = page.locator("#scores tbody tr").first.locator("td.score").first
            expect(cell).to_have_attribute("title", f"{true.table.score[0, 0, 0]:.6f}")

    def test_a_link_ranks_heads_on_every_input_and_goes_with_its_words(self, page: Page, address: str) -> None:
        visit(page, address + "#view=head&heads=2-0&by=weight&special=in&link=14-13")
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

    def test_what_cannot_be_answered_is_said_and_nothing_is_lost(self, page: Page, address: str) -> None:
        visit(page, address)
        refused = page.locator("#refused")
        page.fill("#sentence-a", "  ")
        expect(refused).to_have_text("A is empty: type a sentence")
        page.fill("#sentence-a", "word " * 600)
        expect(refused).to_contain_text("the model reads at most 512: shorten it")
        expect(refused).not_to_contain_text("--")
        assert len(tokens(page)) == TOKENS
        page.fill("#sentence-a", "I ran.")
        expect(refused).to_be_hidden()
        answered(page)
        assert tokens(page)[:4] == ["[CLS]", "i", "ran", "."]
        page.route("**/answer", lambda route: route.abort())  # as of a server that has ended
        page.fill("#sentence-a", "The dog ran.")
        expect(refused).to_contain_text("start attnscan serve again")

    def test_fast_typing_ends_on_the_last_word(self, page: Page, address: str) -> None:
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        visit(page, address).focus("#sentence-b")
        page.keyboard.press("Control+a")
        page.keyboard.type("The dog ran home and slept.", delay=15)
        expect(page.locator("#queries")).to_contain_text("slept")
        answered(page)
        assert tokens(page)[-8:] == ["the", "dog", "ran", "home", "and", "slept", ".", "[SEP]"]
        expect(page.locator("#facts")).to_contain_text("bootstrap resamples")
        assert not errors  # a question that another one replaces is none


class TestChanges:
    def test_a_hidden_word_is_predicted_and_stays_hidden_when_others_change(self, page: Page, address: str) -> None:
        """The toy's only head that matters knows each word from the one before it."""
        visit(page, f"{address}?model=1#view=head&special=in&a={sentence(5).replace(' ', '+')}&b=")
        expect(page.locator("#predictions")).to_contain_text("hide a word")
        page.click("#words button >> nth=3")
        hidden = sentence(3).split()[2]
        expect(page.locator("#predictions caption")).to_have_text(f"In place of {hidden} (3)")
        answered(page)
        assert tokens(page)[3] == "[MASK]"
        row = page.locator("#predictions tbody tr").first
        expect(row.locator("th")).to_have_text(hidden)
        before = float(row.locator("td").inner_text())
        page.fill("#without", "0-0")
        page.press("#without", "Enter")
        expect(page.locator("#predictions thead")).to_contain_text("before")
        truth = page.locator("#predictions tr.truth td")
        assert float(truth.nth(0).inner_text()) == before > 0.5
        assert float(truth.nth(1).inner_text()) < 0.1
        visit(page, address).click("#words button >> nth=13")
        expect(page.locator("#queries")).to_contain_text("[MASK]")
        page.fill("#sentence-a", "Yesterday evening I went to the store.")
        expect(page.locator("#words [aria-pressed=true]")).to_have_text("bought")
        answered(page)
        assert tokens(page).index("[MASK]") == 15

    def test_heads_are_switched_off_one_by_one_and_by_the_layer(self, page: Page, address: str) -> None:
        visit(page, address + "#view=head&heads=2-0")
        before = page.locator("#facts").inner_text()
        page.click("#switch-off")
        expect(page.locator("#without")).to_have_value("2-0")
        page.fill("#without", "2-0, 9-9")
        page.press("#without", "Enter")
        for view in ("model", "head"):  # whatever else is shown meanwhile
            page.click(f"#tab-{view}")
            answered(page)
            expect(page.locator("#refused")).to_contain_text("no head 9-9: this model has 6 layers of 12 heads")
        expect(page.locator("#without")).to_have_value("2-0, 9-9")
        expect(page.locator("#picker .out")).to_have_count(1)
        page.fill("#without", "layer:0")
        page.press("#without", "Enter")
        expect(page.locator("#picker .out")).to_have_count(12)
        answered(page)
        expect(page.locator("#facts")).not_to_have_text(before)
        expect(page.locator("#predictions caption")).to_contain_text("Vectors turned")

    def test_positions_and_segments(self, page: Page, address: str) -> None:
        visit(page, address + "#view=head&heads=1-8&by=weight&special=out")
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
    def test_history_links_the_back_button_and_an_offline_page(self, page: Page, address: str) -> None:
        past = page.locator("#past li")
        visit(page, address)
        expect(past).to_have_count(1)
        page.fill("#sentence-a", "The dog ran.")
        expect(past).to_have_count(2)
        page.click("#words button >> nth=2")
        expect(past).to_have_count(3)
        answered(page)
        with page.expect_download() as download:
            page.click("#offline")
        saved = Elements(Path(download.value.path()).read_text(encoding="utf-8"))
        assert saved.facts["tokens"] == tokens(page) and "[MASK]" in tokens(page) and saved.data["live"] is None
        page.click("#past summary")
        expect(past.first).to_contain_text("hidden: dog")
        link = page.locator("#past a").first.get_attribute("href")
        page.locator("#past a").last.click()
        expect(page.locator("#sentence-a")).to_have_value(FIRST.a)
        page.go_back()
        expect(page.locator("#sentence-a")).to_have_value("The dog ran.")
        page.goto(page.url.partition("#")[0] + str(link))  # of the same page: it is not loaded again
        expect(page.locator("#queries bdi").nth(2)).to_have_text("[MASK]")

    def test_an_answer_that_the_server_has_dropped_is_asked_for_again(self, page: Page, address: str) -> None:
        visit(page, f"{address}#view=model")
        asked: list[str] = []

        def refuse_once(route) -> None:  # type: ignore[no-untyped-def]
            asked.append(route.request.url)
            if len(asked) == 1:
                route.fulfill(status=410, json={"gone": True})
            else:
                route.continue_()

        page.route("**/numbers/**", refuse_once)
        page.click("#tab-head")
        expect(page.locator("#matrices canvas").first).to_be_visible()
        assert len(asked) == 2


class TestOtherHands:
    def test_by_touch_at_360_pixels(self, browser: Browser, troubles: list[str], address: str) -> None:
        context = browser.new_context(viewport={"width": 360, "height": 780}, has_touch=True, is_mobile=True)
        phone = watched(context.new_page(), troubles, address)
        visit(phone, address).fill("#sentence-b", "")
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
        context.close()

    def test_by_keyboard_alone(self, page: Page, address: str) -> None:
        visit(page, address)
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


class TestKinds:
    """An encoder-decoder: the switch, edits, gold links, written targets."""

    TRANSLATOR = str(Path(__file__).parents[1] / "data" / "translator")
    SOURCE, EDITED = "bado fela gumi hora", "tulu rezo pavi"
    TARGET, LINKS = "AROH IMUG ALEF ODAB", "3-0 2-1 1-2 0-3"

    @pytest.fixture(scope="class")
    def shown(self, browser: Browser, troubles: list[str]) -> Iterator[Page]:
        """The page of all kinds, opened."""
        patterns = {"encoder": PATTERNS, "decoder": PATTERNS, "cross": CROSS_PATTERNS}
        with ExitStack() as stack:
            options = [
                ScanOptions(model=self.TRANSLATOR, predictive="off", attention=kind, patterns=patterns[kind])
                for kind in patterns
            ]
            scanners = [stack.enter_context(Scanner(each)) for each in options]
            model = Loaded.of(*scanners, links=link_words(Pair(self.SOURCE, self.TARGET), self.LINKS))
            session = Session([model], Question(a=self.SOURCE, b=self.TARGET, attention="encoder"))
            address = f"http://127.0.0.1:{stack.enter_context(listened(session))}/{TOKEN}/"
            page = watched(browser.new_page(viewport=chromium.SIZE), troubles, address)
            page.goto(address)
            yield page

    def ask(self, page: Page, a: str, b: str) -> None:
        """Change both texts, until what comes last is painted, too: it moves what the pointer is on."""
        for box, text in (("b", b), ("a", a)):
            page.locator(f"#sentence-{box}").fill(text)
            all_painted = "html[data-asking=no][data-settled=yes]:has(#predictions:not(.earlier))"
            expect(page.locator(all_painted)).to_be_attached()

    def test_gold_links_are_outlined_until_an_edit_changes_the_number_of_words(self, shown: Page) -> None:
        choose_kind(shown, "cross")
        shown.locator("#tab-head").click()
        first, gold = shown.locator("#queries button:visible:not(.special)").first, shown.locator("#keys .gold bdi")
        for a, b, linked_word in (
            (self.SOURCE, self.TARGET, "hora"),
            (self.SOURCE.replace("hora", "lani"), self.TARGET, "lani"),
            (self.EDITED, self.TARGET, None),
            (self.SOURCE, f"{self.TARGET} UPEK", None),
            (self.SOURCE, "", None),
            (self.SOURCE, self.TARGET, "hora"),
        ):
            self.ask(shown, a, b)
            shown.locator("h1").hover()
            outlined = "Outlined in orange: gold links." if linked_word else "No gold links are outlined: "
            expect(shown.locator("#reading")).to_contain_text(outlined)
            first.hover()
            expect(gold).to_have_text([linked_word] if linked_word else [])

    @pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
    def test_each_answer_is_what_classify_says(self, shown: Page, kind: str) -> None:
        choose_kind(shown, kind)
        for button in ("#tab-table", "#by [value=weight]", "#special [value=in]"):
            shown.locator(button).click()
        for a, b in ((self.SOURCE, None), (self.EDITED, None), (self.EDITED, "IVAP OZER")):
            self.ask(shown, a, b or "")
            target, options = () if kind == "encoder" else (b,), {"predictive": "off", "special": "in"}
            frame = attnscan.classify(a, *target, model=self.TRANSLATOR, attention=kind, **options).to_frame()
            expect(shown.locator("#scores tbody tr")).to_have_count(len(frame))
            pattern = "even" if kind == "cross" else "previous-word"
            column = shown.locator("#scores thead tr:last-child th").all_text_contents().index(pattern) + 1
            cells = shown.locator(f"#scores tbody tr > :nth-child({column})")
            titles = cells.evaluate_all("cells => cells.map(cell => cell.title)")
            np.testing.assert_array_equal(titles, [f"{value:.6f}" for value in frame[pattern]])

    def test_an_empty_target_is_written_and_an_edit_is_read_by_all_kinds(self, shown: Page) -> None:
        choose_kind(shown, "cross")
        shown.locator("#tab-head").click()
        self.ask(shown, self.EDITED, "")
        names = shown.locator("#queries button:visible:not(.special) bdi")
        expect(names).to_have_text(["IVAP", "OZER", "ULUT"])
        expect(shown.locator("#without")).to_be_disabled()
        choose_kind(shown, "encoder")
        expect(names).to_have_text(self.EDITED.split())
        self.ask(shown, self.SOURCE, "")
        choose_kind(shown, "decoder")
        expect(names).to_have_text(["AROH", "IMUG", "ALEF", "ODAB"])
