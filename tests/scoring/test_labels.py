"""Labels, habits and shares of classes from sums of pairs or words: against plain loops and a plain
resampling.
"""

import numpy as np
import pytest
from by_loops import Measured, Score
from numpy.testing import assert_allclose
from support.small_results import SCORED
from truth_of_labels import NAMES, Means, Unit, add_up, stack

from attnscan.inputs.sentence import Pair
from attnscan.results.habits import CLASSES, HABITS, N_CLASS_SUMS, SPECIAL_CLASSES, WORD_CLASSES
from attnscan.results.label_rules import Scored
from attnscan.results.scores import RESAMPLINGS, Labels
from attnscan.results.signature import DEFAULT_VIEW, AttentionView
from attnscan.scoring import labels as module
from attnscan.scoring.blocks import (
    DRAWN_GROUPS,
    KEY_SETS,
    PAIR_SUMS,
    Groups,
    PairSums,
    SumsByName,
    grouped_key,
)
from attnscan.scoring.labels import (
    Shares,
    class_shares,
    habits_of,
    labels_of,
    qualifying,
    scores_of,
)

GRID = LAYERS, HEADS = 3, 4
SPECIAL_IN = AttentionView("weight", "in")
THRESHOLD = 0.25
Sums = dict[str, np.ndarray]


def _sums(words: np.ndarray, on: np.ndarray, even: np.ndarray | float, patterns: Sums) -> Sums:
    """Sums of pairs by their shares of classes, and by sums of patterns that are the same for all
    words and keys.

    Shape: `words` [pair, 1, 1, 1], `on`, `even` [pair, layer, head, column], `patterns`
    [pair, layer, head, pattern].
    """
    count = len(words)
    rng = np.random.default_rng(count)
    words = words + np.zeros((count, *GRID, 1))
    special = rng.normal(0.2, 0.05, (count, *GRID, 3)).clip(0, 1)
    sums = {"on": on * words, "even": even * np.ones(N_CLASS_SUMS) * words, "n": words}
    sums |= {
        "special": special * words,
        "even_special": np.full((count, *GRID, 3), 0.1) * words,
        "all_words": words + 1,
    }
    for key_set in KEY_SETS:
        sums |= {f"{key_set}.{name}": values for name, values in patterns.items()}
    return sums | {name: np.ones((count, *GRID, 1)) for name in ("entropy", "rows")}


def _pairs(count: int) -> Sums:
    """Sums of pairs whose scores lie about the threshold, so that labels stay in some resamples and
    not in others.
    """
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
    about_the_margin = rng.normal(0.22, 0.2, count).clip(0)
    on[:, 0, 0, CLASSES.index("punctuation")] += about_the_margin
    return _sums(rng.integers(6, 20, (count, 1, 1, 1)), on, 0.05, patterns)


def _labels(
    sums: SumsByName,
    reading: AttentionView = DEFAULT_VIEW,
    scored: tuple[Scored, ...] = SCORED,
    *,
    by_pair: bool = False,
    grouped: PairSums | None = None,
) -> Labels:
    scores = scores_of(sums, scored)
    return labels_of(scores, sums, reading, THRESHOLD, 0, by_pair=by_pair, grouped=grouped)


