"""Scores, labels and rankings: what heads do, in which order, how sure, and by which reading."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.small_results import (
    ABOVE,
    PATTERNS,
    SIGNATURE,
    WINNERS,
    labels_of,
    ranking_of,
    result_of,
    table_of,
)

from attnscan.errors import OptionError, SelectionError, WeightsError
from attnscan.results.attention import Attention, Selection
from attnscan.results.grid import AttentionKind, Grid, Head
from attnscan.results.heads import HeadScores, HeadWeights, Profile
from attnscan.results.scores import best_first, resting_on
from attnscan.results.signature import DEFAULT_VIEW, AttentionView, Special

NAN = float("nan")
FIRST = [
    "model",
    "layer",
    "head",
    "name",
    "label",
    "label_stays",
    "among_words",
    "share",
    "average",
]


@pytest.mark.parametrize(
    ("scores", "ranked_by", "order"),
    [
        ((NAN, 0.2, 0.5), None, [2, 1]),
        ((NAN, NAN, NAN), None, []),
        ((0.5, 0.2, NAN), [0.1, NAN, 0.3], [0]),  # by either half
    ],
)
def test_a_head_without_a_score_has_no_rank(
    scores: tuple[float, float, float], ranked_by: list[float] | None, order: list[int]
) -> None:
    ranking = ranking_of(scores, ranked_by=ranked_by)
    assert ranking.order("next-word").tolist() == order
    assert len(ranking.leads("next-word").se) == max(len(order) - 1, 0)
    frame = ranking.to_frame()
    assert frame["head"].tolist() == order + [head for head in range(3) if head not in order]
    assert frame["rank"].dropna().tolist() == list(range(1, len(order) + 1))
    assert frame["rank"].dtype == "Int64"
    assert ranking.to_frame(top=2)["head"].tolist() == order[:2]


def test_leads_are_sure_beyond_their_own_interval() -> None:
    """By t with 9 degrees of freedom, 2.26 errors."""
    leads = ranking_of(error=0.01).leads("next-word")
    assert leads.difference.tolist() == pytest.approx([0.01, 0.29])
    assert leads.sure.tolist() == [False, True]
    assert ranking_of(error=0.01 / 2.27).leads("next-word").sure.all()
    unknown = ranking_of(error=None).leads("next-word")  # without residuals
    assert np.isnan(unknown.se).all()
    assert not unknown.sure.any()


def test_a_ranking_by_the_other_half_may_have_leads_below_zero() -> None:
    ranking = ranking_of(ranked_by=[0.3, 0.6, 0.2])
    assert ranking.order("next-word").tolist() == [1, 0, 2]
    frame = ranking.to_frame()
    assert frame["score"].tolist() == [0.49, 0.5, 0.2]
    assert ranking.leads("next-word").difference.tolist() == pytest.approx([-0.01, 0.3])
    assert frame.attrs["split"] is True
    assert ranking_of().to_frame().attrs["split"] is False


def test_a_frame_has_the_columns_of_the_contract_in_order() -> None:
    result = result_of([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]])
    frame = result.to_frame()
    assert frame.columns.tolist() == [*FIRST, *PATTERNS, "entropy"]
    assert frame[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]
    assert result.to_frame(["next-word"]).columns.tolist() == [*FIRST, "next-word", "entropy"]
    expected = "HeadScores of toy, 0 pairs, 2 cross-sentence, 2 of them rest on delimiter"
    assert repr(result) == expected


def test_what_comes_from_outside_is_safe_in_a_repr() -> None:
    hostile = replace(SIGNATURE, model="\u202e\x1b[31m\n")
    assert repr(replace(result_of([[0, 0, 0, 0]]), signature=hostile)).startswith(
        r"HeadScores of \u202e\x1b[31m\n, 0"
    )


def test_a_reading_that_is_not_there_is_refused_with_a_remedy() -> None:
    result = result_of([[0.1, 0, 0, 0]])
    assert result.select_reading("weight", "out").label.item() == ""
    with pytest.raises(OptionError, match="by attention weight, among words"):
        result.select_reading(special="in")
    with pytest.raises(OptionError, match=r"by attention weight, among words; .*keep all"):
        result.select_reading("carried")


def test_above_chance_is_zero_at_chance_and_one_at_best() -> None:
    table = replace(
        table_of([[0, 0, 0]]),
        score=np.array([[[0.2, 1, 1]]]),
        chance=np.array([[[0.2, 0.2, 1]]]),
    )
    assert table.above_chance[0, 0, :2].tolist() == pytest.approx([0, 1])
    assert np.isnan(table.above_chance[0, 0, 2])


def test_a_chance_of_nearly_one_leaves_nothing_above_it() -> None:
    table = replace(
        table_of([[0, 0]]),
        score=np.array([[[0.9, 0.9]]]),
        chance=np.array([[[1 - 0.9e-6, 1 - 1.1e-6]]]),
    )
    assert np.isnan(table.above_chance).tolist() == [[[True, False]]]


def test_of_equal_heads_the_first_comes_first() -> None:
    result = result_of([[0.1, 0.9, 0, 0], [0.5, 0.2, 0, 0], [NAN, NAN, NAN, NAN], [0.3, 0, 0, 0.6]])
    assert result.order("next-word").tolist() == [1, 3, 0]
    assert result.order().tolist() == [0, 3, 1]
    assert best_first(np.array([[0.5, NAN, 0.7], [0.5, 0.7, NAN]])).tolist() == [2, 4, 0, 3]


@pytest.mark.parametrize(
    ("above", "share", "self_share", "among_words"),
    [
        ([0.9, 0.1, 0.1, 0.0], 0.5, 0.0, "next-word"),
        ([0.25, 0.0, 0.0, 0.0], 0.5, 0.0, "next-word"),
        ([0.1, 0.3, 0.9, 0.1], 0.5, 0.0, "cross-sentence"),  # a part wins by itself
        ([0.1, 0.2, 0.3, 0.1], 0.5, 0.0, "cross-sentence"),  # where the whole does not win
        ([0.1, 0.3, 0.3, 0.1], 0.5, 0.0, "identical"),  # and the whole by as much
        ([0.0, 0.6, 0.5, 0.1], 0.66, 0.0, "identical"),
        ([0.0, 0.6, 0.5, 0.1], 2 / 3, 0.0, "cross-sentence"),  # two thirds of the weight lie across
        ([0.0, 0.6, 0.5, 0.1], NAN, 0.0, "identical"),  # no word has its like in the other sentence
        ([0.3, 0.6, 0.1, 0.1], 0.5, 0.66, "identical"),
        ([0.3, 0.6, 0.1, 0.1], 0.5, 0.67, "next-word"),  # it looks at itself: the next competes
        ([0.1, 0.6, 0.3, 0.1], 0.5, 0.67, "cross-sentence"),  # the part is of others alone
        ([NAN, NAN, NAN, 0.4], 0.5, 0.0, ""),  # among words, delimiter does not compete
        ([-0.2, -0.2, -0.2, -0.1], 0.5, 0.0, ""),
    ],
)
def test_the_pattern_farthest_above_chance_is_followed(
    above: list[float], share: float, self_share: float, among_words: str
) -> None:
    assert result_of([above], share, self_share).among_words.item() == among_words


@pytest.mark.parametrize("special", ["in", "out"])
def test_delimiter_does_not_compete_among_words(special: Special) -> None:
    above = [[0.3, 0, 0, 0.35]]
    labels = labels_of(above, reading=AttentionView("weight", special))
    assert labels.among_words.item() == "next-word"


@pytest.mark.parametrize(("delimiter", "label"), [(0.374, "next-word"), (0.376, "delimiter")])
def test_more_than_half_on_special_tokens_is_rest(delimiter: float, label: str) -> None:
    labels = labels_of([[0.9, 0, 0, delimiter]])  # a score of 0.2 + 0.8 x that
    assert labels.label.item() == label
    assert labels.among_words.item() == "next-word"


def test_a_pattern_goes_before_a_habit_and_rest_before_both() -> None:
    labels = labels_of(winners=WINNERS)
    assert labels.among_words.tolist() == [["next-word", "next-3", "even", "", "identical"]]
    assert labels.label.tolist() == [["next-word", "next-3", "even", "", "delimiter"]]
    np.testing.assert_allclose(labels.share, [[0.92, 0.4, 0.8, NAN, 0.52]])
    next_word = np.mean([0.92, 0.36, 0.2, 0.2, 0.2])
    np.testing.assert_allclose(labels.average, [[next_word, 0.2, 0.5, NAN, 0.264]])
    without_habits = labels_of()
    assert without_habits.among_words.tolist() == [["next-word", "", "", "", "identical"]]


def test_a_habit_of_a_patterns_name_has_the_patterns_number() -> None:
    labels = labels_of(winners=(0, 0, 2, -1, 2))
    assert labels.among_words[0, 1] == "next-word"
    assert not labels.follows[0, 1]
    assert labels.share[0, 1] == labels.table.score[0, 1, 0]
    assert labels.kinds["next-word"].heads == (Head(0, 0), Head(0, 1))


def test_kinds_of_most_heads_and_strongest_heads_come_first() -> None:
    kinds = labels_of(winners=(0, 2, 2, -1, 2)).kinds
    heads = {name: kind.heads for name, kind in kinds.items()}
    assert heads == {
        "even": (Head(0, 2), Head(0, 1)),
        "next-word": (Head(0, 0),),
        "identical": (Head(0, 4),),
    }
    assert next(iter(kinds)) == "even"
    assert kinds["even"].average == 0.5
    assert [kind.heads for kind in labels_of(ABOVE).resting] == [(Head(0, 4),)]


def test_a_number_stands_beside_chance_average_and_rank() -> None:
    numbers = labels_of(winners=WINNERS).numbers("next-3", Head(0, 1))
    assert (numbers.share, numbers.chance, numbers.average, numbers.rank) == (0.4, 0, 0.2, 2)
    assert labels_of().numbers("next-word", Head(0, 1)).chance == 0.2


def test_what_changes_in_over_five_percent_of_resamples_is_unsure() -> None:
    unsure = labels_of(winners=WINNERS, label_stability=[NAN, 0.95, 0.94, NAN, 1]).unsure
    assert unsure.tolist() == [[True, False, True, False, False]]
    assert not labels_of(winners=WINNERS).unsure.any()


@pytest.mark.parametrize("top", [0, -1, 1.5, True])
def test_a_top_that_is_no_number_of_rows_is_refused(top: Any) -> None:
    with pytest.raises(OptionError, match=r"top is .*; give a whole number, from 1"):
        ranking_of().to_frame(top=top)
    with pytest.raises(OptionError, match="top is "):
        result_of([[0.1, 0, 0, 0]]).to_frame(top=top)


def test_the_top_heads_of_one_input_are_the_best() -> None:
    result = result_of([[0.1, 0, 0, 0], [0.5, 0, 0, 0], [0.3, 0.6, 0, 0]])
    assert result.to_frame(top=2)["head"].tolist() == [2, 1]
    assert result.to_frame(["next-word"], top=2)["head"].tolist() == [1, 2]


@pytest.mark.parametrize(("special", "classes"), [("in", ["start", "next"]), ("out", ["next"])])
def test_special_tokens_are_listed_where_they_are_keys(special: Any, classes: list[str]) -> None:
    share = np.array([[[0.2, 0.7, 0.0]]])
    profile = Profile(
        classes=("next", "start", "end"),
        share=share,
        se=share,
        chance=share,
        clusters=np.full(share.shape, 5),
        grid=Grid((1, 1)),
        signature=replace(SIGNATURE, special=special),
    )
    assert [name for name, _ in profile.strongest("0-0")] == classes


def test_the_first_of_two_resting_places_is_named() -> None:
    """Both have more than half of the attention of the first head."""
    table = table_of([[0.5, 0.5], [0.5, 0.0], [0.0, 0.5], [0.0, 0.0]])
    places = resting_on(table, ("first-token", "delimiter"))
    assert places.tolist() == [[1, 0, 1, -1]]
    assert resting_on(table, ("next-word", "identical")).tolist() == [[-1] * 4]


def test_a_head_without_a_score_follows_and_rests_on_nothing() -> None:
    labels = labels_of([[NAN, NAN, NAN, NAN]])
    assert labels.label.item() == ""
    assert np.isnan(labels.share).all()
    assert not labels.unsure.any()


def test_a_head_of_nothing_is_nearest_to_its_best_pattern() -> None:
    labels = labels_of([[0.9, 0.2, 0, 0], [NAN, 0.1, 0.2, 0], [0.1, 0.1, 0, 0.3]])
    nearest = [labels.nearest_pattern(Head(0, head)) for head in range(3)]
    assert nearest == ["next-word", "cross-sentence", "delimiter"]


def test_an_average_is_of_the_heads_that_have_a_score() -> None:
    labels = labels_of([[0.5, NAN, 0, 0], [NAN, NAN, 0, 0], [0.0, NAN, 0, 0]])
    assert labels.numbers("next-word", Head(0, 0)).average == pytest.approx((0.6 + 0.2) / 2)
    assert np.isnan(labels.numbers("identical", Head(0, 0)).average)


def profile_of(share: list[list[float]], special: Special = "out") -> Profile:
    """Heads of one layer by two classes of words and one of special tokens."""
    values = np.array([share])
    return Profile(
        classes=("next", "previous", "start"),
        share=values,
        se=values / 10,
        chance=values / 2,
        clusters=np.full(values.shape, 9),
        grid=Grid((1, len(share))),
        signature=replace(SIGNATURE, special=special),
    )


def test_a_profile_has_the_average_of_heads_with_a_share() -> None:
    average = profile_of([[0.2, 0.8, NAN], [0.6, NAN, NAN]]).average
    assert average[:2].tolist() == pytest.approx([0.4, 0.8])
    assert np.isnan(average[2])


def test_the_strongest_classes_are_those_of_so_large_a_share() -> None:
    profile = profile_of([[0.2, 0.5, 0.0]], "in")
    assert profile.strongest("0-0") == [("previous", 0.5), ("next", 0.2)]
    assert profile.strongest("0-0", 0.5) == [("previous", 0.5)]
    assert profile.strongest("0-0", 0.51) == []


def test_a_table_of_a_profile_has_a_row_for_each_class_of_each_head() -> None:
    frame = profile_of([[0.2, 0.8, 0.1], [0.6, 0.4, 0.3]]).to_frame()
    assert frame["head"].tolist() == [0, 0, 0, 1, 1, 1]
    assert frame["name"].tolist() == ["L0H0"] * 3 + ["L0H1"] * 3
    assert frame["class"].tolist() == ["next", "previous", "start"] * 2
    assert frame["share"].tolist() == [0.2, 0.8, 0.1, 0.6, 0.4, 0.3]
    assert frame["average"].tolist() == pytest.approx([0.4, 0.6, 0.2] * 2)


def test_the_top_classes_of_some_heads_are_largest_first() -> None:
    profile = profile_of([[0.2, 0.8, 0.1], [0.6, 0.4, 0.3]])
    frame = profile.to_frame("0-1,0-0", top=1)
    assert frame["head"].tolist() == [1, 0]
    assert frame["class"].tolist() == ["next", "previous"]
    with pytest.raises(OptionError, match="top is "):
        profile.to_frame(top=0)


def test_of_too_many_heads_there_is_no_profile() -> None:
    with pytest.raises(WeightsError, match="is not kept; give 4096 at most"):
        _ = result_of([[0.1, 0, 0, 0]]).profile


def ranking_with_labels(winners: tuple[int, ...] = WINNERS) -> HeadScores:
    labels = labels_of(winners=winners)
    return HeadScores(SIGNATURE, {"weight": labels.scores}, {DEFAULT_VIEW: labels})


def test_a_second_corpus_has_its_share_of_what_the_first_one_says() -> None:
    result = replace(ranking_with_labels(), held=ranking_with_labels((0, 2, 2, -1, 2)))
    shares = [[0.92, 0.4, 0.8, NAN, 0.52]]
    np.testing.assert_allclose(result.held_share, shares)
    assert result.changed.tolist() == [[False, True, False, False, False]]
    frame = result.to_frame()
    assert frame.columns.tolist()[-2:] == ["held_label", "held_share"]
    assert frame["held_label"].tolist() == ["next-word", "even", "even", "", "delimiter"]


def test_without_a_second_corpus_no_label_changed() -> None:
    assert not ranking_with_labels().changed.any()
    assert "held_label" not in ranking_with_labels().to_frame()


def test_a_ranking_with_labels_is_a_row_a_head_unless_it_is_ranked() -> None:
    result = ranking_with_labels()
    assert "label" in result.to_frame()
    assert set(result.to_frame(["next-word"])["pattern"]) == {"next-word"}
    assert len(result.to_frame(top=1)) == len(PATTERNS)


def test_heads_are_ranked_by_the_first_pattern_that_any_has() -> None:
    result = result_of([[NAN, 0.1, 0, 0], [NAN, 0.3, 0, 0.2]])
    assert result.ranked_numbers(["next-word", "identical"]).tolist() == [1, 0]
    assert result.ranked_numbers(["next-word"]).tolist() == []
    assert result.ranked_numbers([]).tolist() == [1, 0]


def test_a_ranking_without_labels_says_so() -> None:
    assert repr(ranking_of()) == "HeadScores of toy, 10 pairs"
    with pytest.raises(OptionError, match="this ranking has no labels"):
        _ = ranking_of().labels


def test_results_are_equal_whatever_else_was_kept() -> None:
    result = result_of([[0.1, 0, 0, 0]])
    more = replace(
        result,
        labels_by={},
        attention=attention_of(),
        targets=(np.zeros((1, 4, 4), np.float32),),
        held=result,
        scored_input=np.zeros(2),
    )
    assert more == result


def attention_of(source: int = 0, kind: AttentionKind = AttentionKind.ONLY) -> Attention:
    """Two layers of two heads on four tokens."""
    weights = np.random.default_rng(0).random((2, 2, 4, 4), dtype=np.float32)
    return Attention(
        tokens=("[CLS]", "a", "b", "[SEP]"),
        sentence=(-1, 0, 1, -1),
        segments=(0, 0, 1, 1),
        weights=weights,
        visible=np.ones((2, 4, 4), dtype=bool),
        query=None,
        key=None,
        norms=np.arange(1, 17, dtype=np.float32).reshape(2, 2, 4),
        source=source,
        kind=kind,
    )


def kept(attention: Attention, **changed: Any) -> HeadScores:
    return replace(result_of([[0.1, 0, 0, 0]]), attention=attention, **changed)


def weights_of(attention: Attention, heads: str, *, average: bool = False) -> HeadWeights:
    return kept(attention).weights(Selection(heads, window=(1, 2)), average=average)


def test_weights_have_a_row_for_each_query_and_key_of_each_head() -> None:
    attention = attention_of()
    frame = weights_of(attention, "1-0,0-1").to_frame()
    assert frame["layer"].tolist() == [1] * 4 + [0] * 4
    assert frame["query"].tolist() == [1, 1, 2, 2] * 2
    assert frame["key"].tolist() == [1, 2, 1, 2] * 2
    assert frame["query_token"].tolist() == ["a", "a", "b", "b"] * 2
    assert frame["key_token"].tolist() == ["a", "b"] * 4
    cells = [attention.weights[1, 0, 1:3, 1:3], attention.weights[0, 1, 1:3, 1:3]]
    assert frame["weight"].tolist() == pytest.approx(np.concatenate(cells).ravel().tolist())
    assert frame.attrs["tokens"] == ["[CLS]", "a", "b", "[SEP]"]
    assert "mean_of" not in frame.attrs
    assert "aligned" not in frame


def test_a_mean_of_heads_has_no_layer_and_says_whose_it_is() -> None:
    attention = attention_of()
    frame = weights_of(attention, "1-0,0-1", average=True).to_frame()
    assert frame[["layer", "head"]].isna().all(axis=None)
    mean = (attention.weights[1, 0, 1:3, 1:3] + attention.weights[0, 1, 1:3, 1:3]) / 2
    assert frame["weight"].tolist() == pytest.approx(mean.ravel().tolist())
    assert frame.attrs["mean_of"] == [[1, 0], [0, 1]]


def test_the_top_weights_of_each_head_are_strongest_first() -> None:
    attention = attention_of()
    frame = weights_of(attention, "1-0,0-1").to_frame(top=2)
    assert frame["layer"].tolist() == [1, 1, 0, 0]
    strongest = np.sort(attention.weights[1, 0, 1:3, 1:3].ravel())[::-1][:2]
    assert frame["weight"][:2].tolist() == pytest.approx(strongest.tolist())
    with pytest.raises(OptionError, match="top is "):
        weights_of(attention, "1-0").to_frame(top=0)


def test_cross_attention_counts_the_targets_tokens_by_themselves() -> None:
    attention = attention_of(source=2, kind=AttentionKind.CROSS)
    result = kept(attention, links=((3, 1),))
    frame = result.weights(Selection("c0-1"), average=False).to_frame()
    assert frame["query"].tolist() == [0, 0, 1, 1]
    assert frame["query_token"].tolist() == ["b", "b", "[SEP]", "[SEP]"]
    assert frame["key"].tolist() == [0, 1, 0, 1]
    assert frame["aligned"].tolist() == [0, 0, 0, 1]


def test_shown_weights_are_by_the_reading_that_is_shown() -> None:
    attention = attention_of()
    by_weight = kept(attention).shown_attention.weights
    np.testing.assert_array_equal(by_weight, attention.weights)
    among_words = kept(attention, shown=AttentionView("weight", "out")).shown_attention.weights
    assert not among_words[..., [0, 3]].any()
    np.testing.assert_allclose(among_words.sum(-1), 1, rtol=1e-6)
    carried = kept(attention, shown=AttentionView("carried", "in")).shown_attention.weights
    np.testing.assert_array_equal(carried, attention.carried.weights)


def test_a_result_that_kept_no_attention_says_how_to_keep_it() -> None:
    with pytest.raises(OptionError, match="has not kept its attention; keep it"):
        result_of([[0.1, 0, 0, 0]]).kept_attention()


def test_a_part_keeps_the_targets_of_its_rows() -> None:
    target = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    result = kept(attention_of(), targets=(target, target), scored_input="anything")
    part = result.cut(Selection(window=(1, 2)))
    assert part.kept_attention().rows == (1, 2)
    assert part.targets[1].tolist() == target[:, 1:3].tolist()
    assert part.scored_input is None
    assert result.cut(Selection("0-1")).targets == []
    with pytest.raises(SelectionError):
        result.cut(Selection(window=(7, 9)))


def test_a_part_of_words_keeps_their_targets() -> None:
    target = np.arange(9, dtype=np.float32).reshape(1, 3, 3)
    attention = replace(attention_of(), unit=(0, 1, 1, 2))
    part = kept(attention, targets=(target,)).cut(Selection(window=(2, 3)))
    assert part.kept_attention().rows == (1, 2, 3)
    assert part.targets[0].tolist() == target[:, 1:3].tolist()


def test_what_heads_carry_needs_to_be_in_a_result() -> None:
    with pytest.raises(OptionError, match="what heads carry is not in this result"):
        kept(attention_of()).select_reading("carried")


def test_another_reading_turns_tables_and_what_is_shown() -> None:
    labels = labels_of(winners=WINNERS, reading=AttentionView("weight", "in"))
    result = ranking_with_labels()
    both = replace(result, labels_by={**result.labels_by, labels.reading: labels})
    turned = both.select_reading(special="in")
    assert turned.labels is labels
    assert turned.signature.special == "in"
    assert turned.shown == AttentionView("weight", "in")
    assert both.select_reading().reading == DEFAULT_VIEW
    assert both.select_reading(special="out").shown == AttentionView("weight", "out")
