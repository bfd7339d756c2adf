"""Pastes real output into the README and docs/, so that it cannot go stale; `test_docs.py` holds
the two together.

    PYTHONPATH=tests python -m support.readme

A command to run stands in a comment, `<!-- $ attnscan ... -->` or `<!-- $ python FILE ... -->`,
above the block that shows it and its output, or above the picture of its screen. Tables stand
between comments that say what of (`_MADE`).
"""

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from support import families
from support.command_line import command_named
from support.schemas import TABLES
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.cli.commands_table import COMMAND_NAMES
from attnscan.cli.options import GROUPS, USUAL, grouped
from attnscan.scoring.patterns import PATTERNS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(
    r"(<!-- \$ (?P<command>(attnscan|python) .*?) -->\n)```text\n.*?```\n", re.DOTALL
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_GENERATED = re.compile(
    r"(<!-- (?!\$|end of)([^\n]+) -->\n)(?:(?!<!-- ).)*(<!-- end of \w+ -->\n)", re.DOTALL
)


def updated(text: str) -> str:
    """A page with everything generated made anew."""
    text = COMMAND.sub(
        lambda m: f"{m.group(1)}```text\n$ {m['command']}\n{output_of(m['command'])}```\n", text
    )
    return _GENERATED.sub(lambda m: m[1] + _generated(m[2]) + m[3], text)


def _generated(comment: str) -> str:
    """What stands below a comment."""
    for pattern, make in _MADE.items():
        if found := re.fullmatch(pattern, comment):
            return make(*found.groups())
    raise AssertionError(f"nothing makes what stands below {comment!r}")


@cache  # the same command stands on several pages
def output_of(command: str, *, color: bool = False) -> str:
    """What a command prints, with a terminal's colours if that is asked for."""
    program, *arguments = shlex.split(command)
    colored = (
        {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color"} if color else {}
    )
    if program == "python":
        typed = [sys.executable, *arguments]
        env = os.environ | colored
        return subprocess.run(
            typed, cwd=ROOT, env=env, capture_output=True, text=True, check=True
        ).stdout
    env = {"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled", **colored}
    result = CliRunner(env=env).invoke(app, arguments, color=color)
    assert result.exit_code == 0, result.output
    return result.stdout


@cache
def _options() -> dict[str, dict[str, tuple[str, str]]]:
    """Each command's arguments and options, in the order of its help: how they are typed, and what
    they do.
    """
    every = {}
    for command in COMMAND_NAMES:
        context = command_named(command).make_context(command, [], resilient_parsing=True)
        params = {
            str(param.name): param
            for param in context.command.params
            if not getattr(param, "hidden", False)
        }
        options = [name for name, param in params.items() if param.param_type_name == "option"]
        ordered = [name for name in params if name not in options]
        for group in grouped(options).values():
            ordered += group
        every[command] = {name: _cells(*params[name].get_help_record(context)) for name in ordered}
    return every


def _cells(typed: str, about: str) -> tuple[str, str]:
    """What stands in a table for an option: `-m, --model NAME`, and the text of its help."""
    typed = typed.removesuffix(" <str>").replace("|", r"\|")
    about = about.replace("|", r"\|").replace("<", r"\<")
    return f"`{typed}`", about


def _with(name: str) -> list[str]:
    """The commands that have an option."""
    return [command for command, options in _options().items() if name in options]


def _is_shared(name: str) -> bool:
    """Whether an option stands on the page of those that commands share: two commands have it, in
    one meaning.
    """
    if name == "held":  # second inputs of `syntax`, and of others a second file of pairs
        return False
    return len(_with(name)) > 1 and name in {
        *USUAL,
        *chain.from_iterable(group.names for group in GROUPS),
    }


def _own_options(command: str) -> str:
    options = {
        name: cells
        for name, cells in _options()[command].items()
        if not _is_shared(name) and name not in "ab"
    }
    rows = "".join(f"| {typed} | {about} |\n" for typed, about in options.values())
    return f"| option | what it does |\n| --- | --- |\n{rows}"


def _shared_options() -> str:
    """A list for each heading of help, below the commands that have most of it; an option says if
    others have it.
    """
    listed = ""
    groups = {"Most used": USUAL} | {group.heading: group.names for group in GROUPS}
    for heading, names in groups.items():
        whose = {name: _whose(name) for name in names if _is_shared(name)}
        if whose:
            most = Counter(whose.values()).most_common(1)[0][0]
            listed += f"### {heading}\n\nCommands: {most}.\n\n"
            for name, commands in whose.items():
                typed, about = _options()[_with(name)[0]][name]
                listed += (
                    f"- {typed}: {about}{'' if commands == most else f' ({commands})'}\n".replace(
                        r"\|", "|"
                    )
                )
            listed += "\n"
    return listed


def _whose(name: str) -> str:
    """The commands that have an option, in the shorter way; those under `About` need no model."""
    has = _with(name)
    without = {*has, "pairs", "patterns", "models"}
    lacks = [command for command in COMMAND_NAMES if command not in without]
    all_but = f"all but {', '.join(lacks)}" if lacks else "all"
    return all_but if len(lacks) < len(has) and len(lacks) < 5 else ", ".join(has)


def _gallery() -> str:
    from support.pictures import of_command

    shown = ""
    for command in COMMAND_NAMES:
        files = (
            f"[![{file}](pictures/{file})](commands/{command}.md)" for file in of_command(command)
        )
        shown += f"## {command}\n\n" + "\n\n".join(files) + "\n\n"
    return shown


def _patterns() -> str:
    rows = "".join(f"| {p.letter} | `{p.id}` | {p.counts} |\n" for p in PATTERNS)
    return f"| | pattern | what the score counts |\n| --- | --- | --- |\n{rows}"


def _families() -> str:
    """A row for each way to read and kind of model."""
    tap = "our attention function"
    other = "the watch"
    rows: list[tuple[str, str, Iterable[str]]] = [
        (tap, "encoders", families.TAPPED_ENCODERS),
        (tap, "encoders with a decoder beside", families.TAPPED_ENCODER_DECODERS),
        (tap, "decoders", families.TAPPED_DECODERS),
        (other, "encoders", families.UNTAPPED_ENCODERS),
        (other, "encoders with a decoder beside", families.UNTAPPED_ENCODER_DECODERS),
        (other, "decoders", families.UNTAPPED_DECODERS),
        ("refused", "", families.REFUSED),
    ]
    table = "| read by | | families |\n| --- | --- | --- |\n"
    notes = families.AS
    for how, kind, several in rows:
        names = [
            f + f" ({notes.get(f)})" * (f in notes) + "¹" * (f in families.NOT_CARRIED)
            for f in several
        ]
        table += f"| {how} | {kind} | {', '.join(names)} |\n"
    return table


_IN_TABLE_OF_PARAMETERS = {
    *("pairs", "model", "tokenizer", "heads", "pattern", "weights", "labels"),
    *("progress", "on_bad", "alignments", "treebank", "links"),
}


def _options_of_functions(names: str) -> str:
    """A table of options that three functions or more take: type, default, and who takes them."""
    takers: dict[str, dict[str, inspect.Parameter]] = {}
    for function in names.split():
        for name, parameter in inspect.signature(getattr(attnscan, function)).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY and name not in _IN_TABLE_OF_PARAMETERS:
                takers.setdefault(name, {})[function] = parameter
    table = "| option | type | default | functions |\n| --- | --- | --- | --- |\n"
    for name, parameters in takers.items():
        if len(parameters) >= 3:
            table += f"| `{name}` | {_type_cell(parameters)} | {_default_cell(parameters)} "
            table += f"| {_functions_cell(list(parameters), names.split())} |\n"
    return table


def _type_cell(parameters: dict[str, inspect.Parameter]) -> str:
    """The type of an option, by the function that takes most of it."""
    shown = {_type_shown(parameter) for parameter in parameters.values()}
    return f"`{max(shown, key=len)}`".replace("|", r"\|")


def _type_shown(parameter: inspect.Parameter) -> str:
    if isinstance(parameter.annotation, str):
        return parameter.annotation
    text = inspect.formatannotation(parameter.annotation)
    return re.sub(r"Optional\[(.*)\]", r"\1 | None", text)


def _default_cell(parameters: dict[str, inspect.Parameter]) -> str:
    """The default of most functions, and of others with their names."""
    defaults: dict[str, list[str]] = {}
    for function, parameter in parameters.items():
        defaults.setdefault(repr(parameter.default), []).append(function)
    usual, *others = sorted(defaults, key=lambda default: -len(defaults[default]))
    texts = [f"`{usual}`", *(f"`{other}` in {', '.join(defaults[other])}" for other in others)]
    return "; ".join(texts)


def _functions_cell(takes: list[str], functions: list[str]) -> str:
    """The functions that take an option, in the shorter way."""
    lacks = [function for function in functions if function not in takes]
    if not lacks:
        return "all"
    return f"all but {', '.join(lacks)}" if len(lacks) < len(takes) else ", ".join(takes)


def _functions(names: str) -> str:
    """A table of functions: what each returns."""
    table = "| function | returns |\n| --- | --- |\n"
    for name in names.split():
        function = getattr(attnscan, name)
        signature = inspect.signature(getattr(function, "__wrapped__", function))
        returned = str(signature.return_annotation).replace("|", r"\|")
        link = f"[`{name}`](commands/{name}.md)" if name in COMMAND_NAMES else f"`{name}`"
        table += f"| {link} | `{returned}` |\n"
    return table


def _classes(names: str) -> str:
    """The names of classes, as one paragraph; an error for a name that attnscan does not offer."""
    assert all(inspect.isclass(getattr(attnscan, name)) for name in names.split())
    return textwrap.fill(", ".join(f"`{name}`" for name in names.split()) + ".", 140) + "\n"


def _members(name: str, chosen: str) -> str:
    """What a class is, with some of its attributes and methods."""
    cls = getattr(attnscan, name)
    about = (inspect.getdoc(cls) or "").partition("\n\n")[0]
    return f"### class {name}\n\n{about}\n\n" + "".join(
        _member(cls, member) for member in chosen.split()
    )


def _member(cls: type, name: str) -> str:
    """An attribute with its type or a method with its defaults, the first sentence about it, and
    its shape.
    """
    member = inspect.getattr_static(cls, name, None)
    if isinstance(member, property | cached_property):
        function: Any = member.fget if isinstance(member, property) else member.func
        code = f"{name}: {inspect.signature(function).return_annotation}"
        text = inspect.getdoc(member)
    elif isinstance(member, classmethod) or inspect.isfunction(member):
        code = _call(getattr(cls, name))
        text = inspect.getdoc(member)
    else:
        code, text = _field(cls, name)
    first, *others = _SENTENCE.split(" ".join((text or "").partition("\n\n")[0].split()))
    about = " ".join([first, *(sentence for sentence in others if sentence.startswith("Shape: "))])
    return f"- `{code}`{f': {about}' if about else ''}\n"


def _call(function: Callable[..., Any]) -> str:
    """A function with each argument's default, and what it returns."""
    signature = inspect.signature(function)
    arguments = [
        parameter.name
        if parameter.default is parameter.empty
        else f"{parameter.name}={parameter.default!r}"
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    return f"{function.__name__}({', '.join(arguments)}) -> {signature.return_annotation}"


def _field(cls: type, name: str) -> tuple[str, str]:
    """A field of a dataclass with its type, and the string that stands below it."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    for node, below in pairwise([*definition.body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return f"{name}: {ast.unparse(node.annotation)}", getattr(
                getattr(below, "value", None), "value", ""
            )
    raise AssertionError(f"{cls.__name__} has no {name}")


def _schemas() -> str:
    """A row for each table: what a row is, and its schema."""
    table = "| table | a row is | schema |\n| --- | --- | --- |\n"
    for name, schema in TABLES.items():
        table += f"| {name} | {schema.about} | [`{schema.id}`](../schema/{name}.json) |\n"
    return table


_MADE: dict[str, Callable[..., str]] = {
    "families": _families,
    "patterns": _patterns,
    "schemas": _schemas,
    "gallery": _gallery,
    "shared options": _shared_options,
    r"options of (\w+)": _own_options,
    "functions: (.+)": _functions,
    "options of functions: (.+)": _options_of_functions,
    r"members of (\w+): (.+)": _members,
    "api in brief: (.+)": _classes,
}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
