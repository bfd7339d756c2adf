"""Sentences whose words are given: what is refused, which piece belongs to which word, and what tells them apart."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscan.errors import InputError, PairsError
from attnscan.inputs.annotations import Alignments, linked, links_of
from attnscan.inputs.sentence import NO_WORD, Pair, Place, Record, Sentence

TEXT, WORDS = "Dogs don't.", [(0, 4), (5, 7), (7, 10), (10, 11)]


@pytest.mark.parametrize(
    "words",
    [[(0, 4), (5, 12)], [(-1, 4)], [(4, 0)], [(0, 4), (3, 7)], [(5, 7), (0, 4)], [(0, 4), (5.0, 7.0)], ["Dogs"], 4],
)
def test_words_that_are_no_spans_of_the_text(words: Any) -> None:
    with pytest.raises(InputError) as refused:
        Sentence(TEXT, words)
    assert refused.value.what.startswith(f"words is {words}, ") and "without overlap" in refused.value.remedy


@pytest.mark.parametrize(
    "tags",
    [{"upos": ["NOUN"]}, {"upos": 4}, {"upos": ["NOUN", ["AUX"], "PART", "PUNCT"]}, ["NOUN"] * 4],
)
def test_tags_that_are_not_of_the_words(tags: Any) -> None:
    with pytest.raises(InputError, match="a value a word") as refused:
        Sentence(TEXT, WORDS, tags)
    assert "'NOUN'" in refused.value.what or "{'upos': 4}" in refused.value.what


def test_what_is_no_sentence() -> None:
    with pytest.raises(InputError, match="tags are given and words are not; give words="):
        Sentence(TEXT, tags={"upos": ["NOUN"]})
    with pytest.raises(InputError, match="the text of a sentence is of the class bytes"):
        Sentence(b"dogs")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sentence B is empty"):
        Pair("dogs", Sentence(" ", []))


def test_arrays_of_numpy_are_plain_values() -> None:
    """As a parser's tables give them; and what was given can be changed afterwards."""
    heads = np.array([1, 1, 1, 1])
    sentence = Sentence(TEXT, np.array(WORDS), {"head": heads, "name": np.array([False] * 4)})  # type: ignore[dict-item]
    heads[:] = 0
    assert sentence == Sentence(TEXT, WORDS, {"head": [1, 1, 1, 1], "name": [False] * 4})
    assert {type(value) for values in sentence.tags.values() for value in values} == {int, bool}
    assert pickle.loads(pickle.dumps(sentence)) == sentence and hash(sentence) == hash(Sentence(TEXT, WORDS))


CUTS = st.lists(st.integers(0, 12), max_size=14).map(sorted)


@given(cuts=CUTS, pieces=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted).map(tuple), max_size=9))
def test_pieces_find_their_words_as_plain_loops_do(cuts: list[int], pieces: list[tuple[int, int]]) -> None:
    words = list(zip(cuts[::2], cuts[1::2], strict=False))
    expected = []
    for first, last in pieces:
        shared = [len(set(range(first, last)) & set(range(*word))) for word in words]
        expected.append(shared.index(max(shared)) if any(shared) else NO_WORD)
    assert Sentence("x" * 12, words).words_of(pieces) == expected


def test_pairs_of_other_words_or_tags_have_other_keys() -> None:
    """They have other scores. A text that looks like annotations is another sentence."""
    plain, words = Pair(TEXT), Pair(Sentence(TEXT, WORDS))
    annotations = json.dumps([WORDS, {}])
    pairs = [
        plain,
        words,
        Pair(TEXT, annotations),
        Pair(Sentence(TEXT, [])),
        Pair(Sentence(TEXT, WORDS[:3])),
        Pair(TEXT, Sentence(TEXT, WORDS)),
        Pair(Sentence(TEXT, WORDS), TEXT),
        *(Pair(Sentence(TEXT, WORDS, {"head": [value] * 4})) for value in (1, "1", 1.5, True, None)),
        Pair(Sentence(TEXT, WORDS, {"governor": [1] * 4})),
    ]
    assert len({pair.key for pair in pairs}) == len({pair.key_after("7") for pair in pairs}) == len(pairs)
    assert Pair(Sentence(TEXT)) == plain and Pair(Sentence(TEXT)).key == plain.key
    order = [Sentence(TEXT, [(0, 4)], dict(tags)) for tags in ([("a", [1]), ("b", [2])], [("b", [2]), ("a", [1])])]
    assert order[0] == order[1] and Pair(order[0]).key == Pair(order[1]).key


PAIR = Pair("le chat noir", "the black cat")


@pytest.mark.parametrize(
    ("line", "links"),
    [
        ("", {}),
        ("0-0 1-2 2-1", {0: [0], 1: [2], 2: [1]}),
        ("2-1 0-1 0-1", {1: [0, 2]}),
    ],
)
def test_a_line_links_words_between_spaces(line: str, links: dict[int, list[int]]) -> None:
    assert dict(links_of(linked(PAIR, line))) == links


def test_given_words_are_counted_in_place_of_those_between_spaces() -> None:
    source = Sentence("du vin", [(0, 1), (1, 2), (3, 6)])
    pair = linked(Pair(source, Sentence("some wine", [(0, 4), (5, 9)], {"upos": ["DET", "NOUN"]})), "2-1")
    assert dict(links_of(pair)) == {1: [2]} and pair.sentences[1].tags["upos"] == ("DET", "NOUN")


def test_pairs_of_other_links_are_other_pairs() -> None:
    assert len({pair.key for pair in (PAIR, linked(PAIR, ""), linked(PAIR, "0-0"), linked(PAIR, "0-1"))}) == 4


@pytest.mark.parametrize(
    ("pair", "line", "why"),
    [
        (PAIR, "0-0 x", "'x' links no words of 3 in the source and 3 in the target"),
        (PAIR, "0?0", "links no words"),
        (PAIR, "3-0", "'3-0' links no words"),
        (PAIR, "0-3", "'0-3' links no words"),
        (Pair("le chat"), "0-0", "no target"),
    ],
)
def test_what_is_no_alignment_of_the_pair_is_said(pair: Pair, line: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        linked(pair, line)
    assert why in refused.value.what and refused.value.remedy


@pytest.mark.parametrize(
    ("lines", "rows", "why"),
    [
        ("0-0\n", (1, 2), "has 1 lines, and there is a pair 2, or pairs are in several files"),
        ("0-0\n0-0\n0-0\n", (1, 2), "has 3 lines, and the pairs end with pair 2"),
        ("0-0\n9-0\n", (1, 2), "links:2: '9-0' links no words"),
        ("0-0\n1-1\n2-2\n", (1, 3), None),  # one that is skipped keeps its line
    ],
)
def test_a_line_belongs_to_the_record_of_its_number(
    tmp_path: Path, lines: str, rows: tuple[int, ...], why: str | None
) -> None:
    (file := tmp_path / "links").write_text(lines)
    records = Alignments.read(file).linked(Record(PAIR, "", place=Place("p", row)) for row in rows)
    if why is None:
        assert [dict(links_of(record.pair)) for record in records] == [{0: [0]}, {2: [2]}]
    else:
        with pytest.raises(PairsError, match=why):
            list(records)
    with pytest.raises(PairsError, match="cannot read the alignments"):
        Alignments.read(tmp_path / "none")
