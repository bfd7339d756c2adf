"""Pages of an encoder-decoder's kinds of attention and of a treebank's sentences in a browser."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect
from support.chromium import Open, choose, picture_at, press
from support.toy_bert import save_toy_bert
from support.translator import TRANSLATOR, eager

import attnscan

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
]  # one browser, which takes a core by itself

KINDS = {"encoder": "", "decoder": "d", "cross": "c"}
FOLLOWED = re.compile("followed")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_heads_numbers_and_table(
    opened: Open, kinds_page: Path, kind: str
) -> None:
    source = "bado fela gumi hora jiku"
    target = "UKIJ AROH IMUG ALEF"
    output = eager(TRANSLATOR, source, target)
    weights = np.concatenate(output[f"{kind}_attentions"]).astype(
        float
    )  # [layer, head, query, key]
    layers, heads, *_ = weights.shape
    page = opened(kinds_page, f"#input={kind}")
    places = np.ndindex(layers, heads)
    names = [f"{KINDS[kind]}{layer}-{head}" for layer, head in places]
    assert page.locator("#thumbnails .caption b").all_text_contents() == names
    page = opened(kinds_page, f"#view=head&heads={names[heads + 1]}&by=weight&special=in")
    expect(page.locator(f"#input [value={kind}]")).to_have_attribute("aria-checked", "true")
    queries, keys = (page.locator(f"#{side} button:visible") for side in ("queries", "keys"))
    for tokens, others, rows in ((queries, keys, weights[1, 1]), (keys, queries, weights[1, 1].T)):
        assert tokens.count() == len(rows)
        for place, row in enumerate(rows):
            tokens.nth(place).hover()
            found = [float(text) for text in others.locator(".value").all_text_contents()]
            np.testing.assert_allclose(found, row, atol=0.0006)
    page = opened(kinds_page, f"#view=table&by=weight&special=in&input={kind}")
    links = {"alignments": kinds_page.with_name("links.txt")} if kind == "cross" else {}
    options = {"model": str(TRANSLATOR), "predictive": "off", "attention": kind, **links}
    frame = attnscan.classify(
        source, *([target] if kind != "encoder" else []), **options
    ).to_frame()
    with page.expect_download() as saved:
        page.locator("#save").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0].split(",") == list(frame.columns) and len(lines) == 1 + len(frame)
    assert page.locator("#scores tbody th").all_text_contents() == names
    columns = page.locator("#scores thead th").all_text_contents()
    assert ("same-place" in columns) == (kind == "cross") and ("next-word" in columns) == (
        kind != "cross"
    )


def test_the_switch_leads_to_each_kind_of_attention(opened: Open, kinds_page: Path) -> None:
    page = opened(kinds_page, "#view=head&heads=1-2&token=q1&by=weight&special=in")
    choose(page, "input", "cross")
    expect(page.locator("#size")).to_have_text("6 source and 5 target tokens")
    expect(page.locator("#by [value=weight]")).to_have_attribute("aria-checked", "true")
    page.locator("#picker [value='c1-3']").click()
    choose(page, "input", "decoder")
    gold = "document.querySelector('#matrices figure').style.getPropertyValue('--gold')"
    assert page.evaluate(gold) == "none"
    page.go_back()
    expect(page.locator("#heads")).to_have_value("c1-3")


def test_gold_links_are_outlined_in_cross_attention(opened: Open, kinds_page: Path) -> None:
    page = opened(kinds_page, "#view=head&heads=c1-1&by=weight&special=in")
    gold = "document.querySelector('#matrices figure').style.getPropertyValue('--gold')"
    picture = picture_at(page.evaluate(gold).removesuffix('")'))
    orange = (picture[..., 3] > 0.8) & (picture[..., 0] > picture[..., 2] + 0.24)  # [y, x]
    cell = (orange.shape[1] - 4) / 6

    def is_orange(row: float, column: float) -> bool:
        y = round(2 + row * cell)
        x = round(2 + column * cell)
        return bool(orange[y - 1 : y + 2, x - 1 : x + 2].any())

    middles = [(0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1)]  # of a cell's sides
    outlined = []
    for row, column in product(range(5), range(6)):
        if all(is_orange(row + down, column + across) for down, across in middles):
            outlined.append((row, column))
    assert outlined == [(0, 4), (1, 3), (2, 2), (3, 1)]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_arcs_that_heads_follow_stand_out_and_are_read(
    opened: Open, trees_page: Path, width: int, scheme: str
) -> None:
    page = opened(trees_page, "#view=head&by=weight&heads=0-0", width, color_scheme=scheme)
    assert page.locator(".sentences .name").evaluate(
        "name => name.scrollWidth === name.clientWidth"
    ), "text is cut"
    arcs = page.locator(".labels button")
    words = page.locator(".words bdi")
    hint = page.locator("#tree .hint")
    expect(words).to_have_text(["the", "straw", "straw", "cat", "ran", "ran", "."])
    expect(arcs).to_have_text(["det", "amod", "amod", "nsubj", "conj", "punct"])
    expect(arcs.nth(0)).to_have_class(FOLLOWED)  # what else 0-0 attends to, it does evenly
    for said in (
        "By attention weight, head 0-0 follows",
        "of 6 arcs from a word to its head",
        "Over 288 sentences, by attention weight, among words: determiner → its noun; ",
        "det dep → head right for 1.00",
    ):
        expect(hint).to_contain_text(said)
    article = "det: the → cat 1.00, its most attended word; cat → the 0.14"
    expect(arcs.nth(0)).to_have_attribute("aria-label", re.compile(article))
    arcs.nth(0).focus()
    expect(hint).to_contain_text(article)
    press(page, "ArrowRight")
    expect(hint).to_contain_text("amod: straw → cat 0.14")
    press(page, "Enter")  # holds its word as the query
    expect(page.locator("#queries [aria-selected='true'] bdi")).to_have_text("straw")
    arcs.nth(4).hover()
    expect(hint).to_contain_text("conj: ran → ran 0.14")
    page.locator("#heads").fill("0-1")  # the word before
    press(page, "Enter")
    page.locator("h1").hover()
    expect(hint).to_contain_text("head 0-1 follows")
    for place in (2, 3, 4):
        expect(arcs.nth(place)).to_have_class(FOLLOWED)
    for place in (1, 5):
        expect(arcs.nth(place)).not_to_have_class(FOLLOWED)
    page.locator("#input").select_option("1")
    expect(words).to_have_text(["the", "cat", "sat", "."])
    expect(arcs).to_have_text(["det", "nsubj", "punct"])
    expect(page.locator("#queries button:visible")).to_have_count(4)
    assert "input=1" in page.url
    assert b"/ShadingType" not in page.pdf(), (
        "of one sentence, viewers of PDF darken the squares behind a gradient"
    )


def test_links_of_ones_own_are_arcs_through_both_sentences(opened: Open, pages: Path) -> None:
    model = str(save_toy_bert(pages / "follows", 1, 2, {(0, 0): "articles to nouns"}))
    links = [["coref", 3, 1], ["part", 4, 1], ["coref", 4, 1]]
    records = [{"text": "the cat sat", "text_b": "i ran", "links": links}]
    path = pages / "links.html"
    with pytest.warns(UserWarning, match="few"):
        attnscan.report(links=records, model=model, predictive="off", output=path)
    page = opened(path, "#view=head&by=weight&heads=0-0")
    expect(page.get_by_role("region", name="Links")).to_be_visible()
    expect(page.locator(".words bdi")).to_have_text(["the", "cat", "sat", "i", "ran"])
    expect(page.locator(".words .root")).to_have_count(0)
    arcs = page.locator(".labels button")
    expect(arcs).to_have_text(["coref", "part", "coref"])
    expect(arcs.nth(0)).to_have_class(FOLLOWED)
    expect(page.locator("#tree .hint")).to_contain_text("of 3 arcs from a word to its target")
