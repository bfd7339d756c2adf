"""What a shell completes, and the examples that `--help` ends with."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hostile.runs import served_for_a_moment
from treebanks import planted_file
from typer.testing import CliRunner

from attnscan.cli.app import COMMANDS, app
from attnscan.inputs.read import shipped_pairs


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("attnscan ", {*COMMANDS}),
        ("attnscan hea", {"head", "heads"}),
        ("attnscan classify --pred", {"--predictive", "--predictive-words"}),
        ("attnscan heads --format js", {"json", "jsonl"}),
        ("attnscan heads --device c", {"cpu", "cuda"}),
        ("attnscan plot --kind m", {"map"}),
        ("attnscan heads --sp", {"--special", "--split"}),
    ],
)
def test_tab(line: str, expected: set[str]) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_ATTNSCAN_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "attnscan"], env={**os.environ, **words}, capture_output=True, text=True
    )
    assert (set(done.stdout.split()), done.stderr) == (expected, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_an_example(command: str) -> None:
    lines = CliRunner().invoke(app, [command, "--help"]).stdout.rstrip().splitlines()
    assert lines[-1].strip() == f"Example: {import_module(f'attnscan.cli.commands.{command}').EXAMPLE}"
    assert max(map(len, lines)) <= 80


@pytest.mark.long
@pytest.mark.parametrize("example", [import_module(f"attnscan.cli.commands.{command}").EXAMPLE for command in COMMANDS])
def test_the_examples_work(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNSCAN_MODEL", "bundled")
    monkeypatch.chdir(tmp_path)
    few = [*itertools.islice(shipped_pairs(), 6)]  # the examples are to work; over all pairs they take minutes
    monkeypatch.setattr("attnscan.api.pairs.shipped_pairs", lambda: iter(few))
    for name in ("en_pud-ud-test.conllu", "train.conllu", "dev.conllu"):
        planted_file(tmp_path, name)
    program, *arguments = shlex.split(example.partition(" > ")[0].partition(" | ")[0])
    assert program == "attnscan"
    with served_for_a_moment():
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = [Path(name) for name in arguments if name.startswith(("page.", "heads.", "head.", "divergence."))]
    assert done.stdout or (all(path.stat().st_size for path in written) and written)
