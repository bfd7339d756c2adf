"""Where a head links alike: the index against attention that is read anew, its bounds, and what searches may ask."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from live import PORT, TOKEN, StandIn, asked, session_of

import attnscan
from attnscan.errors import OptionError
from attnscan.inputs.pairs import Pair
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.server.app import app_of
from attnscan.server.corpus import Corpus
from attnscan.server.search import LinkIndex, Search
from attnscan.server.session import Session
from attnscan.server.worker import Stale

PAIRS = [
    Pair("The cat sat on the mat.", "A dog saw the cat."),
    Pair("The Cat ran home."),
    Pair("A bird sang, and the cat slept on the mat.", "It was late."),
    Pair("No such animal here."),
]
WITH_PLACES = [(pair, f"pairs.csv:{line}") for line, pair in enumerate(PAIRS, 2)]
BACK, FORTH = Head(0, 2), Head(1, 8)  # a head of the bundled model that looks at the previous word, one at the next


@pytest.fixture(scope="module")
def scanner() -> Iterator[Scanner]:
    with Scanner(ScanOptions(model="bundled", predictive="off")) as scanner:
        yield scanner


@pytest.fixture(scope="module")
def index(scanner: Scanner) -> LinkIndex:
    index = LinkIndex(scanner, WITH_PLACES)
    index.advance()
    assert index.is_done
    return index


def _links(head: Head) -> list[tuple[int, int, int, float, list[str]]]:
    """Of every word of the pairs: its pair, its place, the place that has most of what it carries, and how much."""
    found = []
    for number, pair in enumerate(PAIRS):
        result = attnscan.classify(pair.a, pair.b, model="bundled", predictive="off", keep_attention=True)
        attention = result.kept_attention().carried.among_words
        words = np.flatnonzero(np.array(attention.sentence) >= 0)
        for place in words.tolist():
            row = attention.weights[(*head.place, place)]
            found.append((number, place, int(row.argmax()), float(row.max()), list(attention.tokens)))
    return found


@pytest.mark.parametrize("head", [BACK, FORTH, Head(4, 7)])
def test_links_and_counts_are_those_of_the_attention(index: LinkIndex, head: Head) -> None:
    told = index.search(Search(head, "Cat", "q"))
    true = [link for link in _links(head) if link[4][link[1]] == "cat"]
    assert told["progress"] == [4, 4, 4] and told["stands"] == len(true) == 4
    assert Counter(dict(told["linked"])) == Counter(tokens[key] for _, _, key, _, tokens in true)
    beside = [(tokens[place - 1], tokens[place + 1]) for _, place, _, _, tokens in true]
    assert Counter(dict(told["before"])) == Counter(before for before, _ in beside)
    assert Counter(dict(told["after"])) == Counter(after for _, after in beside)
    said = {(line["where"], line["query"], line["key"], line["share"]) for line in told["sentences"]}
    assert len(said) == len(true)
    for number, place, key, share, tokens in true:
        (line,) = (
            line for line in told["sentences"] if (line["where"], line["query"]) == (f"pairs.csv:{number + 2}", place)
        )
        assert line["key"] == key and line["share"] == pytest.approx(share, abs=0.012)
        assert line["tokens"] == tokens and (line["a"], line["b"]) == (PAIRS[number].a, PAIRS[number].b)
    shares = [line["share"] for line in told["sentences"]]
    assert shares == sorted(shares, reverse=True)


def test_links_that_are_alike_come_first_and_others_to_the_linked_word_after(index: LinkIndex) -> None:
    told = index.search(Search(BACK, "mat", "q", linked="the", offset=-1))
    places = [(line["tokens"][line["query"]], line["tokens"][line["key"]]) for line in told["sentences"]]
    assert places[:6] == [("mat", "the")] * 2 + [("cat", "the")] * 4
    assert set(places[6:]) == {("the", "the")}  # the first words, which have none before them
    assert told["linked"] == [("the", 2)] and told["stands"] == 2


def test_from_the_side_of_the_key(index: LinkIndex) -> None:
    told = index.search(Search(FORTH, "cat", "k"))
    true = [link for link in _links(FORTH) if link[4][link[2]] == "cat"]
    assert Counter(dict(told["linked"])) == Counter(tokens[place] for _, place, _, _, tokens in true)
    assert {line["tokens"][line["key"]] for line in told["sentences"]} == {"cat"} and told["stands"] == 4


@pytest.mark.parametrize("word", ["zebra", "[SEP]", "\x00", "  "])
def test_what_stands_nowhere_is_linked_with_nothing(index: LinkIndex, word: str) -> None:
    for side in ("q", "k"):
        told = index.search(Search(BACK, word, side))
        assert told["stands"] == 0 and told["sentences"] == told["linked"] == told["before"] == []


def test_pairs_are_read_bit_by_bit_within_bounds(scanner: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscan.server.search._AT_ONCE", 1)
    index = LinkIndex(scanner, WITH_PLACES)
    assert index.search(Search(BACK, "cat", "q"))["progress"] == [0, 4, 4]
    index.advance()
    told = index.search(Search(BACK, "cat", "q"))
    assert told["progress"] == [1, 4, 4] and told["stands"] == 2
    tokens = 16  # of the first pair
    small = LinkIndex(scanner, WITH_PLACES, most_bytes=tokens * (12 + 3 * 72) + 1)
    for done in (1, 2):
        small.advance()
        assert small.done == done
    assert small.is_done and small.search(Search(BACK, "cat", "q"))["progress"] == [2, 2, 4]


def test_a_head_that_is_not_there(index: LinkIndex) -> None:
    with pytest.raises(OptionError, match="there is no head 9-9"):
        index.search(Search(Head(9, 9), "cat", "q"))


class TestOverTheNetwork:
    @pytest.fixture
    def searched(self, result: Classification, scanner: Scanner) -> Iterator[Session]:
        links = LinkIndex(scanner, WITH_PLACES)
        with session_of(StandIn(result), corpus=Corpus("4 pairs", None, [], links)) as session:  # type: ignore[arg-type]
            yield session

    def body(self, **fields: Any) -> bytes:
        known = {"head": "0-2", "word": "cat", "side": "q", "client": "me"} | fields
        return json.dumps({name: value for name, value in known.items() if value is not None}).encode()

    def test_a_search_is_answered_and_gives_way_to_answers(
        self, searched: Session, bugs: list[Exception], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app = app_of(searched, TOKEN, PORT, bugs.append)
        answer = asked(app, f"/{TOKEN}/search", self.body(linked="the", offset=-1))
        assert answer.status == 200 and answer.json["progress"] == [4, 4, 4] and answer.json["stands"] == 4
        assert asked(app, f"/{TOKEN}/search", self.body(head="9-9")).status == 422
        assert asked(app, f"/{TOKEN}/search", self.body(), method="GET").status == 405
        assert asked(app, "/another-token/search", self.body()).status == 404
        assert asked(app, f"/{TOKEN}/search", self.body(), [("origin", "http://elsewhere")]).status == 403
        monkeypatch.setattr(searched.worker, "check_nobody_waits", _answer_waits)
        assert asked(app, f"/{TOKEN}/search", self.body()).json == {"stale": True}

    @pytest.mark.parametrize(
        "fields",
        [
            *({"head": head} for head in ("", "0", "0-2 ", "0-2\n", "-1-2", "99999-1", 2, ["0-2"])),
            *({"word": word} for word in ("", "x" * 257, "\ud800", 7, ["cat"])),
            *({"side": side} for side in ("x", "", 1)),
            *({"linked": linked} for linked in ("x" * 257, 1, "\udfff")),
            *({"offset": offset} for offset in (1.5, 10**9, "1", True)),
            *({"client": client} for client in ("", "x" * 65, "a b", 3)),
            {"path": "../../etc/passwd"},
        ],
    )
    def test_what_no_page_asks(self, searched: Session, bugs: list[Exception], fields: dict[str, Any]) -> None:
        answer = asked(app_of(searched, TOKEN, PORT, bugs.append), f"/{TOKEN}/search", self.body(**fields))
        assert answer.status == 400 and list(answer.json) == ["error"] and len(answer.json["error"]) < 200

    def test_without_pairs_there_is_nothing_to_search(self, session: Session, bugs: list[Exception]) -> None:
        assert asked(app_of(session, TOKEN, PORT, bugs.append), f"/{TOKEN}/search", self.body()).status == 410


def _answer_waits() -> None:
    raise Stale
