"""Labels over many pairs: halves, states and shards change nothing, and studies label heads alike."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scans import BUNDLED, ranked, records_of, states_of

import attnscan
from attnscan.inputs.sentence import Pair
from attnscan.results.heads import HeadScores
from attnscan.results.scores import Labels
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, Sums
from attnscan.scoring.blocks import added

DIFFERENT = [Pair(f"the cat number {i} sat on {i % 7} mats", f"a cat ran {i} times to the store") for i in range(30)]
LABELLED = replace(BUNDLED, labelled=True, predictive="off")


def _ranking(options: ScanOptions, pairs: list[Pair]) -> HeadScores:
    with Scanner(options) as scanner:
        return ranked(scanner, states_of(scanner, records_of(pairs))[-1])


def _sums(options: ScanOptions, pairs: list[Pair]) -> Sums:
    with Scanner(options) as scanner:
        return states_of(scanner, records_of(pairs))[-1].sums


def _assert_equal(one: Labels | None, other: Labels | None) -> None:
    assert one is not None and other is not None and one.stays is not None and other.stays is not None
    assert one.label.tolist() == other.label.tolist() and one.among_words.tolist() == other.among_words.tolist()
    assert_allclose(one.stays, other.stays, atol=1e-3 + 1e-9)
    assert_allclose(one.share, other.share, atol=1e-6)
    assert_allclose(one.average, other.average, atol=1e-6)


def test_of_one_pair_patterns_and_rest_are_those_of_classify() -> None:
    """Habits are not: of many pairs they must hold by a test."""
    labels = _ranking(LABELLED, DIFFERENT[:1]).labels
    with Scanner(replace(LABELLED, labelled=False)) as scanner:
        alone = scanner.classify(DIFFERENT[0]).labels
    assert (labels.follows == alone.follows).all() and (labels.rests == alone.rests).all() and labels.rests.any()
    assert labels.among_words[labels.follows].tolist() == alone.among_words[alone.follows].tolist()
    assert labels.stays is not None and np.isnan(labels.stays).all()


@pytest.mark.parametrize("more", [{}, {"split": True}, {"by": "carried"}, {"special": "in"}], ids=str)
def test_batches_order_and_shards_change_nothing(more: dict[str, object]) -> None:
    options = replace(LABELLED, **more)  # type: ignore[arg-type]
    few = DIFFERENT[:12]
    with Scanner(options) as scanner:
        whole = ranked(scanner, states_of(scanner, records_of(few))[-1])
    for batch_tokens, pairs in ((1, few), (10_000, few[::-1])):
        _assert_equal(_ranking(replace(options, batch_tokens=batch_tokens), pairs).labels, whole.labels)
    shards = reduce(added, [_sums(options, few[i::3]) for i in range(3)])
    with Scanner(options) as scanner:
        _assert_equal(ScanState(options, sums=shards, signature=whole.signature).ranking().labels, whole.labels)


def test_studies_label_heads_as_a_scan_does() -> None:
    """`similar`, `compare` and `explain` label heads by the same pairs, and so in the same resamples of them."""
    labels = _ranking(LABELLED, DIFFERENT[:20]).labels
    assert labels.stays is not None and np.nanmin(labels.stays) < 1
    pairs = [(pair.a, str(pair.b)) for pair in DIFFERENT[:20]]
    explained = attnscan.explain("layer:2", pairs=pairs, model="bundled").to_frame()
    assert explained["label"].tolist() == labels.label[2].tolist()
    alike = attnscan.similar(pairs, model="bundled").to_frame()
    compared = attnscan.compare("bundled", "bundled", pairs).to_frame(["next-word"])
    for labels_there, stays in (
        (alike["label"], alike["label_stays"]),
        (compared["label_a"], compared["label_a_stays"]),
        (compared["label_b"], compared["label_b_stays"]),
    ):
        assert labels_there.tolist() == labels.label.ravel().tolist()
        assert_allclose(stays, labels.stays.ravel(), atol=1e-3)
