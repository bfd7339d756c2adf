"""The page as text: nothing in it can break out, and nothing is fetched."""

import base64
import csv
import hashlib
import io
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from support.page_contents import HOSTILE, Elements, made_up

import attnscan
from attnscan import HeadScores
from attnscan.errors import OptionError
from attnscan.results.files import render
from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.text import plain
from attnscan.views.page import page as page_module
from attnscan.views.page.page import PageOptions, answer_of, live_page, page

WEB = Path(page_module.__file__).parent / "web"
ANYTHING = dict.fromkeys(("hidden", "positions", "segments", "off"), "")
QUESTION = {
    "a": "a",
    "b": None,
    "hidden": [],
    "positions": "kept",
    "segments": "kept",
    "off": [],
    "model": 0,
}
SERVER = {"models": ("one", "other"), "model": 0, "available": (ANYTHING, ANYTHING)}


def _attributes(elements: Elements) -> set[str]:
    """The names of all attributes of a page."""
    return set(chain.from_iterable(attributes for _, attributes in elements.tags))


class TestSafety:
    def test_hostile_text_adds_no_element_and_no_attribute(self) -> None:
        harmless = Elements(page(made_up(1, 2, ["word"] * len(HOSTILE))[0]).html)
        result, _ = made_up(1, 2, HOSTILE)
        signature = replace(
            result.signature, model=HOSTILE[0], revision=HOSTILE[1], device=HOSTILE[2]
        )
        hostile = Elements(page(replace(result, signature=signature, notes=HOSTILE[:3])).html)
        extra = [("p", {})] * 3  # the notes
        assert len(hostile.tags) == len(harmless.tags) + len(extra)
        assert {tag for tag, _ in hostile.tags} == {tag for tag, _ in harmless.tags}
        assert _attributes(hostile) == _attributes(harmless)

    def test_hostile_text_reads_back_with_control_characters_visible(self) -> None:
        elements = Elements(page(made_up(1, 2, HOSTILE)[0]).html)
        assert elements.facts["tokens"] == ["[CLS]", *map(plain, HOSTILE), "[SEP]"]
        assert (
            len(Elements(f"<p>{' '.join(HOSTILE[:3])}</p>").tags) > 1
        )  # a control: unescaped, it adds elements
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\u2028\u202a-\u202e\ud800-\udfff]",
            "".join(elements.facts["tokens"]),
        )

    def test_the_policy_allows_the_pages_own_script_and_style_alone(self, small: tuple) -> None:
        html = page(small[0]).html
        (policy,) = [
            of["content"] for tag, of in Elements(html).tags if tag == "meta" and "http-equiv" in of
        ]
        rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
        for rule, pattern in (
            ("script-src", '<script type="module">(.*?)</script>'),
            ("style-src", "<style>(.*?)</style>"),
        ):
            (content,) = re.findall(pattern, html, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert rules.pop(rule) == f"'sha256-{digest}'"
        assert rules.pop("default-src") == "'none'"
        assert rules == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}

    def test_nothing_is_fetched_and_nothing_runs_from_an_attribute(self, small: tuple) -> None:
        for tag, attributes in Elements(page(small[0]).html).tags:
            assert not [
                name
                for name in attributes
                if name.startswith("on") or name in ("style", "src", "srcset")
            ]
            assert tag == "link" or "href" not in attributes
            assert tag != "link" or str(attributes["href"]).startswith("data:")

    @pytest.mark.parametrize("path", sorted(WEB.glob("*.js")), ids=lambda path: path.name)
    def test_scripts_set_text_as_text(self, path: Path) -> None:
        as_html = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function"
        text = path.read_text(encoding="utf-8")
        assert not re.search(as_html + r"|XMLHttp|https?:|</script|<!--", text)
        assert ("fetch(" in text) == (path.name == "live.js")  # which no page has that is a file

    def test_only_a_live_page_can_ask_a_server(self, small: tuple) -> None:
        assert "fetch(" not in page(small[0]).html
        alive = live_page(
            small[0], answer_of(small[0], "0" * 16, (), ()) | {"question": QUESTION} | SERVER, ()
        )
        assert "fetch(" in alive and "connect-src 'self'" in alive


