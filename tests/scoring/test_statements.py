"""The rule of habits: against plain loops, on heads that are planted, alike or noisy, and whatever the order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student

from attnscan.results.scores import CLASSES, COLUMNS, HABITS, MARGIN, Labels, Statements
from attnscan.results.terms import Reading, Scored
from attnscan.scoring.blocks import KINDS, PAIR_SUMS
from attnscan.scoring.labels import Shares, differences, habits_of, labels_of, scores_of

LAYERS, HEADS = 3, 4
BASE = np.full(len(CLASSES), 1 / len(CLASSES))


def _pairs(
    plan: dict[tuple[int, int], dict[str, float]], count: int = 40, noise: float = 0.02
) -> dict[str, np.ndarray]:
    """Sums of pairs whose heads are alike, but for those of a plan, which give so much to some classes.

    All heads have 0.5 in common with an even row and with the other words' mean row, planned ones 0.3 unless planned.
    """
    rng = np.random.default_rng(0)
    words = rng.integers(8, 30, count)[:, None, None, None] + np.zeros((count, LAYERS, HEADS, 1))
    share = np.broadcast_to(BASE, (count, LAYERS, HEADS, len(CLASSES))).copy()
    beside = np.full((count, LAYERS, HEADS, 2), 0.5)
    for head, planned in plan.items():
        linear = {name: value for name, value in planned.items() if name in CLASSES}
        if linear:
            share[:, *head] *= (1 - sum(linear.values())) / (1 - len(linear) / len(CLASSES))
        for name, value in linear.items():
            share[:, *head, CLASSES.index(name)] = value
        beside[:, *head] = [planned.get("even", 0.3), planned.get("same-keys", 0.3)]
    share = np.abs(share + rng.normal(0, noise, share.shape))
    share /= share.sum(-1, keepdims=True)
    on = np.zeros((count, LAYERS, HEADS, COLUMNS))
    on[..., : len(CLASSES)], on[..., [*HABITS["even"], *HABITS["same-keys"]]] = share, beside
    even = np.zeros((count, LAYERS, HEADS, COLUMNS))
    even[..., : len(CLASSES)] = BASE
    return {"on": on * words, "even": even * words, "n": words}


def _labels(sums: dict[str, np.ndarray], *, of_pairs: bool = True) -> Labels:
    """With special tokens in, of heads that follow no pattern."""
    pairs = {name: np.zeros((len(sums["n"]), LAYERS, HEADS, 1)) for name in PAIR_SUMS}
    of_kinds = {f"{kind}.{name}": values for kind in KINDS for name, values in {**pairs, "pairs": pairs["n"]}.items()}
    of_kinds |= {"entropy": pairs["n"], "rows": pairs["n"]}
    scores = scores_of(of_kinds, (Scored("next-word"),))
    units = pairs | {"on": sums["on"], "even": sums["even"], "words": sums["n"], "all_words": sums["n"]}
    units |= {name: np.zeros((len(sums["n"]), LAYERS, HEADS, 3)) for name in ("special", "even_special")}
    return labels_of(scores, units, Reading("weight", "in"), 0.25, 0, of_pairs=of_pairs)


def _stated(sums: dict[str, np.ndarray], *, of_pairs: bool = True) -> tuple[np.ndarray, Statements]:
    """Each head's habit, and what is known of all."""
    labels = _labels(sums, of_pairs=of_pairs)
    assert labels.statements is not None
    return np.asarray([*labels.statements.names, ""])[labels.statements.winner], labels.statements


def test_planted_heads_are_stated_and_no_others() -> None:
    planned = {
        (0, 1): ({"next": 0.3, "next-2-3": 0.3}, "next-3"),
        (1, 0): ({"punctuation": 0.6}, "punctuation"),
        (1, 3): ({"same-keys": 0.9}, "same-keys"),
        (2, 2): ({"even": 0.9}, "even"),
        (2, 3): ({"start": 0.7}, "start"),
    }
    labels = _labels(_pairs({head: plan for head, (plan, _) in planned.items()}))
    expected = np.full((LAYERS, HEADS), "", dtype="<U20")
    for head, (_, name) in planned.items():
        expected[head] = name
    assert labels.label.tolist() == expected.tolist() and not labels.unsure.any()


def test_the_statement_that_tells_a_head_best_from_the_average_head_wins() -> None:
    """Not the one by which the average head is told best from it: that would be `even`."""
    assert _stated(_pairs({(0, 0): {"start": 0.55, "even": 0.95}}))[0][0, 0] == "start"


def test_heads_that_are_all_alike_have_no_statement_however_far_from_even_attention() -> None:
    every_head = {head: {"next": 0.8} for head in np.ndindex(LAYERS, HEADS)}
    labels = _labels(_pairs(every_head))
    assert (labels.among_words == "").all() and np.isnan(labels.share).all()


