"""What was typed -> a call of the library, and its result -> where it goes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import typer

import attnscan
from attnscan.api.pairs_input import Files
from attnscan.api.signatures import options_of
from attnscan.cli.commands_table import Command, command_named
from attnscan.cli.output import Output, input_lines, links_lines, output_of, running
from attnscan.inputs.files import shown

_FILES = ("pairs", "treebank", "links", "held")
"""Options that name files to read, whatever they look like."""


def library_arguments(command: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a command's function of the library; what was not typed is left out.

    Raises: typer.BadParameter for flags that contradict each other.
    """
    if params.get("header") and params.get("no_header"):
        raise typer.BadParameter("--header and --no-header contradict each other")
    arguments: dict[str, Any] = {}
    for name in options_of(command).names:
        value = params.get(name)
        if params.get(f"no_{name}"):
            arguments[name] = False
        elif value not in (None, (), []) and value is not False:
            arguments[name] = Files(value) if name in _FILES else value
    if "columns" in arguments:
        arguments["columns"] = arguments["columns"].split(",")
    return arguments


def call(command: str, params: Mapping[str, Any], **extra: Any) -> Any:
    """Call a command's function with what was typed and `extra` arguments, under a bar."""
    function = getattr(attnscan, command)
    arguments = library_arguments(command, params) | extra
    with running() as progress:
        return function(**arguments, progress=progress)


def answer(context: typer.Context) -> tuple[Output, Any]:
    """Call a command's function; return where its result is to be written, and the result."""
    command = command_named(str(context.info_name))
    output = output_of(context.params, draws=command.is_drawn)
    return output, call(command.name, context.params)


def write_view(command: Command, context: typer.Context) -> None:
    """Call a command's function, and write its result as a table, a screen or a picture."""
    output, result = answer(context)
    assert command.view is not None
    module, function = command.view.split(":")
    view = getattr(import_module(f"attnscan.views.terminal.{module}"), function)
    above = input_lines(context.params, result.signature.pairs_read)
    for name in ("treebank", "held"):
        above += [f"{name}  {shown(path)}" for path in context.params.get(name) or ()]
    above += links_lines("links", context.params.get("links") or ())
    output.write(
        result.to_frame,
        partial(view, result),
        above=above,
        draw=drawing(result) if command.is_drawn else None,
        document=getattr(result, "document", None),
    )


def drawing(result: Any, patterns: Sequence[str] | None = None) -> Callable[[Any], bytes]:
    """A function that draws a result as a picture in a format."""
    return lambda kind: call("plot", {}, a=result, pattern=patterns, format=kind)
