"""The page in a real browser: every view is opened, used and read back."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import chromium  # first: without a browser the rest is skipped
import numpy as np
import pytest
from chromium import settle, violations
from hostile.texts import NASTY
from numpy.typing import NDArray
from one_run import classify_and_keep
from pages import HOSTILE, made_up, without_neurons
from playwright.sync_api import Locator, Page, expect

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
from attnscan.views.page.page import PageOptions, page
from attnscan.views.palette import COLORS, letter, words

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("browser")]  # one browser, which takes a core by itself

Open = chromium.Open
Save = Callable[..., Path]
Article = tuple[HeadScores, Attention]
VIEWS = ("model", "head", "neuron", "table")
READINGS: dict[str, tuple[By, Special]] = {
    "weight": ("weight", "in"),
    "words": ("weight", "out"),
    "carried": ("carried", "in"),
    "carried-words": ("carried", "out"),
}
"""What the two switches say for each reading."""
PIXELS = """canvas => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    return Array.from(data, (value) => String.fromCharCode(value)).join('');
}"""
"""A canvas's values as a text's characters: as a list, they take the browser's protocol seconds."""


@pytest.fixture(scope="module")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Writes a page, once for each name."""
    directory = tmp_path_factory.mktemp("pages")

    def save(name: str, result: HeadScores, options: PageOptions | None = None) -> Path:
        path: Path = directory / f"{name}.html"
        if not path.exists():
            path.write_text(page(result, options).html, encoding="utf-8")
        return path

    return save


@pytest.fixture
def article_page(save: Save, article: Article) -> Path:
    return save("article", article[0])


@pytest.fixture
def pairs_page(save: Save, ranking: HeadScores) -> Path:
    return save("pairs", ranking)


def address_of(reading: str) -> str:
    """How an address says a reading."""
    return "by={}&special={}".format(*READINGS[reading])


def turn(shown: Page, reading: str) -> None:
    """Turn both switches to a reading."""
    for switch, value in zip(("by", "special"), READINGS[reading], strict=True):
        shown.click(f"#{switch} button[value='{value}']")
    settle(shown)


def labels_of(result: HeadScores, reading: str) -> Labels:
    """What heads do by a reading."""
    return result.with_reading(*READINGS[reading]).labels


def numbers_of(attention: Attention, head: Head, reading: str) -> NDArray[np.float64]:
    """A head's numbers by a reading, from the unrounded ones: among words, each row's as shares of its words'."""
    numbers = attention.weights[head.place].astype(float)
    if reading.startswith("carried"):
        assert attention.norms is not None
        numbers *= attention.norms[head.place]
    if reading.endswith("words"):
        numbers *= np.array(attention.sentence) >= 0
    return np.asarray(numbers / numbers.sum(-1, keepdims=True))


def sentence_on(attention: Attention, head: Head, query: int) -> str:
    """What the page says of a query by weight."""

    def named(index: int) -> str:
        return attention.tokens[index] + (f" {index}" if attention.tokens.count(attention.tokens[index]) > 1 else "")

    row = attention.weights[head.place][query]
    first, second = (f"{named(key)} ({row[key]:.2f})" for key in np.argsort(-row, kind="stable")[:2].tolist())
    return f"{named(query)} looks most at {first}, then {second}."


def marks_of(labels: Labels) -> list[str]:
    """What stands for each head on the map."""
    heads = zip(labels.among_words.flat, labels.unsure.flat, strict=True)
    return [letter(str(name)) + "?" * bool(unsure) for name, unsure in heads]


def expect_address(page: Page, *parts: str) -> None:
    """Wait until the address, of which the browser tells after an event, has these parts in this order."""
    expect(page).to_have_url(re.compile(".*".join(map(re.escape, parts))))


def go(shown: Page, fragment: str) -> None:
    """To another address of the same page, which is not loaded again; done when the page has heard of it."""
    heard = "new Promise((done) => window.addEventListener('hashchange', () => done(0), { once: true }))"
    shown.evaluate(f"(fragment) => {{ const heard = {heard}; location.hash = fragment; return heard; }}", fragment)
    settle(shown)


def press(shown: Page, *keys: str) -> None:
    for key in keys:
        shown.keyboard.press(key)


def pixels(canvas: Locator) -> NDArray[np.uint8]:
    """Shape: [pixel, red green blue alpha]."""
    settle(canvas.page)
    return np.frombuffer(str(canvas.evaluate(PIXELS)).encode("latin-1"), np.uint8).reshape(-1, 4)


def count_drawn(canvas: Locator) -> int:
    """How many of a canvas's pixels are not blank."""
    return int((pixels(canvas)[:, 3] > 0).sum())


def texts(locator: Locator) -> list[str]:
    settle(locator.page)
    return [text.strip() for text in locator.all_text_contents()]


def numbers(locator: Locator) -> list[float]:
    return [float(text.replace("−", "-")) for text in texts(locator)]


