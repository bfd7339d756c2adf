"""Pastes real output into the README and docs/, so that it cannot go stale; `test_readme.py` holds the two together.

    python tests/support/readme.py

A command to run stands in a comment, `<!-- $ attnscan ... -->` or `<!-- $ python FILE ... -->`, above the block that
shows it and its output.
The gallery's pictures are those that `pictures.py` makes of each command (`<!-- gallery -->`).
The patterns' table comes from `attnscan.scoring.patterns` itself, the families' table from the tests' `families`,
tables of a command's options (`<!-- options of heads -->`) and of the options that commands share
(`<!-- shared options -->`) from the commands themselves, and what stands below `<!-- functions: NAMES -->`,
`<!-- members of CLASS: NAMES -->` and, by name alone, below `<!-- api in brief: NAMES -->` from the public functions
and classes of those names.

A command above a picture is the one whose screen `pictures.py` draws.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from api_page import functions, members, named
from command_line import command_named
from families import (
    AS,
    NOT_CARRIED,
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
from attnscan.cli.options import GROUPS, USUAL, grouped
from attnscan.scoring.patterns import PATTERNS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"(<!-- \$ (?P<command>(attnscan|python) .*?) -->\n)```text\n.*?```\n", re.DOTALL)
_FAMILIES = re.compile(r"(<!-- families -->\n).*?(<!-- end of families -->\n)", re.DOTALL)
_OPTIONS = re.compile(r"(<!-- options of (?P<name>\w+) -->\n).*?(<!-- end of options -->\n)", re.DOTALL)
_SHARED = re.compile(r"(<!-- shared options -->\n).*?(<!-- end of options -->\n)", re.DOTALL)
_PATTERNS = re.compile(r"(<!-- patterns -->\n).*?(<!-- end of patterns -->\n)", re.DOTALL)
_GALLERY = re.compile(r"(<!-- gallery -->\n).*?(<!-- end of gallery -->\n)", re.DOTALL)
_NAMED = re.compile(r"(<!-- api in brief: (?P<names>[\w ]+) -->\n).*?(<!-- end of api -->\n)", re.DOTALL)
_FUNCTIONS = re.compile(r"(<!-- functions: (?P<names>[\w ]+) -->\n).*?(<!-- end of functions -->\n)", re.DOTALL)
_MEMBERS = re.compile(r"(<!-- members of (?P<name>\w+): ([\w ]+) -->\n).*?(<!-- end of members -->\n)", re.DOTALL)


def updated(text: str) -> str:
    """A page with everything generated made anew."""
    text = COMMAND.sub(lambda m: f"{m.group(1)}```text\n$ {m['command']}\n{output_of(m['command'])}```\n", text)
    text = _FAMILIES.sub(lambda m: m.group(1) + _families() + m.group(2), text)
    text = _OPTIONS.sub(lambda m: m.group(1) + _own_options(m["name"]) + m.group(3), text)
    text = _SHARED.sub(lambda m: m.group(1) + _shared_options() + m.group(2), text)
    text = _PATTERNS.sub(lambda m: m.group(1) + _patterns() + m.group(2), text)
    text = _GALLERY.sub(lambda m: m.group(1) + _gallery() + m.group(2), text)
    text = _FUNCTIONS.sub(lambda m: m.group(1) + functions(m["names"]) + m.group(3), text)
    text = _MEMBERS.sub(lambda m: m.group(1) + members(m["name"], m.group(3)) + m.group(4), text)
    return _NAMED.sub(lambda m: m.group(1) + named(m["names"]) + m.group(3), text)


@cache  # the same command stands on several pages
def output_of(command: str, *, color: bool = False) -> str:
    """What a command prints, with a terminal's colours if that is asked for."""
    program, *arguments = shlex.split(command)
    colored = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color"} if color else {}
    if program == "python":
        typed, env = [sys.executable, *arguments], os.environ | colored
        return subprocess.run(typed, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    env = {"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled", **colored}
    result = CliRunner(env=env).invoke(app, arguments, color=color)
    assert result.exit_code == 0, result.output
    return result.stdout


@cache
def _options() -> dict[str, dict[str, dict[str, tuple[str, str]]]]:
    """For each command and heading of its help: the options by their names, as they are typed, and what they do."""
    every: dict[str, dict[str, dict[str, tuple[str, str]]]] = {}
    for command in COMMANDS:
        context = command_named(command).make_context(command, [], resilient_parsing=True)
        params = {param.name: param for param in context.command.params if not getattr(param, "hidden", False)}
        records = {str(name): param.get_help_record(context) for name, param in params.items()}
        names = [str(name) for name, param in params.items() if param.param_type_name == "option"]
        groups = grouped(names).items()
        every[command] = {heading: {name: _cells(*records[name]) for name in group} for heading, group in groups}
        arguments = {name: _cells(*record) for name, record in records.items() if name not in names}
        every[command] = {"Arguments": arguments, **every[command]} if arguments else every[command]
    return every


def _cells(typed: str, about: str) -> tuple[str, str]:
    """What stands in a table for an option: `-m, --model NAME`, and the text of its help."""
    typed, about = (text.replace("|", r"\|") for text in (typed.removesuffix(" <str>"), about))
    return f"`{typed}`", about.replace("<", r"\<")


def _is_shared(name: str) -> bool:
    """Whether an option stands on the page of those that commands share: two commands have it, in one meaning."""
    has = [command for command, groups in _options().items() if any(name in group for group in groups.values())]
    return len(has) > 1 and name in {*USUAL, *(name for group in GROUPS.values() for name in group)}


def _own_options(command: str) -> str:
    groups = _options()[command].values()
    rows = [cells for group in groups for name, cells in group.items() if not _is_shared(name) and name not in "ab"]
    return "| option | what it does |\n| --- | --- |\n" + "".join(f"| {typed} | {about} |\n" for typed, about in rows)


def _shared_options() -> str:
    """A list for each heading of help, below the commands that have most of it; an option says if others have it."""
    listed = ""
    for heading, names in {"Most used": USUAL, **GROUPS}.items():
        rows = [(_whose(name), name) for name in names if _is_shared(name)]
        if rows:
            most = Counter(which for which, _ in rows).most_common(1)[0][0]
            cells = "".join(_shared_row(name, "" if which == most else f" ({which})") for which, name in rows)
            listed += f"### {heading}\n\nCommands: {most}.\n\n{cells}\n"
    return listed


def _whose(name: str) -> str:
    """The commands that have an option, in the shorter way; all but `patterns` and `models` read a model."""
    has = [command for command, groups in _options().items() if any(name in group for group in groups.values())]
    lacks = [command for command in COMMANDS if command not in (*has, "patterns", "models")]
    all_but = f"all but {', '.join(lacks)}" if lacks else "all"
    return all_but if len(lacks) < len(has) and len(lacks) < 5 else ", ".join(has)


def _shared_row(name: str, whose: str) -> str:
    options = (group for groups in _options().values() for group in groups.values() if name in group)
    typed, about = next(options)[name]
    return f"- {typed}: {about}{whose}\n".replace(r"\|", "|")


def _gallery() -> str:
    from pictures import of_command

    shown = {
        command: "\n\n".join(f"[![{file}](pictures/{file})](commands/{command}.md)" for file in of_command(command))
        for command in COMMANDS
    }
    return "".join(f"## {command}\n\n{files}\n\n" for command, files in shown.items())


def _patterns() -> str:
    rows = [f"| {p.letter} | `{p.id}` | {p.counts} |\n" for p in PATTERNS]
    return "| | pattern | what the score counts |\n| --- | --- | --- |\n" + "".join(rows)


def _families() -> str:
    """A row for each way to read and kind of model."""
    tap, other = "our attention function", "the watch"
    rows: list[tuple[str, str, Iterable[str]]] = [
        (tap, "encoders", TAPPED_ENCODERS),
        (tap, "encoders with a decoder beside", TAPPED_ENCODER_DECODERS),
        (tap, "decoders", TAPPED_DECODERS),
        (other, "encoders", UNTAPPED_ENCODERS),
        (other, "encoders with a decoder beside", UNTAPPED_ENCODER_DECODERS),
        (other, "decoders", UNTAPPED_DECODERS),
        ("refused", "", REFUSED),
    ]
    table = "| read by | | families |\n| --- | --- | --- |\n"
    for how, kind, families in rows:
        names = [name + f" ({AS.get(name)})" * (name in AS) + "¹" * (name in NOT_CARRIED) for name in families]
        table += f"| {how} | {kind} | {', '.join(names)} |\n"
    return table


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
