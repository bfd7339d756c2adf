"""The article's pair, to be drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from command_line import A, B
from one_run import classify_and_keep

from attnscan.inputs.sentence import Pair
from attnscan.results.attention import Attention
from attnscan.results.heads import HeadScores
from attnscan.scan.options import ScanOptions


@pytest.fixture(scope="module")
def kept() -> tuple[HeadScores, Attention]:
    return classify_and_keep(Pair(A, B), ScanOptions(model="bundled", predictive="off"))


@pytest.fixture(scope="module")
def article(kept: tuple[HeadScores, Attention]) -> HeadScores:
    return replace(kept[0], attention=kept[1])


@pytest.fixture(scope="module")
def attention(kept: tuple[HeadScores, Attention]) -> Attention:
    return kept[1]
