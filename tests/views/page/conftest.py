"""A small result to put on a page."""

from __future__ import annotations

import pytest
from pages import made_up

from attnscan.results.attention import Attention
from attnscan.results.classification import Classification


@pytest.fixture(scope="module")
def small() -> tuple[Classification, Attention]:
    return made_up(3, 4, 10)