@pytest.mark.parametrize("reading", [DEFAULT_VIEW, SPECIAL_IN], ids=["out", "in"])
def test_labels_stay_as_often_as_in_a_plain_resampling_of_pairs(
    reading: AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each resample the label is worked out anew, as if its pairs were all."""
    count = 60
    pairs = _pairs(count)
    found = _labels(pairs, reading)
    monkeypatch.setattr(module, "resamples", lambda size, *_: iter([np.ones((1, size))]))
    monkeypatch.setattr(module, "RESAMPLINGS", 1)
    rng = np.random.default_rng(99)
    kept = np.zeros(GRID)
    for _ in range(300):
        drawn = rng.integers(count, size=count)
        resample = {name: values[drawn] for name, values in pairs.items()}
        kept += _labels(resample, reading).label == found.label
    expected = kept / 300
    known = found.label != ""
    # A control: there is something to be wrong about
    assert known.sum() > 3
    assert ((expected > 0.2) & (expected < 0.9)).any()
    error = np.sqrt(expected * (1 - expected) * (1 / 300 + 1 / RESAMPLINGS))
    assert found.label_stability is not None
    assert (np.abs(found.label_stability - expected)[known] <= 4 * error[known] + 0.005).all()


def test_too_few_pairs_do_not_tell() -> None:
    labels = _labels(_pairs(4))
    assert labels.label_stability is not None
    assert np.isnan(labels.label_stability).all()
    assert labels.unsure.any()
    assert labels.unsure.tolist() == (labels.label != "").tolist()


@pytest.mark.parametrize(("count", "is_told"), [(5, True), (4, False)])
def test_five_pairs_tell_whether_a_pattern_stays(count: int, is_told: bool) -> None:
    """Of forty, so many have a query of the only pattern, which every head follows."""
    has_query = (np.arange(40) < count).astype(float)[:, None, None, None] + np.zeros((1, *GRID, 1))
    patterns = dict.fromkeys((*PAIR_SUMS, "pairs"), has_query)
    patterns |= {"chance": 0 * has_query, "itself": 0 * has_query}
    sums = _sums(np.full((40, 1, 1, 1), 9), np.zeros((40, *GRID, N_CLASS_SUMS)), 0.1, patterns)
    labels = _labels(sums, SPECIAL_IN, (Scored("next-word"),))
    assert set(labels.label.flat) == {"next-word"}
    assert labels.label_stability is not None
    assert (np.isnan(labels.label_stability) == (not is_told)).all()


def test_labels_count_what_was_resampled() -> None:
    sums = _pairs(30)
    for key_set in KEY_SETS:
        sums[f"{key_set}.pairs"] = 2 * sums[f"{key_set}.pairs"]
    assert _labels(sums).units == 30
    assert _labels(sums).resampled == "words"
    many = _labels(sums, by_pair=True)
    assert many.resampled == "pairs"
    assert many.units == sums["every_key.pairs"].sum(0).max()
    assert _labels(_pairs(30), by_pair=True).units == 30


def test_without_sums_labels_are_the_patterns_alone() -> None:
    scores = scores_of(_pairs(20), SCORED)
    labels = labels_of(scores, {}, DEFAULT_VIEW, THRESHOLD, 0)
    assert labels.follows.any()
    assert labels.habits is None
    assert labels.classes is None
    assert labels.label_stability is None


def test_means_are_over_rows() -> None:
    sums = _pairs(20)
    sums["entropy"] = np.arange(20.0)[:, None, None, None] + np.zeros((20, *GRID, 1))
    sums["rows"] = np.full((20, *GRID, 1), 2.0)
    assert_allclose(scores_of(sums, SCORED).means["entropy"], np.full(GRID, 9.5 / 2))


def test_own_patterns_have_their_scores_beside_the_classes() -> None:
    pairs = _pairs(20)
    scored = (Scored("next-word"), Scored("mine"), Scored("delimiter"), Scored("other"))
    scores = scores_of(pairs, scored)
    shares = class_shares(pairs, scores, DEFAULT_VIEW, by_pair=True)
    assert shares.names == (*WORD_CLASSES, "mine", "other", *SPECIAL_CLASSES)
    own = slice(len(WORD_CLASSES), len(WORD_CLASSES) + 2)
    table = scores.words_only
    assert_allclose(shares.share[..., own], table.score[..., [1, 3]])
    assert_allclose(shares.se[..., own], table.se[..., [1, 3]])
    assert_allclose(shares.chance[..., own], table.chance[..., [1, 3]])


def test_stability_is_not_measured_of_thousands_of_heads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_HEADS", 5)
    labels = _labels(_pairs(20))
    assert labels.follows.any()
    assert labels.label_stability is None
    assert not labels.unsure.any()


@pytest.mark.parametrize(("count", "by_pair"), [(30, True), (1, True), (12, False)])
def test_a_share_is_a_ratio_of_sums_with_an_error_clustered_by_pair(
    count: int, by_pair: bool
) -> None:
    """Of one pair, and of the words of one input, there is no error."""
    pairs = _pairs(count)
    shares = class_shares(pairs, scores_of(pairs, SCORED), DEFAULT_VIEW, by_pair=by_pair)
    names, share, se, chance, clusters = shares
    assert names == (*WORD_CLASSES, *SPECIAL_CLASSES)
    for place, name in enumerate(names):
        if name in SPECIAL_CLASSES:
            column = SPECIAL_CLASSES.index(name)
            on = pairs["special"]
            even = pairs["even_special"]
            n = pairs["all_words"]
        else:
            column = CLASSES.index(name)
            on = pairs["on"]
            even = pairs["even"]
            n = pairs["n"]
        for head in np.ndindex(GRID):
            pairs_of_head = zip(on[:, *head, column], n[:, *head, 0], strict=True)
            expected = Score([Measured(weight, words) for weight, words in pairs_of_head])
            assert_allclose(share[head][place], expected.mean())
            assert_allclose(se[head][place], expected.se if by_pair else np.nan)
            assert_allclose(chance[head][place], even[:, *head, column].sum() / expected.n)
            assert clusters[head][place] == np.count_nonzero(n[:, *head, 0])


def _planned(
    plan: dict[tuple[int, int], dict[str, float]], count: int = 40, noise: float = 0.02
) -> Sums:
    """Sums of pairs whose heads are alike, but for those of a plan, which give so much to some
    classes.

    All heads have 0.5 in common with an even row and with the other words' mean row, planned ones
    0.3 unless planned.
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
    on = np.zeros((count, *GRID, N_CLASS_SUMS))
    even = np.zeros(N_CLASS_SUMS)
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
        (2, 3): ({"earlier": 0.7}, "before"),
    }
    labels = _habits(_planned({head: plan for head, (plan, _) in planned.items()}))
    expected = np.full(GRID, "", dtype="<U20")
    for head, (_, name) in planned.items():
        expected[head] = name
    assert labels.label.tolist() == expected.tolist()
    assert not labels.unsure.any()


