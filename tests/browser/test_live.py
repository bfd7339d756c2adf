"""A live page in a real browser, with a real server and real models behind it."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from support.chromium import Open, choose, press, settle
from support.command_line import A, B
from support.loaded_models import LoadedModels
from support.page_contents import Elements
from support.toy_mlm import save_toy_mlm, sentence
from support.translator import TRANSLATOR

import attnscan
from attnscan.scan import scanner
from attnscan.views.behaviour import summary
from attnscan.views.palette import words

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
]  # one browser, which takes a core by itself

HEAD = "#view=head&special=in"
TOKENS = 19  # of the article's pair


@pytest.fixture(scope="module")
def address(
    tmp_path_factory: pytest.TempPathFactory, _loaded_models: LoadedModels
) -> Iterator[str]:
    """Of a server with the bundled model, and a masked LM whose answers are known."""
    toy = save_toy_mlm(tmp_path_factory.mktemp("toy"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            scanner, "load", _loaded_models.anew
        )  # models of its own: they may run when a test has ended
        server = attnscan.serve(A, B, model="bundled", against=str(toy))
    with server:
        yield server.url


def tokens(page: Page) -> list[str]:
    settle(page)
    return page.locator("#queries bdi").all_text_contents()


@pytest.mark.parametrize("view", ["model", "head", "neuron", "table"])
def test_every_view_may_be_opened_first_and_follows_an_edit(
    opened: Open, address: str, view: str
) -> None:
    page = opened(address, f"#view={view}&heads=2-0&by=weight&special=in")
    names = page.locator(
        {"head": "#queries bdi", "neuron": "#key-names button"}.get(view, "#words button")
    )
    expect(names).to_have_count(TOKENS)
    page.fill("#sentence-b", "")
    page.fill("#sentence-a", "the cat sat")
    settle(page)
    expect(names).to_have_text(["[CLS]", "the", "cat", "sat", "[SEP]"])
    expect(page.locator("#size")).to_have_text("5 tokens")
    true = attnscan.classify("the cat sat", model="bundled", predictive="off", special="in")
    if view == "model":
        expect(page.locator("#thumbnails canvas").first).to_have_attribute("width", "5")
        expect(page.locator("#summary")).to_contain_text(summary(true))
    elif view == "head":
        page.locator("#queries button").nth(
            1
        ).focus()  # what comes later may move words from under a pointer
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


def test_what_cannot_be_answered_is_said_and_nothing_is_lost(opened: Open, address: str) -> None:
    page = opened(address, HEAD)
    refused = page.locator("#refused")
    page.fill("#sentence-a", "  ")
    expect(refused).to_have_text("A is empty: type a sentence")
    page.fill("#sentence-a", "word " * 600)
    expect(refused).to_have_text(re.compile("^[^-]*the model reads at most 512: shorten it$"))
    assert len(tokens(page)) == TOKENS
    page.fill("#sentence-a", "I ran.")
    expect(refused).to_be_hidden()
    assert tokens(page)[:4] == ["[CLS]", "i", "ran", "."]
    page.route(
        re.compile("/answer|/numbers"), lambda route: route.abort()
    )  # as of a server that has ended
    page.fill("#sentence-a", "The dog ran.")
    expect(refused).to_contain_text("start attnscan serve again")
    page.click("#picker [value='5-5']")
    expect(page.locator("#head-notice")).to_have_text(
        re.compile("5-5 .*: the server did not send them; reload")
    )

    page = opened(address, "#view=model")
    page.route(
        "**/numbers/**", lambda route: route.fulfill(status=410, json={}), times=1
    )  # dropped: it is asked again
    page.click("#tab-head")
    expect(page.locator("#lines")).to_be_visible()


def test_a_hidden_word_is_predicted(opened: Open, address: str) -> None:
    """The toy's only head that matters knows each word from the one before it."""
    page = opened(address, f"?model=1{HEAD}&a={sentence(5).replace(' ', '+')}&b=")
    expect(page.locator("#predictions")).to_contain_text("hide a word")
    page.click("#words button >> nth=3")
    hidden = sentence(3).split()[2]
    expect(page.locator("#predictions caption")).to_have_text(f"In place of {hidden} (3)")
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


def test_hidden_words_stay_hidden_when_others_change(opened: Open, address: str) -> None:
    page = opened(address, f"{HEAD}&hidden=4,9,13")
    expect(page.locator("#queries")).to_contain_text("[MASK]")
    page.fill("#sentence-a", ".")
    expect(page.locator("#words [aria-pressed=true]")).to_have_text(["the", "bought"])
    expect(page).to_have_url(re.compile("hidden=4,8"))  # "the" was hidden twice


