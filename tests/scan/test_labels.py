"""Labels over many pairs: by weight and by what heads carry, with predictive words, halves, states and shards."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scans import BUNDLED, PAIRS, ranked, records_of, states_of
from work import classify

import attnscan
from attnscan.inputs.sentence import Pair, Record
from attnscan.results.behaviour import Labels
from attnscan.results.ranking import Ranking
from attnscan.scan import local as reading
from attnscan.scan.local import unseen
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, ScanSums
from attnscan.scan.stored import load_state, save_state
from attnscan.scoring.patterns import PATTERNS

DIFFERENT = [Pair(f"the cat number {i} sat on {i % 7} mats", f"a cat ran {i} times to the store") for i in range(30)]
LABELLED = replace(BUNDLED, labelled=True, predictive="off")


def _ranking(options: ScanOptions, pairs: list[Pair]) -> Ranking:
    with Scanner(options) as scanner:
        return ranked(scanner, states_of(scanner, records_of(pairs))[-1])


def _sums(options: ScanOptions, pairs: list[Pair]) -> ScanSums:
    with Scanner(options) as scanner:
        return states_of(scanner, records_of(pairs))[-1].sums


def _assert_equal(one: Labels | None, other: Labels | None) -> None:
    assert one is not None and other is not None
    for measure in ("stability", "agreement"):
        for name in ("label", "content_label"):
            found, expected = (getattr(getattr(labels, measure), name) for labels in (one, other))
            assert_allclose(found, expected, atol=1e-3 + 1e-9, err_msg=f"{measure} {name}")
    for name in ("label", "runner_up", "content_label"):
        assert (getattr(one, name) == getattr(other, name)).all()
    assert_allclose(one.race("in").margin, other.race("in").margin, atol=1e-6)


def test_of_one_pair_they_are_those_of_classify() -> None:
    ranking = _ranking(LABELLED, DIFFERENT[:1])
    with Scanner(replace(LABELLED, labelled=False)) as scanner:
        alone = classify(scanner, DIFFERENT[0])
    labels = ranking.known_labels()
    assert (ranking.label == alone.label).all() and (labels.content_label == alone.content_label).all()
    assert ranking.carried is not None and (ranking.carried.label == alone.carried_label).all()
    assert (ranking.mapped.content_label == alone.mapped.content_label).all()
    assert labels.agreement is not None and (labels.agreement.label == 1).all()
    assert labels.stability is not None and np.isnan(labels.stability.label).all()
    told, expected = (
        {(row["layer"], row["head"], row["column"]): (row["share"], row["chance"]) for row in frame.attrs["shares"]}
        for frame in (ranking.to_labels(), alone.to_frame())
    )
    assert told.keys() == expected.keys() != set()
    assert_allclose([told[place] for place in expected], list(expected.values()), atol=1e-6)


def test_what_heads_carry_is_what_a_scan_by_norm_finds() -> None:
    by_weight, by_norm = _ranking(LABELLED, DIFFERENT), _ranking(replace(LABELLED, by="carried"), DIFFERENT)
    assert by_norm.carried is by_norm.labels and by_norm.known_labels().norm
    _assert_equal(by_weight.carried, by_norm.labels)
    frame, normed = by_weight.to_labels(), by_norm.to_labels()
    assert (frame["carried_label"] == normed["label"]).all() and (normed["label"] == normed["carried_label"]).all()
    assert (frame["label"] != normed["label"]).any()


@pytest.mark.parametrize("more", [{}, {"split": True}, {"profile": True}], ids=str)
def test_batches_order_and_shards_change_nothing(more: dict[str, bool]) -> None:
    options = replace(LABELLED, **more)  # type: ignore[arg-type]
    few = DIFFERENT[:12]
    with Scanner(options) as scanner:
        whole = ranked(scanner, states_of(scanner, records_of(few))[-1])
    for batch_tokens, pairs in ((1, few), (10_000, few[::-1])):
        again = _ranking(replace(options, batch_tokens=batch_tokens), pairs)
        _assert_equal(again.labels, whole.labels)
        _assert_equal(again.carried, whole.carried)
    shards = reduce(add, [_sums(options, few[i::3]) for i in range(3)])
    with Scanner(options) as scanner:
        together = ScanState(options, sums=shards, signature=whole.signature).ranking()
        _assert_equal(together.labels, whole.labels)


def test_predictive_words_vote_where_pairs_were_asked_for_them() -> None:
    two = tuple(pattern for pattern in PATTERNS if pattern.id in ("next-word", "predictive"))
    asking = replace(LABELLED, predictive="distance", predictive_pairs=4, predictive_words=6)
    options = replace(asking, threshold=0.02, patterns=two)
    pairs = DIFFERENT[:9]
    with Scanner(options) as scanner:
        state = states_of(scanner, records_of(pairs))[-1]
        ranking = ranked(scanner, state)
        asked = {pair for _, _, pair in state.seen.sample}
        with_them = {pair: classify(scanner, pair) for pair in asked}
    with Scanner(replace(options, predictive="off")) as scanner:
        alone = {pair: with_them.get(pair) or classify(scanner, pair) for pair in pairs}
    assert len(asked) == 4
    agreement = ranking.known_labels().agreement
    assert agreement is not None
    told = 0
    for head in np.ndindex(ranking.scores.grid.shape):
        label = str(ranking.label[head])
        says = [str(alone[pair].label[head]) for pair in pairs]
        could = [True] * len(pairs)
        if label != "mixed":
            p = ranking.scores.patterns.index(label)
            could = [bool(alone[pair].scores.every_key.n[(*head, p)] > 0) for pair in pairs]
        share = sum(said == label for said, able in zip(says, could, strict=True) if able) / sum(could)
        assert agreement.label[head] == pytest.approx(share), head
        told += "predictive" in says
    assert told


def test_a_state_keeps_them_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (1, 1))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    options = replace(LABELLED, batch_tokens=120)
    path = tmp_path / "state.json"
    with Scanner(options) as scanner:
        states = states_of(scanner, records_of(DIFFERENT))
        save_state(path, states[2], scanner)
        state = load_state(path, scanner)
        rest = unseen(records_of(DIFFERENT), state.seen)
        after: ScanState = [state, *states_of(scanner, rest, state)][-1]
        one, other = ranked(scanner, after).to_labels(), ranked(scanner, states[-1]).to_labels()
    assert len(states) > 3 and one.equals(other)
    assert one.attrs["shares"] == other.attrs["shares"] != []


def test_a_model_that_does_not_show_what_heads_carry_is_labelled_by_weight(options: ScanOptions) -> None:
    with Scanner(replace(options, labelled=True)) as scanner:
        scanner.__dict__["carrying"] = "its output projection cannot be seen"
        ranking = ranked(scanner, states_of(scanner, (Record(pair, "x") for pair in PAIRS))[-1])
    assert ranking.carried is None and ranking.mapped is ranking.labels
    assert ranking.to_labels()["carried_label"].isna().all()


@pytest.mark.long
def test_studies_are_as_sure_of_labels_as_a_scan_is() -> None:
    """`similar`, `compare` and `explain` label heads by the same pairs, and so in the same drawings of them."""
    ranking = _ranking(LABELLED, DIFFERENT)
    stays = ranking.known_labels().stability
    assert stays is not None and (stays.label < 1).any()
    pairs = [(pair.a, str(pair.b)) for pair in DIFFERENT]
    alike = attnscan.similar(pairs, model="bundled")
    assert_allclose(alike.to_frame()["label_stays"], stays.label.ravel(), atol=1e-3)
    assert (alike.unsure == ranking.known_labels().unsure.ravel()).all()
    explained = attnscan.explain("layer:2", pairs=pairs, model="bundled")
    assert_allclose(explained.to_frame()["label_stays"], stays.label[2], atol=1e-3)
    drawn = tuple(pattern for pattern in PATTERNS if pattern.target is not None)
    compared = attnscan.compare("bundled", "bundled", pairs).to_frame(["next-word"])
    without = _ranking(replace(LABELLED, patterns=drawn), DIFFERENT).known_labels().stability
    assert without is not None
    for name in ("label_a_stays", "label_b_stays"):
        assert_allclose(compared[name], without.label.ravel(), atol=1e-3)


def test_one_input_is_explained_with_labels_as_sure_as_classify_finds_them() -> None:
    pair = DIFFERENT[0]
    alone = attnscan.classify(pair.a, pair.b, model="bundled", predictive="off").labels
    explained = attnscan.explain("all", pair.a, pair.b, model="bundled")
    assert alone.stability is not None
    assert_allclose(explained.to_frame()["label_stays"], alone.stability.label.ravel(), equal_nan=True, atol=1e-3)
    assert [explained[head].unsure for head in explained.heads] == alone.unsure.ravel().tolist()
