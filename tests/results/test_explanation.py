"""What numbers of a head conclude: what it goes by, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.small_results import PATTERNS, SIGNATURE, labels_of

from attnscan.results.attention import Attention
from attnscan.results.explanation import (
    CAUSES,
    NEURONS,
    ROTATIONS,
    SHUFFLED,
    Explanations,
    conclusion,
    effects,
    evidence,
    gone_by,
    sign,
)
from attnscan.results.grid import Head
from attnscan.results.intervals import half_width

NAN = float("nan")
MANY = 20
"""Clusters of errors."""


def row_of(
    score: float,
    shuffled: float,
    *,
    error: float = 0.0,
    segments: float | None = None,
    chance: float = 0.1,
) -> pd.Series[Any]:
    """A head's row: its score as it is, with positions shuffled, and with segments changed.

    `error` is that of the fall where positions are shuffled. Segments make no difference unless
    a score without them is given.
    """
    without_segments = score if segments is None else segments
    row = {
        "pattern": "next-word",
        "score": score,
        "chance": chance,
        "above_chance": (score - chance) / (1 - chance),
        SHUFFLED: shuffled,
        "segments_zeroed": without_segments,
        "segments_swapped": without_segments,
        f"{SHUFFLED}_fall_se": error,
        "segments_zeroed_fall_se": 0.0,
        "segments_swapped_fall_se": 0.0,
    }
    series = pd.Series(row, dtype=object)
    series["by"] = gone_by(effects(series, MANY))
    return series


@pytest.mark.parametrize(
    ("shuffled", "error", "effect"),
    [
        (0.1, 0.05, "falls"),
        (0.45, 0.02, "falls in part"),
        (0.58, 0.02, "stays"),
        (0.7, 0.0, "stays"),
        # As much as its error
        (0.1, 0.3, "uncertain"),
        # Hardly, and by its error half of it
        (0.58, 0.2, "uncertain"),
    ],
)
def test_a_fall_within_its_error_is_not_claimed(shuffled: float, error: float, effect: str) -> None:
    assert effects(row_of(0.6, shuffled, error=error), MANY)[SHUFFLED] == effect


@pytest.mark.parametrize(
    ("share", "effect"),
    [
        (0.51, "falls"),
        (0.49, "falls in part"),
        (0.21, "falls in part"),
        (0.19, "stays"),
    ],
)
def test_half_of_the_score_above_chance_is_a_fall(share: float, effect: str) -> None:
    assert effects(row_of(0.6, 0.6 - share * 0.5), MANY)[SHUFFLED] == effect


def test_a_change_that_was_not_measured_has_no_effect() -> None:
    assert SHUFFLED not in effects(row_of(0.6, NAN), MANY)


@pytest.mark.parametrize("score", [0.1, 0.05])
def test_a_score_that_is_not_above_chance_cannot_fall(score: float) -> None:
    assert effects(row_of(score, 0.0), MANY) == {}


def test_the_fall_of_a_single_cluster_has_an_error_over_shuffles() -> None:
    """There are eight; the error of a fall by two clusters has a wider interval."""
    fall = 0.5
    error = fall / float(half_width(1, 8)) * 1.01
    assert effects(row_of(0.6, 0.1, error=error), 1)[SHUFFLED] == "uncertain"
    error = fall / float(half_width(1, 8)) * 0.99
    assert effects(row_of(0.6, 0.1, error=error), 1)[SHUFFLED] == "falls"
    assert effects(row_of(0.6, 0.1, error=error), 2)[SHUFFLED] == "uncertain"


def test_a_fall_without_an_error_is_a_fall() -> None:
    assert effects(row_of(0.6, 0.1, error=NAN), 1)[SHUFFLED] == "falls"


@pytest.mark.parametrize(
    ("shuffled", "segments", "by"),
    [
        (0.1, None, "by position"),
        (0.45, None, "in part by position"),
        (0.6, None, "by content"),
        (0.6, 0.1, "by segment"),
        (0.1, 0.1, "by position and segment"),
        # What falls wholly is named, and what falls in part is not
        (0.1, 0.45, "by position"),
        (NAN, NAN, ""),
        (NAN, None, ""),
    ],
)
def test_a_head_goes_by_what_its_score_falls_without(
    shuffled: float, segments: float | None, by: str
) -> None:
    assert gone_by(effects(row_of(0.6, shuffled, segments=segments), MANY)) == by


def test_a_head_does_not_go_by_content_where_something_is_uncertain() -> None:
    row = row_of(0.6, 0.6)
    row["segments_zeroed"] = 0.58
    row["segments_zeroed_fall_se"] = 0.2
    assert gone_by(effects(row, MANY)) == ""


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            row_of(0.6, 0.1),
            "follows next-word by position: its next-word score of 0.60 falls to 0.10 with the "
            "words' positions shuffled, stays at 0.60 with all segment ids 0, stays at 0.60 with "
            "the segment ids exchanged.",
        ),
        (
            row_of(0.6, NAN),
            "follows next-word: its next-word score of 0.60 stays at 0.60 with all segment ids 0, "
            "stays at 0.60 with the segment ids exchanged; positions cannot be changed here.",
        ),
        (
            row_of(0.3, 0.1),
            "does not follow next-word: its score is 0.30, and chance is 0.10.",
        ),
        (row_of(NAN, NAN), "cannot be explained by next-word: no query is eligible."),
    ],
)
def test_a_conclusion_is_one_sentence(row: pd.Series[Any], sentence: str) -> None:
    assert conclusion(row, effects(row, MANY)) == sentence


@pytest.mark.parametrize(("above", "follows"), [(0.25, True), (0.2499, False)])
def test_a_head_follows_a_pattern_from_the_threshold_on(above: float, follows: bool) -> None:
    row = row_of(0.6, 0.1)
    row["above_chance"] = above
    assert conclusion(row, effects(row, MANY)).startswith("follows next-word") == follows


def test_evidence_names_what_cannot_be_changed() -> None:
    row = row_of(0.6, NAN, segments=NAN)
    assert evidence(row, effects(row, MANY)) == "positions and segments cannot be changed here"


@pytest.mark.parametrize(
    ("value", "mark"),
    [(0.5, "≈"), (0.749, "≈"), (0.252, "≈"), (0.752, ">"), (0.248, "<"), (NAN, "")],
)
def test_neurons_are_marked_where_a_rotation_would_not_give_them(value: float, mark: str) -> None:
    """Eight rotations give 0.5 ± 0.1: a further one is within √(9/8) · 0.1 times t, 2.365."""
    assert ROTATIONS == 8
    row = pd.Series({"stability": value, "stability_rotated": 0.5, "stability_rotated_sd": 0.1})
    assert sign(row, "stability") == mark


HEADS = (Head(0, 0), Head(0, 1))


def explanations(
    attention: Attention | None = None, pattern: str | None = None, query: int | None = None
) -> Explanations:
    """Two heads: each number of a head and pattern is another one."""
    changes = 1 + len(CAUSES)
    shape = (1, 2, len(PATTERNS))
    step = np.arange(changes * 8).reshape(changes, *shape) / 100
    neurons = np.arange(3 * 9 * 8, dtype=float).reshape(3, 9, *shape)
    return Explanations(
        labels=labels_of([[0.9, 0, 0, 0], [0, 0, 0, 0]], label_stability=[1.0, NAN]),
        names=PATTERNS,
        score=0.9 - step,
        se=step / 2,
        fall_se=step / 4,
        chance=np.full(shape, 0.1),
        n=np.arange(8).reshape(shape),
        pairs=10 + np.arange(8).reshape(shape),
        clusters=5 + np.arange(8).reshape(shape),
        neurons=neurons,
        not_available={},
        signature=SIGNATURE,
        heads=HEADS,
        pattern=pattern,
        attention=attention,
        query=query,
    )


def test_a_row_has_the_numbers_of_its_head_and_pattern() -> None:
    found = explanations()
    row = found.row(HEADS[1], "identical")
    place = (0, 1, 1)
    assert (row["layer"], row["head"], row["pattern"]) == (0, 1, "identical")
    assert (row["n"], row["pairs"]) == (5, 15)
    assert row["score"] == found.score[0][place]
    assert row["se"] == found.se[0][place]
    assert row["above_chance"] == pytest.approx((row["score"] - 0.1) / 0.9)
    for change, cause in enumerate(CAUSES, 1):
        assert row[cause] == found.score[change][place]
        assert row[f"{cause}_se"] == found.se[change][place]
        assert row[f"{cause}_fall_se"] == found.fall_se[change][place]
    for measure, name in enumerate(NEURONS):
        rotated = found.neurons[(measure, slice(1, None), *place)]
        assert row[name] == found.neurons[(measure, 0, *place)]
        assert row[f"{name}_rotated"] == pytest.approx(rotated.mean())
        assert row[f"{name}_rotated_sd"] == pytest.approx(rotated.std(ddof=1))
    assert row["conclusion"].startswith("0-1 follows identical")


def test_a_row_without_room_above_chance_has_no_score_above_it() -> None:
    found = replace(explanations(), chance=np.ones((1, 2, len(PATTERNS))))
    assert np.isnan(found.row(HEADS[0], "identical")["above_chance"])


def test_a_head_is_explained_by_its_own_pattern_or_the_one_asked_for() -> None:
    assert explanations()["0-0"]["pattern"] == "next-word"
    assert explanations(pattern="delimiter")["0-0"]["pattern"] == "delimiter"


def test_a_table_of_heads_has_a_row_for_each_that_was_asked_for() -> None:
    frame = explanations().to_frame()
    assert frame["head"].tolist() == [0, 1]
    assert frame["label_stays"].tolist() == pytest.approx([1.0, NAN], nan_ok=True)


def attention_of(*, source: int = 0, neurons: int = 2) -> Attention:
    """Two heads on four tokens; of cross attention, the first ones are the source's."""
    rng = np.random.default_rng(0)
    return Attention(
        tokens=("a", "b", "c", "d"),
        sentence=(0, 0, 0, 0),
        segments=(0, 0, 0, 0),
        weights=rng.random((1, 2, 4, 4), dtype=np.float32),
        visible=None,
        query=rng.random((1, 2, 4, neurons), dtype=np.float32) if neurons else None,
        key=rng.random((1, 2, 4, neurons), dtype=np.float32) if neurons else None,
        scaling=(0.5,),
        source=source,
    )


