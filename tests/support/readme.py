"""Pastes real output into the README and docs/, so that it cannot go stale; `test_readme.py` holds the two together.

    python tests/support/readme.py

A command to run stands in a comment, `<!-- $ attnscan ... -->` or `<!-- $ python FILE ... -->`, above the block that
shows it and its output.
The patterns' table and drawings come from `attnscan.scoring.patterns` itself, the families' table from the tests'
`families`, who has an option (`<!-- commands with --norm -->`) from the help, tables of what was measured
(`<!-- measured: NAME -->`) from `benchmarks/RESULTS.md`, and what stands below `<!-- api: NAMES -->` from the public
functions and classes of those names.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from api_page import documented
from families import (
    NAMES,
    REFUSED,
    TAPPED_DECODERS,
    TAPPED_ENCODER_DECODERS,
    TAPPED_ENCODERS,
    UNTAPPED_DECODERS,
    UNTAPPED_ENCODER_DECODERS,
    UNTAPPED_ENCODERS,
)
from typer.testing import CliRunner

from attnscan.cli.app import COMMANDS, app
from attnscan.scoring.patterns import PATTERNS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
_COMMAND = re.compile(r"(<!-- \$ (?P<command>(attnscan|python) .*?) -->\n)```text\n.*?```\n", re.DOTALL)
_FAMILIES = re.compile(r"(<!-- families -->\n).*?(<!-- end of families -->\n)", re.DOTALL)
_MEASURED = re.compile(r"<!-- measured: (?P<name>\w+) -->\n.*?<!-- end of (?P=name) -->\n", re.DOTALL)
_WITH = re.compile(r"(<!-- commands with (?P<option>--[a-z-]+) -->\n).*?(<!-- end of commands -->\n)", re.DOTALL)
_PATTERNS = re.compile(r"(<!-- patterns -->\n).*?(<!-- end of patterns -->\n)", re.DOTALL)
_DRAWINGS = re.compile(r"(<!-- drawings -->\n).*?(<!-- end of drawings -->\n)", re.DOTALL)
_API = re.compile(r"(<!-- api: (?P<names>[\w ]+) -->\n).*?(<!-- end of api -->\n)", re.DOTALL)


def updated(text: str) -> str:
    """A page with everything generated made anew."""
    text = _COMMAND.sub(lambda m: f"{m.group(1)}```text\n$ {m['command']}\n{_output(m['command'])}```\n", text)
    text = _FAMILIES.sub(lambda m: m.group(1) + _families() + m.group(2), text)
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    measured = {match["name"]: match.group() for match in _MEASURED.finditer(results)}
    text = _MEASURED.sub(lambda m: measured[m["name"]], text)
    text = _WITH.sub(lambda m: m.group(1) + _commands_with(m["option"]) + m.group(3), text)
    text = _PATTERNS.sub(lambda m: m.group(1) + _patterns() + m.group(2), text)
    text = _API.sub(lambda m: f"{m.group(1)}{''.join(map(documented, m['names'].split()))}{m.group(3)}", text)
    return _DRAWINGS.sub(lambda m: m.group(1) + _drawings() + m.group(2), text)


@cache  # the same command stands on several pages
def _output(command: str) -> str:
    program, *arguments = shlex.split(command)
    if program == "python":
        return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    result = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"}).invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def _commands_with(option: str) -> str:
    has = re.compile(rf"^ +(-., +)?{option}\b", re.MULTILINE)
    *names, last = (f"`{name}`" for name in COMMANDS if has.search(_output(f"attnscan {name} --help")))
    return f"{', '.join(names)} and {last} have `{option}`.\n"


def _patterns() -> str:
    rows = [f"| {p.letter} | `{p.id}` | {p.counts} |\n" for p in PATTERNS]
    return "| | pattern | what the score counts |\n| --- | --- | --- |\n" + "".join(rows)


def _drawings() -> str:
    return "```text\n" + "\n".join(f"{p.id}\n{p.drawing}\n" for p in PATTERNS if p.drawing) + "```\n"


def _families() -> str:
    """A row for each way to read and kind of model, with the tests in `test_families.py` that hold it."""
    weights, scores = "test_weights_in_a_batch_equal_eager_attention_alone", "test_scores_equal_the_plain_loop"
    neurons = "test_weights_follow_from_queries_keys_and_visible_keys"
    tap, other = ("the tap", (weights, scores, neurons)), ("`output_attentions`", (weights, scores))
    rows: list[tuple[tuple[str, tuple[str, ...]], str, Iterable[str]]] = [
        (tap, "encoders", TAPPED_ENCODERS),
        (tap, "encoders with a decoder beside", TAPPED_ENCODER_DECODERS),
        (tap, "decoders", TAPPED_DECODERS),
        (other, "encoders", UNTAPPED_ENCODERS),
        (other, "encoders with a decoder beside", UNTAPPED_ENCODER_DECODERS),
        (other, "decoders", UNTAPPED_DECODERS),
        (("refused by name", ("test_what_yields_no_attention_is_refused_by_name",)), "", REFUSED),
    ]
    table = "| read by | | families | held by |\n| --- | --- | --- | --- |\n"
    for (how, checks), kind, families in rows:
        names = ", ".join(NAMES[family] for family in families)
        table += f"| {how} | {kind} | {names} | {', '.join(f'`{check}`' for check in checks)} |\n"
    return table


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
