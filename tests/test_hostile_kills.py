"""Runs that are killed, interrupted and starved at random moments lose nothing and leave nothing half-written."""

from __future__ import annotations

import random
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
