"""How sure labels over many pairs are: against a plain resampling of pairs, and whatever the shards and the order."""

from __future__ import annotations

import pickle
import pickletools
from functools import reduce
from operator import add

import numpy as np
import pytest

from attnscan.inputs.pairs import Pair
from attnscan.results.labels import RESAMPLINGS, Labels
from attnscan.results.scores import MIXED, Scores
from attnscan.results.terms import Scored
from attnscan.scoring import label_sums, resampling
from attnscan.scoring.label_sums import LabelSums, key_of
from attnscan.scoring.resampling import labels_of, stability
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


def _keys(count: int) -> list[int]:
    return [key_of(Pair(f"pair {i}")) for i in range(count)]


def _scores(pairs: PairSums) -> Scores:
    nothing = np.zeros(GRID)
    return ScoreSums.of(pairs, SCORED, nothing, nothing).finish()


def _of(pairs: PairSums, keys: list[int]) -> LabelSums:
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


@pytest.mark.parametrize("most", [512, 16])
def test_shards_and_order_change_nothing_even_where_pairs_are_put_together(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(label_sums, "_MOST_GROUPS", most)
    monkeypatch.setattr(label_sums, "_FEWEST_GROUPS", 8)
    count = 100
    pairs, keys = _pairs(count), _keys(count)
    whole = _of(pairs, keys)
    assert len(whole.groups) == count if most > count else most / 4 <= len(whole.groups) <= most
    shuffled = list(np.random.default_rng(1).permutation(count))
    for size in (1, 7, 33):
        for order in (list(range(count)), shuffled):
            chunks = [order[i : i + size] for i in range(0, count, size)]
            parts = [_of(_part(pairs, chunk), [keys[i] for i in chunk]) for chunk in chunks]
            for added in (reduce(add, parts), reduce(add, parts[::-1]), parts[0] + reduce(add, parts[1:])):
                assert added.bits == whole.bits and set(added.groups) == set(whole.groups)
                assert (added.votes == whole.votes).all()
                for key, group in whole.groups.items():
                    for name, values in group.items():
                        again, values = np.broadcast_arrays(added.groups[key][name], values)
                        np.testing.assert_allclose(again, values, rtol=1e-12, atol=1e-12)


def test_a_model_of_many_heads_keeps_fewer_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_sums, "_ROOM", 1_000)
    sums = _of(_pairs(100), _keys(100))
    assert len(sums.groups) <= 32
    assert sums.units()["every_key.weight"].sum() == pytest.approx(_pairs(100)["every_key.weight"].sum())


def test_what_is_the_same_for_all_heads_is_kept_once() -> None:
    (group,) = _of(_pairs(1), _keys(1)).groups.values()
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
    monkeypatch.setattr(label_sums, "MOST_HEADS", 5)
    monkeypatch.setattr(resampling, "MOST_HEADS", 5)
    pairs = _pairs(20)
    sums = reduce(add, [_of(_part(pairs, slice(i, i + 10)), _keys(20)[i : i + 10]) for i in (0, 10)])
    labels = labels_of(_scores(pairs), sums, THRESHOLD, 0, norm=False)
    assert not sums.groups and labels.stability is None and not labels.unsure.any()
    assert labels.agreement is not None and (labels.agreement.label > 0).any()


def test_pickles_hold_the_same_bits_in_few_arrays() -> None:
    whole = _of(_pairs(100), _keys(100))
    mixed = whole + _of({name: values * np.linspace(1, 2, 3)[:, None] for name, values in _pairs(9).items()}, _keys(9))
    for sums, arrays in ((whole, 20), (mixed, 2_000), (LabelSums(SCORED, {}, whole.votes), 5)):
        packed = pickle.dumps(sums, protocol=5)
        again = pickle.loads(packed)
        assert (again.votes == sums.votes).all() and again.bits == sums.bits
        assert list(again.groups) == list(sums.groups)
        for key, group in sums.groups.items():
            assert {name: (values.shape, values.tobytes()) for name, values in again.groups[key].items()} == {
                name: (values.shape, values.tobytes()) for name, values in group.items()
            }
        assert sum(op.name == "BYTEARRAY8" for op, *_ in pickletools.genops(packed)) <= arrays
