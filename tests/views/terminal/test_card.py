"""The card on a screen: at most 45 lines at 80 columns, and nothing wider than the screen."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from toy import save_toy_bert

import attnscan
from attnscan.results.ablation import Ablation, Effect, HeadSet, Quantity
from attnscan.results.card import Cards, Example
from attnscan.views.terminal.card import cards_view
from attnscan.views.terminal.parts import render

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
    assert re.search(r"0-0  the next word 1\.00, average head 0\.\d\d, even attention 0\.\d\d, 1st of 6\.", text)
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
    examples = tuple(Example(0.9, place, place + 20, words, ("a", "b")) for place in (1, 15, 30))
    row = {"query": "from", "key": "to", "share": 0.9, "average": 0.1, "count": 12}
    heads = HeadSet("0-0", (card.head,), ((card.head,),))
    effects = tuple(
        Effect.of(heads, Quantity(f"masked-lm-{number}", "nats a word"), (5.5, 5.6, 5.7), 0.01, 90, 6)
        for number in range(3)
    )
    lost = Ablation(effects, card.ranking.scores.grid, "zero", 1, "named", 0, 6, card.ranking.signature)
    made = replace(card, examples=examples, links=pd.DataFrame([row] * 9), ablation=lost)
    lines = _screen(replace(cards, cards=(made,)), width)
    assert len(lines) + 5 <= 45 and max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "from → to" in text and "Without it: masked-lm-0 (nats a word) 5.5000 → 5.6000" in text and "‹" in text


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
