"""Scans of many pairs: the lock of a state file."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscan.errors import StateError
from attnscan.run.ranking import held


def test_one_run_at_a_time_holds_a_state_file(tmp_path: Path) -> None:
    path, link = tmp_path / "state.json", tmp_path / "link"
    link.symlink_to(path)
    with held(path):
        for name in (path, link):
            with pytest.raises(StateError, match="another run holds the state file"), held(name):
                pass
        with held(tmp_path / "another.json"):
            pass
    with held(link):
        pass
    assert list(tmp_path.iterdir()) == [link]
