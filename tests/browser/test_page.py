"""The page of one input or of many pairs in a real browser: every view is used and read back."""

import csv
import io
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect
from support.chromium import (
    Open,
    check_accessibility,
    choose,
    expect_address,
    picture_at,
    press,
    settle,
)
from support.hostile.texts import NASTY
from support.page_contents import HOSTILE, made_up, without_neurons

import attnscan
from attnscan import HeadScores
from attnscan.results.attention import Attention
from attnscan.results.files import render
from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.scores import Labels
from attnscan.results.signature import By, Special
from attnscan.text import plain
from attnscan.views.behaviour import statement, summary
from attnscan.views.notebook import heads_html
from attnscan.views.palette import COLORS, mark_of, words

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
]  # one browser, which takes a core by itself

GROUND = "getComputedStyle(document.body).backgroundColor"
WHITE = "rgb(255, 255, 255)"
VIEWS = ("model", "head", "neuron", "table")
READINGS: list[tuple[By, Special]] = [
    ("weight", "out"),
    ("carried", "in"),
    ("weight", "in"),
    ("carried", "out"),
]


def numbers_of(attention: Attention, head: Head, by: By, special: Special) -> NDArray[np.float64]:
    """A head's numbers by a reading, from the unrounded ones.

    Without special tokens, they are shares of each row's words.
    """
    numbers = attention.weights[head.place].astype(float)
    if by == "carried":
        assert attention.norms is not None
        numbers *= attention.norms[head.place]
    if special == "out":
        numbers *= np.array(attention.sentence) >= 0
    return np.asarray(numbers / numbers.sum(-1, keepdims=True))


def tokens_shown(attention: Attention, special: Special) -> NDArray[np.int64]:
    return np.flatnonzero((np.array(attention.sentence) >= 0) | (special == "in"))


def sentence_on(attention: Attention, head: Head, query: int) -> str:
    """What the page says of a query by weight."""

    def named(index: int) -> str:
        return attention.tokens[index] + (
            f" {index}" if attention.tokens.count(attention.tokens[index]) > 1 else ""
        )

    row = attention.weights[head.place][query]
    first, second = (
        f"{named(key)} ({row[key]:.2f})" for key in np.argsort(-row, kind="stable")[:2].tolist()
    )
    return f"{named(query)} looks most at {first}, then {second}."


def marks_of(labels: Labels) -> list[str]:
    """What stands for each head on the map."""
    return [mark_of(labels, head) for head in labels.grid]


def go(page: Page, fragment: str) -> None:
    """To another address of the same page, which is not loaded again.

    It is done when the page has heard of it.
    """
    page.evaluate(
        """(fragment) => new Promise((done) => {
            window.addEventListener('hashchange', () => done(0), { once: true });
            location.hash = fragment;
        })""",
        fragment,
    )
    settle(page)


def pixels(canvas: Locator) -> NDArray[np.float64]:
    """Whole numbers to 255. Shape: [pixel, red green blue alpha]."""
    settle(canvas.page)
    return (
        255 * picture_at(canvas.evaluate("canvas => canvas.toDataURL()")).reshape(-1, 4)
    ).round()


def count_drawn(canvas: Locator) -> int:
    """How many of a canvas's pixels are not blank."""
    return int((pixels(canvas)[:, 3] > 0).sum())


def texts(locator: Locator) -> list[str]:
    settle(locator.page)
    return [text.strip() for text in locator.all_text_contents()]


def numbers(locator: Locator) -> list[float]:
    return [float(text.replace("−", "-")) for text in texts(locator)]


def saved_table(page: Page) -> bytes:
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "heads.csv"
    return Path(download.value.path()).read_bytes()