def test_a_link_stays_when_other_words_change(opened: Open, address: str) -> None:
    page = opened(address, "#view=head&by=weight&special=in&link=14-13")
    edited = "At the store, I bought much bread."
    expect(page.locator("#ranked li")).to_have_count(72)
    page.fill("#sentence-b", edited)
    expect(page.locator("#ranked-by")).to_contain_text("much → bought")
    mean = (
        attnscan.classify(A, edited, model="bundled", predictive="off")
        .kept_attention()
        .weights[:, :, 14, 13]
        .mean()
    )
    expect(page.locator("#ranked-by")).to_contain_text(f"average head {mean:.3f}")
    page.fill("#sentence-b", "")
    settle(page)
    expect(page).not_to_have_url(re.compile("link="))
    expect(page.locator("#question")).to_be_hidden()


def test_heads_are_switched_off_by_touch(opened: Open, address: str) -> None:
    page = opened(address, f"{HEAD}&heads=2-0", 360, has_touch=True, is_mobile=True)
    before = page.locator("#facts").inner_text()
    page.tap("#changes summary >> nth=0")
    page.tap("#words button >> nth=2")
    expect(page.locator("#queries")).to_contain_text("[MASK]")
    page.tap("#words button >> nth=2")
    page.tap("#switch-off")
    expect(page.locator("#without")).to_have_value("2-0")
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    chips = page.locator("#words button:enabled").evaluate_all(
        "all => all.map(chip => chip.offsetHeight)"
    )
    assert chips and min(chips) >= 24
    page.fill("#without", "2-0, 9-9")
    page.press("#without", "Enter")
    for view in ("model", "head"):  # whatever else is shown meanwhile
        page.tap(f"#tab-{view}")
        settle(page)
        expect(page.locator("#refused")).to_contain_text(
            "no head 9-9: this model has 6 layers of 12 heads"
        )
    expect(page.locator("#without")).to_have_value("2-0, 9-9")
    expect(page.locator("#picker .out")).to_have_count(1)
    page.fill("#without", "layer:0")
    page.press("#without", "Enter")
    expect(page.locator("#picker .out")).to_have_count(12)
    settle(page)
    expect(page.locator("#facts")).not_to_have_text(before)
    expect(page.locator("#predictions caption")).to_contain_text("Vectors turned")


def test_positions_and_segments_are_changed(opened: Open, address: str) -> None:
    page = opened(address, "#view=head&heads=1-8&by=weight&special=out")
    score = page.locator("#facts tr", has_text="next-word").locator("td").first
    in_order = float(score.inner_text())
    page.select_option("#positions", "shuffled")
    settle(page)
    expect(score).not_to_have_text(f"{in_order:.2f}")
    assert float(score.inner_text()) < in_order - 0.3
    page.select_option("#positions", "kept")
    page.select_option("#segments", "swapped")
    settle(page)
    page.fill("#sentence-b", "")
    expect(page.locator("#segments")).to_be_hidden()


def test_history_links_the_back_button_and_an_offline_page(opened: Open, address: str) -> None:
    page = opened(address, HEAD)
    past = page.locator("#past li")
    expect(past).to_have_count(1)
    page.fill("#sentence-a", "The dog ran.")
    expect(past).to_have_count(2)
    page.click("#words button >> nth=2")
    expect(past).to_have_count(3)
    assert all(
        page.request.post(f"{address}answer", data={"a": word}).ok for word in "abcdefgh"
    )  # all that is held
    with page.expect_download() as download:
        page.click("#offline")
    saved = Elements(Path(download.value.path()).read_text(encoding="utf-8"))
    assert (
        saved.facts["tokens"] == tokens(page)
        and "[MASK]" in tokens(page)
        and saved.data["live"] is None
    )
    page.click("#past summary")
    expect(past.first).to_contain_text("hidden: dog")
    link = page.locator("#past a").first.get_attribute("href")
    page.locator("#past a").last.click()
    expect(page.locator("#sentence-a")).to_have_value(A)
    page.go_back()
    expect(page.locator("#sentence-a")).to_have_value("The dog ran.")
    page.goto(page.url.partition("#")[0] + str(link))  # of the same page: it is not loaded again
    expect(page.locator("#queries bdi").nth(2)).to_have_text("[MASK]")


