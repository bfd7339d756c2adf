"""Results to put on a page."""

import pytest
from support.page_contents import made_up

from attnscan import HeadScores
from attnscan.results.attention import Attention


@pytest.fixture(scope="module")
def small() -> tuple[HeadScores, Attention]:
    return made_up(3, 4, 10)
