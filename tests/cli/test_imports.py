"""What commands leave unimported, each in a process of its own; and what becomes of what they import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run

pytestmark = pytest.mark.long
BUNDLED, WEIGHTS = ("--model", "bundled"), ("--weights", "w.npz")
IN_TURN: list[list[tuple[set[str], tuple[str, ...]]]] = [
    [
        ({"torch", "transformers"}, ("heads", "--pairs", "pairs.csv", "--columns", "c,d", *BUNDLED)),
        ({"torch", "transformers", "pandas", "scipy"}, ("models",)),
        ({"torch", "transformers"}, ("similar", "--pairs", "w.npz", *BUNDLED)),
        ({"torch", "transformers"}, ("classify", "--weights", "pairs.csv")),
        ({"torch", "transformers", "matplotlib"}, ("models", "--csv")),
    ],
    [
        ({"transformers", "pandas", "scipy", "matplotlib"}, ("show", "0-1", *WEIGHTS)),
        ({"transformers", "pandas", "scipy"}, ("plot", *WEIGHTS, "-o", "map.svg")),
        ({"transformers", "pandas", "matplotlib"}, ("classify", *WEIGHTS)),
        ({"transformers", "pandas", "matplotlib"}, ("profile", *WEIGHTS)),
        ({"transformers", "matplotlib"}, ("report", *WEIGHTS, "-o", "page.html")),
        ({"matplotlib"}, ("classify", "a cat", *BUNDLED)),
    ],
]
"""What must not be imported, by which command, one after the other in one process; those that fail, fail because of
their files. What is drawn with is forgotten after each."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with pairs, with what a scan of them wrote, and with saved weights."""
    place = tmp_path_factory.mktemp("saved")
    (place / "pairs.csv").write_text("sentence_a,sentence_b\na cat,a dog\nthe cat sat,it sat\n")
    scan = ("heads", "-p", "next-word", "--model", "bundled", "--pairs", str(place / "pairs.csv"))
    run(*scan, "--per-pair", str(place / "every.parquet"))
    np.savez(
        place / "w.npz",
        attention=np.full((1, 2, 5, 5), 0.2),
        tokens=np.array(["[CLS]", "the", "cat", "sat", "[SEP]"]),
        segments=np.zeros(5, int),
    )
    return place


def _run(place: Path, told: str, *commands: Sequence[str], **environment: str) -> Any:
    """What a script tells after each of some commands in a process of their own."""
    script = (
        "import contextlib, gc, json, os, sys\n"
        "from attnscan.cli.app import main\n"
        "told = []\n"
        f"for arguments in {[list(arguments) for arguments in commands]!r}:\n"
        "    sys.argv = ['attnscan', *arguments]\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main()\n"
        f"    told.append({told})\n"
        "    for name in [name for name in sys.modules if name.split('.')[0] == 'matplotlib']:\n"
        "        del sys.modules[name]\n"
        "with open('told.json', 'w') as file:\n"
        "    json.dump(told, file)\n"
    )
    (place / "told.json").unlink(missing_ok=True)
    command = [sys.executable, "-c", script]
    subprocess.run(command, cwd=place, env={**os.environ, **environment}, capture_output=True, check=False)
    return json.loads((place / "told.json").read_text())


@pytest.mark.parametrize("commands", IN_TURN, ids=["no torch", "torch"])
def test_commands_import_no_more_than_they_need(files: Path, commands: list[tuple[set[str], tuple[str, ...]]]) -> None:
    told = "[[*sys.modules], gc.get_freeze_count(), gc.isenabled()]"
    imported = _run(files, told, *(arguments for _, arguments in commands))
    for (unneeded, arguments), (modules, *_) in zip(commands, imported, strict=True):
        assert set(modules) & unneeded == set(), arguments
    if commands is IN_TURN[1]:
        # Controls; and that what was imported is searched no more, while what comes after it is
        _, (of_plot, *_), *_, (modules, frozen, enabled) = imported
        assert "matplotlib" in of_plot and {"torch", "transformers"} <= set(modules)
        assert frozen > 100_000 and enabled