def test_a_notebook_shows_the_same_views_and_saves_the_table(opened: Open, tmp_path: Path, article: Article) -> None:
    path = tmp_path / "cell.html"
    path.write_text(f"<!doctype html><html data-settled='yes'><body>{heads_html(article[0])}", encoding="utf-8")
    shown = opened(path)
    frame = shown.frame_locator("iframe")
    for view in ("Head", "Neuron", "Model"):
        frame.get_by_role("tab", name=view).click()
        expect(frame.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
        settle(frame)
    assert count_drawn(frame.locator("canvas").first) > 0
    frame.get_by_role("tab", name="Table").click()
    with shown.expect_download() as download:
        frame.get_by_role("button", name="Save CSV").click()
    assert Path(download.value.path()).read_bytes().count(b"\n") == 73


class TestModelView:
    def test_letters_colours_squares_and_counts_follow_the_reading(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        result, attention = article
        shown = opened(article_page)
        hint = shown.locator("#model-hint")
        expect(hint).to_contain_text("What each head does, by attention weight, among words, by letter and colour")
        expect(hint).to_contain_text("?: the label changed in more than 5 % of bootstrap resamples of the words, or ")
        words_only = np.flatnonzero(np.array(attention.sentence) >= 0)
        for reading in ("words", "carried", "weight", "carried-words"):
            turn(shown, reading)
            labels = labels_of(result, reading)
            spoken = shown.locator("#thumbnails button").evaluate_all("all => all.map(button => button.ariaLabel)")
            doubts = r", (not sure|rests on special tokens)"
            heard = [re.sub(doubts, "", label).split(", ", 1)[1] for label in spoken]
            assert heard == [words(str(name)) for name in labels.among_words.flat]
            assert texts(shown.locator("#thumbnails .caption > span")) == marks_of(labels)
            expect(shown.locator("#summary")).to_contain_text(summary(result.with_reading(*READINGS[reading])))
            resting = str((labels.label == "delimiter").sum())
            expect(shown.locator("#legend button[value='delimiter'] .count")).to_have_text(resting)
            kept = words_only if reading.endswith("words") else np.arange(19)
            for head in (attention.grid[number] for number in (2, 21, 35, 71)):
                true = numbers_of(attention, head, reading)[np.ix_(kept, kept)].ravel()
                found = pixels(shown.locator(f"#thumbnails button[value='{head.name}'] canvas"))
                assert np.abs(found[:, 3] - 255 * np.sqrt(true)).max() <= 0.51
                color = COLORS.get(labels.among_words[head.place], "#64748b")
                strongest = found[found[:, 3].argmax(), :3]
                np.testing.assert_allclose(strongest, [int(color[i : i + 2], 16) for i in (1, 3, 5)], atol=4)

    def test_heads_are_ordered_by_a_pattern_and_one_pattern_or_habit_stands_out_in_every_view(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        shown = opened(article_page, "#by=weight&special=in")
        shown.select_option("#order", "next-word")
        scores = np.sort(article[0].with_reading("weight", "in").table.score[..., 0].ravel())[::-1]
        np.testing.assert_allclose(numbers(shown.locator("#thumbnails .caption > span")), scores, atol=0.005 + 1e-9)
        for reading in ("weight", "carried", "words"):  # delimiter is of all attention, among words too
            go(shown, f"#order=delimiter&{address_of(reading)}")
            order = article[0].with_reading(*READINGS[reading]).order("delimiter")
            assert texts(shown.locator("#thumbnails b")) == [article[1].grid[number].name for number in order]
        go(shown, "#by=weight&special=out")
        for name in ("next-word", "next-3"):
            shown.click(f"#legend button[value='{name}']")
            count = int((article[0].labels.among_words == name).sum())
            expect(shown.locator("#thumbnails button:not(.dimmed)")).to_have_count(count)
            expect(shown.locator(f"#legend button[value='{name}'] .count")).to_have_text(str(count))
            assert count > 0
        expect_address(shown, "only=next-3")
        shown.click("#tab-table")
        expect(shown.locator("#only")).to_have_value("next-3")
        expect(shown.locator("#scores tbody tr")).to_have_count(count)
        shown.click("#tab-model")
        shown.click("#legend button[value='bag-of-words']")
        expect(shown.locator("#model-hint")).to_contain_text("No head does this: its own sentence evenly.")


class TestHeadView:
    def test_numbers_beside_tokens_and_lines_are_the_weights(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        attention, head = article[1], Head(1, 8)
        weights = attention.weights[head.place]
        shown = opened(article_page, "#view=head&heads=1-8&by=weight&special=in")
        assert texts(shown.locator("#queries bdi")) == list(attention.tokens)
        shown.click("#queries button[value='5']")
        np.testing.assert_allclose(numbers(shown.locator("#keys .value")), weights[5], atol=0.00055)
        expect(shown.locator("#reading")).to_have_text(sentence_on(attention, head, 5))
        shown.click("#keys button[value='0']")
        np.testing.assert_allclose(numbers(shown.locator("#queries .value")), weights[:, 0], atol=0.00055)
        shown.keyboard.press("Escape")
        shown.mouse.move(640, 890)
        assert set(texts(shown.locator(".value"))) == {""}
        shown.focus("#queries button[value='4']")
        shown.keyboard.press("ArrowDown")
        expect(shown.locator("#reading[aria-live='polite']")).to_have_text(sentence_on(attention, head, 5))
        keys = shown.get_by_role("listbox", name="Tokens that are looked at: keys")  # for screen readers
        spoken = keys.get_by_role("option").evaluate_all("all => all.map(each => each.ariaLabel)")
        for place, (text, weight) in enumerate(zip(spoken, weights[5], strict=True)):
            match = re.fullmatch(re.escape(attention.tokens[place]) + rf" (\S+), token {place}", text)
            assert match and float(match[1]) == pytest.approx(weight, abs=0.0006)
        shown = opened(article_page, "#view=head&heads=0-2&from=0.5&by=weight&special=in")
        box = shown.locator("#lines").bounding_box()
        assert box is not None
        shown.mouse.move(box["x"] + 5, box["y"] + 12 + 24 * 9 - 0.35)  # where the line of the tenth token starts
        expect(shown.locator("#reading")).to_have_text(
            f"the (9) → at (8) {attention.weights[0, 2, 9, 8]:.3f} in head 0-2"
        )

    def test_a_token_says_which_words_are_related_to_it(self, opened: Open, save: Save) -> None:
        options = ScanOptions(model="bundled", predictive="off")
        result, attention = classify_and_keep(Pair("The king saw a queen."), options)
        shown = opened(save("related", result), "#view=head&heads=0-0&by=weight&special=in")
        shown.click("#queries button[value='2']")
        expect(shown.locator("#reading")).to_have_text(sentence_on(attention, Head(0, 0), 2) + " Related: queen (5).")
        shown.click("#keys button[value='3']")
        expect(shown.locator("#reading")).to_contain_text("saw is looked at most by ")

    def test_several_heads_show_a_box_each_in_a_colour_of_their_own(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        shown = opened(article_page, "#view=head&heads=1-8&by=weight&special=in")
        one = count_drawn(shown.locator("#lines"))
        shown.click("#picker button[value='0-2']", modifiers=["Shift"])
        expect(shown.locator("#facts h2")).to_have_count(2)
        expect(shown.locator("#heads")).to_have_value("1-8, 0-2")
        assert count_drawn(shown.locator("#lines")) > one
        shown.hover("#queries button[value='5']")
        boxes = shown.locator("#keys .value").evaluate_all(
            "all => all.map(each => [...each.children].map(box => Number(box.style.opacity)))"
        )
        np.testing.assert_allclose(np.array(boxes), article[1].weights[[1, 0], [8, 2], 5].T, atol=0.00055)
        shades = shown.locator("#picker [aria-pressed='true']").evaluate_all(
            "all => all.map(each => each.style.getPropertyValue('--color'))"
        )
        assert len(set(shades)) == 2 and not set(shades) & set(COLORS.values())
        shown.fill("#heads", "2-9, 9-9")
        shown.press("#heads", "Enter")
        unknown = shown.locator("#unknown-heads")
        expect(unknown).to_contain_text("there is no head 9-9: this model has 6 layers of 12 heads")
        expect(shown.locator("#facts h2")).to_have_count(2)
        shown.fill("#heads", "2-9")
        shown.press("#heads", "Enter")
        labels = labels_of(article[0], "weight")
        name = words(str(labels.among_words[2, 9])) + "?" * bool(labels.unsure[2, 9])
        expect(shown.locator("#facts h2")).to_have_text([f"Head 2-9 {name}"])
        expect(unknown).to_be_hidden()

    @pytest.mark.parametrize("reading", READINGS)
    def test_a_matrix_beside_the_lines_holds_the_same_numbers(
        self, opened: Open, article_page: Path, article: Article, reading: str
    ) -> None:
        attention = article[1]
        shown = opened(article_page, f"#view=head&heads=1-8&{address_of(reading)}", 1440)
        stage, matrix = (shown.locator(name).bounding_box() for name in ("#stage", "#matrices canvas"))
        assert stage and matrix and stage["x"] + stage["width"] <= matrix["x"] and matrix["y"] < stage["y"] + 150
        kept = np.flatnonzero((np.array(attention.sentence) >= 0) | (not reading.endswith("words")))
        true = numbers_of(attention, Head(1, 8), reading)[np.ix_(kept, kept)]
        alphas = pixels(shown.locator("#matrices canvas"))[:, 3].reshape(true.shape)
        assert np.abs(alphas - 255 * np.sqrt(true)).max() <= 255 * 0.0001**0.5
        assert np.abs(alphas[true > 0.01] - 255 * np.sqrt(true[true > 0.01])).max() <= 0.7
        shown.focus("#matrices canvas")
        press(shown, "Shift+Tab", "Tab", "ArrowDown", "ArrowDown", "ArrowRight")
        query, key = kept[2], kept[1]
        start = f"{attention.tokens[query]} ({query}) → {attention.tokens[key]} ({key}) "
        match = re.fullmatch(re.escape(start) + r"(\S+) in head 1-8", str(shown.locator("#reading").text_content()))
        assert match and float(match[1]) == pytest.approx(true[2, 1], abs=0.0006)

    def test_long_lists_are_as_high_as_their_rows_and_the_strongest_lines_are_drawn(
        self, opened: Open, save: Save
    ) -> None:
        result, _ = made_up(1, 2, 300, neurons=4)
        shown = opened(save("longer", result), "#view=head&heads=0-0&by=weight&special=in&from=0")
        assert shown.locator("#queries").evaluate("list => list.offsetHeight") == 300 * 16
        assert shown.locator("#lines").evaluate("canvas => canvas.offsetHeight") == 300 * 16
        most = shown.locator("#most-lines")
        expect(most).to_have_text(re.compile(r"^The 2,000 strongest of 89,\d{3} lines are drawn\.$"))
        shown.hover("#keys button[value='3']")
        expect(most).to_be_hidden()

    def test_only_lines_between_these_sentences_and_above_the_threshold(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        attention = article[1]
        shown = opened(article_page, "#view=head&by=weight&special=in")
        for pairs in ("aa", "ab", "ba", "bb"):
            shown.select_option("#pairs", pairs)
            for name, sentence in zip(("queries", "keys"), pairs, strict=True):
                tokens = zip(attention.tokens, attention.segments, strict=True)
                expected = [token for token, segment in tokens if "ab"[segment] == sentence]
                assert texts(shown.locator(f"#{name} button:visible bdi")) == expected
        go(shown, "#view=head&heads=1-8&by=weight&special=in")
        for limit in ("0.3", "0.9"):
            shown.fill("#threshold", limit)
            count = int((attention.weights[1, 8] >= float(limit)).sum())
            said = re.compile(f"^{count} lines of weight {float(limit):.2f} or more")
            expect(shown.locator("#lines")).to_have_attribute("aria-label", said)

    def test_the_picker_and_the_facts_follow_the_reading(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        result, grid = article[0], article[1].grid
        labels = {reading: labels_of(result, reading) for reading in READINGS}
        head = next(
            h for h in grid if len({of.among_words[h.place] for of in (labels["weight"], labels["carried"])}) > 1
        )
        place = head.place
        does = {r: words(str(of.among_words[place])) + "?" * bool(of.unsure[place]) for r, of in labels.items()}
        shown = opened(article_page, f"#view=head&heads={head.name}&by=weight&special=in")
        facts = shown.locator("#facts")
        expect(facts).to_contain_text(f"writes {12 * result.output[place]:.1f} times its share")
        for reading, said in (("words", "by attention weight"), ("carried-words", "by what heads carry")):
            expect(facts).to_contain_text(f"{said}, among words: {does[reading]};")
        for reading in ("weight", "carried-words", "words", "carried"):
            turn(shown, reading)
            expect(facts.locator("h2 span")).to_have_text(does[reading])
            label, stays = labels[reading].label[place], labels[reading].stays[place]
            if label and not np.isnan(stays):
                expect(facts).to_contain_text(f"label {label}: the same in {round(100 * stays, 1):g} % of bootstrap")
        spoken = does["carried"].replace("?", ", not sure")
        button = shown.locator(f"#picker button[value='{head.name}']")
        expect(button).to_have_attribute("aria-label", f"{button.inner_text()} {head.name}, {spoken}")
        table = labels["carried"].table
        score, chance = (values[place] for values in np.broadcast_arrays(table.score, table.chance))
        scores = [text.replace("–", "nan") for text in texts(facts.locator("table.scores td:nth-child(2)"))]
        np.testing.assert_allclose(np.array(scores, float), score, atol=0.005 + 1e-9)
        chances = [text for text in texts(facts.locator("td.chance")) if text]
        np.testing.assert_allclose(np.array(chances, float), chance[~np.isnan(score)], atol=0.005 + 1e-9)
        bars = facts.locator("table.scores .bar").evaluate_all(
            "all => all.map(bar => Number(bar.style.getPropertyValue('--share')))"
        )
        np.testing.assert_allclose(bars, np.nan_to_num(table.above_chance[place]).clip(0), atol=1e-4)
        assert 0 in bars[:4] and max(bars) > 0.05

    def test_its_card_has_the_links_of_the_reading_and_the_command_for_the_rest(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        attention = article[1]
        is_word, names = np.array(attention.sentence) >= 0, [re.sub(r"\W*$", "", token) for token in attention.tokens]
        shown = opened(article_page, "#view=head&heads=1-4")
        for reading, pairs in (*((reading, "all") for reading in READINGS), ("words", "ab")):
            turn(shown, reading)
            shown.select_option("#pairs", pairs)
            of_words = numbers_of(attention, Head(1, 4), reading) * is_word[:, None]
            if pairs == "ab":
                of_words *= np.outer(*(np.array(attention.segments) == segment for segment in (0, 1)))
            order = np.argsort(-of_words, axis=None, kind="stable")[:5]
            expect(shown.locator("#facts .links td:nth-child(2)")).to_have_text(
                [f"{of_words.flat[place]:.2f}" for place in order]
            )
            for link, place in zip(shown.locator("#facts .links th").all(), order, strict=True):
                query, key = (re.escape(names[token]) for token in divmod(int(place), len(names)))
                expect(link).to_have_text(re.compile(f"{query}.* → {key}"))
        expect(shown.locator("#facts .more code")).to_have_text("attnscan head 1-4 --model bundled")

    def test_heads_that_are_not_carried_say_so(self, opened: Open, save: Save, article: Article) -> None:
        shown = opened(save("two", article[0], PageOptions(heads=(Head(1, 8), Head(0, 2)))), "#view=head")
        notice = shown.locator("#head-notice")
        expect(shown.locator("#heads")).to_have_value("1-8")
        expect(notice).to_be_hidden()
        shown.click("#picker button[value='3-3']")
        expect(notice).to_contain_text("The weights of 3-3 are not on this page, only the thumbnail")
        expect(notice).to_contain_text("attnscan report … --heads 3-3")
        kept = np.flatnonzero(np.array(article[1].sentence) >= 0)
        true = numbers_of(article[1], Head(3, 3), "words")[np.ix_(kept, kept)]
        assert np.abs(pixels(shown.locator("#matrices canvas"))[:, 3] - 255 * np.sqrt(true).ravel()).max() <= 0.51
        shown.click("#tab-neuron")
        expect(shown.locator("#neuron-notice")).to_contain_text("--heads")
        go(shown, "#view=head&heads=0-2&link=2-1")
        assert len(texts(shown.locator("#ranked button"))) == 2
        expect(shown.locator("#ranked-by")).to_contain_text("of the 2 heads whose weights are on this page")


@pytest.mark.parametrize("reading", ["weight", "carried-words"])
def test_a_click_on_a_cell_ranks_heads_by_its_link(
    opened: Open, article_page: Path, article: Article, reading: str
) -> None:
    shown = opened(article_page, f"#view=head&heads=0-2&{address_of(reading)}")
    matrix = shown.locator("#matrices canvas")
    cell = matrix.evaluate("canvas => canvas.offsetWidth / canvas.width")
    row = shown.locator("#queries button:visible").evaluate_all("all => all.findIndex(each => each.value === '14')")
    matrix.click(position={"x": (row + 1.5) * cell, "y": (row + 0.5) * cell})
    expect_address(shown, "link=14-15")
    expect(shown.locator("#ranked-by")).to_contain_text("fresh → straw")
    buttons = [text.split() for text in texts(shown.locator("#ranked button"))]
    ranked = {name: float(number) for name, *_, number in buttons}
    true = {head.name: numbers_of(article[1], head, reading)[14, 15] for head in article[1].grid}
    assert len(ranked) == 72 and list(ranked.values()) == sorted(ranked.values(), reverse=True)
    assert ranked == pytest.approx(true, abs=0.0006)
    average = str(shown.locator("#ranked-by").text_content()).rpartition(" ")[2]
    assert float(average) == pytest.approx(np.mean(list(true.values())), abs=0.0006)
    shown.click("#ranked button >> nth=0")
    expect(shown.locator("#heads")).to_have_value(next(iter(ranked)))
    shown.click("#clear-link")
    expect(shown.locator("#question")).to_be_hidden()
    matrix.focus()
    press(shown, "Shift+Tab", "Tab", "ArrowDown", "ArrowRight", "ArrowRight", "Enter")
    expect_address(shown, "link=")
    expect(matrix).to_be_focused()
    press(shown, "Enter")
    expect(shown.locator("#question")).to_be_hidden()


class TestNeuronView:
    def test_its_numbers_are_the_models_of_the_query_that_is_pointed_at_or_held(
        self, opened: Open, article_page: Path, article: Article
    ) -> None:
        attention, head = article[1], Head(1, 8)
        shown = opened(article_page, "#view=neuron&heads=1-8&token=q4&by=carried&special=in")  # it has one reading
        story, cells = shown.locator("#story"), "#sheet tbody td:nth-child({})"
        logits, weights = (shown.locator(cells.format(column)) for column in (4, 5))
        expect(story).to_contain_text("the query the (4) looks most at store (5)")
        np.testing.assert_allclose(numbers(logits), attention.products(head, 4).sum(-1), atol=0.02)
        np.testing.assert_allclose(numbers(weights), attention.weights[1, 8, 4], atol=0.00055)
        assert count_drawn(shown.locator("#query-strip canvas"))
        assert count_drawn(shown.locator("#sheet .of-product canvas").nth(3))
        shown.focus("#sheet tbody button >> nth=0")
        press(shown, "ArrowDown", "ArrowDown")
        text = str(shown.locator("#neuron-reading").text_content()).replace("−", "-")
        match = re.fullmatch(r"Neuron (\d+): q (\S+) × k of went \(2\) (\S+) × 0.177 = (\S+)", text)
        assert match, text
        neuron = int(match[1])
        parts = attention.query[1, 8, 4], attention.key[1, 8, 2], attention.products(head, 4)[2]
        np.testing.assert_allclose(
            [float(number) for number in match.groups()[1:]], [part[neuron] for part in parts], atol=0.01
        )
        shown.hover("#asked button[value='9']")
        expect(story).to_contain_text("the query the (9) looks most at store (10)")
        np.testing.assert_allclose(numbers(weights), attention.weights[1, 8, 9], atol=0.0006)
        shown.mouse.move(5, 5)
        expect(story).to_contain_text("the query the (4) looks most at")
        expect_address(shown, "token=q4")
        shown.click("#asked button[value='9']")
        shown.mouse.move(5, 5)
        expect_address(shown, "token=q9")
        expect(story).to_contain_text("the query the (9)")
        shown.select_option("#keys", "weight")
        order = np.argsort(-attention.weights[1, 8, 9], kind="stable")
        assert texts(shown.locator("#sheet tbody button"))[:3] == [attention.tokens[key] for key in order[:3]]

    def test_what_has_no_neurons_or_no_product_says_so(self, opened: Open, save: Save, article: Article) -> None:
        result, attention = article
        bare = replace(result, attention=without_neurons(attention))
        shown = opened(save("bare", bare), "#view=neuron")
        assert texts(shown.locator("#tabs button")) == ["Model", "Head", "Table"]
        expect(shown.locator("#model")).to_be_visible()
        why = "There is no neuron view: this architecture does not show its queries and keys."
        expect(shown.locator("#about")).to_contain_text(why)
        result, attention = made_up(1, 2, 4)
        causal = replace(attention, visible=np.tril(np.ones((1, 4, 4), dtype=bool)))
        shown = opened(save("causal", replace(result, attention=causal)), "#view=neuron&token=q2")
        seen = [text != "not seen" for text in texts(shown.locator("#sheet tbody td:nth-child(4)"))]
        assert seen == [True, True, True, False]


def test_the_page_of_many_pairs_has_a_map_and_heads_with_intervals_and_profiles(
    opened: Open, pairs_page: Path, ranking: HeadScores
) -> None:
    table, labels, profile = ranking.table, ranking.labels, ranking.profile
    low, high = table.interval
    shown = opened(pairs_page)
    marks = marks_of(labels)
    expect(shown.locator("#summary")).to_contain_text(summary(ranking))
    assert texts(shown.locator("#thumbnails .face b")) == marks and len(set(marks)) > 3
    face = shown.locator("#thumbnails button[value='0-2'] .face")
    expect(face.locator("small")).to_have_text(f"{low[0, 2, 1]:.2f}–{high[0, 2, 1]:.2f}")
    assert texts(shown.locator("#tabs button")) == ["Model", "Head", "Table"]
    shown.click("#thumbnails button[value='0-2']")
    cards = shown.locator("#cards")
    expect(cards.locator("h2")).to_have_text("Head 0-2 the previous word")
    shown.click("#picker button[value='1-9']")
    score, chance = (f"{values[1, 9, 1]:.3f}" for values in np.broadcast_arrays(table.score, table.chance))
    row = cards.locator("table.scores tbody tr").nth(1).locator("td")
    expect(row).to_have_text([score, f"{low[1, 9, 1]:.3f}–{high[1, 9, 1]:.3f}", chance, ""])
    bars = cards.locator("table.scores .bar").evaluate_all(
        "all => all.map(bar => Number(bar.style.getPropertyValue('--share')) > 0)"
    )
    beyond = low[1, 9] > np.broadcast_to(table.chance, table.score.shape)[1, 9]
    assert bars == beyond.tolist() and set(bars) == {True, False}  # none where the interval reaches chance
    stays = f"{round(100 * labels.stays[1, 9], 1):g} % of bootstrap resamples"
    expect(cards).to_contain_text(f"label {labels.label[1, 9]}: the same in {stays}")
    place = (1, 9, profile.classes.index("previous"))
    share, half = profile.share[place], float(half_width(profile.se[place], ranking.signature.pairs_read))
    previous = cards.locator("table.profile tr").first
    expect(previous.locator("td")).to_have_text([f"{share:.3f}", f"± {half:.3f}", ""])
    expect(cards.locator(".does")).to_have_text(statement(labels, Head(1, 9)))
    shown.click("#picker button[value='0-2']", modifiers=["Shift"])
    expect(cards.locator("article")).to_have_count(2)


class TestTable:
    @pytest.mark.parametrize("reading", READINGS)
    def test_it_shows_and_saves_the_csv(self, opened: Open, article_page: Path, article: Article, reading: str) -> None:
        result = article[0].with_reading(*READINGS[reading])
        shown = opened(article_page, f"#view=table&{address_of(reading)}")
        with shown.expect_download() as download:
            shown.click("#save")
        content = render(result.to_frame(), "csv")
        assert download.value.suggested_filename == "heads.csv"
        assert Path(download.value.path()).read_bytes() == content
        assert shown.locator("#scores tbody td b").count() == result.labels.unsure.sum() > 0
        shown.evaluate("document.querySelectorAll('#scores td b').forEach((mark) => mark.remove())")
        rows = shown.locator("#scores tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => [cell.textContent, cell.title]))"
        )
        columns, *lines = csv.reader(io.StringIO(content.decode()))
        assert columns[4:9] == ["label", "label_stays", "among_words", "share", "average"]
        for row, line in zip(rows, lines, strict=True):
            for (cell, title), true, name in zip(row[1:], line[4:], columns[4:], strict=False):
                if name in ("label", "among_words"):
                    assert cell == words(true)
                elif true:
                    assert float(cell) == pytest.approx(float(true), abs=0.005 + 1e-9) and title in (true, "")
                else:
                    assert cell == ""
        headings = texts(shown.locator("#scores thead button"))
        assert headings[:6] == ["head", "label", "label stays", "among words", "share", "average head"]

    def test_it_is_sorted_and_filtered(self, opened: Open, article_page: Path, article: Article) -> None:
        result = article[0]
        shown = opened(article_page, "#view=table&by=carried&special=in&only=previous-word&sort=-output")
        names = shown.locator("#scores tbody th")
        among_words = labels_of(result, "carried").among_words
        heads = [head for head in result.scores.grid if among_words[head.place] == "previous-word"]
        heads.sort(key=lambda head: -result.output[head.place])
        assert texts(names) == [head.name for head in heads]
        shown.click("#scores thead button[value='among_words']")
        expect(shown.locator("#scores thead th[aria-sort='ascending']")).to_have_text("among words")
        go(shown, "#view=table&by=weight&special=in")
        by_weight = result.with_reading("weight", "in")
        best = [by_weight.scores.grid[number].name for number in by_weight.order("previous-word")]
        shown.click("#scores thead button[value='previous-word']")
        assert texts(names) == best
        expect(shown.locator("#scores thead th[aria-sort='descending']")).to_have_text("previous-word")
        shown.click("#scores thead button[value='previous-word']")
        assert texts(names)[-1] == best[0]
        go(shown, "#view=table&only=next-word&sort=-entropy&by=weight&special=in")
        expect(shown.locator("#count")).to_contain_text("of 72 heads")
        with shown.expect_download() as download:
            shown.click("#save")
        frame = by_weight.to_frame()
        expected = frame[frame["among_words"] == "next-word"].sort_values("entropy", ascending=False)
        assert Path(download.value.path()).read_bytes() == render(expected, "csv")


class TestEveryView:
    def test_by_keyboard(self, opened: Open, article_page: Path) -> None:
        """Five keys lead from the top to reading a token."""
        shown = opened(article_page)
        press(shown, "Tab", "Enter")
        expect(shown.locator("#thumbnails button[value='1-8']")).to_be_focused()
        press(shown, "Enter")
        expect(shown.locator("#queries button[value='1']")).to_be_focused()
        expect(shown.locator("#reading")).to_contain_text("looks most at went")
        shown.focus("#picker button[value='1-8']")
        press(shown, "ArrowDown")
        expect(shown.locator("#heads")).to_have_value("2-8")
        press(shown, "Shift+ArrowRight")
        expect(shown.locator("#heads")).to_have_value("2-8, 2-9")
        shown.focus("#queries button[value='1']")
        press(shown, "ArrowDown", "Enter")
        expect_address(shown, "token=q2")
        assert (
            shown.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        )  # the focus is visible
        shown.focus("#tab-head")
        press(shown, "Home")
        for view in VIEWS:
            expect(shown.locator(f"#tab-{view}")).to_be_focused()
            expect(shown.locator(f"#{view}")).to_be_visible()
            press(shown, "ArrowRight")
        go(shown, "#view=model")
        shown.focus("#thumbnails button[value='0-0']")
        press(shown, "ArrowDown", "ArrowRight", "ArrowRight")
        expect(shown.locator("#thumbnails button[value='1-2']")).to_be_focused()
        go(shown, "#view=table")
        shown.focus("#scores tbody tr:nth-child(9) button")
        shown.evaluate("document.getElementById('theme').click()")  # all rows are made anew
        settle(shown)
        expect(shown.locator("#scores tbody tr:nth-child(9) button")).to_be_focused()

    def test_an_address_restores_what_was_shown(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page)
        shown.click("#tab-head")
        shown.fill("#heads", "0-2, 2-8")
        shown.press("#heads", "Enter")
        shown.select_option("#pairs", "ab")
        shown.fill("#threshold", "0.11")
        shown.click("#queries button[value='4']")
        expect_address(shown, "token=q4", "pairs=ab")
        again = opened(article_page, f"#{shown.url.split('#')[1]}")
        for name, value in (("heads", "0-2, 2-8"), ("pairs", "ab"), ("threshold", "0.11")):
            expect(again.locator(f"#{name}")).to_have_value(value)
        expect(again.locator("#queries button[value='4']")).to_have_attribute("aria-selected", "true")

    def test_the_two_switches_by_keyboard_and_with_every_view(self, opened: Open, article_page: Path) -> None:
        shown = opened(article_page)
        by, special = (shown.get_by_role("radiogroup", name=name) for name in ("Head", "Special tokens"))

        def expect_on(switch: Locator, name: str) -> None:
            for state in ("aria-checked='true'", "tabindex='0'"):  # it is on, and it takes part in the tab order
                expect(switch.locator(f"[role=radio][{state}]")).to_have_text(name)

        shown.focus("#by button[value='weight']")
        for key, name in (("ArrowRight", "carries"), ("ArrowLeft", "looks"), ("End", "carries")):
            expect_on(special, "out")
            press(shown, key)
            expect(by.get_by_role("radio", name=name)).to_be_focused()
            expect_on(by, name)
        press(shown, "Tab", "ArrowLeft")
        expect(special.get_by_role("radio", name="in")).to_be_focused()
        expect_on(special, "in")
        expect(shown).to_have_url(re.compile("#by=carried&special=in$"))
        shown.click("#tab-head")
        expect_on(by, "carries")
        assert texts(shown.locator("#queries button:visible bdi"))[0] == "[CLS]"
        shown.click("#tab-neuron")
        expect(by).to_be_hidden()
        expect(special).to_be_hidden()

    @pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (768, "dark"), (390, "dark")])
    def test_axe_core_has_nothing_to_say(
        self, opened: Open, article_page: Path, pairs_page: Path, width: int, theme: str
    ) -> None:
        several = (*VIEWS, "head&heads=1-8,0-2&token=q5", "model&order=identical", "head&link=5-13")
        for path, views in ((article_page, several), (pairs_page, ("model", "head", "table"))):
            shown = opened(path, width=width)
            for view in views:
                go(shown, f"#view={view}&theme={theme}")
                assert violations(shown) == [], view
                assert shown.evaluate("document.documentElement.scrollWidth") <= width

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

    @pytest.mark.parametrize("of_pairs", [False, True])
    def test_paper_shows_all_of_a_view_and_no_controls(
        self, opened: Open, article_page: Path, pairs_page: Path, of_pairs: bool
    ) -> None:
        millimetre = 96 / 25.4
        for view, millimetres, sheet_width in (("table", 297 - 24, 842), ("model", 210 - 24, 595)):
            width = int(millimetres * millimetre)
            shown = opened(pairs_page if of_pairs else article_page, f"#view={view}&theme=dark", width)
            sheet = re.search(rb"/MediaBox \[0 0 (\d+)", shown.pdf(format="A4", prefer_css_page_size=True))
            assert sheet and int(sheet[1]) == sheet_width
            shown.emulate_media(media="print")
            shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
            settle(shown)
            expect(shown.locator(f"#{view}")).to_be_visible()
            expect(shown.locator("#tabs")).to_be_hidden()
            assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            if view == "table":  # its headings are repeated on each sheet, as no box is
                styles = "all => all.map(button => getComputedStyle(button).display)"
                assert set(shown.locator("#scores thead button").evaluate_all(styles)) == {"contents"}
            last = shown.locator("#scores tr:last-child td:last-child, #thumbnails > :last-child")
            assert last.locator("visible=true").evaluate("element => element.getBoundingClientRect().right") <= width

    def test_hostile_text_runs_nothing(self, opened: Open, save: Save) -> None:
        """Nor does a text from right to left turn what stands around it."""
        for words_of_page, direction in ((["שלום", "עולם"], "rtl"), (["hello", "שלום", "world"], "ltr")):
            shown = opened(save(direction, made_up(1, 1, words_of_page)[0]))
            expect(shown.locator(".sentences span").first).to_have_attribute("dir", direction)
        tokens = [*HOSTILE, *NASTY]
        result, _ = made_up(1, 2, tokens)
        signature = replace(result.signature, model=HOSTILE[0])
        shown = opened(save("hostile", replace(result, signature=signature, notes=HOSTILE[:3])))
        assert shown.locator("h1").text_content() == HOSTILE[0]
        for view in VIEWS:
            go(shown, f"#view={view}&token=q2")
            expect(shown.locator(f"#{view}")).to_be_visible()
            assert shown.locator("img, svg, b > script, body script:not([type])").count() == 0
        go(shown, "#view=head&token=q2&special=in")
        expected = ["[CLS]", *(plain(token.strip()) or "␣" for token in tokens), "[SEP]"]
        assert shown.locator("#queries bdi").all_text_contents() == expected
        shown.hover("#queries button[value='3']")
        assert HOSTILE[2] in str(shown.locator("#reading").text_content())
