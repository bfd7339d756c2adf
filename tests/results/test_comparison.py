"""Two models: which differences survive, rank correlations; one: groups of heads and a map."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from support.small_results import PATTERNS, SIGNATURE, equal_scores, labels_of, result_of

from attnscan.errors import OptionError
from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison, Similarity
from attnscan.results.grid import Head
from attnscan.results.scores import Labels, Scores
from attnscan.results.signature import AttentionView


def _next_word(above: list[float]) -> Scores:
    """Scores of heads that are so far above chance for next-word, and at chance for the others."""
    return result_of([[score, 0, 0, 0] for score in above]).scores


def _compared(one: list[float], other: list[float]) -> float:
    """The rank correlation of heads with these scores for next-word."""
    scores = [_next_word(column) for column in (one, other)]
    grid = (1, len(one))
    unknown = np.full(grid, np.nan)
    error = np.full((*grid, len(PATTERNS)), np.nan)
    return _comparison(*scores, error, unknown).correlation("next-word")


def _comparison(a: Scores, b: Scores, se: np.ndarray, unknown: np.ndarray) -> Comparison:
    """Two models over five pairs, each head held against itself."""
    return Comparison(
        model_labels=(Labels(a, AttentionView()), Labels(b, AttentionView())),
        se=se,
        matched=np.argwhere(np.ones(a.grid.shape)).reshape(*a.grid.shape, 2),
        divergence=unknown,
        match="place",
        signatures=(SIGNATURE, SIGNATURE),
        alike="so.",
    )


def _differing(by: list[float], errors: list[float]) -> Comparison:
    """Heads that differ by so much for next-word, with these errors over five pairs."""
    before = _next_word([0.2] * len(by))
    after = _next_word([0.2 + difference / 0.8 for difference in by])
    se = np.zeros((1, len(by), len(PATTERNS)))
    se[0, :, 0] = errors
    unknown = np.full((1, len(by)), np.nan)
    return _comparison(before, after, se, unknown)


def test_differences_survive_among_all_heads_and_patterns() -> None:
    """Five pairs leave four degrees of freedom; of the 16 differences, 12 are none."""
    found = _differing([0.3, -0.2, 0.1, 0.05], [0.01, 0.01, 0.03, 0.04])
    expected = 2 * stats.t.sf([30, 20, 10 / 3, 1.25], df=4)
    rows = found.of("next-word")
    others = found.differences.query("pattern != 'next-word'")
    assert rows["difference"].tolist() == pytest.approx([0.3, -0.2, 0.1, 0.05])
    assert rows["p"].tolist() == pytest.approx(expected, rel=1e-9)
    assert (others["p"] == 1).all()
    rates = stats.false_discovery_control(np.concatenate([expected, np.ones(12)]))
    assert rows["fdr"].tolist() == pytest.approx(rates[:4], rel=1e-9)
    assert rows["survives"].tolist() == [True, True, False, False]
    assert not others["survives"].any()
    frame = found.to_frame(["next-word"])
    assert list(frame.columns[:4]) == ["model_a", "model_b", "pattern", "layer"]
    assert list(frame.columns[-5:-3]) == ["p", "fdr"]
    assert frame["fdr"].tolist() == rows["fdr"].tolist()
    assert frame.attrs["alike"] == "so."
    assert frame.attrs["match"] == "place"
    assert frame.attrs["least"] == 0.02


def test_repeated_pairs_make_no_p_value_smaller() -> None:
    """Five distinct pairs, each of them given 20 times, leave four degrees of freedom."""
    once = _differing([0.3, -0.2, 0.1], [0.1, 0.1, 0.1])
    tables = []
    for labels in once.model_labels:
        table = replace(labels.table, pairs=20 * labels.table.pairs)
        tables.append(replace(labels, scores=equal_scores(labels.scores.scored, table)))
    often = replace(once, model_labels=(tables[0], tables[1]))
    rows = often.of("next-word")
    assert rows["pairs"].tolist() == [100, 100, 100]
    assert rows["p"].tolist() == pytest.approx(2 * stats.t.sf([3, 2, 1], df=4), rel=1e-9)


def test_a_difference_that_is_beyond_chance_may_be_too_small() -> None:
    found = _differing([0.3, -0.019, 0.001, 0.021], [0.01, 1e-4, 1e-5, 1e-4])
    rows = found.of("next-word")
    assert (rows["fdr"] < FALSE_DISCOVERIES).all()
    assert rows["survives"].tolist() == [True, False, False, True]
    assert replace(found, least=0.0).of("next-word")["survives"].all()
    assert not replace(found, least=0.5).differences["survives"].any()


@pytest.mark.parametrize(
    ("heads", "top", "chosen"),
    [
        (None, None, [0, 1, 2, 3]),
        (None, 2, [1, 3]),
        ("0-2,0-0,0-1", None, [2, 0, 1]),
        ("0-2,0-0", 1, [0]),
    ],
)
def test_rows_are_of_the_heads_that_are_chosen(
    heads: str | None, top: int | None, chosen: list[int]
) -> None:
    found = _differing([0.1, -0.3, 0.05, 0.2], [0.01] * 4)
    rows = found.of("next-word", heads, top)
    assert rows.index.tolist() == rows["head"].tolist() == chosen
    both = found.to_frame(["next-word", "delimiter"], heads, top)
    assert both.iloc[: len(chosen)].equals(rows.reset_index(drop=True))
    assert set(both["pattern"][len(chosen) :]) == {"delimiter"}


def test_without_an_error_nothing_survives() -> None:
    rows = _differing([0.3, -0.2], [float("nan")] * 2).differences
    unknown = rows["pattern"] == "next-word"
    assert rows.loc[unknown, ["p", "fdr"]].isna().all(axis=None) and not rows["survives"].any()
    assert (rows.loc[~unknown, "fdr"] == 1).all()


def test_ranks_as_spearman_has_them() -> None:
    """Equal values share their mean rank."""
    one = [0.3, 0.1, 0.3, 0.2, 0.3]
    other = [0.2, 0.1, 0.2, 0.4, 0.9]
    assert 0.3 < _compared(one, other) < 0.6
    assert _compared(one, other) == pytest.approx(stats.spearmanr(one, other).statistic, rel=1e-12)
    assert _compared([0.3, 0.1, 0.2], [0.9, 0.7, 0.8]) == 1
    assert _compared([0.3, 0.1, 0.2], [0.1, 0.9, 0.8]) == -1


@pytest.mark.parametrize(
    "other",
    [[0.5, 0.5, 0.5], [0.5, float("nan"), float("nan")], [float("nan")] * 3],
    ids=["no-spread", "one", "none"],
)
def test_without_spread_there_is_no_correlation(other: list[float]) -> None:
    assert np.isnan(_compared([0.3, 0.1, 0.2], other))


def _apart(divergence: np.ndarray, within: float = 0.1) -> Similarity:
    return Similarity(
        divergence=divergence,
        se=divergence,
        labels=labels_of(),
        queries=1,
        signature=SIGNATURE,
        within=within,
    )


def test_the_map_shows_distances_of_a_plane_as_they_are() -> None:
    points = np.random.default_rng(0).random((6, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    places, share = _apart(squared).map
    assert_allclose(((places[:, None] - places[None]) ** 2).sum(-1), squared, atol=1e-9)
    assert share == pytest.approx(1)
    assert np.isnan(_apart(np.zeros((3, 3))).map[1])


def test_average_linkage_by_hand() -> None:
    """0 and 1 join at 1; 2 is at (3 + 4) / 2 from them, and 3 far away."""
    apart = np.array([[0, 1, 3, 9], [1, 0, 4, 9], [3, 4, 0, 9], [9, 9, 9, 0]], dtype=float)
    assert _apart(apart, 3.4).groups == [[0, 1], [2], [3]]
    assert _apart(apart, 3.6).groups == [[0, 1, 2], [3]]
    assert _apart(apart, 100).groups == [[0, 1, 2, 3]]
    assert _apart(np.zeros((1, 1))).groups == [[0]]


APART = np.array(
    [
        [0.00, 0.30, 0.10, 0.20, 0.25],
        [0.30, 0.00, 0.40, 0.05, 0.35],
        [0.10, 0.40, 0.00, 0.60, 0.45],
        [0.20, 0.05, 0.60, 0.00, 0.55],
        [0.25, 0.35, 0.45, 0.55, 0.00],
    ]
)


def test_the_nearest_heads_come_first_without_the_head_itself() -> None:
    assert _apart(APART).nearest(0, 3) == [2, 3, 4]
    assert _apart(APART).nearest(3, 9) == [1, 0, 4, 2]


def test_the_closest_pairs_of_heads_come_first() -> None:
    assert _apart(APART).closest(3) == [(1, 3), (0, 2), (0, 3)]
    assert len(_apart(APART).closest(99)) == 10


def test_a_table_of_similar_heads_names_the_nearest() -> None:
    frame = _apart(APART, 0.1).to_frame(2)
    assert frame["nearest_1"].tolist() == ["0-2", "0-3", "0-0", "0-1", "0-0"]
    assert frame["divergence_1"].tolist() == [0.1, 0.05, 0.1, 0.05, 0.25]
    assert frame["se_2"].tolist() == [0.2, 0.3, 0.4, 0.2, 0.35]
    assert "nearest_3" not in frame
    assert frame["group"].tolist() == [1, 2, 1, 2, 3]
    assert frame.attrs["queries"] == 1
    assert frame.attrs["within"] == 0.1


def test_a_table_of_some_heads_has_the_order_of_their_names() -> None:
    frame = _apart(APART).to_frame(heads="0-3,0-1")
    assert frame["head"].tolist() == [3, 1]
    assert frame["nearest_1"].tolist() == ["0-1", "0-3"]
    assert frame.columns[-2] == "se_3"


def test_a_matrix_has_the_divergence_from_every_head() -> None:
    frame = _apart(APART).to_matrix()
    names = [f"0-{number}" for number in range(5)]
    assert frame[names].to_numpy().tolist() == APART.tolist()
    some = _apart(APART).to_matrix("0-4")
    assert some[names].to_numpy().tolist() == [APART[4].tolist()]


def test_the_farthest_place_of_a_map_is_above_zero() -> None:
    places, share = _apart(APART).map
    farthest = np.abs(places).argmax(0)
    assert (places[farthest, [0, 1]] > 0).all()
    assert places[:, 0].std() > places[:, 1].std()
    assert 0 < share < 1


def test_labels_that_changed_are_listed_with_their_heads() -> None:
    before = result_of([[0, 0, 0, 0], [0.9, 0, 0, 0], [0.9, 0, 0, 0], [0.9, 0, 0, 0]]).scores
    after = result_of([[0.5, 0, 0, 0], [0, 0.9, 0, 0], [0.9, 0, 0, 0], [0, 0.9, 0, 0]], 0.5).scores
    unknown = np.full((1, 4), np.nan)
    found = _comparison(before, after, np.full((1, 4, 4), np.nan), unknown)
    assert list(found.changed.items()) == [
        (("next-word", "identical"), [Head(0, 1), Head(0, 3)]),
        (("", "next-word"), [Head(0, 0)]),
    ]


def test_a_head_is_compared_with_the_one_that_it_is_matched_with() -> None:
    before = _next_word([0.1, 0.2])
    after = _next_word([0.5, 0.9])
    found = replace(
        _comparison(before, after, np.full((1, 2, 4), 0.1), np.array([[0.3, 0.4]])),
        matched=np.array([[[0, 1], [0, 0]]]),
    )
    rows = found.of("next-word")
    assert rows["head_b"].tolist() == [1, 0]
    assert rows["score_b"].tolist() == pytest.approx([0.92, 0.6])
    assert rows["divergence"].tolist() == [0.3, 0.4]
    assert rows["label_b"].tolist() == ["next-word", "next-word"]


def test_one_row_is_the_least_of_a_top() -> None:
    with pytest.raises(OptionError, match="top is "):
        _differing([0.1], [0.01]).of("next-word", top=0)


def test_an_unknown_correlation_is_null_in_a_file() -> None:
    found = _differing([0.0, 0.0], [0.01, 0.01])
    assert found.to_frame(["next-word"]).attrs["rank_correlation"] == {"next-word": None}
    found = _comparison(
        _next_word([0.1, 0.2, 0.3]),
        _next_word([0.2, 0.3, 0.4]),
        np.full((1, 3, 4), 0.1),
        np.full((1, 3), np.nan),
    )
    assert found.to_frame(["next-word"]).attrs["rank_correlation"] == {"next-word": 1.0}
