"""How sure labels over many pairs are: against a plain resampling of pairs, and whatever the shards and the order."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest

from attnscan.inputs.sentence import Pair
from attnscan.results.behaviour import RESAMPLINGS, Labels
from attnscan.results.scores import MIXED, Scores
from attnscan.results.terms import Scored
from attnscan.scoring import resampling
from attnscan.scoring.resampling import LabelSums, labels_of, stability
from attnscan.scoring.sums import KINDS, PairSums, ScoreSums

SCORED = (Scored("next-word"), Scored("identical", of_others=True), Scored("cross-sentence", part_of="identical"))
GRID = 2, 3
THRESHOLD = 0.25


def _pairs(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Sums of pairs whose scores lie about the threshold, so that labels stay in some resamplings and not in others."""
    rng = np.random.default_rng(seed)
    shape = (count, *GRID, len(SCORED))
    sums = {}
    for kind in KINDS:
        n = np.broadcast_to(rng.integers(0, 6, (count, 1, 1, len(SCORED))).astype(float), shape)
        share = np.clip(rng.normal(0.33, 0.25, shape) + rng.normal(0, 0.05, (1, *GRID, len(SCORED))), 0, 1)
        sums |= {f"{kind}.n": n, f"{kind}.weight": share * n, f"{kind}.chance": 0.1 * n}
        sums |= {
            f"{kind}.whole": share * n * rng.uniform(1, 2, shape),
            f"{kind}.itself": share * n * rng.uniform(0, 1, shape),
            f"{kind}.whole_chance": 0.2 * n,
        }
    return sums


def _part(pairs: PairSums, which: slice | list[int]) -> dict[str, np.ndarray]:
    return {name: values[which] for name, values in pairs.items()}


def _keys(count: int) -> list[str]:
    return [Pair(f"pair {i}").key for i in range(count)]


def _scores(pairs: PairSums) -> Scores:
    nothing = np.zeros(GRID)
    return ScoreSums.of(pairs, SCORED, nothing, nothing).finish()


def _of(pairs: PairSums, keys: list[str]) -> LabelSums:
    return LabelSums.of(pairs, SCORED, keys, THRESHOLD)


def test_labels_stay_as_often_as_in_a_plain_resampling_of_pairs() -> None:
    count = 60
    pairs = _pairs(count)
    sums = reduce(add, [_of(_part(pairs, [i]), [key]) for i, key in enumerate(_keys(count))])
    scores = _scores(pairs)
    found = stability(scores, sums.units(), THRESHOLD, 0)
    labels = Labels(scores, False, THRESHOLD)
    rng = np.random.default_rng(99)
    kept = np.zeros(GRID), np.zeros(GRID)
    for _ in range(400):
        again = Labels(_scores(_part(pairs, list(rng.integers(count, size=count)))), False, THRESHOLD)
        kept[0][...] += again.label == labels.label
        kept[1][...] += again.content_label == labels.content_label
    assert len(set(labels.label.flat)) > 1
    for share, plain in zip((found.label, found.content_label), kept, strict=True):
        expected = plain / 400
        assert ((expected > 0.2) & (expected < 0.9)).any()  # not all is sure: there is something to be wrong about
        error = np.sqrt(expected * (1 - expected) * (1 / 400 + 1 / RESAMPLINGS))
        assert (np.abs(share - expected) <= 4 * error + 0.005).all()


def test_agreement_is_the_share_of_the_pairs_that_could_say_so_and_do() -> None:
    count = 40
    pairs = _pairs(count)
    scores = _scores(pairs)
    agreement = reduce(add, [_of(_part(pairs, slice(i, i + 7)), _keys(count)[i : i + 7]) for i in range(0, count, 7)])
    labels, found = Labels(scores, False, THRESHOLD), agreement.agreement(scores, THRESHOLD)
    alone = [Labels(_scores(_part(pairs, [i])), False, THRESHOLD) for i in range(count)]
    for name, kind in (("label", "every_key"), ("content_label", "words_only")):
        for head in np.ndindex(GRID):
            label = getattr(labels, name)[head]
            asked = [True] * count
            if label != MIXED:
                p = scores.patterns.index(label)
                asked = [bool(pairs[f"{kind}.n"][i][(*head, p)]) for i in range(count)]
            agreeing = sum(getattr(one, name)[head] == label for one, could in zip(alone, asked, strict=True) if could)
            assert getattr(found, name)[head] == pytest.approx(agreeing / sum(asked))


def test_what_is_the_same_for_all_heads_is_kept_once() -> None:
    (group,) = _of(_pairs(1), _keys(1)).blocks.blocks.values()
    assert group["every_key.n"].shape == (1, 1, len(SCORED))
    assert group["every_key.weight"].shape == (*GRID, len(SCORED))
    assert group["every_key.whole"].shape == (*GRID, 1) and group["every_key.itself"].shape == (*GRID, 1)


def test_too_few_pairs_do_not_tell() -> None:
    scores = _scores(_pairs(4))
    found = stability(scores, _of(_pairs(4), _keys(4)).units(), THRESHOLD, 0)
    assert np.isnan(found.label).all()
    labels = Labels(scores, False, THRESHOLD, found)
    assert labels.unsure.tolist() == (labels.label != MIXED).tolist() and labels.unsure.any()


def test_of_thousands_of_heads_labels_are_told_and_not_how_sure_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "MOST_HEADS", 5)
    pairs = _pairs(20)
    sums = reduce(add, [_of(_part(pairs, slice(i, i + 10)), _keys(20)[i : i + 10]) for i in (0, 10)])
    labels = labels_of(_scores(pairs), sums, THRESHOLD, 0, norm=False)
    assert not sums.blocks.blocks and labels.stability is None and not labels.unsure.any()
    assert labels.agreement is not None and (labels.agreement.label > 0).any()
