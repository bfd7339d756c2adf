"""What heads do: labels first, then statements, with the number of each and what of it is sure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from behaviours import behaviours_of
from small_results import table_of

from attnscan.results.grid import Head

NAN = float("nan")


def test_a_label_goes_before_a_statement_and_what_has_neither_is_like_the_average_head() -> None:
    behaviours = behaviours_of()
    assert behaviours.kind.tolist() == [["next-word", "next-word", "even", "average", "delimiter"]]
    assert behaviours.labelled.tolist() == [[True, False, False, False, True]]
    assert behaviours.own.tolist() == [[True, True, True, False, True]]
    np.testing.assert_allclose(behaviours.strength, [[0.92, 0.3, 0.8, NAN, 0.6]])


def test_kinds_are_patterns_in_their_order_then_statements_by_how_many_heads_have_them() -> None:
    kinds = list(behaviours_of(statement=["even", "next-3", "even", "even", "even"]).kinds)
    told = [(kind.name, kind.labelled, [head.name for head in kind.heads]) for kind in kinds]
    patterns = [("next-word", True, ["0-0"]), ("identical", True, []), ("cross-sentence", True, [])]
    assert told[:4] == [*patterns, ("delimiter", True, ["0-4"])]
    assert told[4:] == [("even", False, ["0-2", "0-3"]), ("next-3", False, ["0-1"])]
    assert kinds[0].average == pytest.approx(np.mean([0.92, 0.36, 0.2, 0.2, 0.2]))
    assert kinds[4].average == 0.5


def test_a_statement_of_the_same_keys_as_a_pattern_is_no_label() -> None:
    labelled, stated = (kind for kind in behaviours_of().kinds if kind.name == "next-word")
    assert labelled.heads == (Head(0, 0),) and stated.heads == (Head(0, 1),)


def test_labels_and_statements_that_stay_are_counted_apart() -> None:
    assert behaviours_of(stability=[1, 1, 0.5, 0.4, 0.9], stays=[0.1, 0.99, 0.9, NAN, 0.1]).sure() == (1, 1)
    assert behaviours_of().sure() is None
    unsure = behaviours_of(stability=[NAN, 1, 0.5, 0.4, 1], stays=[1, 0.99, 0.9, NAN, 1]).unsure
    assert unsure.tolist() == [[True, False, True, False, False]]


def test_resamples_show_what_unsure_heads_would_do_and_others_as_they_are() -> None:
    """The first head's label and the third one's statement are unsure; the last head would follow delimiter."""
    behaviours = behaviours_of(stability=(0.9, 1, 1, 1, 1), stays=(1, 1, 0.9, 1, 1))
    assert behaviours.labels.stability is not None and behaviours.statements is not None
    drawn = np.array([[[0, 0, -1, -1, 3]], [[-1, 1, 0, 3, -1]]])
    assert behaviours.drawn[0].shape == (0, 1, 5)
    labels = replace(behaviours.labels, stability=replace(behaviours.labels.stability, drawn={"in": drawn}))
    stated = replace(behaviours.statements, drawn=np.array([[[1, 1, 0, 0, 0]], [[2, 2, 2, -1, 0]]]))
    names, labelled = replace(behaviours, labels=labels, statements=stated).drawn
    first, *others = behaviours.kind[0].tolist()
    assert first == "next-word" and others[1] == "even"
    assert names[:, 0].tolist() == [
        ["next-word", others[0], "next-word", *others[2:]],
        ["even", others[0], "next-word", *others[2:]],
    ]
    assert labelled[:, 0, 2].tolist() == [False, True] and labelled[:, 0, 0].tolist() == [True, False]


def test_without_statements_what_follows_no_pattern_is_mixed() -> None:
    behaviours = replace(behaviours_of(), statements=None)
    assert behaviours.kind.tolist() == [["next-word", "mixed", "mixed", "mixed", "delimiter"]]
    assert np.isnan(behaviours.strength[0, 1:4]).all() and [kind.name for kind in behaviours.kinds] == [
        *behaviours.labels.scores.patterns
    ]


def test_a_pattern_without_a_score_has_no_average() -> None:
    behaviours = behaviours_of()
    scores = replace(behaviours.labels.scores, every_key=table_of([[0.9, NAN, NAN, 0.0]] * 5))
    unscored = replace(behaviours, labels=replace(behaviours.labels, scores=scores), statements=None)
    assert [np.isnan(kind.average) for kind in unscored.kinds] == [False, True, True, False]
