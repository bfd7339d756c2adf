"""Stand-ins for models, and sessions over them."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from support.live_session import TOKEN, StandIn, session_of

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


@pytest.fixture(autouse=True)
def bugs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What was logged of bugs of ours; a test that expects some takes them out."""
    yield caplog
    assert not [record for record in caplog.get_records("call") if record.name == "attnscan"]


@pytest.fixture
def app(session: Session) -> Starlette:
    return app_of(session, TOKEN)
