"""Wrong usage in one line: what is wrong, what to do, and where the help is. No word of it is the framework's.

Does not handle: what only the work finds out, such as a head that the model has not got. That is an `AttnscanError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import Parameter
from pathlib import Path
from traceback import walk_tb
from typing import Any, Literal, get_args, get_origin

import typer

from attnscan.cli.messages import say
from attnscan.cli.refused import why_refused
from attnscan.errors import PairsError, nearest

_ERRORS: Any = import_module(typer.BadParameter.__module__)  # the framework's own, or Click's, by its version


@contextmanager
def misuse_told(command: Any, path: str, takes: Mapping[str, Parameter], example: str = "") -> Iterator[None]:
    """Tell a wrong use of a command in one line, and exit with 2.

    `path` is the command as it is typed, `takes` what it can be given, and `example` a right use.
    """
    try:
        yield
    except _ERRORS.UsageError as error:
        say(f"{_said(error, command, takes, example)} ({path} --help)")
        raise typer.Exit(2) from None


def check_no_more(command: Any, extra: Sequence[str]) -> None:
    """Raises: typer.BadParameter for what is left when a command has taken its arguments."""
    if not extra:
        return
    from attnscan.scoring.patterns import PATTERNS

    names = {param.name for param in command.params}
    word = extra[0]
    if "pairs" in names and _is_file_of_pairs(word):
        remedy = f"name files of pairs with --pairs {word}"
    elif "pattern" in names and word in [pattern.id for pattern in PATTERNS]:
        remedy = f"name patterns with --pattern {word}"
    elif "a" in names:
        remedy = "put each sentence in quotes, and give two at most"
    else:
        remedy = "leave it out, or look up which options there are"
    raise typer.BadParameter(f"'{word}' is one argument too many: {remedy}")


def _is_file_of_pairs(word: str) -> bool:
    from attnscan.inputs.places.names import suffix_in

    try:
        return bool(suffix_in(word))
    except PairsError:
        return False


def unknown_command(name: str, known: Sequence[str]) -> typer.BadParameter:
    """What to say of a command that there is not."""
    hint = nearest(name, known, f"there are {', '.join(known)}")
    return typer.BadParameter(f"there is no command '{name}': {hint}")


def _said(error: Any, command: Any, takes: Mapping[str, Parameter], example: str) -> str:
    if isinstance(error, _ERRORS.NoSuchOption):
        if why := why_refused(command.name, error.option_name):
            return f"attnscan {command.name} has no {error.option_name}: {why}"
        known = [name for param in command.params for name in param.opts if param.param_type_name == "option"]
        return f"there is no option {error.option_name}: {nearest(error.option_name, known, 'look up which there are')}"
    if isinstance(error, _ERRORS.BadOptionUsage):
        param = next(param for param in command.params if error.option_name in param.opts)
        if param.is_flag:
            return f"{error.option_name} takes no value: leave it out"
        return f"{error.option_name} lacks its value: it takes {_taken(takes[param.name])}"
    if isinstance(error, _ERRORS.MissingParameter):
        return f"{_name(error.param)} is missing: as in {example}"
    if getattr(error, "param", None) is not None and not _is_ours(error):
        return f"{_name(error.param)} takes {_taken(takes[error.param.name])}"
    return str(error.message)


def _is_ours(error: BaseException) -> bool:
    """Whether attnscan found it wrong itself, and so has said why in its own words."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).startswith("attnscan.")


def _name(param: Any) -> str:
    """As it is typed, or as the command's help calls an argument."""
    return str(max(param.opts, key=len) if param.param_type_name == "option" else param.metavar or param.name)


def _taken(parameter: Parameter) -> str:
    """Which values an option takes, in words."""
    kind, info, *_ = get_args(parameter.annotation)
    kinds = {each for each in (kind, *get_args(kind)) if each is not type(None)}
    choices = [each for each in kinds if get_origin(each) is Literal]
    values = get_args(choices[0]) if choices else ()
    if values:
        *first, last = map(str, values)
        return f"{', '.join(first)} or {last}"
    if kinds & {int, float}:
        what = "a whole number" if int in kinds else "a number"
        if info.max is not None:
            return f"{what} from {info.min:g} to {info.max:g}"
        return what if info.min is None else f"{what}, {info.min:g} or more"
    return "a file's name" if Path in kinds else "a text"
