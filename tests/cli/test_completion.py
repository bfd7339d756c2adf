"""What a shell completes, and the examples that `--help` ends with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from attnscan.cli.app import COMMANDS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("attnscan ", {*COMMANDS}),
        ("attnscan classify --pred", {"--predictive", "--predictive-words"}),
        ("attnscan heads --format js", {"json", "jsonl"}),
    ],
)
def test_tab(line: str, expected: set[str]) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_ATTNSCAN_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "attnscan"], env={**os.environ, **words}, capture_output=True, text=True
    )
    assert (set(done.stdout.split()), done.stderr) == (expected, "")
