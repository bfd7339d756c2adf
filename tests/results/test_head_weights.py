"""Some heads' weights as rows, cut to some tokens: what is shown is what the model did."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose
from show_command import ARTICLE, rows_of

from attnscan.results.attention import Attention


def test_rows_hold_every_weight(attention: Attention) -> None:
    frame = rows_of("0-2", *ARTICLE)
    assert list(frame) == ["model", "layer", "head", "query", "query_token", "key", "key_token", "weight"]
    assert_allclose(frame["weight"].to_numpy().reshape(19, 19), attention.weights[0, 2], atol=1e-6)
    row = frame[(frame["query"] == 5) & (frame["key"] == 4)].iloc[0]
    assert (row["query_token"], row["key_token"]) == ("store", "the") and row["weight"] > 0.99


def test_several_heads_follow_each_other_and_their_mean_is_one(attention: Attention) -> None:
    both = rows_of("0-2,1-8", *ARTICLE)
    assert len(both) == 2 * 19 * 19 and both["layer"].iloc[-1] == 1
    mean = rows_of("0-2,1-8", *ARTICLE, "--average")
    expected = (attention.weights[0, 2] + attention.weights[1, 8]) / 2
    assert_allclose(mean["weight"].to_numpy().reshape(19, 19), expected, atol=1e-6)
    assert set(mean["layer"]) == {""}
    assert len(rows_of("layer:3", *ARTICLE)) == 12 * 19 * 19


@pytest.mark.parametrize(("queries", "keys"), [("A", "B"), ("B", "B")])
def test_one_direction(attention: Attention, queries: str, keys: str) -> None:
    frame = rows_of("2-9", *ARTICLE, "--from-sentence", queries, "--to-sentence", keys)
    for name, sentence in (("query", queries), ("key", keys)):
        assert {"AB"[attention.segments[i]] for i in frame[name]} == {sentence}
    counts = {"A": 8, "B": 11}
    assert len(frame) == counts[queries] * counts[keys]
