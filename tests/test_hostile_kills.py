"""Runs that are killed, interrupted and starved at random moments lose nothing and leave nothing half-written."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from hostile.kills import FAULTS, Scene, out_of_space
from hostile.runs import save_tiny_model


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"), save_tiny_model(tmp_path_factory.mktemp("tiny")), 60)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost(scene: Scene, fault: Callable[[Scene, random.Random], bool], seed: int) -> None:
    fault(scene, random.Random(seed))


def test_the_faults_strike(scene: Scene) -> None:
    """A control."""
    draw = random.Random(9)
    assert any(out_of_space(scene, draw) for _ in range(5))


IN_A_FINALIZER = """
import time
from attnscan.messages import lose_no_interrupt

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
