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
from attnscan.inputs.option import declared

_WIDE = 100  # characters of a signature on one line, and of a default that is shown
_PARAGRAPH = re.compile(r"\n+(?=(?:Shape|Raises|Source): )")
"""Where Markdown would run one line of a docstring on into the next."""


def documented(name: str) -> str:
    """A function with its signature and docstring; a class with its attributes and methods, too; a constant's names."""
    thing = getattr(attnscan, name)
    if inspect.isclass(thing):
        return f"### class {name}\n\n{_about(thing)}\n\n{''.join(_members(thing))}\n"
    if callable(thing):
        call = _call(getattr(thing, "__wrapped__", thing), f"attnscan.{name}")
        return f"### {name}\n\n```python\n{call}\n```\n\n{_about(thing)}\n\n{_general(thing)}"
    return f"### {name}\n\nThe names, in the order of every table: {', '.join(f'`{item.id}`' for item in thing)}.\n\n"


def _general(function: Any) -> str:
    """The options that a function takes beside its own, by their names."""
    own = inspect.signature(getattr(function, "__wrapped__", function)).parameters
    names = [f"`{name}`" for name in inspect.signature(function).parameters if name not in own]
    return f"Options: {', '.join(names)}.\n\n" if names else ""


def _about(thing: Any) -> str:
    return _PARAGRAPH.sub("\n\n", inspect.getdoc(thing) or "")


def _call(function: Callable[..., Any], name: str, wide: int = _WIDE) -> str:
    """With each argument's type and default: on one line if that is short enough, else on a line each."""
    signature = inspect.signature(function)
    arguments = [*_arguments(signature)]
    gives = f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(arguments)}){gives}"
    return line if len(line) <= wide else "\n".join([f"{name}(", *(f"    {each}," for each in arguments), f"){gives}"])


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    by_name_alone = False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            yield f"**{parameter.name}"  # those of ScanOptions, as the page says
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not by_name_alone:
            by_name_alone = True
            yield "*"
        yield f"{parameter.name}: {parameter.annotation}{_default(parameter.default)}"


def _default(value: Any) -> str:
    known = value is not inspect.Parameter.empty and len(repr(value)) <= _WIDE
    return f" = {value!r}" if known else ""


def _members(cls: type) -> Iterator[str]:
    """An item for each public attribute and method that a room of attnscan gives the class, base classes first."""
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("attnscan"):
            yield from _fields(base)
            yield from _methods(base)


def _fields(cls: type) -> Iterator[str]:
    """Attributes with a type, and the string that stands below each."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(definition, ast.ClassDef)
    for node, below in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            text = below.value if isinstance(below, ast.Expr) else None
            about = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
            default, annotation = getattr(cls, node.target.id, inspect.Parameter.empty), node.annotation
            if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
                assert isinstance(annotation.slice, ast.Tuple)
                option = declared(cls)[node.target.id].option
                annotation, about = annotation.slice.elts[0], f"{option.about} {option.more}"
            yield _item(f"{node.target.id}: {ast.unparse(annotation)}{_default(default)}", inspect.cleandoc(about))


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
            yield _item(_call(function, name, wide=10_000), inspect.getdoc(function))


def _item(code: str, about: str | None) -> str:
    paragraph = " ".join((about or "").partition("\n\n")[0].split())
    return f"- `{code}`" + (f": {paragraph}" if paragraph else "") + "\n"
