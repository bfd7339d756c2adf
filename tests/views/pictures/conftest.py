"""The article's pair, to be drawn."""

from __future__ import annotations

import pytest
from command_line import A, B

import attnscan
from attnscan.results.attention import Attention
from attnscan.results.heads import HeadScores


@pytest.fixture(scope="module")
def article() -> HeadScores:
    return attnscan.classify(A, B, model="bundled", predictive="off")


@pytest.fixture(scope="module")
def attention(article: HeadScores) -> Attention:
    return article.kept_attention()
