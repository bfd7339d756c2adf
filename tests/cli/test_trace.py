"""How far it is from the command to the scorer: whose code runs, and how deep."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from command_line import A, B, run

import attnscan
from attnscan.scoring.scorer import Scorer

ROOT = str(Path(attnscan.__file__).parent)
MOST_MODULES, MOST_FRAMES = 28, 10
"""Bounds that only fall."""


def _ours(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOT):
            yield frame.f_code.co_filename
        frame = frame.f_back


def test_one_way_from_the_command_to_the_scorer() -> None:
    modules, depths = set[str](), list[int]()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        if frame.f_code.co_filename.startswith(ROOT):
            modules.add(frame.f_code.co_filename)
        if frame.f_code is Scorer.__call__.__code__:
            depths.append(len(list(_ours(frame))))

    arguments = ("classify", A, B, "--model", "bundled", "--csv")
    run(*arguments)  # what is imported is no part of it
    sys.setprofile(trace)
    try:
        run(*arguments)
    finally:
        sys.setprofile(None)
    assert depths and len(modules) <= MOST_MODULES and min(depths) <= MOST_FRAMES, (len(modules), min(depths))
