"""Labels over many pairs: halves, states and shards change nothing, and studies label heads alike."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scans import BUNDLED, ranked, records_of, states_of
from work import classify

import attnscan
from attnscan.inputs.sentence import Pair
from attnscan.results.behaviour import Labels
from attnscan.results.heads import HeadScores
from attnscan.scan import local as reading
from attnscan.scan.local import unseen
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, Sums
from attnscan.scan.stored import load_state, save_state
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
        alone = classify(scanner, DIFFERENT[0]).labels
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


def test_predictive_words_compete_where_pairs_were_asked_for_them() -> None:
    options = replace(LABELLED, predictive="distance", predictive_pairs=4, predictive_words=6, threshold=0.02)
    ranking, without = _ranking(options, DIFFERENT[:9]), _ranking(replace(options, predictive="off"), DIFFERENT[:9])
    labels, p = ranking.labels, ranking.scores.patterns.index("predictive")
    assert (ranking.table.pairs[..., p] == 4).all() and (labels.among_words == "predictive").any()
    assert not (without.among_words == "predictive").any()
    followed = labels.among_words == "predictive"
    assert labels.stays is not None and np.isnan(labels.stays[followed & ~labels.rests]).all()  # four pairs are few


def test_a_state_keeps_them_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (1, 1))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    options = replace(LABELLED, batch_tokens=120)
    path = tmp_path / "state.npz"
    with Scanner(options) as scanner:
        states = states_of(scanner, records_of(DIFFERENT))
        save_state(path, states[2], scanner)
        state = load_state(path, scanner)
        rest = unseen(records_of(DIFFERENT), state.seen)
        after: ScanState = [state, *states_of(scanner, rest, state)][-1]
        one, other = ranked(scanner, after).to_frame(), ranked(scanner, states[-1]).to_frame()
    assert len(states) > 3 and one.equals(other)


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


def test_one_input_is_explained_with_the_labels_of_classify() -> None:
    pair = DIFFERENT[0]
    alone = attnscan.classify(pair.a, pair.b, model="bundled", predictive="off").labels
    explained = attnscan.explain("all", pair.a, pair.b, model="bundled")
    frame = explained.to_frame()
    assert alone.stays is not None and frame["label"].tolist() == alone.label.ravel().tolist()
    assert_allclose(frame["label_stays"], alone.stays.ravel(), equal_nan=True, atol=1e-3)
    assert explained.labels.unsure.tolist() == alone.unsure.tolist()
