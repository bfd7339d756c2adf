"""`attnscan patterns`: all seven."""

from __future__ import annotations

import json
import re

import pytest
from command_line import COLUMNS, run
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.scoring.patterns import SHIPPED, called


def test_patterns_prints_all_seven() -> None:
    text = run("patterns").stdout
    for pattern in COLUMNS.split(",")[9:16]:
        assert re.search(rf"^[A-Z] {pattern}: ", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["next-word", "d", "bag-of-words"])
def test_one_pattern_is_shown_in_full(name: str) -> None:
    pattern = called(name)
    assert pattern is not None
    text = run("patterns", name).stdout
    assert text.startswith(f"{pattern.letter} {pattern.id}: {pattern.counts}\n\nqueries  {pattern.queries[:40]}")
    assert text.split("\n\n")[-2] == pattern.drawing
    assert max(map(len, text.splitlines())) <= 80 and text.count("[CLS]   the") == 1


def test_patterns_as_rows() -> None:
    header, *rows = run("patterns", "--csv").stdout.splitlines()
    assert header == "letter,pattern,counts,queries,keys,source" and len(rows) == len(SHIPPED)
    (found,) = json.loads(run("patterns", "identical", "--format", "json").stdout)["rows"]
    assert (found["letter"], found["keys"]) == ("I", "those words, and the word itself")
    done = CliRunner().invoke(app, ["patterns", "nextword"])
    assert done.exit_code == 2 and "there is no pattern 'nextword'; did you mean 'next-word'?" in done.stderr