def test_a_result_without_attention_has_no_page(small: tuple) -> None:
    with pytest.raises(
        OptionError, match="this result has not kept its attention; keep it: classify"
    ):
        page(replace(small[0], attention=None))


@pytest.mark.parametrize("unit", ["token", "word"])
def test_related_words_are_told_by_their_tokens(unit: str) -> None:
    texts = "The strawberries went to the king.", "The queen ate strawberries."
    result = attnscan.classify(*texts, model="bundled", unit=unit, predictive="off")
    facts = Elements(page(result, PageOptions(heads=(Head(0, 0),))).html).facts
    ((king, queen),) = facts["related"]
    assert (facts["tokens"][king], facts["tokens"][queen]) == ("king", "queen")
    assert facts["tokens"].count("##berries") == 2


def test_page_of_pairs_has_one_reading_and_says_why(ranking: HeadScores) -> None:
    facts = Elements(page(ranking).html).facts
    assert list(facts["titles"]) == ["weight-words"]
    assert facts["usual"] == "weight-words"
    assert facts["tokens"] == []
    made = "this page was made by attention weight, among words; make one with"
    assert facts["whyNot"] == {"carried": f"{made} --by carried", "in": f"{made} --special in"}


def test_page_of_pairs_has_the_cells_of_the_csv_and_intervals(ranking: HeadScores) -> None:
    facts = Elements(page(ranking).html).facts
    frame = ranking.to_frame()
    for p, pattern in enumerate(ranking.scores.patterns):
        for end, bound in zip(("low", "high"), ranking.table.interval, strict=True):
            frame[f"{pattern}_{end}"] = bound[..., p].ravel()
    columns, *rows = csv.reader(io.StringIO(render(frame, "csv").decode()))
    assert facts["columns"] == columns and facts["rows"] == {"weight-words": rows}
    assert facts["unsure"]["weight-words"] == ranking.labels.unsure.ravel().astype(int).tolist()


def test_page_of_pairs_has_the_columns_of_a_second_corpus(ranking: HeadScores) -> None:
    compared = replace(ranking, held=ranking)
    facts = Elements(page(compared).html).facts
    written = compared.to_frame()
    assert facts["columns"][: len(written.columns)] == list(written.columns)
    assert {"held_label", "held_share"} <= set(facts["columns"])
    assert set(facts["changed"]["weight-words"]) == {0}  # it is the same corpus


def test_page_of_pairs_has_shares_with_errors(ranking: HeadScores) -> None:
    facts = Elements(page(ranking).html).facts
    profile = ranking.profile
    half = half_width(profile.se, profile.clusters)
    for head, classes in zip(profile.grid, facts["profiles"]["weight-words"], strict=True):
        for name, share, error in classes:
            place = (*head.place, profile.classes.index(name))
            assert (share, error) == pytest.approx((profile.share[place], half[place]), abs=1e-4)
        assert [share for _, share, _ in classes] == sorted(
            (share for _, share, _ in classes), reverse=True
        )


def test_scores_that_do_not_fit_are_told(ranking: HeadScores) -> None:
    made = page(ranking, PageOptions(size=50_000))
    said = re.fullmatch(
        r"the scores of all heads do not fit in 0.05 MB: the page takes ([\d.]+) MB", *made.notes
    )
    assert said is not None and len(made.html) <= float(said[1]) * 1e6 <= 1.1 * len(made.html)


def test_in_python_it_takes_no_heads_and_needs_labels(ranking: HeadScores) -> None:
    assert attnscan.report(ranking).html == page(ranking).html
    with pytest.raises(
        OptionError, match="a page of many pairs holds no head's weights; leave out heads"
    ):
        attnscan.report(ranking, heads="0-2")
    with pytest.raises(OptionError, match="this ranking has no labels"):
        attnscan.report(replace(ranking, labels_by={}))
