"""Runs that are killed, interrupted and starved at random moments lose nothing and leave nothing half-written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile import kills
from hostile.kills import Scene
from hostile.runs import save_tiny_model


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"), save_tiny_model(tmp_path_factory.mktemp("tiny")), 60)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "fault", [kills.killed, kills.killed_while_keeping, kills.interrupted_twice, kills.out_of_space, kills.at_once]
)
def test_nothing_is_lost(scene: Scene, fault: Callable[[Scene, random.Random], object], seed: int) -> None:
    fault(scene, random.Random(seed))


def test_a_clock_that_is_set_back_changes_nothing(scene: Scene) -> None:
    kills.clock_set_back(scene)
