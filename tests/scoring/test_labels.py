"""Labels, habits and shares of classes from sums of pairs or words: against plain loops and a plain resampling."""

import numpy as np
import pytest
from by_loops import Measured, Score
from numpy.testing import assert_allclose
from support.small_results import SCORED
from truth_of_labels import Means, Unit, add_up

from attnscan.results.label_rules import Scored
from attnscan.results.scores import (
    CLASSES,
    HABITS,
    N_CLASS_SUMS,
    RESAMPLINGS,
    SPECIAL_CLASSES,
    WORD_CLASSES,
    Labels,
)
from attnscan.results.signature import DEFAULT_VIEW, AttentionView
from attnscan.scoring import labels as module
from attnscan.scoring.blocks import KEY_SETS, PAIR_SUMS, SumsByName
from attnscan.scoring.labels import (
    Shares,
    class_shares,
    differences,
    habits_of,
    labels_of,
    scores_of,
)

GRID = LAYERS, HEADS = 3, 4
SPECIAL_IN = AttentionView("weight", "in")
THRESHOLD = 0.25
Sums = dict[str, np.ndarray]


def _sums(words: np.ndarray, on: np.ndarray, even: np.ndarray | float, patterns: Sums) -> Sums:
    """Sums of pairs by their shares of classes, and by sums of patterns that are the same for all words and keys.

    Shape: `words` [pair, 1, 1, 1], `on`, `even` [pair, layer, head, column], `patterns` [pair, layer, head, pattern].
    """
    count = len(words)
    rng, words = np.random.default_rng(count), words + np.zeros((count, *GRID, 1))
    special = rng.normal(0.2, 0.05, (count, *GRID, 3)).clip(0, 1)
    sums = {"on": on * words, "even": even * np.ones(N_CLASS_SUMS) * words, "n": words}
    sums |= {
        "special": special * words,
        "even_special": np.full((count, *GRID, 3), 0.1) * words,
        "all_words": words + 1,
    }
    sums |= {f"{kind}.{name}": values for kind in KEY_SETS for name, values in patterns.items()}
    return sums | {name: np.ones((count, *GRID, 1)) for name in ("entropy", "rows")}


def _pairs(count: int) -> Sums:
    """Sums of pairs whose scores lie about the threshold, so that labels stay in some resamples and not in others."""
    rng = np.random.default_rng(0)
    shape = (count, *GRID, len(SCORED))
    n = np.broadcast_to(rng.integers(0, 6, (count, 1, 1, len(SCORED))).astype(float), shape)
    weight = n * (
        rng.normal(0.33, 0.25, shape) + rng.normal(0, 0.05, (1, *GRID, len(SCORED)))
    ).clip(0, 1)
    parts = {
        "whole": weight * rng.uniform(1, 2, shape),
        "itself": weight * rng.uniform(0, 1, shape),
    }
    patterns = {
        "n": n,
        "pairs": (n > 0).astype(float),
        "weight": weight,
        "chance": 0.1 * n,
        **parts,
    }
    on = rng.normal(0.06, 0.01, (count, *GRID, N_CLASS_SUMS)).clip(0, 1)
    on[:, 0, 0, CLASSES.index("punctuation")] += rng.normal(0.22, 0.2, count).clip(
        0
    )  # about the margin
    return _sums(rng.integers(6, 20, (count, 1, 1, 1)), on, 0.05, patterns)


def _labels(
    sums: SumsByName,
    reading: AttentionView = DEFAULT_VIEW,
    scored: tuple[Scored, ...] = SCORED,
    **how: bool,
) -> Labels:
    return labels_of(
        scores_of(sums, scored), sums, reading, THRESHOLD, 0, **{"by_pair": False, **how}
    )


