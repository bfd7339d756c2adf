"""The live page of an encoder-decoder in a real browser: the switch, edits, gold links, written targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import pytest
from live import TOKEN, listened
from playwright.sync_api import Page, expect

import attnscan
from attnscan.inputs.alignments import linked
from attnscan.inputs.sentence import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.cross import CROSS_PATTERNS
from attnscan.scoring.patterns import PATTERNS
from attnscan.server.question import Question
from attnscan.server.session import Loaded, Session

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

TRANSLATOR = str(Path(__file__).parents[1] / "data" / "translator")
KINDS = ("encoder", "decoder", "cross")
SOURCE, EDITED = "bado fela gumi hora", "tulu rezo pavi"
TARGET, LINKS = "AROH IMUG ALEF ODAB", "3-0 2-1 1-2 0-3"


@pytest.fixture(scope="module")
def shown() -> Iterator[Page]:
    """The page of all kinds, opened; at the end, no script may have failed and the server have met no bug."""
    errors = list[str]()
    with ExitStack() as stack:
        options = [
            ScanOptions(model=TRANSLATOR, predictive="off", attention=kind, patterns=patterns)
            for kind, patterns in zip(KINDS, (PATTERNS, PATTERNS, CROSS_PATTERNS), strict=True)
        ]
        model = Loaded.of(
            *(stack.enter_context(Scanner(own)) for own in options), links=linked(Pair(SOURCE, TARGET), LINKS)
        )
        session = Session([model], Question(a=SOURCE, b=TARGET, attention="encoder"))
        port = stack.enter_context(listened(session))
        page = stack.enter_context(chromium.running()).new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{port}/{TOKEN}/")
        yield page
    assert errors == []


def choose(page: Page, kind: str) -> None:
    page.locator(f"#input [value={kind}]").click()
    expect(page.locator(f"#input [value={kind}]")).to_have_attribute("aria-checked", "true")


def asked(page: Page, text: str, box: str = "a") -> None:
    """Change a text, until what comes last is painted, too: it moves what the pointer is on."""
    page.locator(f"#sentence-{box}").fill(text)
    expect(page.locator("html[data-asking=no][data-settled=yes]:has(#predictions:not(.earlier))")).to_be_attached()


def scores(page: Page, pattern: str) -> list[str]:
    """What the table has of a pattern, in full."""
    names = page.locator("#scores thead tr:last-child th").all_text_contents()
    return page.locator(f"#scores tbody tr > :nth-child({names.index(pattern) + 1})").evaluate_all(
        "cells => cells.map(cell => cell.title)"
    )


def test_gold_links_are_outlined_until_an_edit_changes_the_number_of_words(shown: Page) -> None:
    choose(shown, "cross")
    shown.locator("#tab-head").click()
    first, gold = shown.locator("#queries button:visible:not(.special)").first, shown.locator("#keys .gold bdi")
    for a, b, linked_word in (
        (SOURCE, TARGET, "hora"),
        (SOURCE.replace("hora", "lani"), TARGET, "lani"),
        (EDITED, TARGET, None),
        (SOURCE, f"{TARGET} UPEK", None),
        (SOURCE, "", None),
        (SOURCE, TARGET, "hora"),
    ):
        asked(shown, a)
        asked(shown, b, "b")
        shown.locator("h1").hover()
        outlined = "Outlined in orange: gold links." if linked_word else "No gold links are outlined: "
        expect(shown.locator("#reading")).to_contain_text(outlined)
        first.hover()
        expect(gold).to_have_text([linked_word] if linked_word else [])


@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_is_what_classify_says(shown: Page, kind: str) -> None:
    choose(shown, kind)
    shown.locator("#tab-table").click()
    shown.locator("#by [value=weight]").click()
    shown.locator("#special [value=in]").click()
    for a, b in ((SOURCE, None), (EDITED, None), (EDITED, "IVAP OZER")):
        asked(shown, b or "", "b")
        asked(shown, a)
        target = () if kind == "encoder" else (b,)
        frame = attnscan.classify(
            a, *target, model=TRANSLATOR, predictive="off", attention=kind, special="in"
        ).to_frame()
        pattern = "even" if kind == "cross" else "previous-word"
        expect(shown.locator("#scores tbody tr")).to_have_count(len(frame))
        assert scores(shown, pattern) == [f"{value:.6f}" for value in frame[pattern]]


def test_an_empty_target_is_written_and_an_edit_is_read_by_all_kinds(shown: Page) -> None:
    choose(shown, "cross")
    shown.locator("#tab-head").click()
    asked(shown, "", "b")
    asked(shown, EDITED)
    words = shown.locator("#queries button:visible:not(.special) bdi")
    expect(words).to_have_text(["IVAP", "OZER", "ULUT"])
    expect(shown.locator("#without")).to_be_disabled()
    choose(shown, "encoder")
    expect(words).to_have_text(EDITED.split())
    asked(shown, SOURCE)
    choose(shown, "decoder")
    expect(words).to_have_text(["AROH", "IMUG", "ALEF", "ODAB"])
