"""What a terminal obeys, in strings and names of files: every so many of what `benchmarks/faults.py` tries of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile.runs import loaded_once, readable, save_tiny_model
from hostile.strings import OBEYED, trials

_EVERY = 29  # no number of kinds or formats is a multiple


def test_none_of_these_is_readable() -> None:
    """A control: were one to come out, it would be seen."""
    assert not any(readable(nasty) for nasty in OBEYED)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def test_nothing_that_a_terminal_obeys_comes_out(tiny: Path, tmp_path: Path) -> None:
    with loaded_once():
        done = [trial() for trial in trials(tiny, tmp_path, _EVERY)]
    assert len(done) > 20 and any(done) and not all(done)
