"""Sentences whose words are given: what is refused, which piece belongs to which word, and what tells them apart."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscan.errors import InputError
from attnscan.inputs.sentence import NO_WORD, Pair, Sentence

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