def test_a_notebook_shows_the_same_views_and_saves_the_table(
    opened: Open, tmp_path: Path, article: HeadScores
) -> None:
    path = tmp_path / "cell.html"
    path.write_text(
        f"<!doctype html><html data-settled='yes'><body>{heads_html(article)}", encoding="utf-8"
    )
    page = opened(path)
    frame = page.frame_locator("iframe")
    for view in ("Head", "Neuron", "Model"):
        frame.get_by_role("tab", name=view).click()
        expect(frame.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
        settle(frame)
    assert count_drawn(frame.locator("canvas").first) > 0
    frame.get_by_role("tab", name="Table").click()
    with page.expect_download() as download:
        frame.get_by_role("button", name="Save CSV").click()
    assert Path(download.value.path()).read_bytes().count(b"\n") == 73


def test_letters_colours_thumbnails_and_counts_follow_the_reading(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    page = opened(article_page)
    attention = article.kept_attention()
    hint = page.locator("#model-hint")
    expect(hint).to_contain_text(
        "What each head does, by attention weight, among words, by letter and colour"
    )
    expect(hint).to_contain_text(
        "?: the label changed in more than 5 % of bootstrap resamples of the words, or "
    )
    for by, special in READINGS:
        choose(page, "by", by)
        choose(page, "special", special)
        result = article.select_reading(by, special)
        labels = result.labels
        spoken = page.locator("#thumbnails button").evaluate_all(
            "all => all.map(button => button.ariaLabel)"
        )
        heard = [
            re.sub(r", (not sure|rests on special tokens)", "", text).split(", ", 1)[1]
            for text in spoken
        ]
        assert heard == [words(str(name)) for name in labels.among_words.flat]
        assert texts(page.locator("#thumbnails .caption > span")) == marks_of(labels)
        expect(page.locator("#summary")).to_contain_text(summary(result))
        resting = str((labels.label == "delimiter").sum())
        expect(page.locator("#legend button[value='delimiter'] .count")).to_have_text(resting)
        shown = np.ix_(*[tokens_shown(attention, special)] * 2)
        for head in (attention.grid[number] for number in (2, 21, 35, 71)):
            true = numbers_of(attention, head, by, special)[shown].ravel()
            found = pixels(page.locator(f"#thumbnails button[value='{head.name}'] canvas"))
            assert np.abs(found[:, 3] - 255 * np.sqrt(true)).max() <= 0.51
            color = COLORS.get(labels.among_words[head.place], "#64748b")
            strongest = found[found[:, 3].argmax(), :3]
            np.testing.assert_allclose(
                strongest, [int(color[i : i + 2], 16) for i in (1, 3, 5)], atol=4
            )


def test_heads_are_ordered_by_a_pattern_and_filtered_by_a_kind(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    page = opened(article_page, "#by=weight&special=in")
    by_weight = article.select_reading("weight", "in")
    page.select_option("#order", "next-word")
    scores = np.sort(by_weight.table.score[..., 0].ravel())[::-1]
    np.testing.assert_allclose(
        numbers(page.locator("#thumbnails .caption > span")), scores, atol=0.005 + 1e-9
    )
    grid = article.scores.grid
    for by, special in READINGS[:3]:  # delimiter is of all attention, among words too
        go(page, f"#order=delimiter&by={by}&special={special}")
        order = article.select_reading(by, special).order("delimiter")
        assert texts(page.locator("#thumbnails b")) == [grid[number].name for number in order]
    go(page, "#by=weight&special=out")
    for name in ("next-word", "next-3"):  # a pattern and a habit
        page.click(f"#legend button[value='{name}']")
        count = int((article.labels.among_words == name).sum())
        expect(page.locator("#thumbnails button:not(.dimmed)")).to_have_count(count)
        expect(page.locator(f"#legend button[value='{name}'] .count")).to_have_text(str(count))
        assert count > 0
    expect_address(page, "only=next-3")
    page.click("#tab-table")  # where the choice still holds
    expect(page.locator("#only")).to_have_value("next-3")
    expect(page.locator("#scores tbody tr")).to_have_count(count)
    page.click("#tab-model")
    page.click("#legend button[value='bag-of-words']")
    expect(page.locator("#model-hint")).to_contain_text(
        "No head does this: its own sentence evenly."
    )


def test_the_table_is_sorted_filtered_and_saved_so(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    address = "#view=table&by=carried&special=in&only=previous-word&sort=-output"
    page = opened(article_page, address)
    by_weight = article.select_reading("weight", "in")
    grid = article.scores.grid
    names = page.locator("#scores tbody th")
    sorting = "#scores thead button[value='{}']"
    among_words = article.select_reading("carried", "in").labels.among_words
    heads = [head for head in grid if among_words[head.place] == "previous-word"]
    heads.sort(key=lambda head: -article.output[head.place])
    assert texts(names) == [head.name for head in heads]
    page.click(sorting.format("among_words"))
    expect(page.locator("#scores thead th[aria-sort='ascending']")).to_have_text("among words")
    go(page, "#view=table&by=weight&special=in")
    best = [grid[number].name for number in by_weight.order("previous-word")]
    page.click(sorting.format("previous-word"))
    assert texts(names) == best
    expect(page.locator("#scores thead th[aria-sort='descending']")).to_have_text("previous-word")
    page.click(sorting.format("previous-word"))
    assert texts(names)[-1] == best[0]
    go(page, "#view=table&only=next-word&sort=-entropy&by=weight&special=in")
    expect(page.locator("#count")).to_contain_text("of 72 heads")
    frame = by_weight.to_frame().query("among_words == 'next-word'")
    assert saved_table(page) == render(frame.sort_values("entropy", ascending=False), "csv")


@pytest.mark.parametrize(("by", "special"), READINGS)
def test_the_table_shows_and_saves_the_csv(
    opened: Open, article_page: Path, article: HeadScores, by: By, special: Special
) -> None:
    result = article.select_reading(by, special)
    page = opened(article_page, f"#view=table&by={by}&special={special}")
    content = render(result.to_frame(), "csv")
    assert saved_table(page) == content
    assert page.locator("#scores tbody td b").count() == result.labels.unsure.sum() > 0
    page.evaluate("document.querySelectorAll('#scores td b').forEach((mark) => mark.remove())")
    rows = page.locator("#scores tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => [cell.textContent, cell.title]))"
    )
    columns, *lines = csv.reader(io.StringIO(content.decode()))
    assert columns[4:9] == ["label", "label_stays", "among_words", "share", "average"]
    for row, line in zip(rows, lines, strict=True):
        for (cell, title), true, name in zip(row[1:], line[4:], columns[4:], strict=False):
            if name in ("label", "among_words"):
                assert cell == words(true)
            elif true:
                assert float(cell) == pytest.approx(float(true), abs=0.005 + 1e-9) and title in (
                    true,
                    "",
                )
            else:
                assert cell == ""
    headings = texts(page.locator("#scores thead button"))
    assert headings[:6] == ["head", "label", "label stays", "among words", "share", "average head"]


def test_numbers_beside_tokens_are_the_weights(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    attention = article.kept_attention()
    head = Head(1, 8)
    weights = attention.weights[head.place]
    page = opened(article_page, "#view=head&heads=1-8&by=weight&special=in")
    reading = page.locator("#reading[aria-live='polite']")
    assert texts(page.locator("#queries bdi")) == list(attention.tokens)
    page.click("#queries button[value='2']")
    expect(reading).to_have_text(sentence_on(attention, head, 2) + " Related: bought (13).")
    page.click("#queries button[value='5']")
    np.testing.assert_allclose(numbers(page.locator("#keys .value")), weights[5], atol=0.00055)
    expect(reading).to_have_text(sentence_on(attention, head, 5))
    page.click("#keys button[value='0']")
    np.testing.assert_allclose(
        numbers(page.locator("#queries .value")), weights[:, 0], atol=0.00055
    )
    expect(reading).to_contain_text("[CLS] is looked at most by ")
    page.keyboard.press("Escape")
    page.mouse.move(640, 890)
    assert set(texts(page.locator(".value"))) == {""}
    page.focus("#queries button[value='4']")
    page.keyboard.press("ArrowDown")
    expect(reading).to_have_text(sentence_on(attention, head, 5))
    keys = page.get_by_role("listbox", name="Tokens that are looked at: keys")  # for screen readers
    spoken = keys.get_by_role("option").evaluate_all("all => all.map(each => each.ariaLabel)")
    for place, (text, weight) in enumerate(zip(spoken, weights[5], strict=True)):
        match = re.fullmatch(re.escape(attention.tokens[place]) + rf" (\S+), token {place}", text)
        assert match and float(match[1]) == pytest.approx(weight, abs=0.0006)


def test_lines_are_those_of_the_sentences_above_the_threshold(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    attention = article.kept_attention()
    page = opened(article_page, "#view=head&heads=1-8&by=weight&special=in")
    for limit in ("0.3", "0.9"):
        page.fill("#threshold", limit)
        count = int((attention.weights[1, 8] >= float(limit)).sum())
        label = re.compile(f"^{count} lines of weight {float(limit):.2f} or more")
        expect(page.locator("#lines")).to_have_attribute("aria-label", label)
    for pairs in ("aa", "ab", "ba", "bb"):
        page.select_option("#pairs", pairs)
        for name, sentence in zip(("queries", "keys"), pairs, strict=True):
            tokens = zip(attention.tokens, attention.segments, strict=True)
            expected = [token for token, segment in tokens if "ab"[segment] == sentence]
            assert texts(page.locator(f"#{name} button:visible bdi")) == expected
    go(page, "#view=head&heads=0-2&from=0.5&by=weight&special=in")
    box = page.locator("#lines").bounding_box()
    assert box is not None
    # where the line of the tenth token starts
    page.mouse.move(box["x"] + 5, box["y"] + 12 + 24 * 9 - 0.35)
    weight = attention.weights[0, 2, 9, 8]
    expect(page.locator("#reading")).to_have_text(f"the (9) → at (8) {weight:.3f} in head 0-2")


def test_only_the_2000_strongest_lines_are_drawn(opened: Open, tmp_path: Path) -> None:
    attnscan.report(made_up(1, 2, 300, neurons=4)[0], output=tmp_path / "longer.html")
    page = opened(tmp_path / "longer.html", "#view=head&heads=0-0&by=weight&special=in&from=0")
    for name in ("queries", "lines"):  # as high as all rows
        assert page.locator(f"#{name}").evaluate("element => element.offsetHeight") == 300 * 16
    most = page.locator("#most-lines")
    expect(most).to_have_text(re.compile(r"^The 2,000 strongest of 89,\d{3} lines are drawn\.$"))
    page.hover("#keys button[value='3']")
    expect(most).to_be_hidden()


def enter_heads(page: Page, text: str) -> None:
    page.fill("#heads", text)
    page.press("#heads", "Enter")


def test_several_heads_are_drawn_in_colours_of_their_own(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    page = opened(article_page, "#view=head&heads=1-8&by=weight&special=in")
    drawn_of_one = count_drawn(page.locator("#lines"))
    page.click("#picker button[value='0-2']", modifiers=["Shift"])
    expect(page.locator("#facts h2")).to_have_count(2)
    expect(page.locator("#heads")).to_have_value("1-8, 0-2")
    assert count_drawn(page.locator("#lines")) > drawn_of_one
    page.hover("#queries button[value='5']")
    boxes = page.locator("#keys .value").evaluate_all(
        "all => all.map(each => [...each.children].map(box => Number(box.style.opacity)))"
    )
    weights = article.kept_attention().weights
    np.testing.assert_allclose(np.array(boxes), weights[[1, 0], [8, 2], 5].T, atol=0.00055)
    shades = page.locator("#picker [aria-pressed='true']").evaluate_all(
        "all => all.map(each => each.style.getPropertyValue('--color'))"
    )
    assert len(set(shades)) == 2 and not set(shades) & set(COLORS.values())


def test_unknown_head_that_is_written_is_named(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    page = opened(article_page, "#view=head&heads=1-8,0-2&by=weight&special=in")
    titles = page.locator("#facts h2")
    unknown = page.locator("#unknown-heads")
    enter_heads(page, "2-9, 9-9")
    expect(titles).to_have_count(2)
    expect(unknown).to_contain_text("there is no head 9-9: this model has 6 layers of 12 heads")
    enter_heads(page, "2-9")
    expect(unknown).to_be_hidden()
    labels = article.select_reading("weight", "in").labels
    name = words(str(labels.among_words[2, 9])) + "?" * bool(labels.unsure[2, 9])
    expect(titles).to_have_text([f"Head 2-9 {name}"])
    page.go_back()
    expect(page.locator("#heads")).to_have_value("1-8, 0-2")


def test_address_keeps_heads_token_pairs_and_threshold(opened: Open, article_page: Path) -> None:
    page = opened(article_page, "#view=head&by=weight&special=in")
    enter_heads(page, "0-2, 2-8")
    page.select_option("#pairs", "ab")
    page.fill("#threshold", "0.11")
    page.click("#queries button[value='4']")
    expect_address(page, "token=q4", "pairs=ab")
    again = opened(article_page, f"#{page.url.split('#')[1]}")
    for box, value in (("heads", "0-2, 2-8"), ("pairs", "ab"), ("threshold", "0.11")):
        expect(again.locator(f"#{box}")).to_have_value(value)
    expect(again.locator("#queries button[value='4']")).to_have_attribute("aria-selected", "true")


def test_heads_that_are_not_on_the_page_have_thumbnails(
    opened: Open, article: HeadScores, tmp_path: Path
) -> None:
    attnscan.report(article, heads="1-8,0-2", output=tmp_path / "two.html")
    page = opened(tmp_path / "two.html", "#view=head")
    notice = page.locator("#head-notice")
    expect(page.locator("#heads")).to_have_value("1-8")
    expect(notice).to_be_hidden()
    page.click("#picker button[value='3-3']")
    expect(notice).to_contain_text(
        re.compile("3-3 are not on this page, only the thumbnail.*report … --heads 3-3")
    )
    expect(page.locator("#reading")).to_be_empty()
    attention = article.kept_attention()
    shown = np.ix_(*[tokens_shown(attention, "out")] * 2)
    true = numbers_of(attention, Head(3, 3), "weight", "out")[shown].ravel()
    drawn = pixels(page.locator("#matrices canvas"))[:, 3]
    assert np.abs(drawn - 255 * np.sqrt(true)).max() <= 0.51
    page.click("#tab-neuron")
    expect(page.locator("#neuron-notice")).to_contain_text("--heads")
    go(page, "#view=head&heads=0-2&link=2-1")
    assert len(texts(page.locator("#ranked button"))) == 2
    ranked_by = page.locator("#ranked-by")
    expect(ranked_by).to_contain_text("of the 2 heads whose weights are on this page")


@pytest.mark.parametrize(("by", "special"), READINGS)
def test_a_matrix_holds_the_numbers(
    opened: Open, article_page: Path, article: HeadScores, by: By, special: Special
) -> None:
    attention = article.kept_attention()
    head = Head(1, 8)
    page = opened(article_page, f"#view=head&heads=1-8&by={by}&special={special}", 1440)
    matrix = page.locator("#matrices canvas")
    shown = tokens_shown(attention, special)
    lines_box = page.locator("#stage").bounding_box()
    matrix_box = matrix.bounding_box()
    assert lines_box and matrix_box and lines_box["x"] + lines_box["width"] <= matrix_box["x"]
    assert matrix_box["y"] < lines_box["y"] + 150  # beside the lines
    true = numbers_of(attention, head, by, special)[np.ix_(shown, shown)]
    alphas = pixels(matrix)[:, 3].reshape(true.shape)
    assert np.abs(alphas - 255 * np.sqrt(true)).max() <= 255 * 0.0001**0.5
    assert np.abs(alphas[true > 0.01] - 255 * np.sqrt(true[true > 0.01])).max() <= 0.7
    matrix.focus()
    press(page, "Shift+Tab", "Tab", "ArrowDown", "ArrowDown", "ArrowRight")
    query = shown[2]
    key = shown[1]
    cell_name = f"{attention.tokens[query]} ({query}) → {attention.tokens[key]} ({key}) "
    match = re.fullmatch(
        re.escape(cell_name) + r"(\S+) in head 1-8", str(page.locator("#reading").text_content())
    )
    assert match and float(match[1]) == pytest.approx(true[2, 1], abs=0.0006)


@pytest.mark.parametrize(("by", "special"), READINGS)
def test_a_click_on_a_cell_ranks_heads_by_the_link(
    opened: Open, article_page: Path, article: HeadScores, by: By, special: Special
) -> None:
    attention = article.kept_attention()
    page = opened(article_page, f"#view=head&heads=1-8&by={by}&special={special}", 1440)
    matrix = page.locator("#matrices canvas")
    shown = tokens_shown(attention, special)
    matrix_box = matrix.bounding_box()
    assert matrix_box
    side = matrix_box["width"] / len(shown)
    row, column = (shown.tolist().index(token) for token in (14, 15))
    matrix.click(position={"x": (column + 0.5) * side, "y": (row + 0.5) * side})
    expect_address(page, "link=14-15")
    expect(page.locator("#ranked-by")).to_contain_text("fresh → straw")
    buttons = [text.split() for text in texts(page.locator("#ranked button"))]
    ranked = {name: float(number) for name, *_, number in buttons}
    true = {head.name: numbers_of(attention, head, by, special)[14, 15] for head in attention.grid}
    assert len(ranked) == 72 and list(ranked.values()) == sorted(ranked.values(), reverse=True)
    assert ranked == pytest.approx(true, abs=0.0006)
    average = str(page.locator("#ranked-by").text_content()).rpartition(" ")[2]
    assert float(average) == pytest.approx(np.mean(list(true.values())), abs=0.0006)
    page.click("#ranked button >> nth=0")
    expect(page.locator("#heads")).to_have_value(next(iter(ranked)))
    page.click("#clear-link")
    expect(page.locator("#question")).to_be_hidden()


def test_enter_on_a_cell_ranks_heads_by_the_link_and_no_more(
    opened: Open, article_page: Path
) -> None:
    page = opened(article_page, "#view=head&heads=1-8", 1440)
    matrix = page.locator("#matrices canvas")
    matrix.focus()
    press(page, "Shift+Tab", "Tab", "ArrowDown", "ArrowRight", "ArrowRight", "Enter")
    expect_address(page, "link=")
    expect(matrix).to_be_focused()
    press(page, "Enter")
    expect(page.locator("#question")).to_be_hidden()


def test_the_card_of_a_head_follows_the_reading(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    attention = article.kept_attention()
    head = Head(1, 1)
    place = head.place
    labels = {reading: article.select_reading(*reading).labels for reading in READINGS}
    does = {}
    for reading, known in labels.items():
        doubt = "?" * bool(known.unsure[place])
        does[reading] = words(str(known.among_words[place])) + doubt
    assert len(set(does.values())) > 2
    page = opened(article_page, f"#view=head&heads={head.name}&by=weight&special=in")
    facts = page.locator("#facts")
    expect(facts).to_contain_text(f"writes {12 * article.output[place]:.1f} times its share")
    expect(facts.locator(".scores tr", has=page.locator(".none"))).to_have_attribute(
        "title", ""
    )  # predictive
    for by, name in (("weight", "by attention weight"), ("carried", "by what heads carry")):
        expect(facts).to_contain_text(f"{name}, among words: {does[by, 'out']};")
    expect(facts.locator(".more code")).to_have_text(f"attnscan head {head.name} --model bundled")
    is_word = np.array(attention.sentence) >= 0
    names = [re.sub(r"\W*$", "", token) for token in attention.tokens]
    from_a_to_b = np.outer(*(np.array(attention.segments) == segment for segment in (0, 1)))
    for reading in (*READINGS, ("carried", "in")):
        choose(page, "by", reading[0])
        choose(page, "special", reading[1])
        expect(facts.locator("h2 span")).to_have_text(does[reading])
        label = labels[reading].label[place]
        stays = labels[reading].label_stability[place]
        if label and not np.isnan(stays):
            expect(facts).to_contain_text(
                f"label {label}: the same in {round(100 * stays, 1):g} % of bootstrap"
            )
        for pairs, are_asked in (("all", 1), ("ab", from_a_to_b)):
            page.select_option("#pairs", pairs)
            shares = numbers_of(attention, head, *reading) * is_word[:, None] * are_asked
            strongest = np.argsort(-shares, axis=None, kind="stable")[:5]
            expect(facts.locator(".links td:nth-child(2)")).to_have_text(
                [f"{shares.flat[link]:.2f}" for link in strongest]
            )
            for row, link in zip(facts.locator(".links th").all(), strongest, strict=True):
                query, key = (re.escape(names[token]) for token in divmod(int(link), len(names)))
                expect(row).to_have_text(re.compile(f"{query}.* → {key}"))
    spoken = does["carried", "in"].replace("?", ", not sure")
    button = page.locator(f"#picker button[value='{head.name}']")
    expect(button).to_have_attribute("aria-label", f"{button.inner_text()} {head.name}, {spoken}")


def test_the_card_of_a_head_has_scores_chance_and_bars(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    place = (1, 1)
    page = opened(article_page, "#view=head&heads=1-1&by=carried&special=in")
    facts = page.locator("#facts")
    table = article.select_reading("carried", "in").table
    score, chance = (values[place] for values in np.broadcast_arrays(table.score, table.chance))
    scores = [
        text.replace("–", "nan") for text in texts(facts.locator("table.scores td:nth-child(2)"))
    ]
    np.testing.assert_allclose(np.array(scores, float), score, atol=0.005 + 1e-9)
    chances = [text for text in texts(facts.locator("td.chance")) if text]
    np.testing.assert_allclose(
        np.array(chances, float), chance[~np.isnan(score)], atol=0.005 + 1e-9
    )
    bars = facts.locator("table.scores .bar").evaluate_all(
        "all => all.map(bar => Number(bar.style.getPropertyValue('--share')))"
    )
    np.testing.assert_allclose(bars, np.nan_to_num(table.above_chance[place]).clip(0), atol=1e-4)
    assert 0 in bars[:4] and max(bars) > 0.05


CELLS = "#sheet tbody td:nth-child({})"


def test_neuron_view_has_the_numbers_of_its_query(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    """It has one reading, whatever the address says."""
    attention = article.kept_attention()
    page = opened(article_page, "#view=neuron&heads=1-8&token=q4&by=carried&special=in")
    products = attention.products(Head(1, 8), 4)
    story = page.locator("#story")
    expect(story).to_contain_text("the query the (4) looks most at store (5)")
    np.testing.assert_allclose(numbers(page.locator(CELLS.format(4))), products.sum(-1), atol=0.02)
    np.testing.assert_allclose(
        numbers(page.locator(CELLS.format(5))), attention.weights[1, 8, 4], atol=0.00055
    )
    assert count_drawn(page.locator("#query-strip canvas"))
    assert count_drawn(page.locator("#sheet .of-product canvas").nth(3))


def test_neuron_is_read_out_by_keyboard(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    attention = article.kept_attention()
    page = opened(article_page, "#view=neuron&heads=1-8&token=q4")
    page.focus("#sheet tbody button >> nth=0")
    press(page, "ArrowDown", "ArrowDown")
    text = str(page.locator("#neuron-reading").text_content()).replace("−", "-")
    match = re.fullmatch(r"Neuron (\d+): q (\S+) × k of went \(2\) (\S+) × 0.177 = (\S+)", text)
    assert match, text
    neuron = int(match[1])
    parts = (attention.query[1, 8, 4], attention.key[1, 8, 2], attention.products(Head(1, 8), 4)[2])
    found = [float(number) for number in match.groups()[1:]]
    np.testing.assert_allclose(found, [part[neuron] for part in parts], atol=0.01)


def test_neuron_view_follows_the_query_that_is_pointed_at_or_held(
    opened: Open, article_page: Path, article: HeadScores
) -> None:
    attention = article.kept_attention()
    page = opened(article_page, "#view=neuron&heads=1-8&token=q4")
    story = page.locator("#story")
    page.hover("#query button[value='9']")
    expect(story).to_contain_text("the query the (9) looks most at store (10)")
    weights = numbers(page.locator(CELLS.format(5)))
    np.testing.assert_allclose(weights, attention.weights[1, 8, 9], atol=0.0006)
    page.mouse.move(5, 5)
    expect(story).to_contain_text("the query the (4) looks most at")
    expect_address(page, "token=q4")
    page.click("#query button[value='9']")
    page.mouse.move(5, 5)
    expect_address(page, "token=q9")
    expect(story).to_contain_text("above it and times 0.177 (q × k), their sum (q·k)")
    page.select_option("#keys", "weight")
    order = np.argsort(-attention.weights[1, 8, 9], kind="stable")
    strongest = texts(page.locator("#sheet tbody button"))[:3]
    assert strongest == [attention.tokens[key] for key in order[:3]]


def test_page_without_neurons_has_no_neuron_view(
    opened: Open, article: HeadScores, tmp_path: Path
) -> None:
    bare = replace(article, attention=without_neurons(article.kept_attention()))
    attnscan.report(bare, output=tmp_path / "bare.html")
    page = opened(tmp_path / "bare.html", "#view=neuron")
    assert texts(page.locator("#tabs button")) == ["Model", "Head", "Table"]
    expect(page.locator("#model")).to_be_visible()
    why = "There is no neuron view: this architecture does not show its queries and keys."
    expect(page.locator("#about")).to_contain_text(why)


def test_keys_that_the_query_does_not_see_are_said(opened: Open, tmp_path: Path) -> None:
    result, attention = made_up(1, 2, 4)
    causal = replace(attention, visible=np.tril(np.ones((1, 4, 4), dtype=bool)))
    attnscan.report(replace(result, attention=causal), output=tmp_path / "causal.html")
    page = opened(tmp_path / "causal.html", "#view=neuron&token=q2")
    logits = texts(page.locator(CELLS.format(4)))
    assert [text != "not seen" for text in logits] == [True, True, True, False]


def test_the_page_of_many_pairs_has_a_map_with_intervals(
    opened: Open, pairs_page: Path, ranking: HeadScores
) -> None:
    labels = ranking.labels
    low, high = ranking.table.interval
    page = opened(pairs_page)
    marks = marks_of(labels)
    expect(page.locator("#summary")).to_contain_text(summary(ranking))
    assert texts(page.locator("#thumbnails .face b")) == marks and len(set(marks)) > 3
    face = page.locator("#thumbnails button[value='0-2'] .face")
    expect(face.locator("small")).to_have_text(f"{low[0, 2, 1]:.2f}–{high[0, 2, 1]:.2f}")
    assert texts(page.locator("#tabs button")) == ["Model", "Head", "Table"]


def test_label_that_changed_in_a_second_corpus_is_marked(
    opened: Open, pages: Path, ranking: HeadScores
) -> None:
    labels = ranking.labels
    habits = labels.habits
    assert habits is not None
    sure = (labels.label != "") & ~labels.unsure
    layer, head = np.argwhere(sure & ~labels.follows & ~labels.rests)[0]
    name = f"{layer}-{head}"
    winner = habits.winner.copy()
    winner[layer, head] = -1  # there, this head has no habit
    other = replace(labels, habits=habits._replace(winner=winner))
    held = replace(ranking, labels_by={ranking.reading: other})
    path = pages / "held.html"
    attnscan.report(replace(ranking, held=held), output=path)
    page = opened(path)
    expect(page.locator("#summary")).to_contain_text(
        f"{sure.sum() - 1} of {sure.sum()} sure labels"
    )
    expect(page.locator("#model-hint")).to_contain_text(
        "≠: sure, and another label in the second corpus."
    )
    marked = page.locator("#thumbnails button", has_text="≠")
    assert marked.evaluate_all("all => all.map(button => button.value)") == [name]
    expect(marked).to_have_attribute("title", re.compile("another label in the second corpus"))
    marked.click()
    expect(page.locator(f"#picker button[value='{name}']")).to_contain_text("≠")
    expect(page.locator("#cards h2 b")).to_have_text("≠")
    expect(page.locator("#cards")).to_contain_text("another label, no distinct habit")
    page.click("#tabs button[value='table']")
    expect(page.locator("#scores td b", has_text="≠")).to_have_count(1)
    expect(page.locator("#scores thead")).to_contain_text("held label")


def test_the_page_of_many_pairs_has_cards_with_profiles(
    opened: Open, pairs_page: Path, ranking: HeadScores
) -> None:
    table = ranking.table
    labels = ranking.labels
    profile = ranking.profile
    low, high = table.interval
    page = opened(pairs_page)
    page.click("#thumbnails button[value='0-2']")
    cards = page.locator("#cards")
    expect(cards.locator("h2")).to_have_text("Head 0-2 the previous word")
    page.click("#picker button[value='1-9']")
    score, chance = (
        f"{values[1, 9, 1]:.3f}" for values in np.broadcast_arrays(table.score, table.chance)
    )
    row = cards.locator("table.scores tbody tr").nth(1).locator("td")
    expect(row).to_have_text([score, f"{low[1, 9, 1]:.3f}–{high[1, 9, 1]:.3f}", chance, ""])
    bars = cards.locator("table.scores .bar").evaluate_all(
        "all => all.map(bar => Number(bar.style.getPropertyValue('--share')) > 0)"
    )
    beyond = low[1, 9] > np.broadcast_to(table.chance, table.score.shape)[1, 9]
    assert bars == beyond.tolist() and set(bars) == {
        True,
        False,
    }  # none where the interval reaches chance
    stays = f"{round(100 * labels.label_stability[1, 9], 1):g} % of bootstrap resamples"
    expect(cards).to_contain_text(f"label {labels.label[1, 9]}: the same in {stays}")
    place = (1, 9, profile.classes.index("previous"))
    share = profile.share[place]
    half = float(half_width(profile.se[place], ranking.signature.pairs_read))
    previous = cards.locator("table.profile tr").first
    expect(previous.locator("td")).to_have_text([f"{share:.3f}", f"± {half:.3f}", ""])
    expect(cards.locator(".does")).to_have_text(statement(labels, Head(1, 9)))
    page.click("#picker button[value='0-2']", modifiers=["Shift"])
    expect(cards.locator("article")).to_have_count(2)


def test_five_keys_lead_from_the_top_to_reading_a_token(opened: Open, article_page: Path) -> None:
    page = opened(article_page)
    press(page, "Tab", "Enter")
    expect(page.locator("#thumbnails button[value='1-8']")).to_be_focused()
    press(page, "Enter")
    expect(page.locator("#queries button[value='1']")).to_be_focused()
    expect(page.locator("#reading")).to_contain_text("looks most at went")


def test_arrows_move_between_heads_tokens_and_views(opened: Open, article_page: Path) -> None:
    page = opened(article_page, "#view=head&heads=1-8")
    page.focus("#picker button[value='1-8']")
    press(page, "ArrowDown")
    expect(page.locator("#heads")).to_have_value("2-8")
    press(page, "Shift+ArrowRight")
    expect(page.locator("#heads")).to_have_value("2-8, 2-9")
    page.focus("#queries button[value='1']")
    press(page, "ArrowDown", "Enter")
    expect_address(page, "token=q2")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # the focus is visible
    page.focus("#tab-head")
    press(page, "Home")
    for view in VIEWS:
        expect(page.locator(f"#tab-{view}")).to_be_focused()
        expect(page.locator(f"#{view}")).to_be_visible()
        press(page, "ArrowRight")
    go(page, "#view=model")
    page.focus("#thumbnails button[value='0-0']")
    press(page, "ArrowDown", "ArrowRight", "ArrowRight")
    expect(page.locator("#thumbnails button[value='1-2']")).to_be_focused()


def test_focus_stays_where_all_rows_are_made_anew(opened: Open, article_page: Path) -> None:
    page = opened(article_page, "#view=table")
    page.focus("#scores tbody tr:nth-child(9) button")
    page.evaluate("document.getElementById('theme').click()")
    settle(page)
    expect(page.locator("#scores tbody tr:nth-child(9) button")).to_be_focused()


def expect_on(switch: Locator, name: str) -> None:
    """A choice is on, and takes part in the tab order."""
    for state in ("aria-checked='true'", "tabindex='0'"):
        expect(switch.locator(f"[role=radio][{state}]")).to_have_text(name)


def test_both_switches_by_keyboard(opened: Open, article_page: Path) -> None:
    page = opened(article_page)
    by = page.get_by_role("radiogroup", name="Head")
    special = page.get_by_role("radiogroup", name="Special tokens")
    page.focus("#by button[value='weight']")
    for key, name in (("ArrowRight", "carries"), ("ArrowLeft", "looks"), ("End", "carries")):
        expect_on(special, "out")
        press(page, key)
        expect(by.get_by_role("radio", name=name)).to_be_focused()
        expect_on(by, name)
    press(page, "Tab", "ArrowLeft")
    expect(special.get_by_role("radio", name="in")).to_be_focused()
    expect_on(special, "in")
    expect(page).to_have_url(re.compile("#by=carried&special=in$"))
    page.click("#tab-head")
    expect_on(by, "carries")
    assert texts(page.locator("#queries button:visible bdi"))[0] == "[CLS]"
    page.click("#tab-neuron")
    expect(by).to_be_hidden()
    expect(special).to_be_hidden()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_axe_core_finds_nothing_on_any_page(
    opened: Open,
    article_page: Path,
    pairs_page: Path,
    kinds_page: Path,
    trees_page: Path,
    width: int,
    theme: str,
) -> None:
    views = ("model", "head", "table")
    views_and_kinds = product(views, ("encoder", "decoder", "cross"))
    pages = {
        article_page: [
            *VIEWS,
            "head&heads=1-8,0-2&token=q5",
            "model&order=identical",
            "head&link=5-13",
        ],
        pairs_page: views,
        kinds_page: [f"{view}&input={kind}" for view, kind in views_and_kinds],
        trees_page: ["head&heads=0-0"],
    }
    for path, addresses in pages.items():
        page = opened(path, width=width)
        for view in addresses:
            go(page, f"#view={view}&theme={theme}")
            check_accessibility(page, view)


@pytest.mark.parametrize("name", ["article_page", "pairs_page"])
def test_pages_are_dark_or_light(opened: Open, request: pytest.FixtureRequest, name: str) -> None:
    path = request.getfixturevalue(name)
    page = opened(path, color_scheme="dark")
    dark = page.evaluate(GROUND)
    page.click("#theme")
    settle(page)
    assert page.evaluate(GROUND) == WHITE != dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(GROUND) == WHITE
    assert opened(path, "#theme=dark").evaluate(GROUND) == dark


@pytest.mark.parametrize("name", ["article_page", "pairs_page"])
def test_pages_are_whole_on_paper_and_without_controls(
    opened: Open, request: pytest.FixtureRequest, name: str
) -> None:
    path = request.getfixturevalue(name)
    millimetre = 96 / 25.4
    for view, millimetres, sheet_width in (("table", 297 - 24, 842), ("model", 210 - 24, 595)):
        width = int(millimetres * millimetre)
        page = opened(path, f"#view={view}&theme=dark", width)
        sheet = re.search(
            rb"/MediaBox \[0 0 (\d+)", page.pdf(format="A4", prefer_css_page_size=True)
        )
        assert sheet and int(sheet[1]) == sheet_width
        page.emulate_media(media="print")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        settle(page)
        expect(page.locator(f"#{view}")).to_be_visible()
        expect(page.locator("#tabs")).to_be_hidden()
        assert page.evaluate(GROUND) == WHITE
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if view == "table":  # its headings are repeated on each sheet, as no box is
            styles = "all => all.map(button => getComputedStyle(button).display)"
            assert set(page.locator("#scores thead button").evaluate_all(styles)) == {"contents"}
        last = page.locator("#scores tr:last-child td:last-child, #thumbnails > :last-child")
        assert (
            last.locator("visible=true").evaluate(
                "element => element.getBoundingClientRect().right"
            )
            <= width
        )


def test_table_fits_a_screen_of_1400_pixels(opened: Open, article_page: Path) -> None:
    page = opened(article_page, "#view=table", 1400)
    fits = "box => box.scrollWidth <= box.clientWidth"
    assert page.locator(".scroll").evaluate(fits)


@pytest.mark.parametrize(
    ("tokens", "direction"), [(["שלום", "עולם"], "rtl"), (["hello", "שלום", "world"], "ltr")]
)
def test_text_has_the_direction_of_most_of_its_letters(
    opened: Open, tmp_path: Path, tokens: list[str], direction: str
) -> None:
    attnscan.report(made_up(1, 1, tokens)[0], output=tmp_path / "page.html")
    sentence = opened(tmp_path / "page.html").locator(".sentences span").first
    expect(sentence).to_have_attribute("dir", direction)


def test_hostile_text_runs_nothing(opened: Open, tmp_path: Path) -> None:
    tokens = [*HOSTILE, *NASTY]
    result, _ = made_up(1, 2, tokens)
    signature = replace(result.signature, model=HOSTILE[0])
    attnscan.report(
        replace(result, signature=signature, notes=HOSTILE[:3]), output=tmp_path / "hostile.html"
    )
    page = opened(tmp_path / "hostile.html")
    assert page.locator("h1").text_content() == HOSTILE[0]
    for view in VIEWS:
        go(page, f"#view={view}&token=q2")
        expect(page.locator(f"#{view}")).to_be_visible()
        assert page.locator("img, svg, b > script, body script:not([type])").count() == 0
    go(page, "#view=head&token=q2&special=in")
    expected = ["[CLS]", *(plain(token.strip()) or "␣" for token in tokens), "[SEP]"]
    assert page.locator("#queries bdi").all_text_contents() == expected
    page.hover("#queries button[value='3']")
    assert HOSTILE[2] in str(page.locator("#reading").text_content())
