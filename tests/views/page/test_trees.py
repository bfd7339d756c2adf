"""The page of a treebank's sentences: what it holds of each, within its size, as harmless text."""

from pathlib import Path

import pytest
from support.page_contents import HOSTILE, Elements
from support.toy_bert import save_toy_bert
from support.treebanks import line, planted, planted_file

import attnscan
from attnscan.api.syntax import read_linked
from attnscan.results.grid import Head
from attnscan.results.syntax import InputsRead
from attnscan.text import plain
from attnscan.views.page.page import PageOptions, links_page

PLAN = {(0, 0): "articles to nouns", (0, 1): "previous-word"}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("toy") / "m", 2, 3, PLAN, carries=True))


@pytest.fixture(scope="module")
def read(toy: str, tmp_path_factory: pytest.TempPathFactory) -> InputsRead:
    trees = planted_file(tmp_path_factory.mktemp("trees"))
    return read_linked(trees, None, "30,1,288", {"model": toy, "predictive": "off"})


def test_it_holds_every_sentence_with_its_tree(read: InputsRead) -> None:
    whole = Elements(links_page(read, PageOptions()).html)
    inputs = whole.data["inputs"]
    assert [each["key"] for each in inputs] == ["30", "1", "288"]
    last = inputs[2]["tree"]
    assert " ".join(last["words"]) == "a straw straw store bought ran ." == last["text"]
    assert last["arcs"][0] == {"from": 0, "to": 3, "relation": "det"}
    assert last["isTree"] and len(last["arcs"]) == len(last["words"]) - 1
    assert last["wordOf"][:2] == [-1, 0]
    words = len(last["words"])
    most = whole.steps_of("2:most-weight").reshape(2, 3, words)
    assert most[0, 0, 0] == 3 + 1  # 0-0 attends from an article to its noun
    assert most[0, 1].tolist()[1:] == list(range(1, words))  # 0-1 to the word before
    assert {"tables", "1:tables", "2:weights-0-0", "1:carried-1-2"} <= set(whole.text)


def test_it_says_what_heads_follow_in_the_whole_treebank(read: InputsRead) -> None:
    treebank = Elements(links_page(read, PageOptions()).html).data["treebank"]
    followed, none, *_ = treebank["heads"]
    assert followed.startswith("determiner → its noun; det dep → head right for 1.00, the rule '")
    assert none == "no relation beyond fixed rules"
    assert treebank["of"].startswith("288 sentences, by")


def test_it_keeps_its_size_and_says_what_has_no_room(read: InputsRead) -> None:
    large = links_page(read, PageOptions())
    assert large.notes == () and len(large.html) < 2_000_000
    size = len(large.html) - 2_000
    small = links_page(read, PageOptions(size=size))
    assert len(small.html.encode()) <= size
    tiny = links_page(read, PageOptions(size=1000))
    assert any("of 18 heads fit in 0.001 MB" in note for note in tiny.notes)
    assert any("3 inputs do not fit in 0.001 MB: the page takes" in note for note in tiny.notes)
    assert (
        "2:weights-0-0" not in Elements(tiny.html).text and "2:tables" in Elements(tiny.html).text
    )
    some = Elements(links_page(read, PageOptions(size=len(tiny.html) + 2_000)).html)
    counts = []
    for place in ("", "1:", "2:"):
        counts.append(sum(name.startswith(f"{place}weights-") for name in some.text))
    assert 3 < sum(counts) < 18 and max(counts) - min(counts) <= 1  # the best heads of each, first
    chosen = Elements(links_page(read, PageOptions(heads=(Head(1, 1),))).html).text
    assert "2:weights-1-1" in chosen and "2:weights-0-0" not in chosen


def test_hostile_words_and_relations_stay_text(tmp_path: Path) -> None:
    words = [
        text
        for text in HOSTILE
        if "\x00" not in text and "\ud83d" not in text and "\u2028" not in text
    ]
    words = ["x".join(text.split()) for text in words] + ["w" * 500, "👩\u200d🚀"]
    rows = [
        line(i, word, "X", 0 if i == 1 else i - 1, "root" if i == 1 else "<b>" + word[:5])
        for i, word in enumerate(words, 1)
    ]
    trees = tmp_path / "hostile.conllu"
    trees.write_text(
        "\n".join([*rows, "", *planted().split("\n\n")[0].splitlines(), "", ""]), encoding="utf-8"
    )
    with pytest.warns(UserWarning, match="few"):
        html = attnscan.report(treebank=str(trees), model="bundled", predictive="off").html
    harmless = Elements(attnscan.report("the cat", model="bundled", predictive="off").html)
    hostile = Elements(html)
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in harmless.tags}
    assert hostile.facts["tree"]["words"] == [plain(word) for word in words]
    assert hostile.facts["tree"]["arcs"][0]["relation"] == "<b>" + words[1][:5]