@pytest.mark.parametrize("reading", [DEFAULT_VIEW, SPECIAL_IN], ids=["out", "in"])
def test_labels_stay_as_often_as_in_a_plain_resampling_of_pairs(
    reading: AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each resample the label is worked out anew, as if its pairs were all; habits may lack a test there."""
    count = 60
    pairs = _pairs(count)
    found = _labels(pairs, reading)
    monkeypatch.setattr(module, "resamples", lambda size, *_: iter([np.ones((1, size))]))
    monkeypatch.setattr(module, "RESAMPLINGS", 1)
    rng, kept = np.random.default_rng(99), np.zeros(GRID)
    for _ in range(300):
        drawn = rng.integers(count, size=count)
        kept += (
            _labels({name: values[drawn] for name, values in pairs.items()}, reading).label
            == found.label
        )
    expected = kept / 300
    known = found.label != ""
    assert (
        known.sum() > 3 and ((expected > 0.2) & (expected < 0.9)).any()
    )  # there is something to be wrong about
    error = np.sqrt(expected * (1 - expected) * (1 / 300 + 1 / RESAMPLINGS))
    assert (
        found.label_stability is not None
        and (np.abs(found.label_stability - expected)[known] <= 4 * error[known] + 0.005).all()
    )


def test_too_few_pairs_do_not_tell() -> None:
    labels = _labels(_pairs(4))
    assert labels.label_stability is not None and np.isnan(labels.label_stability).all()
    assert labels.unsure.tolist() == (labels.label != "").tolist() and labels.unsure.any()


def test_of_thousands_of_heads_patterns_are_told_and_not_how_sure_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_HEADS", 5)
    labels = _labels(_pairs(20))
    assert labels.label_stability is None and not labels.unsure.any() and labels.follows.any()


@pytest.mark.parametrize(("count", "by_pair"), [(30, True), (1, True), (12, False)])
def test_a_share_is_a_ratio_of_sums_and_its_error_is_clustered_by_pair(
    count: int, by_pair: bool
) -> None:
    """Of one pair, and of the words of one input, there is no error."""
    pairs = _pairs(count)
    shares = class_shares(pairs, scores_of(pairs, SCORED), DEFAULT_VIEW, by_pair=by_pair)
    names, share, se, chance = shares
    assert names == (*WORD_CLASSES, *SPECIAL_CLASSES)
    for place, name in enumerate(names):
        is_special = name in SPECIAL_CLASSES
        column = (SPECIAL_CLASSES if is_special else CLASSES).index(name)
        keys = ("special", "even_special", "all_words") if is_special else ("on", "even", "n")
        on, even, n = (pairs[key] for key in keys)
        for head in np.ndindex(GRID):
            pairs_of_head = zip(on[:, *head, column], n[:, *head, 0], strict=True)
            expected = Score([Measured(weight, words) for weight, words in pairs_of_head])
            assert_allclose(share[head][place], expected.mean())
            assert_allclose(se[head][place], expected.se if by_pair else np.nan)
            assert_allclose(chance[head][place], even[:, *head, column].sum() / expected.n)


def _planned(
    plan: dict[tuple[int, int], dict[str, float]], count: int = 40, noise: float = 0.02
) -> Sums:
    """Sums of pairs whose heads are alike, but for those of a plan, which give so much to some classes.

    All heads have 0.5 in common with an even row and with the other words' mean row, planned ones 0.3 unless planned.
    None follows a pattern.
    """
    rng = np.random.default_rng(0)
    words = rng.integers(8, 30, (count, 1, 1, 1))
    share = np.full((count, *GRID, len(CLASSES)), 1 / len(CLASSES))
    rows = np.full((count, *GRID, 2), 0.5)
    for head, planned in plan.items():
        linear = {name: value for name, value in planned.items() if name in CLASSES}
        if linear:
            share[:, *head] *= (1 - sum(linear.values())) / (1 - len(linear) / len(CLASSES))
        for name, value in linear.items():
            share[:, *head, CLASSES.index(name)] = value
        rows[:, *head] = [planned.get("even", 0.3), planned.get("same-keys", 0.3)]
    share = np.abs(share + rng.normal(0, noise, share.shape))
    on, even = np.zeros((count, *GRID, N_CLASS_SUMS)), np.zeros(N_CLASS_SUMS)
    on[..., : len(CLASSES)] = share / share.sum(-1, keepdims=True)
    on[..., [*HABITS["even"], *HABITS["same-keys"]]] = rows
    even[: len(CLASSES)] = 1 / len(CLASSES)
    return _sums(words, on, even, dict.fromkeys((*PAIR_SUMS, "pairs"), np.zeros((count, *GRID, 1))))


def _habits(sums: Sums, *, by_pair: bool = True) -> Labels:
    return _labels(sums, SPECIAL_IN, (Scored("next-word"),), by_pair=by_pair)


def test_planted_heads_have_their_habits_and_no_others() -> None:
    planned = {
        (0, 1): ({"next": 0.3, "next-2-3": 0.3}, "next-3"),
        (1, 0): ({"punctuation": 0.6}, "punctuation"),
        (1, 3): ({"same-keys": 0.9}, "same-keys"),
        (2, 2): ({"even": 0.9}, "even"),
        (2, 3): ({"start": 0.7}, "start"),
    }
    labels = _habits(_planned({head: plan for head, (plan, _) in planned.items()}))
    expected = np.full(GRID, "", dtype="<U20")
    for head, (_, name) in planned.items():
        expected[head] = name
    assert labels.label.tolist() == expected.tolist() and not labels.unsure.any()


@pytest.mark.parametrize(
    ("plan", "count", "noise", "by_pair", "habit"),
    [
        # what tells it best from the average head, not that by which the average head is told best from it: `even`
        ({"start": 0.55, "even": 0.95}, 40, 0.02, True, "start"),
        # near the margin some resamples fall below, and so the head is like the average head
        ({"next": 0.19}, 30, 0.12, False, ""),
        ({"next": 0.6}, 30, 0.12, False, "next-word"),
        # one or two pairs state nothing by a test
        ({"next": 0.5}, 1, 0.02, True, ""),
        ({"next": 0.5}, 2, 0.02, True, ""),
    ],
)
def test_a_habit_is_beyond_doubt(
    plan: dict[str, float], count: int, noise: float, by_pair: bool, habit: str
) -> None:
    assert _habits(_planned({(0, 0): plan}, count, noise), by_pair=by_pair).label[0, 0] == habit


def test_a_habit_that_wins_by_luck_has_a_question_mark() -> None:
    labels = _habits(_planned({(0, 0): {"next": 0.4, "itself": 0.4}}, 30, 0.06))
    assert (
        labels.label[0, 0]
        and labels.unsure[0, 0]
        and labels.label_stability is not None
        and 0 < labels.label_stability[0, 0] < 0.95
    )


def test_heads_that_are_all_alike_have_no_habit_however_far_from_even_attention() -> None:
    labels = _habits(_planned({head: {"next": 0.8} for head in np.ndindex(GRID)}))
    assert (labels.among_words == "").all() and np.isnan(labels.share).all()


def test_habits_of_many_pairs_equal_the_plain_loops() -> None:
    plan = {
        (0, 1): {"next": 0.24},
        (1, 2): {"itself": 0.21, "next": 0.18},
        (2, 0): {"earlier": 0.9},
    }
    sums = _planned(plan, 12, 0.05)
    result = _habits(sums).habits
    assert result is not None
    names, members = habits_of(special=True)
    words = sums["n"][:, 0, 0, 0]
    on, even = ((sums[name] @ members).reshape(12, -1, len(names)) for name in ("on", "even"))
    units = [Unit(words[pair], np.zeros(0), on[pair], even[pair]) for pair in range(12)]
    means = Means(add_up(units, np.ones(12)), "in")
    assert means.names == names
    for ours, theirs in ((result.share, means.share), (result.chance, means.chance)):
        assert_allclose(ours.reshape(theirs.shape), theirs, atol=1e-12)
    stated = means.best(means.above & means.sure(units)).reshape(GRID)  # before any resample
    kept = result.winner >= 0
    assert kept[2, 0] and (result.winner == stated)[kept].all() and (stated < 0).any()


def test_a_head_without_attention_is_left_out_of_the_average() -> None:
    sums = {name: values.copy() for name, values in _planned({(0, 1): {"next": 0.6}}).items()}
    for values in sums.values():
        values[:, 2, 3] = 0
    labels = _habits(sums)
    others = np.ones(GRID, dtype=bool)
    others[2, 3] = False
    assert labels.habits is not None
    assert_allclose(labels.habits.average, labels.habits.share[others].mean(0))
    assert labels.label[2, 3] == "" and labels.label[0, 1] == "next-word"


def test_residuals_of_the_same_few_words_are_no_whole_numbers() -> None:
    names, _ = habits_of(special=False)
    values = np.full((3, 1, 1, len(names)), 0.25)
    values[..., names.index("same-keys")] = 0.75
    apart = differences(Shares(values, values, values), names, fill=0)[2]
    assert set(apart[..., names.index("same-keys")].ravel()) == {0.5} and apart.sum() == 1.5
