"""Pastes real output into the README and docs/, so that it cannot go stale; `test_readme.py` holds the two together.

    python tests/readme.py

A command to run stands in a comment, `<!-- $ attnscan ... -->` or `<!-- $ python FILE ... -->`, above the block that
shows it and its output.
The patterns' table and drawings come from `attnscan.patterns` itself.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from attnscan.cli import app
from attnscan.patterns import PATTERNS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
_COMMAND = re.compile(r"(<!-- \$ (?P<command>(attnscan|python) .*?) -->\n)```text\n.*?```\n", re.DOTALL)
_PATTERNS = re.compile(r"(<!-- patterns -->\n).*?(<!-- end of patterns -->\n)", re.DOTALL)


def updated(text: str) -> str:
    """A page with everything generated made anew."""
    text = _COMMAND.sub(lambda m: f"{m.group(1)}```text\n$ {m['command']}\n{_output(m['command'])}```\n", text)
    return _PATTERNS.sub(lambda m: m.group(1) + _patterns() + m.group(2), text)


def _output(command: str) -> str:
    program, *arguments = shlex.split(command)
    if program == "python":
        return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    result = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"}).invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def _patterns() -> str:
    rows = [f"| {p.letter} | `{p.id}` | {p.counts} |\n" for p in PATTERNS]
    table = "| | pattern | what the score counts |\n| --- | --- | --- |\n" + "".join(rows)
    drawings = [f"{p.id}\n{p.drawing}\n" for p in PATTERNS if p.drawing]
    return table + "\n```text\n" + "\n".join(drawings) + "```\n"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