@pytest.mark.parametrize(
    ("plan", "count", "noise", "by_pair", "habit"),
    [
        # what tells it best from the average head, not that by which the average head is told best
        # from it: `even`
        ({"itself": 0.55, "even": 0.95}, 40, 0.02, True, "itself"),
        # near the margin some resamples fall below, and so the head is like the average head
        ({"next": 0.19}, 30, 0.12, False, ""),
        ({"next": 0.6}, 30, 0.12, False, "next-word"),
    ],
)
def test_a_habit_is_beyond_doubt(
    plan: dict[str, float], count: int, noise: float, by_pair: bool, habit: str
) -> None:
    assert _habits(_planned({(0, 0): plan}, count, noise), by_pair=by_pair).label[0, 0] == habit


def test_a_habit_that_wins_by_luck_has_a_question_mark() -> None:
    labels = _habits(_planned({(0, 0): {"next": 0.4, "itself": 0.4}}, 30, 0.06))
    assert labels.label[0, 0]
    assert labels.unsure[0, 0]
    assert labels.label_stability is not None
    assert 0 < labels.label_stability[0, 0] < 0.95


def test_pattern_and_habit_of_one_name_are_one_label() -> None:
    """A head has the habit `next-word`, and follows the pattern in some resamples."""
    sums = _planned({(0, 0): {"next": 0.6}}, 30)
    rng = np.random.default_rng(0)
    weight = rng.uniform(0, 0.5, 30)
    ones = np.ones(30)
    for name, values in {"weight": weight, "whole": weight, "n": ones, "pairs": ones}.items():
        of_head = np.zeros((30, *GRID, 1))
        of_head[:, 0, 0, 0] = values
        sums |= {f"{key_set}.{name}": of_head for key_set in KEY_SETS}
    # A control: there are resamples on both sides of the threshold
    follows = rng.choice(weight, (200, 30)).mean(1) > THRESHOLD
    assert 0.2 < follows.mean() < 0.8
    labels = _habits(sums)
    assert labels.label_stability is not None
    assert (labels.label[0, 0], labels.label_stability[0, 0]) == ("next-word", 1)


