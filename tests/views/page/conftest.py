"""Results to put on a page."""

import pytest
from pages import made_up

from attnscan import HeadScores, heads
from attnscan.results.attention import Attention

SENTENCES = [(f"The cat number {i} sat on {i % 7} mats.", f"A cat ran {i} times to the store.") for i in range(12)]


@pytest.fixture(scope="module")
def small() -> tuple[HeadScores, Attention]:
    return made_up(3, 4, 10)


@pytest.fixture(scope="session")
def ranking() -> HeadScores:
    """With labels by weight and by what heads carry, and with profiles by weight."""
    return heads(SENTENCES, model="bundled", predictive="off")
