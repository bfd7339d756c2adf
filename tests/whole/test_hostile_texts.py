"""Generated sentences through classify, show, explain, report and heads: a right result or one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from draws import draws
from hostile.runs import loaded_once, save_tiny_model
from hostile.texts import commands, pairs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

GENERATE = (Phase.explicit, Phase.generate)  # to shrink a run of five commands takes minutes, and tells little more


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with loaded_once():
        yield save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@settings(max_examples=draws(60), deadline=None, phases=GENERATE, suppress_health_check=list(HealthCheck))
@given(pair=pairs, number=st.integers(0, 1000))
def test_no_sentence_does_harm(tiny: Path, directory: Path, pair: tuple[str, str | None], number: int) -> None:
    assert len(list(commands(tiny, directory, pair, number))) == 5
