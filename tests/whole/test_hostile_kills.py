"""Runs that are killed, interrupted and starved at random moments lose nothing and leave nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TWO_THREADS = {**os.environ, "OMP_NUM_THREADS": "2"}  # which run batches side by side
FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


@pytest.mark.long
def test_nothing_is_lost_and_the_faults_strike() -> None:
    """In a process of its own: runs are forks of it, and one that has computed with threads must not fork."""
    command = [sys.executable, str(FAULTS), "--kills", "1", "--mixings", "3", "--part", "runs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=TWO_THREADS)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| runs ")]
    struck = {cells[1].strip(): int(cells[3]) for cells in rows}
    assert len(struck) == 9 and sum(struck.values()) > 0, done.stdout


IN_A_FINALIZER = """
import time
from attnscan.cli.messages import lose_no_interrupt

class Dying:
    def __del__(self):
        raise KeyboardInterrupt

lose_no_interrupt()
try:
    Dying()
    time.sleep(20)
except KeyboardInterrupt:
    print("heard")
"""


def test_an_interrupt_that_falls_into_a_finalizer_comes_again() -> None:
    """Python alone prints a traceback there, and goes on."""
    done = subprocess.run([sys.executable, "-c", IN_A_FINALIZER], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("heard\n", "")
