"""The public functions and classes as plain Markdown, read from the code: `readme.py` pastes them into docs/api.md."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import attnscan
from attnscan.cli.app import COMMANDS

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


def functions(names: str) -> str:
    """A table of functions: what each returns."""
    table = "| function | returns |\n| --- | --- |\n"
    for name in names.split():
        function = getattr(attnscan, name)
        signature = inspect.signature(getattr(function, "__wrapped__", function))
        returned = str(signature.return_annotation).replace("|", r"\|")
        table += f"| {f'[`{name}`](commands/{name}.md)' if name in COMMANDS else f'`{name}`'} | `{returned}` |\n"
    return table


def members(name: str, chosen: str) -> str:
    """What a class is, with some of its attributes and methods; an error for one that it does not have."""
    cls = getattr(attnscan, name)
    items = {re.findall(r"\w+", item)[0]: item for item in (*_fields(cls), *_methods(cls))}
    return f"### class {name}\n\n{_first_paragraph(cls)}\n\n{''.join(items[member] for member in chosen.split())}"


def named(names: str) -> str:
    """The names of classes, as one paragraph; an error for a name that attnscan does not offer."""
    assert all(inspect.isclass(getattr(attnscan, name)) for name in names.split())
    return textwrap.fill(", ".join(f"`{name}`" for name in names.split()) + ".", 140) + "\n"


def _first_paragraph(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0]


def _call(function: Callable[..., Any], name: str) -> str:
    """With each argument's default, and what it returns."""
    signature = inspect.signature(function)
    arguments = [
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return f"{name}({', '.join(arguments)}) -> {signature.return_annotation}"


def _fields(cls: type) -> Iterator[str]:
    """Attributes with a type, and the string that stands below each."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(definition, ast.ClassDef)
    for node, below in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            text = below.value if isinstance(below, ast.Expr) else None
            about = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
            yield _item(f"{node.target.id}: {ast.unparse(node.annotation)}", about)


def _methods(cls: type) -> Iterator[str]:
    for name, member in vars(cls).items():
        if name[0] == "_":
            continue
        if isinstance(member, property | cached_property):
            function = member.fget if isinstance(member, property) else member.func
            assert function is not None
            yield _item(f"{name}: {inspect.signature(function).return_annotation}", inspect.getdoc(member))
        elif inspect.isfunction(member) or isinstance(member, classmethod):
            function = getattr(cls, name)
            yield _item(_call(function, name), inspect.getdoc(function))


def _item(code: str, about: str | None) -> str:
    about = _sentence(about)
    return f"- `{code}`" + (f": {about}" if about else "") + "\n"


def _sentence(about: str | None) -> str:
    """The first sentence of a docstring, and its shape."""
    sentences = _SENTENCE.split(" ".join((about or "").partition("\n\n")[0].split()))
    return " ".join(sentences[:1] + [part for part in sentences[1:] if part.startswith("Shape: ")])