def test_pattern_measured_on_few_pairs_makes_no_label_unsure() -> None:
    """Of three pairs, one with a single word has a high score, which counts for little in all."""
    sums = _planned({(0, 0): {"punctuation": 0.6}}, 40)
    words = {0: 1, 1: 20, 2: 20}
    for name, share in {"weight": 0.9, "whole": 0.9, "n": 1.0, "pairs": 1.0}.items():
        of_head = np.zeros((40, *GRID, 1))
        for pair, count in words.items():
            is_high = pair == 0 or name in ("n", "pairs")
            of_head[pair, 0, 0, 0] = share * count if is_high else 0
        sums |= {f"{key_set}.{name}": of_head for key_set in KEY_SETS}
    labels = _habits(sums)
    of_words = _habits(sums, by_pair=False)
    assert labels.label_stability is not None
    assert of_words.label_stability is not None
    assert (labels.label[0, 0], labels.label_stability[0, 0]) == ("punctuation", 1)
    assert of_words.label_stability[0, 0] < 0.95  # a control


def test_heads_that_are_all_alike_have_no_habit() -> None:
    """However far they are from even attention."""
    labels = _habits(_planned({head: {"next": 0.8} for head in np.ndindex(GRID)}))
    assert (labels.among_words == "").all()
    assert np.isnan(labels.share).all()


def test_habits_of_many_pairs_equal_the_plain_loops() -> None:
    plan = {
        (0, 1): {"next": 0.24},
        (1, 2): {"itself": 0.21, "next": 0.18},
        (2, 0): {"earlier": 0.9},
    }
    sums = _planned(plan, 12, 0.05)
    result = _habits(sums).habits
    assert result is not None
    names, members = habits_of()
    words = sums["n"][:, 0, 0, 0]
    on = (sums["on"] @ members).reshape(12, -1, len(names))
    even = (sums["even"] @ members).reshape(12, -1, len(names))
    heads = on.shape[1]
    units = [
        Unit(np.full(heads, words[pair]), np.zeros(0), on[pair], even[pair]) for pair in range(12)
    ]
    means = Means(add_up(stack(units), np.ones(12)))
    assert names == NAMES
    assert_allclose(result.share.reshape(means.share.shape), means.share, atol=1e-12)
    assert_allclose(result.chance.reshape(means.chance.shape), means.chance, atol=1e-12)
    stated = means.best(means.above).reshape(GRID)  # before any resample
    kept = result.winner >= 0
    assert kept[2, 0]
    assert (result.winner == stated)[kept].all()
    assert (stated < 0).any()


@pytest.mark.parametrize("share", [1 - 1e-8, 1.0])
def test_what_all_heads_do_and_nothing_else_sets_none_apart(share: float) -> None:
    """Beside a share of 1 only the error of float32 sums is left."""
    assert not _share(share, 1 - 3e-8, 0.5)


def test_a_head_without_attention_is_left_out_of_the_average() -> None:
    sums = {name: values.copy() for name, values in _planned({(0, 1): {"next": 0.6}}).items()}
    for values in sums.values():
        values[:, 2, 3] = 0
    labels = _habits(sums)
    others = np.ones(GRID, dtype=bool)
    others[2, 3] = False
    assert labels.habits is not None
    assert_allclose(labels.habits.average, labels.habits.share[others].mean(0))
    assert labels.label[2, 3] == ""
    assert labels.label[0, 1] == "next-word"


