"""Wrong usage in one line: what is wrong, a command that would answer, and where the help is.

Does not handle: what only the work finds out, such as a head that the model has not got. That is an `AttnscanError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from typing import Any

import typer

from attnscan.cli.messages import say
from attnscan.errors import nearest

_ERRORS: Any = import_module(typer.BadParameter.__module__)  # the framework's own, or Click's, by its version


@contextmanager
def misuse_told(command: Any, path: str, commands: Sequence[str], example: str = "") -> Iterator[None]:
    """Tell a wrong use of a command in one line, and exit with 2.

    `path` is the command as it is typed, `commands` are all that there are, and `example` is a right use.
    """
    try:
        yield
    except _ERRORS.NoSuchOption as error:
        others = [name for name in commands if name != command.name and error.option_name in _options(name)]
        said = f"{path} has no {error.option_name}; {', '.join(others)} {'has' if len(others) == 1 else 'have'} it"
        _end(said if others else error.format_message(), path)
    except _ERRORS.MissingParameter as error:
        _end(f"{error.format_message()} As in: {example}", path)
    except _ERRORS.UsageError as error:
        is_ours = getattr(error, "param", None) is None
        _end(error.message if is_ours else error.format_message(), path)


def check_words(command: Any, context: Any) -> None:
    """Raises: typer.BadParameter for a word that the command does not take where it stands."""
    from attnscan.cli.suggestion import ARGUMENTS, KINDS, kind_of, suggestion

    params = {param.name: param for param in command.params if param.param_type_name == "argument"}
    arguments = {name: str(word) for name in params if (word := context.params[name]) is not None}

    def wrong(said: str, otherwise: str) -> typer.BadParameter:
        line = suggestion(command.name, [*arguments.values(), *context.args])
        return typer.BadParameter(f"{said}: {f'try {line}' if line else otherwise}")

    for name, word in arguments.items():
        expected, kind = ARGUMENTS[name], kind_of(word)
        is_there = os.path.exists(word)  # noqa: PTH110 (what is too long for a path is not there)
        if expected == "sentence" and (kind == "heads" or (is_there and kind in ("pairs", "weights"))):
            raise wrong(
                f"{params[name].metavar} is a sentence, and '{word}' {KINDS[kind]}", "give a sentence in quotes"
            )
        if expected == "model" and kind in ("heads", "pattern", "sentence") and not is_there:
            raise wrong(f"{params[name].metavar} is a model, and '{word}' {KINDS[kind]}", "name a model")
    if context.args:
        quotes = "put each sentence in quotes, and give two at most" if "a" in params else "leave it out"
        raise wrong(f"'{context.args[0]}' is one argument too many", quotes)


def unknown_command(words: Sequence[str], known: Sequence[str]) -> typer.BadParameter:
    """What to say of a command that there is not; `words` begin with it."""
    from attnscan.cli.suggestion import suggestion

    line = suggestion(None, list(takewhile(lambda word: not word.startswith("-"), words)))
    hint = nearest(words[0], known, f"try {line}" if line else f"there are {', '.join(known)}")
    return typer.BadParameter(f"there is no command '{words[0]}': {hint}")


def _options(command: str) -> set[str]:
    """The options of a command."""
    module = import_module(f"attnscan.cli.commands.{command}")
    alone = typer.Typer(add_completion=False)
    alone.command()(getattr(module, command))
    return {name for param in typer.main.get_command(alone).params for name in param.opts}


def _end(said: str, path: str) -> None:
    """Say it in one line; where pydantic says it, without what it begins with."""
    say(f"{' '.join(said.replace('Value error, ', '').split()).removesuffix('.')} ({path} --help)")
    raise typer.Exit(2) from None
