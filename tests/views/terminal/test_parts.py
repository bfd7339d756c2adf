"""What all screens are made of; the screen of ablate; and cards, whose lines are few."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.text import Text
from support.ablation_effects import effect_of
from support.small_results import SIGNATURE
from support.toy_bert import save_toy_bert

import attnscan
from attnscan.results.ablation import Ablation, Effect, HeadSet, Quantity
from attnscan.results.card import Cards, Example
from attnscan.results.grid import Grid
from attnscan.views.terminal.ablation import ablation_view
from attnscan.views.terminal.card import cards_view
from attnscan.views.terminal.parts import number, render


def test_what_is_not_known_is_left_empty() -> None:
    assert [number(value) for value in (math.nan, 0.0, -0.126)] == ["", "0.00", "-0.13"]
    assert [number(value, 3) for value in (math.nan, 0.0, -0.1264)] == ["", "0.000", "-0.126"]


def test_nothing_that_a_terminal_obeys_gets_through() -> None:
    assert render(Text("a\x1b[31mb\nc\u202ed"), 40) == "a\\x1b[31mb\nc\\u202ed\n"


MANY = (1.0, 1.5, 1.25)


def text_of(*effects: Effect, width: int = 80, choosing: int = 5) -> str:
    found = Ablation(
        effects=effects,
        grid=Grid((1, 4)),
        replace="zero",
        draws=3,
        chosen_by="label, 0.25 above chance",
        choosing_pairs=choosing,
        measured_pairs=6,
        signature=SIGNATURE,
    )
    return render(ablation_view(found, width), width)


def test_a_row_shows_the_controls_their_spread_the_rank_and_its_p() -> None:
    row = text_of(effect_of(2.0, MANY, "next-word", 12)).splitlines()[4]
    *numbers, bar = row.split()
    assert numbers == [
        "N",
        "next-word",
        "1",
        "2.000",
        "1.250",
        "0.250",
        "+0.750",
        "0.125",
        "1/4",
        "0.250",
    ]
    assert set(bar) == {"█"}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_no_line_is_wider_than_the_screen_and_no_number_is_cut(width: int, size: float) -> None:
    others = tuple(size * other for other in MANY)
    effects = [
        effect_of(2 * size, others, name, 10**20)
        for name in ("cross-sentence", "a pattern of my own")
    ]
    text = text_of(*effects, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count(f"{0.75 * size:+.{3 if size == 1 else 5}f}") == 2 and "…" not in text


def test_what_has_no_head_or_no_controls_says_so() -> None:
    nan = float("nan")
    none = replace(effect_of(nan, ()), set=HeadSet("identical", ()))
    text = text_of(none, effect_of(2.0, (), "delimiter"), effect_of(2.0, (1.0,), "next-word"))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "I identical 0 no head" in rows and "D delimiter 1 2.000 no others" in rows
    assert any(
        row.startswith("N next-word 1 2.000 1.000 +1.000 0.125 1/2 0.500") for row in rows
    )  # without a spread


def test_accuracy_without_classes_says_which_column_is_missing() -> None:
    accuracy = Quantity("classifier-accuracy", "accuracy", larger_is_better=True)
    text = text_of(replace(effect_of(2.0, MANY, quantity=accuracy), n=0))
    assert "no pair has a class in a column 'label' or 'gold_label'" in text.replace("\n", " ")


def test_who_may_be_a_control_and_by_which_pairs() -> None:
    chosen = " ".join(text_of(effect_of(2.0, MANY)).split())
    assert "by label, 0.25 above chance, on 5 pairs; measured on the other 6." in chosen
    assert "The others leave out heads labelled with another pattern, delimiter excepted" in chosen
    named = " ".join(text_of(effect_of(2.0, MANY), choosing=0).split())
    assert "the others may follow any pattern" in named and "the other 6" not in named


@pytest.mark.parametrize(("effect", "drawn"), [(9.0, True), (1.0, False)])
def test_a_set_beside_which_another_costs_as_much_has_no_bar(effect: float, drawn: bool) -> None:
    """However far it is from zero: its error is an eighth."""
    text = text_of(effect_of(effect, (0.1, 0.2, 0.3, 4.0), "next-word"), width=120)
    assert ("█" in text) is drawn
    assert "No bar: p above 0.05, and another set costs as much." in " ".join(text.split())
    assert "is not seen to cost more than other heads" in text
    assert f"rank {1 if drawn else 2} of 5" in text


@pytest.mark.parametrize("width", [66, 120])
def test_bars_are_explained_where_there_is_room_for_them(width: int) -> None:
    text = text_of(effect_of(2.0, MANY, "next-word"), width=width)
    assert ("No bar: " in " ".join(text.split())) == ("█" in text) == (width == 120)


SENTENCES = [
    ("the cat sat on the mat .", "a cat ran to the store ."),
    ("i went to the store , i bought strawberries .", "the dog ran to a mat ."),
    ("the dog sat on a mat . the cat went to the store , the dog ran", "a cat bought the mat"),
    "i ran to the store . the store ran on",
    ("a dog bought a store", "the store ran to a dog ."),
    "the mat sat on a dog , on the cat .",
]


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Cards:
    plan = {(0, 0): "next-word", (0, 1): "identical", (1, 2): "previous-word"}
    directory: Path = save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, plan, carries=True)
    return attnscan.head("0-0,1-2", pairs=SENTENCES, model=str(directory))


def _screen(cards: Cards, width: int) -> list[str]:
    return render(cards_view(cards, width), width).splitlines()


def test_a_card_has_few_lines_and_says_first_what_the_head_does(cards: Cards) -> None:
    lines = _screen(replace(cards, cards=cards.cards[:1]), 80)
    assert len(lines) + 5 <= 45  # with what stands above and below
    text = " ".join(lines)
    assert re.search(
        r"0-0  the next word 1\.00, average head 0\.\d\d, even attention 0\.\d\d, 1st of 6\.", text
    )
    assert "N next-word" in text and "1 of 6" in text and "switched off" in text
    assert (
        "Why: by position; its next-word score of 1.00 falls to 0." in text
        and "Where attention goes among words: " in text
    )
    assert "‹" in text and "»" in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_card_is_short_whatever_it_has_to_say(cards: Cards, width: int) -> None:
    """Long sentences, many links, three quantities that the model loses without the head."""
    card = cards["0-0"]
    words = ("strawberries",) * 60
    examples = tuple(
        Example(share=0.9, query=place, key=place + 20, units=words, sentences=("a", "b"))
        for place in (1, 15, 30)
    )
    row = {"query": "from", "key": "to", "share": 0.9, "average": 0.1, "count": 12}
    heads = HeadSet("0-0", (card.head,), ((card.head,),))
    effects = tuple(
        Effect.of(
            heads,
            Quantity(f"masked-lm-{number}", "nats a word"),
            (5.5, 5.6, 5.7),
            se=0.01,
            n=90,
            pairs=6,
            clusters=6,
        )
        for number in range(3)
    )
    lost = Ablation(
        effects=effects,
        grid=card.ranking.scores.grid,
        replace="zero",
        draws=1,
        chosen_by="named",
        choosing_pairs=0,
        measured_pairs=6,
        signature=card.ranking.signature,
    )
    made = replace(card, examples=examples, links=pd.DataFrame([row] * 9), ablation=lost)
    lines = _screen(replace(cards, cards=(made,)), width)
    assert len(lines) + 5 <= 45 and max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert (
        "from → to" in text
        and "Without it: masked-lm-0 (nats a word) 5.5000 → 5.6000" in text
        and "‹" in text
    )


def test_a_long_example_is_cut_around_the_words_that_are_marked(cards: Cards) -> None:
    (example, *_) = cards["0-0"].examples
    long = replace(example, units=("word",) * 400, query=20, key=380)
    shown = replace(cards, cards=(replace(cards["0-0"], examples=(long,)),))
    text = " ".join(" ".join(_screen(shown, 120)).split())
    assert "… word" in text and "‹word›" in text and "«word»" in text and text.count(" word") < 60


def test_a_notebook_shows_the_cards(cards: Cards) -> None:
    html = cards._repr_html_()
    assert html is not None and html.startswith("<pre") and "0-0  the next word 1.00" in html
    assert repr(cards).startswith("Cards of ") and cards["1-2"].head.name == "1-2"
