"""Scans of many pairs: their states and per-pair output at Ctrl-C, and what is told of a cluster."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from attnscan.errors import StateError
from attnscan.run.ranking import _undisturbed, held


def test_an_interrupt_waits_until_what_belongs_together_is_done() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []
    try:
        with pytest.raises(KeyboardInterrupt), _undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append("all")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with _undisturbed():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["all"]


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