def test_by_keyboard_alone_however_fast(opened: Open, address: str) -> None:
    page = opened(address, HEAD)
    errors: list[str] = []
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    for _ in range(30):
        press(page, "Tab")
        if page.evaluate("document.activeElement.id") == "sentence-a":
            break
    press(page, "Control+a")
    page.keyboard.type("The dog ran home and the cat sat.", delay=15)
    expect(page.locator("#queries")).to_contain_text("sat")
    assert tokens(page)[:11] == [
        "[CLS]",
        "the",
        "dog",
        "ran",
        "home",
        "and",
        "the",
        "cat",
        "sat",
        ".",
        "[SEP]",
    ]
    expect(page.locator("#facts")).to_contain_text("bootstrap resamples")
    press(page, "Tab", "Tab")
    assert page.evaluate("document.activeElement.parentElement.id") == "words"
    press(page, "ArrowRight", "Enter")
    expect(page.locator("#words [aria-pressed=true]")).to_have_text("dog")
    expect(page.locator("#queries")).to_contain_text("[MASK]")
    settle(page)
    expect(page.locator("#words button").nth(2)).to_be_focused()  # though it was made anew
    press(page, "ArrowRight", "Space")
    expect(page.locator("#words [aria-pressed=true]")).to_have_text(["dog", "ran"])
    assert not errors  # a question that another one replaces is none


SOURCE = "bado fela gumi hora"
EDITED = "tulu rezo pavi"
TARGET = "AROH IMUG ALEF ODAB"
LINKS = "3-0 2-1 1-2 0-3"


@pytest.fixture(scope="module")
def address_of_kinds() -> Iterator[str]:
    """Of a server with an encoder-decoder, all of its attention, and a pair with gold links."""
    with attnscan.serve(
        SOURCE, TARGET, model=str(TRANSLATOR), attention="all", alignments=[LINKS]
    ) as server:
        yield server.url


def ask(page: Page, a: str, b: str) -> None:
    for box, text in (("b", b), ("a", a)):
        page.fill(f"#sentence-{box}", text)
        settle(page)


def test_gold_links_stay_while_the_number_of_words_is_the_same(
    opened: Open, address_of_kinds: str
) -> None:
    page = opened(address_of_kinds)
    choose(page, "input", "cross")
    page.locator("#tab-head").click()
    names = page.locator("#queries button:visible:not(.special) bdi")
    for a, b, linked_word in (
        (SOURCE, TARGET, "hora"),
        (SOURCE.replace("hora", "lani"), TARGET, "lani"),
        (EDITED, TARGET, None),
        (SOURCE, f"{TARGET} UPEK", None),
        (SOURCE, "", None),
        (SOURCE, TARGET, "hora"),
    ):
        ask(page, a, b)
        page.locator("h1").hover()
        outlined = (
            "Outlined in orange: gold links." if linked_word else "No gold links are outlined: "
        )
        expect(page.locator("#reading")).to_contain_text(outlined)
        names.first.hover()
        expect(page.locator("#keys .gold bdi")).to_have_text([linked_word] if linked_word else [])


def test_a_target_that_is_empty_is_written_by_the_model(
    opened: Open, address_of_kinds: str
) -> None:
    page = opened(address_of_kinds)
    choose(page, "input", "cross")
    page.locator("#tab-head").click()
    names = page.locator("#queries button:visible:not(.special) bdi")
    ask(page, EDITED, "")
    expect(names).to_have_text(["IVAP", "OZER", "ULUT"])  # the model writes a target that is empty
    expect(page.locator("#without")).to_be_disabled()
    choose(page, "input", "encoder")
    expect(names).to_have_text(EDITED.split())
    ask(page, SOURCE, "")
    choose(page, "input", "decoder")
    expect(names).to_have_text(TARGET.split())


def test_edits_are_read_by_all_kinds_of_attention(opened: Open, address_of_kinds: str) -> None:
    page = opened(address_of_kinds)
    page.click("#tab-table")
    for kind in ("encoder", "decoder", "cross"):
        choose(page, "input", kind)
        choose(page, "by", "weight")
        choose(page, "special", "in")
        pattern = "even" if kind == "cross" else "previous-word"
        column = (
            page.locator("#scores thead tr:last-child th").all_text_contents().index(pattern) + 1
        )
        for a, b in ((SOURCE, None), (EDITED, None), (EDITED, "IVAP OZER")):
            ask(page, a, b or "")
            target = () if kind == "encoder" else (b,)
            options = {"model": str(TRANSLATOR), "predictive": "off", "special": "in"}
            frame = attnscan.classify(a, *target, attention=kind, **options).to_frame()
            expect(page.locator("#scores tbody tr")).to_have_count(len(frame))
            cells = page.locator(f"#scores tbody tr > :nth-child({column})")
            titles = cells.evaluate_all("cells => cells.map(cell => cell.title)")
            np.testing.assert_array_equal(titles, [f"{value:.6f}" for value in frame[pattern]])
