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

_WIDE = 100  # characters of a call on one line
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


def documented(name: str) -> str:
    """A function with its call and what it gives; a class with its attributes and methods, too."""
    thing = getattr(attnscan, name)
    if inspect.isclass(thing):
        return f"### class {name}\n\n{_first_paragraph(thing)}\n\n{''.join(_members(thing))}\n"
    if callable(thing):
        call = _call(getattr(thing, "__wrapped__", thing), f"attnscan.{name}")
        return f"### {name}\n\n```python\n{call}\n```\n\n{_first_paragraph(thing)}\n\n"
    return f"### {name}\n\nThe names, in the order of every table: {', '.join(f'`{item.id}`' for item in thing)}.\n\n"


def named(names: str) -> str:
    """The names of classes, as one paragraph; an error for a name that attnscan does not offer."""
    assert all(inspect.isclass(getattr(attnscan, name)) for name in names.split())
    return textwrap.fill(", ".join(f"`{name}`" for name in names.split()) + ".", 140) + "\n"


def _first_paragraph(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0]


def _call(function: Callable[..., Any], name: str, wide: int = _WIDE) -> str:
    """With each argument's default: on one line if that is short enough, else on several."""
    signature = inspect.signature(function)
    returned = f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(_arguments(signature))}){returned}"
    if len(line) <= wide:
        return line
    arguments = textwrap.wrap(", ".join(_arguments(signature)), wide - 4, break_on_hyphens=False)
    return "\n".join([f"{name}(", *(f"    {part}" for part in arguments), f"){returned}"])


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
        default = parameter.default
        known = default is not inspect.Parameter.empty and len(repr(default)) <= _WIDE
        yield f"{parameter.name}={default!r}" if known else parameter.name


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
            annotation = node.annotation
            if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
                assert isinstance(annotation.slice, ast.Tuple)
                option = declared(cls)[node.target.id].option
                annotation, about = annotation.slice.elts[0], option.about
            yield _item(f"{node.target.id}: {ast.unparse(annotation)}", about)


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
    about = _sentence(about)
    return f"- `{code}`" + (f": {about}" if about else "") + "\n"


def _sentence(about: str | None) -> str:
    """The first sentence of a docstring, and its shape."""
    sentences = _SENTENCE.split(" ".join((about or "").partition("\n\n")[0].split()))
    return " ".join(sentences[:1] + [part for part in sentences[1:] if part.startswith("Shape: ")])
