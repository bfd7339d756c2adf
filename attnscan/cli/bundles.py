"""Bundles of options: frozen classes in a command's signature, which `flattened` spreads out for Typer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from attnscan.cli.destination import check_not_overwritten, option_named, role_of
from attnscan.errors import OptionError
from attnscan.inputs.option import LARGEST, Option, words_of


def completing(*names: str) -> Callable[[str], list[str]]:
    """What a shell offers where Tab is pressed: of these names, those that begin with what is typed."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    """The models that can run now, without asking the hub; directories are the shell's own."""
    from attnscan.model.catalog import ready

    return completing(*ready())(incomplete)


_OFF = "no_"
_SHORT = {"model": ("-m",)}
_COMPLETED = {"model": complete_models}
_OF_TYPER = (OptionInfo, ArgumentInfo)


class Without:
    """Beside a bundle in a command's signature: the fields that the command does not take."""

    def __init__(self, *names: str) -> None:
        self.names = names


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer reads it: where a parameter is a bundle, the bundle's fields stand in its place.

    Their defaults are those of the parameter's default or, without one, of the bundle's class. A field that the
    command is `Without` keeps its default. Before the command begins, the files that it was given are checked.

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
        names = [field.name for field in fields(annotation) if _is_option(types[field.name])]
        for name in (name for mark in marks for name in mark.names):
            names.remove(name)
        options += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(default, name), annotation=types[name])
            for name in names
        ]
        bundles[parameter.name] = default, names
    marked = ((option.name, mark) for option in options if (mark := _declaration(option)) is not None)
    aliases = {mark.alias[0]: (name, mark.alias[1]) for name, mark in marked if mark.alias[0]}
    options = [*map(_typed, options), *map(_hidden, aliases)]

    on = {name for _, names in bundles.values() for name in names}
    roles = {option.name: role for option in options if (role := role_of(option.annotation)) is not None}

    @wraps(command)
    def run(**given: Any) -> None:
        files = {name: given[name] for name in roles}
        check_not_overwritten(roles, files)
        _check_numbers(given)
        for alias, (name, value) in aliases.items():
            if given.pop(alias):
                if given[name] not in (None, value):
                    raise typer.BadParameter(f"{_flag(alias)} is {_flag(name)} {value}: leave one of the two out")
                given[name] = value
        for name in (name for name in on if name not in given):
            given[name] = not given.pop(f"{_OFF}{name}")
        built = {
            parameter: _built(default, {name: given.pop(name) for name in names})
            for parameter, (default, names) in bundles.items()
        }
        with option_named(roles, files):
            command(**given, **built)

    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return run


def _built(default: Any, values: Mapping[str, Any]) -> Any:
    """A bundle of these values. Raises: typer.BadParameter in place of OptionError, since the command line is wrong."""
    try:
        return replace(default, **values)
    except OptionError as error:
        named = next((name for name in values if str(error).startswith(f"{name} ")), None)
        raise typer.BadParameter(str(error) if named is None else _flag(named) + str(error)[len(named) :]) from None


def _hidden(alias: str) -> Parameter:
    annotation = Annotated[bool, typer.Option(_flag(alias), hidden=True)]
    return Parameter(alias, Parameter.KEYWORD_ONLY, default=False, annotation=annotation)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_option(annotation: Any) -> bool:
    """Whether a field of a bundle is an option of every command that takes the bundle."""
    marks = get_args(annotation)[1:]
    return any(mark.general if isinstance(mark, Option) else isinstance(mark, _OF_TYPER) for mark in marks)


def _declaration(parameter: Parameter) -> Option | None:
    marks = get_args(parameter.annotation) if get_origin(parameter.annotation) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Option)), None)


def _typed(parameter: Parameter) -> Parameter:
    """A parameter as Typer reads it, if it is declared by an `Option`; what is on by default has a flag to be off."""
    option = _declaration(parameter)
    if option is None:
        return parameter
    kind, *marks = get_args(parameter.annotation)
    name, is_off = parameter.name, kind is bool and parameter.default is True
    name = f"{_OFF}{name}" if is_off else name
    kinds = {kind, *get_args(kind)}
    more: dict[str, Any] = {} if kind is bool or words_of(kind) else {"metavar": option.metavar}
    if kinds & {int, float} and str not in kinds:
        bounds = {"min": option.least, "max": option.most}
        more |= {name: bound for name, bound in bounds.items() if bound is not None}
    info = typer.Option(
        option.flag or _flag(name),
        *_SHORT.get(name, ()),
        help=option.off if is_off else option.about,
        autocompletion=_COMPLETED.get(name),
        **more,
    )
    kind = str | None if {int, str} <= kinds else kind  # Typer takes one type; the options object tells a number
    return parameter.replace(
        name=name,
        default=False if is_off else parameter.default,
        annotation=Annotated[(kind, info, *(mark for mark in marks if mark is not option))],
    )


def _check_numbers(given: Mapping[str, Any]) -> None:
    """Raises: typer.BadParameter for a number that no machine counts with; an option's own bounds let NaN through."""
    for name, value in given.items():
        if isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
            raise typer.BadParameter(f"{_flag(name)} takes a number below 2**63, and {value} is none")
