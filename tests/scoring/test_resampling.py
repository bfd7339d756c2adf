"""Labels that stay when words are resampled, and labels that do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scans import BUNDLED

from attnscan.inputs.read import shipped_pairs
from attnscan.results.behaviour import RESAMPLINGS
from attnscan.results.scores import Race, Scores
from attnscan.results.terms import Scored
from attnscan.scan.scanner import Scanner
from attnscan.scoring.merging import blocks_of_words
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.resampling import stability
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import KINDS, PAIR_SUMS, PairSums, ScoreSums
from attnscan.scoring.targets import Targets

SCORED = (Scored("next-word"), Scored("delimiter"))


def _stability(weights: list[list[float]], threshold: float = 0.25, seed: int = 0) -> tuple[Scores, np.ndarray]:
    """Of one head, and its scores."""
    words = _words(weights)
    scores = _scores(words)
    found = stability(scores, words, threshold, seed)
    return scores, np.array([found.label.item(), found.content_label.item()])


def _words(weights: list[list[float]]) -> dict[str, np.ndarray]:
    """The sums of each word by its weight on the targets of two patterns, which chance gives 0.1."""
    weight = np.array(weights, dtype=float).T[:, None, None]
    n = np.where(np.isnan(weight), 0.0, 1.0)
    known = np.nan_to_num(weight)
    values = dict(zip(PAIR_SUMS, (known, n, 0.1 * n, known, 0 * n, 0.1 * n), strict=True))
    return {f"{kind}.{name}": array for kind in KINDS for name, array in values.items()}


def _scores(words: dict[str, np.ndarray]) -> Scores:
    added = {name: array.sum(0, keepdims=True) for name, array in words.items()}
    return ScoreSums.of(added, SCORED, np.ones((1, 1)), np.ones((1, 1))).finish()


def test_a_label_that_every_word_supports_stays() -> None:
    scores, stays = _stability([[0.9] * 8, [0.1] * 8])
    assert scores.ranked_labels(scores.every_key, 0, 0.25).item() == "next-word"
    assert stays.tolist() == [1, 1]


def test_a_label_of_one_word_among_many_stays_as_often_as_that_word_is_drawn() -> None:
    """Eleven words say nothing and one all: the label is mixed where that one is drawn fewer than four times."""
    weights = [[1.0] + [0.0] * 11, [0.0] * 12]
    scores, stays = _stability(weights)
    assert scores.ranked_labels(scores.every_key, 0, 0.25).item() == "mixed"
    drawn = np.random.default_rng(1).multinomial(12, np.full(12, 1 / 12), size=20_000)[:, 0]
    above = (drawn / 12 - 0.1) / 0.9
    expected = (above < 0.25).mean()
    assert 0.9 < expected < 0.999
    assert stays[0] == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / RESAMPLINGS))


def test_two_patterns_that_are_alike_take_turns() -> None:
    rng = np.random.default_rng(2)
    weights = rng.random(40)
    _, stays = _stability([list(weights), list(weights[::-1])])
    assert 0.3 < stays[0] < 0.7


def test_a_label_of_few_words_is_not_told() -> None:
    """Four eligible words among eight; the mixed head of eight is told."""
    few = [[0.9] * 4 + [np.nan] * 4, [0.1] * 8]
    assert np.isnan(_stability(few)[1]).all()
    assert _stability([[0.1] * 8, [0.1] * 8])[1].tolist() == [1, 1]


def test_nothing_is_drawn_from_too_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscan.scoring.resampling._table", None)
    assert np.isnan(_stability([[0.9] * 4, [0.1] * 4])[1]).all()
    with pytest.raises(TypeError):  # a control
        _stability([[0.9] * 5, [0.1] * 5])
    assert np.isnan(_stability([[0.1] * 4, [0.1] * 4])[1]).all()


@pytest.mark.parametrize("kept", [1, 20, RESAMPLINGS])
def test_the_first_resamples_are_kept_and_agree_with_how_often_a_label_stays(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscan.scoring.resampling.DRAWN_MAPS", kept)
    rng = np.random.default_rng(2)
    weights = rng.random(40)
    words = _words([list(weights), list(weights[::-1])])
    scores = _scores(words)
    found = stability(scores, words, 0.25, 0)
    label = Race(SCORED, scores.every_key).winners(0, 0.25).item()
    again = (found.drawn["in"] == label)[:, 0, 0]
    assert again.shape == (kept,) and found.drawn["out"].shape == (kept, 1, 1)
    if kept == RESAMPLINGS:
        assert again.mean() == pytest.approx(found.label.item())
    of_few = _words([[0.9] * 4, [0.1] * 4])
    assert stability(_scores(of_few), of_few, 0.25, 0).drawn["in"].shape == (0, 1, 1)


def test_the_same_seed_gives_the_same() -> None:
    weights = [[0.9, 0.1, 0.5, 0.2, 0.3, 0.4], [0.4, 0.5, 0.1, 0.6, 0.2, 0.3]]
    assert _stability(weights)[1].tolist() == _stability(weights)[1].tolist()
    assert _stability(weights)[1].tolist() != _stability(weights, seed=1)[1].tolist()


def test_sums_that_are_those_of_all_heads_count_for_each() -> None:
    """As sums over many pairs keep them: one in place of heads that do not differ."""
    rng = np.random.default_rng(3)
    weight, itself = rng.random((8, 1, 1, 2)) * [0.9, 0.5], rng.random((8, 2, 3, 2)) / 2
    n = np.ones((8, 1, 1, 2))
    alike = dict(zip(PAIR_SUMS, (weight, n, 0.1 * n, weight, itself, 0.1 * n), strict=True))
    words = {f"{kind}.{name}": array for kind in KINDS for name, array in alike.items()}
    apart = {name: np.ascontiguousarray(np.broadcast_to(array, (8, 2, 3, 2))) for name, array in words.items()}
    scored = (Scored("identical", of_others=True), Scored("delimiter"))
    added = {name: array.sum(0, keepdims=True) for name, array in apart.items()}
    scores = ScoreSums.of(added, scored, np.ones((2, 3)), np.ones((2, 3))).finish()
    found, expected = (stability(scores, each, 0.25, 0) for each in (words, apart))
    assert found is not None and expected is not None
    assert found.label.tolist() == expected.label.tolist() and 0 < found.label.min() < found.label.max() < 1


@pytest.mark.long
def test_blocks_of_neighbouring_words_are_as_sure_as_words_one_by_one() -> None:
    """The bundled model's heads on 1,000 words of shipped pairs, as if these were one input; beside another seed."""
    of_pairs: list[PairSums] = []
    with Scanner(BUNDLED) as scanner:
        for record in shipped_pairs():
            batch = scanner.collate([scanner.encode(record.pair)])
            scorer = Scorer(Targets(batch, PATTERNS), by_query=True)
            scanner.run(batch.model_inputs, scorer)
            of_pairs.append(scorer.word_sums())
            if sum(len(sums["every_key.n"]) for sums in of_pairs) >= 1000:
                break
    words = {name: np.concatenate([sums[name] for sums in of_pairs])[:1000] for name in of_pairs[0]}
    block = blocks_of_words(torch.ones(1000, dtype=torch.bool)).numpy()
    blocks = {name: np.add.reduceat(sums, np.flatnonzero(np.diff(block, prepend=0))) for name, sums in words.items()}
    assert len(words["every_key.n"]) == 1000 and len(blocks["every_key.n"]) == 512
    total = {name: sums.sum(0, keepdims=True) for name, sums in words.items()}
    scored, grid = tuple(pattern.scored for pattern in PATTERNS), np.zeros((6, 12))
    scores = ScoreSums.of(total, scored, grid, grid + 1000).finish()
    one_by_one, by_blocks, again = (
        stability(scores, units, 0.25, seed) for units, seed in ((words, 0), (blocks, 0), (words, 1))
    )
    assert one_by_one is not None and by_blocks is not None and again is not None
    for kind in ("label", "content_label"):
        true, near, other = (getattr(sure, kind) for sure in (one_by_one, by_blocks, again))
        assert np.nanmean(np.abs(near - true)) < 0.005 and np.nanmax(np.abs(near - true)) < 0.08
        assert np.nanmax(np.abs(other - true)) > 0  # what drawing alone makes of it