def _share(share: float, average: float, chance: float) -> bool:
    """Whether a share of one habit qualifies."""
    names, _ = habits_of()
    place = names.index("punctuation")
    is_habit = np.arange(len(names)) == place
    shares = Shares(
        share=np.where(is_habit, share, 0.0)[None, None],
        chance=np.where(is_habit, chance, 0.0)[None, None],
        average=np.where(is_habit, average, 0.0)[None, None],
    )
    return bool(qualifying(shares, names)[0, 0, place])


@pytest.mark.parametrize(
    ("share", "average", "chance", "qualifies"),
    [
        (0.61, 0.5, 0.1, True),
        (0.59, 0.5, 0.1, False),
        (0.61, 0.1, 0.5, True),
        (0.59, 0.1, 0.5, False),
        (0.15, 0.1, 0.1, True),
        (0.14, 0.1, 0.1, False),
        (0.09, 0.01, 0.01, False),
        (1.0, 0.9, 0.9, True),
        (1.0, 1.0, 0.1, False),
        (np.nan, 0.1, 0.1, False),
    ],
)
def test_a_habit_qualifies_by_odds(
    share: float, average: float, chance: float, qualifies: bool
) -> None:
    """Odds of 0.5 times 1.5 are those of 0.6, and of 0.1 those of 0.143."""
    assert _share(share, average, chance) == qualifies


def test_the_same_few_words_are_held_against_an_even_row_too() -> None:
    names, _ = habits_of()
    share = np.zeros((2, 1, len(names)))
    share[:, 0, names.index("same-keys")] = 0.8
    share[:, 0, names.index("even")] = [0.7, 0.75]
    average = np.zeros((1, 1, len(names)))
    shares = Shares(share=share, chance=np.zeros_like(share), average=average)
    assert qualifying(shares, names)[:, 0, names.index("same-keys")].tolist() == [True, False]


KEYS = [Pair(f"pair {number}").key for number in range(200)]


def _grouped(
    sums: SumsByName, groups: list[str | None], words: list[int] | None = None
) -> PairSums:
    lengths = words or [10] * len(groups)
    keys = list(map(grouped_key, KEYS, groups, lengths))
    return PairSums.of(keys, sums)


def test_a_label_of_one_group_alone_is_not_sure() -> None:
    """A head that looks at punctuation in two genres of six is sure by pairs alone."""
    plan = {(0, 0): {"punctuation": 0.45}}
    sums = _planned(plan, 60)
    plain = _planned({}, 60)
    has_it = np.arange(60) % 6 < 2
    sums["on"] = np.where(has_it[:, None, None, None], sums["on"], plain["on"])
    for key_set in KEY_SETS:
        sums[f"{key_set}.pairs"] = np.ones((60, *GRID, 1))
    groups = [f"genre {number % 6}" for number in range(60)]
    by_pairs = _habits(sums)
    by_groups = _labels(
        sums, SPECIAL_IN, (Scored("next-word"),), by_pair=True, grouped=_grouped(sums, groups)
    )
    assert by_pairs.label[0, 0] == "punctuation"
    assert not by_pairs.unsure[0, 0]
    assert by_groups.label[0, 0] != "punctuation" or by_groups.unsure[0, 0]
    assert (by_pairs.groups, by_groups.groups) == (0, 6)


@pytest.mark.parametrize(
    ("groups", "words", "expected"),
    [
        ([f"{number % 5}" for number in range(25)], None, 5),
        # four groups, and a fifth of too few pairs
        ([f"{number % 4}" for number in range(21)] + ["5"] * 4, None, 0),
        ([None] * 30, [3, 5, 8, 12, 17, 25] * 5, 6),
        ([None] * 30, [20] * 30, 0),
    ],
)
def test_pairs_alone_are_resampled_where_groups_are_too_few(
    groups: list[str | None], words: list[int] | None, expected: int
) -> None:
    sums = _planned({}, len(groups))
    for key_set in KEY_SETS:
        sums[f"{key_set}.pairs"] = np.ones((len(groups), *GRID, 1))
    labels = _labels(
        sums, by_pair=True, scored=(Scored("next-word"),), grouped=_grouped(sums, groups, words)
    )
    assert labels.groups == expected


