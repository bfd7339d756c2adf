"""Stand-ins for models, and sessions over them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import TOKEN, StandIn, session_of
from starlette.applications import Starlette

import attnscan
from attnscan.results.heads import HeadScores
from attnscan.server.app import app_of
from attnscan.server.session import Session


@pytest.fixture(scope="module")
def result() -> HeadScores:
    """What every stand-in says."""
    return attnscan.classify("the cat sat", "a cat", model="bundled", predictive="off")


@pytest.fixture
def model(result: HeadScores) -> StandIn:
    return StandIn(result)


@pytest.fixture
def session(model: StandIn) -> Iterator[Session]:
    with session_of(model) as session:
        yield session


@pytest.fixture
def bugs() -> Iterator[list[Exception]]:
    """What the server was told of; a test that expects some takes them out."""
    found: list[Exception] = []
    yield found
    assert not found


@pytest.fixture
def app(session: Session, bugs: list[Exception]) -> Starlette:
    return app_of(session, TOKEN, bugs.append)
