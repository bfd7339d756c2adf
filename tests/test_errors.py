"""Options in messages have the names of options, and each edge writes them in its own way."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import command_named

import attnscan
from attnscan.cli.commands_table import COMMAND_NAMES
from attnscan.errors import AttnscanError

FILES = sorted(Path(attnscan.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize(
    ("written", "typed", "argument"),
    [
        ("``on_long=truncate``", "--on-long truncate", "on_long='truncate'"),
        ("``heads=2-0``", "--heads 2-0", "heads='2-0'"),
        ("``batch_tokens``", "--batch-tokens", "batch_tokens"),
        ("``columns=1``", "--columns 1", "columns=1"),
        ("``encoding=NAME``", "--encoding NAME", "encoding=NAME"),
        ("``header=False``", "--no-header", "header=False"),
        ("`skip_bad` -- or ``a b``", "`skip_bad` -- or ``a b``", "`skip_bad` -- or ``a b``"),
        ("run: pip install --no-deps x", *["run: pip install --no-deps x"] * 2),
    ],
)
def test_edges_write_options_in_their_own_way(written: str, typed: str, argument: str) -> None:
    error = AttnscanError(f"a {written}", f"pass {written}, too")
    assert error.line == f"a {typed}; pass {typed}, too"
    assert str(error) == f"a {argument}; pass {argument}, too"


def texts_of(path: Path) -> Iterator[str]:
    """The texts in a file's code, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.value


def texts_of_errors(path: Path) -> Iterator[str]:
    """The texts that errors are made of, where they are made."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_options_in_messages_are_options() -> None:
    known = set()
    for name in COMMAND_NAMES:
        params = command_named(name).params
        known.update(param.name.removeprefix("no_") for param in params)
    named = set()
    for path in FILES:
        for text in texts_of(path):
            named.update(re.findall(r"``(\w+)(?:=[^`]+)?``", text))
    assert len(named) > 30 and named <= known


def test_no_error_spells_an_option_as_it_is_typed() -> None:
    outside_cli = [path for path in FILES if "cli" not in path.parts]
    typed = []
    for path in outside_cli:
        typed += [text for text in texts_of_errors(path) if re.search(r"(?<![\w-])--[a-z]", text)]
    assert typed == []