def test_a_query_that_was_asked_about_has_a_row_for_each_key() -> None:
    attention = attention_of()
    frame = explanations(attention, query=2).to_frame()
    assert frame["head"].tolist() == [0] * 4 + [1] * 4
    assert frame["key"].tolist() == [0, 1, 2, 3] * 2
    assert set(frame["query"]) == {2}
    assert set(frame["query_token"]) == {"c"}
    assert frame["key_token"].tolist() == ["a", "b", "c", "d"] * 2
    assert frame["weight"].tolist() == pytest.approx(attention.weights[0, :, 2].ravel().tolist())


def test_neurons_add_up_to_the_logit_of_a_key() -> None:
    attention = attention_of()
    frame = explanations(attention, query=2).to_frame()
    assert attention.query is not None
    assert attention.key is not None
    logits = 0.5 * np.einsum("hn,hkn->hk", attention.query[0, :, 2], attention.key[0])
    assert frame["logit"].tolist() == pytest.approx(logits.ravel().tolist())
    assert (frame["neuron_0"] + frame["neuron_1"]).tolist() == pytest.approx(frame["logit"])


def test_without_queries_there_are_weights_and_no_neurons() -> None:
    frame = explanations(attention_of(neurons=0), query=2).to_frame()
    assert frame.columns[-1] == "weight"


def test_keys_of_cross_attention_are_the_sources() -> None:
    frame = explanations(attention_of(source=3), query=3).to_frame()
    assert frame["key_token"].tolist() == ["a", "b", "c"] * 2
    assert set(frame["query"]) == {0}
    assert set(frame["query_token"]) == {"d"}
