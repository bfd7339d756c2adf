"""Scans of many pairs: their states and per-pair output at Ctrl-C, and what is told of a cluster."""

from __future__ import annotations

import signal

import pytest

from attnscan.run.ranking import _undisturbed


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