def test_intervals_have_the_k_of_their_errors() -> None:
    """The same pairs given ten times are as many clusters, and count ten times as pairs."""
    sums = _pairs(5)
    often = {**sums}
    for key_set in KEY_SETS:
        often[f"{key_set}.pairs"] = 10 * sums[f"{key_set}.pairs"]
    once = scores_of(sums, SCORED).words_only
    again = scores_of(often, SCORED).words_only
    assert (again.pairs == 10 * once.pairs).all()
    assert_allclose(again.interval, once.interval)


def test_every_pair_with_a_query_is_a_cluster() -> None:
    """Also one with a single query."""
    sums = _pairs(20)
    n = sums["words_only.n"]
    assert (n == 1).any()
    table = scores_of(sums, SCORED).words_only
    assert table.clusters.tolist() == np.count_nonzero(n, axis=0).tolist()
    assert table.n.tolist() == n.sum(0).tolist()


def test_named_groups_are_the_clusters_of_errors() -> None:
    sums = _pairs(60)
    names = [f"genre {number % 6}" for number in range(60)]
    named = scores_of(sums, SCORED, grouped=_grouped(sums, [*names]))
    plain = scores_of(sums, SCORED)
    weight = sums["words_only.weight"][:, 0, 0, 0]
    n = sums["words_only.n"][:, 0, 0, 0]
    by_genre = [Measured(weight[place::6].sum(), n[place::6].sum()) for place in range(6)]
    assert_allclose(named.words_only.se[0, 0, 0], Score(by_genre).se)
    assert named.words_only.clusters[0, 0, 0] == 6
    assert_allclose(named.words_only.score, plain.words_only.score)


def test_bins_of_length_are_no_clusters_of_errors() -> None:
    sums = _pairs(60)
    grouped = _grouped(sums, [None] * 60, [4, 6, 9, 13, 18, 26] * 10)
    lengths = scores_of(sums, SCORED, grouped=grouped)
    plain = scores_of(sums, SCORED)
    assert_allclose(lengths.words_only.se, plain.words_only.se)


def test_a_resample_has_two_groups_of_three_and_all_pairs_of_each() -> None:
    sums = {"on": np.zeros((60, 1))}
    groups = Groups.among(_grouped(sums, [f"genre {number % 6}" for number in range(60)]))
    times = np.concatenate(list(groups.resamples(0, 64)))
    by_group = np.stack([times[:, groups.number == group].sum(1) for group in range(6)], 1)
    assert groups.named
    assert times.shape == (RESAMPLINGS, 60)
    assert set(by_group.ravel() % 10) == {0}
    assert set(by_group.sum(1)) == {60 * DRAWN_GROUPS}
    assert_allclose(by_group.mean(0), 10 * DRAWN_GROUPS, atol=0.7)
    assert times.std(0).min() > 0.5


def test_groups_stand_together_whatever_becomes_of_their_pairs() -> None:
    """Keys that are cut for room keep groups apart as long as there are fewer than blocks."""
    sums = {"on": np.ones((200, 1))}
    names = [f"genre {number % 8}" for number in range(200)]
    keys = [grouped_key(key, name, 10) for key, name in zip(KEYS, names, strict=True)]
    blocks = PairSums.of(keys, sums, 32)
    groups = Groups.among(blocks)
    assert len(blocks.keys) <= 32
    assert groups.n_groups == 8
    assert groups.sums(blocks.sums)["on"].tolist() == [[25.0]] * 8
