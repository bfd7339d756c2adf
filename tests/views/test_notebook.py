"""What a notebook shows of many pairs: labels first, and the same marks as every map."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from attnscan import Ranking, heads
from attnscan.views.notebook import ranking_html
from attnscan.views.palette import mark
from attnscan.views.summary import label_rows


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    pairs = [(f"The cat number {i} sat on {i % 7} mats.", f"A cat ran {i} times to the store.") for i in range(12)]
    return heads(pairs, model="bundled", predictive="off")


def test_counts_the_map_and_how_sure_labels_are_come_first(ranking: Ranking) -> None:
    html = ranking_html(ranking)
    assert html.index("which") < html.index("Labels that stay in") < html.index("Map: ") < html.index("95 % interval")
    assert "what each head carries among words" in html
    labels = ranking.mapped
    for row in label_rows(ranking):
        if row.heads:
            assert ", ".join(f"{head.name}{'?' * unsure}" for head, unsure in row.heads[:24]) in html
    assert "not measured: the model was not asked" in html
    cells = re.findall(r'<td style="[^"]*" title="(\d+)-(\d+): [^"]*">([^<]*)</td>', html)
    assert len(cells) == 72
    for layer, head, text in cells:
        place = int(layer), int(head)
        letter = mark(str(labels.content_label[place]), float(labels.parking[place]))
        assert text == letter + "?" * bool(labels.content_unsure[place])
    assert {text[-1] == "?" for *_, text in cells} == {bool(unsure) for unsure in np.unique(labels.content_unsure)}


def test_without_labels_there_are_the_best_heads_alone(ranking: Ranking) -> None:
    html = ranking_html(replace(ranking, labels=None, carried=None))
    assert "95 % interval" in html and "Map: " not in html and "which" not in html
