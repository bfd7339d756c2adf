"""What a notebook shows of many pairs: labels first, and the same marks as every map."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from pages import made_up

from attnscan import HeadScores, heads
from attnscan.results.attention import Chosen
from attnscan.results.grid import Head
from attnscan.views.notebook import heads_html
from attnscan.views.palette import letter


@pytest.fixture(scope="module")
def ranking() -> HeadScores:
    pairs = [(f"The cat number {i} sat on {i % 7} mats.", f"A cat ran {i} times to the store.") for i in range(12)]
    return heads(pairs, model="bundled", predictive="off")


def test_what_heads_do_and_the_map_come_first(ranking: HeadScores) -> None:
    html, labels = heads_html(ranking), ranking.labels
    assert html.index(" heads follow a pattern, ") < html.index("strongest heads") < html.index("95 % interval")
    for kind in labels.kinds.values():
        shown = ", ".join(f"{head.name} {labels.share[head.place]:.2f}" for head in kind.heads[:5])
        assert shown in html
    cells = re.findall(r'<td style="[^"]*" title="(\d+)-(\d+): [^"]*">([^<]*)</td>', html)
    assert len(cells) == 72
    for layer, head, text in cells:
        place = int(layer), int(head)
        assert text == letter(str(labels.among_words[place])) + "?" * bool(labels.unsure[place])
    assert {text[-1] == "?" for *_, text in cells} == {bool(unsure) for unsure in np.unique(labels.unsure)}


def test_without_labels_there_are_the_best_heads_alone(ranking: HeadScores) -> None:
    html = heads_html(replace(ranking, labels_by={}))
    assert "95 % interval" in html and "strongest heads" not in html


def test_views_of_too_many_tokens_and_of_some_heads_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    result, attention = made_up(1, 2, 12)
    assert "<iframe" in heads_html(result)
    some = attention.only(Chosen(attention.grid, (0, 1), (Head(0, 1),)))
    assert "<iframe" not in heads_html(replace(result, attention=some))
    monkeypatch.setattr("attnscan.views.notebook.MOST_DRAWN", 11)
    assert "<iframe" not in heads_html(result)
