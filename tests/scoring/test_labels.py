"""Labels from sums of pairs or words, and how often they stay: against a plain resampling."""

from __future__ import annotations

import numpy as np
import pytest

from attnscan.inputs.sentence import Pair
from attnscan.results.scores import COLUMNS, RESAMPLINGS, Labels
from attnscan.results.terms import USUAL, Reading, Scored
from attnscan.scoring import labels as module
from attnscan.scoring.blocks import KINDS, Blocks, PairSums
from attnscan.scoring.labels import labels_of, scores_of, units_of

SCORED = (
    Scored("next-word"),
    Scored("identical", of_others=True),
    Scored("cross-sentence", part_of="identical"),
    Scored("delimiter"),
)
GRID = 2, 3
THRESHOLD = 0.25


def _pairs(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Sums of pairs whose scores lie about the threshold, so that labels stay in some resamples and not in others."""
    rng = np.random.default_rng(seed)
    shape = (count, *GRID, len(SCORED))
    sums: dict[str, np.ndarray] = {}
    for kind in KINDS:
        n = np.broadcast_to(rng.integers(0, 6, (count, 1, 1, len(SCORED))).astype(float), shape)
        share = np.clip(rng.normal(0.33, 0.25, shape) + rng.normal(0, 0.05, (1, *GRID, len(SCORED))), 0, 1)
        sums |= {
            f"{kind}.n": n,
            f"{kind}.pairs": (n > 0).astype(float),
            f"{kind}.weight": share * n,
            f"{kind}.chance": 0.1 * n,
        }
        sums |= {f"{kind}.whole": share * n * rng.uniform(1, 2, shape)}
        sums |= {f"{kind}.itself": share * n * rng.uniform(0, 1, shape)}
    words = rng.integers(6, 20, (count, 1, 1, 1)) + np.zeros((count, *GRID, 1))
    on = np.clip(rng.normal(0.06, 0.01, (count, *GRID, COLUMNS)), 0, 1)
    on[:, 0, 0, 10] += rng.normal(0.22, 0.2, count).clip(0)  # punctuation, about the margin
    sums |= {"on": on * words, "even": np.full((count, *GRID, COLUMNS), 0.05) * words, "n": words}
    special = np.clip(rng.normal(0.2, 0.05, (count, *GRID, 3)), 0, 1)
    sums |= {"special": special * words, "even_special": np.full((count, *GRID, 3), 0.1) * words, "all_words": words}
    return sums | {name: np.ones((count, *GRID, 1)) for name in ("entropy", "rows")}


def _part(pairs: PairSums, which: slice | list[int]) -> dict[str, np.ndarray]:
    return {name: values[which] for name, values in pairs.items()}


def _keys(count: int) -> list[str]:
    return [Pair(f"pair {i}").key for i in range(count)]


def _labels(pairs: PairSums, reading: Reading = USUAL, seed: int = 0) -> Labels:
    units = units_of(pairs, reading)
    return labels_of(scores_of(pairs, SCORED), units, reading, THRESHOLD, seed, of_pairs=False)


@pytest.mark.parametrize("special", ["in", "out"])
def test_labels_stay_as_often_as_in_a_plain_resampling_of_pairs(special: str) -> None:
    """Of each resample the label is worked out anew, as if its pairs were all; habits may lack a test there."""
    count, reading = 60, Reading("weight", "in" if special == "in" else "out")
    pairs = _pairs(count)
    found = _labels(Blocks.of(_keys(count), pairs).sums, reading)
    rng, kept = np.random.default_rng(99), np.zeros(GRID)
    for _ in range(300):
        again = _labels_without_resampling(_part(pairs, list(rng.integers(count, size=count))), reading)
        kept += again == found.label
    expected = kept / 300
    known = found.label != ""
    assert known.sum() > 3 and ((expected > 0.2) & (expected < 0.9)).any()  # there is something to be wrong about
    error = np.sqrt(expected * (1 - expected) * (1 / 300 + 1 / RESAMPLINGS))
    assert found.stays is not None and (np.abs(found.stays - expected)[known] <= 4 * error[known] + 0.005).all()


def _labels_without_resampling(pairs: PairSums, reading: Reading) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "resamples", lambda count, *_: iter([np.ones((RESAMPLINGS, count))]))
        return _labels(pairs, reading).label


def test_too_few_pairs_do_not_tell() -> None:
    labels = _labels(_pairs(4))
    assert labels.stays is not None and np.isnan(labels.stays).all()
    assert labels.unsure.tolist() == (labels.label != "").tolist() and labels.unsure.any()


def test_of_thousands_of_heads_patterns_are_told_and_not_how_sure_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HEADS", 5)
    labels = _labels(_pairs(20))
    assert labels.stays is None and not labels.unsure.any() and labels.follows.any()
