"""Bundles of options: frozen classes in a command's signature, which `flattened` spreads out for Typer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from attnscan.cli.overwrite import check_options, option_named, role_of
from attnscan.scan.options import LARGEST


class Without:
    """Beside a bundle in a command's signature: the fields that the command does not take."""

    def __init__(self, *names: str) -> None:
        self.names = names


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer reads it: where a parameter is a bundle, the bundle's fields stand in its place.

    Their defaults are those of the parameter's default or, without one, of the bundle's class. A field that the
    command is `Without` keeps its default. Before the command begins, `overwrite` checks the files that it was given.

    Raises: ValueError if two options have one name, or the command is without a field that the bundle has not.
    """
    options: list[Parameter] = []
    bundles: dict[str, tuple[Any, list[str]]] = {}
    for parameter in signature(command, eval_str=True).parameters.values():
        annotation, *marks = (
            get_args(parameter.annotation) if get_origin(parameter.annotation) is Annotated else [parameter.annotation]
        )
        if not is_dataclass(annotation):
            options.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        default = annotation() if parameter.default is Parameter.empty else parameter.default  # type: ignore[operator]
        types = get_type_hints(annotation, include_extras=True)
        names = [field.name for field in fields(annotation)]
        for name in (name for mark in marks for name in mark.names):
            names.remove(name)
        options += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(default, name), annotation=types[name])
            for name in names
        ]
        bundles[parameter.name] = default, names

    roles = {option.name: role for option in options if (role := role_of(option.annotation)) is not None}

    @wraps(command)
    def run(**given: Any) -> None:
        files = {name: given[name] for name in roles}
        check_options(roles, files)
        _check_numbers(given)
        built = {
            parameter: replace(default, **{name: given.pop(name) for name in names})
            for parameter, (default, names) in bundles.items()
        }
        with option_named(roles, files):
            command(**given, **built)

    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return run


def _check_numbers(given: Mapping[str, Any]) -> None:
    """Raises: typer.BadParameter for a number that no machine counts with; an option's own bounds let NaN through."""
    for name, value in given.items():
        if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
            raise typer.BadParameter(f"--{name.replace('_', '-')} takes a number below 2**63, and {value} is none")
