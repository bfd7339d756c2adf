"""The command line: commands by their names, each imported when it is asked for. Torch is imported only to compute.

Wrong usage is one line: what is wrong, and where the help is.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attnscan.__version__ import __version__
from attnscan.cli.messages import reported, say, write_apart_from_libraries
from attnscan.inputs.library_calls import leave

COMMANDS = {
    "classify": "Say what every head does on one sentence or pair. --pairs takes several inputs.",
    "heads": "Say what every head does over many pairs. --pattern ranks heads for one pattern. Without --pairs it"
    " reads the 102 pairs that ship with attnscan.",
    "head": "Show everything about one head or several. Give one input or --pairs; without either it reads the 102"
    " pairs that ship with attnscan.",
    "profile": "Say where every head's attention goes, class by class. Give one input or --pairs; without"
    " either it reads the 102 pairs that ship with attnscan.",
    "show": "Show the weights of one head, or of several, on one input.",
    "explain": "Explain how heads make their patterns. Give one input or --pairs; without either it reads the 102"
    " pairs that ship with attnscan.",
    "predictive": "Say which words of one input help the model to predict which.",
    "report": "Write one offline page to look at every head. Of one input, the page has thumbnails, lines, neurons and"
    " scores; of --pairs, labels, how sure they are, and scores with errors. Without either it reads the 102"
    " pairs that ship with attnscan.",
    "serve": "Serve a page that answers as you type, on this machine alone. Ctrl-C ends it.",
    "plot": "Draw what heads do, for a paper or a slide. Give one input or --pairs; without either it reads the 102"
    " pairs that ship with attnscan.",
    "ablate": "Switch heads off, and measure what the model loses, beside as many random heads of the same layers.",
    "similar": "Find heads that attend alike. It shows the nearest of each, groups, and with -o FILE.svg a map of all.",
    "syntax": "Compare every head with the dependency trees of a treebank. It shows which relations heads follow, and"
    " how much better than a fixed distance.",
    "compare": "Compare two models' heads on the same pairs.",
    "patterns": "Show the seven patterns, or one in full, and what each counts. No model is needed.",
    "models": "Show which models can run now. Given a checkpoint, it shows what can be scored in it.",
}
"""What each command does, for its own help and for the list of commands, which imports none of them."""
_PYDANTIC = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "give a whole number",
    "Input should be a valid number, unable to parse string as a number": "give a number",
}
_OPTION = 26  # columns of an option in help, unless it is longer
_ERRORS: Any = import_module(typer.BadParameter.__module__)  # the framework's own, or Click's, by its version


class _QuickFlags:
    """A command or group whose flags are False if not given: to check a None, Typer imports pydantic."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Every parameter, `--help` included."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.default is None:
                param.default = False
        return params


class _Commands(_QuickFlags, TyperGroup):
    """The commands together; each tells of a wrong use itself."""

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Read what stands before the command."""
        with misuse_told("attnscan"):
            return super().make_context(*args, **named)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Nothing at all asks for help; that it is no run of a command, the exit code says."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with misuse_told("attnscan"):
            return super().invoke(ctx)


class _Command(_QuickFlags, TyperCommand):
    """A command by its name; all else is imported when it is run, asked for help, or completed."""

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Begin to run it: first of all, find out what it takes."""
        module, whole = _module_and_command(str(self.name))
        self.params, self.callback = whole.params, whole.callback
        self.epilog = "\n".join(["\b", "Examples:", *(f"  {example}" for example in module.EXAMPLES)])
        self._misuse_told = partial(misuse_told, f"attnscan {self.name}", module.EXAMPLES[0])
        with self._misuse_told():
            return super().make_context(*args, **named)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options in groups."""
        from attnscan.cli.options import grouped

        params = {param.name: param for param in self.get_params(ctx) if not getattr(param, "hidden", False)}
        arguments = [name for name, param in params.items() if param.param_type_name == "argument"]
        required = [name for name, param in params.items() if param.required]
        groups = grouped([name for name in params if name not in arguments], required)
        for heading, names in ({"Arguments": arguments} | groups).items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([params[name].get_help_record(ctx) for name in names], _OPTION)

    def invoke(self, ctx: Any) -> Any:
        """Run it; what a user can mend is one line."""
        with reported(), self._misuse_told():
            return super().invoke(ctx)


app = typer.Typer(
    name="attnscan",
    cls=_Commands,
    help="Find out which attention head of a BERT-family model does what.",
    epilog="\b\nExamples:\n"
    '  attnscan classify "I went to the store." "At the store, I bought berries."\n'
    "  attnscan heads --pattern delimiter",
    rich_markup_mode=None,  # its import takes longer than everything else that --help does
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


for name, what in COMMANDS.items():
    app.command(name, cls=_Command, help=what)(lambda: None)


def main() -> None:
    """Run the command line."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets every line
    write_apart_from_libraries()
    try:
        app(prog_name="attnscan")
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
    except SystemExit as ended:
        leave(ended.code)
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said; threads that end now must not be disturbed
        gc.freeze()  # nothing is searched through at the end: the system takes back all memory at once


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnscan {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@contextmanager
def misuse_told(path: str, example: str = "") -> Iterator[None]:
    """Tell a wrong use of a command in one line, and exit with 2.

    `path` is the command as it is typed, and `example` is a right use.
    """
    try:
        yield
    except _ERRORS.MissingParameter as error:
        _end(f"{error.format_message()} Example: {example}", path)
    except _ERRORS.UsageError as error:
        is_ours = isinstance(error, _ERRORS.BadParameter) and error.param is None
        _end(error.message if is_ours else error.format_message(), path)


def _module_and_command(name: str) -> tuple[Any, Any]:
    """The module of a command, and the command as Typer reads it there."""
    module, alone = import_module(f"attnscan.cli.commands.{name}"), typer.Typer(add_completion=False)
    alone.command()(getattr(module, name))
    return module, typer.main.get_command(alone)


def _end(said: str, path: str) -> None:
    """Say it in one line; where pydantic says it, in plain words."""
    for theirs, ours in _PYDANTIC.items():
        said = said.replace(theirs, ours)
    say(f"{' '.join(said.split()).removesuffix('.')} ({path} --help)")
    raise typer.Exit(2) from None