def test_what_many_pairs_say_equals_the_plain_loops() -> None:
    sums = _pairs({(0, 1): {"next": 0.24}, (1, 2): {"itself": 0.21, "next": 0.18}, (2, 0): {"earlier": 0.9}}, 12, 0.05)
    _, result = _stated(sums)
    names, members = habits_of(special=True)
    expected = _by_loops(sums, names, members)
    for head in np.ndindex(LAYERS, HEADS):
        share, chance, winner = expected[head]
        assert_allclose(result.share[head], share, atol=1e-12)
        assert_allclose(result.chance[head], chance, atol=1e-12)
        if result.winner[head] >= 0:
            assert names[result.winner[head]] == winner
    told = [head for head in np.ndindex(LAYERS, HEADS) if expected[head][2] is not None]
    assert (2, 0) in told and len(told) < LAYERS * HEADS


def test_resamples_hold_a_statement_to_its_margin() -> None:
    """Of a head whose difference is near the margin, some resamples fall below, and it is like the average head."""
    of_words = _pairs({(0, 0): {"next": 0.19}}, 30, 0.12)
    assert _stated(of_words, of_pairs=False)[0][0, 0] == ""
    far = _pairs({(0, 0): {"next": 0.6}}, 30, 0.12)
    assert _stated(far, of_pairs=False)[0][0, 0] == "next-word"


def test_a_habit_that_wins_by_luck_has_a_question_mark() -> None:
    close = _pairs({(0, 0): {"next": 0.4, "itself": 0.4}}, 30, 0.06)
    labels = _labels(close)
    assert labels.label[0, 0] and labels.unsure[0, 0] and labels.stays is not None and 0 < labels.stays[0, 0] < 0.95


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_pairs_state_nothing_by_a_test(count: int) -> None:
    assert (_stated(_pairs({(0, 1): {"next": 0.5}}, count))[0] == "").all()


def test_a_head_without_attention_is_left_out_of_the_average() -> None:
    sums = _pairs({(0, 1): {"next": 0.6}})
    silent = {
        name: np.broadcast_to(values, (40, LAYERS, HEADS, values.shape[-1])).copy() for name, values in sums.items()
    }
    for values in silent.values():
        values[:, 2, 3] = 0
    habits, result = _stated(silent)
    others = np.ones((LAYERS, HEADS), dtype=bool)
    others[2, 3] = False
    assert_allclose(result.average, result.share[others].mean(0))
    assert habits[2, 3] == "" and habits[0, 1] == "next-word"


def _by_loops(
    sums: dict[str, np.ndarray], names: tuple[str, ...], members: np.ndarray
) -> dict[tuple[int, int], tuple[list[float], list[float], str | None]]:
    """Of each head M and E of each candidate, and the one that states it before any resample; None if none does."""
    pairs, columns = len(sums["n"]), range(len(names))
    n = [float(sums["n"][k].ravel()[0]) for k in range(pairs)]
    on, even = sums["on"] @ members, sums["even"] @ members
    heads = list(np.ndindex(LAYERS, HEADS))
    share = {h: [sum(on[k][h][c] for k in range(pairs)) / sum(n) for c in columns] for h in heads}
    chance = [sum(even[k, 0, 0, c] for k in range(pairs)) / sum(n) for c in columns]
    average = [sum(share[h][c] for h in heads) / len(heads) for c in columns]
    mean = [[sum(on[k][h][c] for h in heads) / len(heads) for c in columns] for k in range(pairs)]
    quantile = student.ppf(1 - 0.025 / (len(heads) * len(names)), pairs - 1)

    def passes(values: list[float]) -> bool:
        """Whether a difference, given by pair, is above the margin beyond doubt."""
        ratio = sum(values) / sum(n)
        spread = sum((value - ratio * count) ** 2 for value, count in zip(values, n, strict=True))
        return ratio - quantile * math.sqrt(pairs / (pairs - 1) * spread) / sum(n) > MARGIN

    result = {}
    for h in heads:
        best, gain = None, -math.inf
        for c in columns:
            ok = passes([on[k][h][c] - mean[k][c] for k in range(pairs)])
            ok = ok and passes([on[k][h][c] - even[k, 0, 0, c] for k in range(pairs)])
            if names[c] == "same-keys":
                ok = ok and passes([on[k][h][c] - on[k][h][names.index("even")] for k in range(pairs)])
            m, a = share[h][c], average[c]
            told = m * math.log(m / a) + (1 - m) * math.log((1 - m) / (1 - a)) if 0 < m < 1 and 0 < a < 1 else 0.0
            if ok and told > gain:
                best, gain = names[c], told
        result[h] = (share[h], chance, best)
    return result


def test_residuals_of_the_same_few_words_are_no_whole_numbers() -> None:
    names, _ = habits_of(special=False)
    values = np.full((3, 1, 1, len(names)), 0.25)
    values[..., names.index("same-keys")] = 0.75
    apart = differences(Shares(values, values, values), names, others=0)[2]
    assert set(apart[..., names.index("same-keys")].ravel()) == {0.5} and apart.sum() == 1.5
