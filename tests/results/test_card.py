"""A card has the numbers of its head, and a checkpoint's facts are a table."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.ablation_effects import effect_of
from support.small_results import PATTERNS, SIGNATURE, WINNERS, labels_of

from attnscan.errors import OptionError
from attnscan.results.ablation import Ablation
from attnscan.results.card import Card, Cards, Checkpoint, Example, answers, main_kind_of
from attnscan.results.explanation import CAUSES
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.scores import ClassShares, Labels
from attnscan.results.signature import DEFAULT_VIEW

NAN = float("nan")
CLASSES = ("next", "start")
SHARE = np.arange(10, dtype=float).reshape(1, 5, 2) / 10
CLASS_SHARES = ClassShares(
    names=CLASSES,
    share=SHARE,
    se=SHARE / 10,
    chance=SHARE / 2,
    clusters=np.full(SHARE.shape, 9),
)


def ranking_of(labels: Labels) -> HeadScores:
    """Every head by pairs, with shares of two classes."""
    with_classes = replace(labels, classes=CLASS_SHARES)
    return HeadScores(SIGNATURE, {"weight": labels.scores}, {DEFAULT_VIEW: with_classes})


RANKING = ranking_of(labels_of(winners=WINNERS, label_stability=[1.0, 0.9, 0.8, NAN, 1.0]))
WHY = pd.Series(
    {"score": 0.4, **dict.fromkeys(CAUSES, 0.3), **{f"{cause}_fall_se": 0.01 for cause in CAUSES}}
)
CARD = Card(
    head=Head(0, 1),
    ranking=RANKING,
    main_kind="next-3",
    links=pd.DataFrame({"query": ["a"], "key": ["b"], "share": [0.5]}),
    examples=(Example(share=0.7, query=0, key=1, units=("a", "b"), sentences=("a b",)),),
    alike=((Head(0, 3), 0.125), (Head(0, 0), 0.25)),
    why=WHY,
    evidence="it falls",
    pairs=9,
)
ABLATION = Ablation(
    effects=(effect_of(2.0, (1.0, 1.5)),),
    grid=Grid((1, 5)),
    replace="zero",
    draws=20,
    chosen_by="name",
    choosing_pairs=0,
    measured_pairs=9,
    signature=SIGNATURE,
)


def test_a_row_has_what_the_head_does() -> None:
    row = CARD.row()
    assert (row["layer"], row["head"], row["name"]) == (0, 1, "L0H1")
    assert (row["label"], row["label_stays"]) == ("next-3", 0.9)
    assert (row["share"], row["average"]) == (0.4, 0.2)
    assert (row["chance"], row["rank"]) == (0, 2)


def test_a_row_has_the_heads_most_alike_and_what_changes_do() -> None:
    row = CARD.row()
    assert [row["alike_1"], row["alike_2"]] == ["0-3", "0-0"]
    assert [row["divergence_1"], row["divergence_2"]] == [0.125, 0.25]
    assert row["as_it_is"] == 0.4
    for cause in CAUSES:
        assert row[cause] == 0.3
        assert row[f"{cause}_fall_se"] == 0.01


def test_a_row_has_a_second_corpus_where_one_was_held() -> None:
    other = ranking_of(labels_of(winners=(0, 0, 2, -1, 2)))
    card = replace(CARD, ranking=replace(RANKING, held=other))
    assert "held_label" not in CARD.row()
    assert card.row()["held_label"] == "next-word"
    assert card.row()["held_share"] == 0.4


def test_a_pattern_stands_with_its_chance_interval_and_rank() -> None:
    """A score of 0.36 is that of the second of five heads."""
    numbers = CARD.patterns["next-word"]
    assert numbers["score"] == pytest.approx(0.36)
    assert numbers["chance"] == 0.2
    assert numbers["rank"] == 2
    assert np.isnan([numbers["low"], numbers["high"]]).all()
    assert list(CARD.patterns) == list(PATTERNS)


def test_without_a_score_there_is_no_rank() -> None:
    ranking = ranking_of(labels_of([[NAN, 0.5, 0, 0]] * 5, winners=WINNERS))
    assert replace(CARD, ranking=ranking).patterns["next-word"]["rank"] is None


def test_a_document_has_all_of_a_card() -> None:
    document = CARD.document()
    assert document["profile"] == {"next": 0.2, "start": 0.3}
    assert document["profile_se"] == pytest.approx({"next": 0.02, "start": 0.03})
    assert document["links"] == [{"query": "a", "key": "b", "share": 0.5}]
    assert document["examples"][0]["share"] == 0.7
    assert list(document["patterns"]) == list(PATTERNS)
    assert document["name"] == "L0H1"


def test_a_document_has_an_ablation_where_one_was_made() -> None:
    assert CARD.document()["ablation"] == []
    (effect,) = replace(CARD, ablation=ABLATION).document()["ablation"]
    assert (effect["measure"], effect["ablated"]) == ("masked-lm", 2.0)


def test_without_a_treebank_a_card_has_no_syntax() -> None:
    assert CARD.document()["syntax"] == []
    assert "syntax_label" not in CARD.row()
    assert "treebank_signature" not in Cards((CARD,)).document()


def test_cards_go_by_heads() -> None:
    cards = Cards((CARD, replace(CARD, head=Head(0, 2))))
    assert cards["0-2"].head == Head(0, 2)
    assert repr(cards) == "Cards of 0-1, 0-2"
    assert cards.to_frame()["head"].tolist() == [1, 2]
    assert [head["head"] for head in cards.document()["heads"]] == [1, 2]
    assert cards.document()["schema"] == cards.to_frame().attrs["schema"]
    with pytest.raises(KeyError):
        cards["0-0"]


@pytest.mark.parametrize(("head", "kind"), [(0, "next-word"), (1, "next-3"), (3, "next-3")])
def test_a_card_is_of_a_pattern_a_habit_or_what_comes_nearest(head: int, kind: str) -> None:
    """The fourth head has neither: its share of `next-3` is farthest above the average head's, and
    not the largest.
    """
    share = np.full((1, 5, 3), 0.1)
    share[0, 3] = [0.1, 0.3, 0.5]
    labels = RANKING.labels
    assert labels.habits is not None
    habits = labels.habits._replace(share=share, average=np.array([0.1, 0.2, 0.45]))
    assert main_kind_of(ranking_of(replace(labels, habits=habits)), Head(0, head)) == kind


def test_without_habits_a_card_is_of_the_nearest_pattern() -> None:
    ranking = ranking_of(labels_of([[0.1, 0.2, 0, 0]] * 5))
    assert main_kind_of(ranking, Head(0, 0)) == "identical"


def test_a_ranking_without_labels_makes_no_card() -> None:
    with pytest.raises(OptionError, match="has no labels"):
        main_kind_of(replace(RANKING, labels_by={}), Head(0, 0))


def test_facts_of_a_checkpoint_are_rows_of_texts() -> None:
    checkpoint = Checkpoint(
        model="toy",
        facts={"layers": 2, "revision": None, "causal": False, "tied": True},
        patterns={"next-word": None, "aligned": "needs links"},
        measures={"masked-lm": None},
    )
    frame = checkpoint.to_frame()
    assert dict(zip(frame["key"], frame["value"], strict=True)) == {
        "model": "toy",
        "layers": "2",
        "revision": "",
        "causal": "no",
        "tied": "yes",
        "next-word": "yes",
        "aligned": "no: needs links",
        "masked-lm": "yes",
    }


def test_an_answer_says_why_not() -> None:
    assert answers({"a": None, "b": "why"}) == {"a": "yes", "b": "no: why"}
