"""The command line: commands by their names, each imported when it is asked for. Torch is imported only to compute.

Wrong usage is one line: what is wrong, and where the help is.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attnscan.__version__ import __version__
from attnscan.cli.messages import keep_standard_error, reported, say
from attnscan.inputs.library_calls import leave

LISTED: dict[str, dict[str, tuple[str, str]]] = {
    "What heads do": {
        "classify": ("What every head does on one sentence or pair.", "--pairs takes several inputs."),
        "heads": (
            "What every head does over many pairs.",
            "--pattern ranks heads for one pattern. Without --pairs it reads the 102 pairs that ship with attnscan.",
        ),
        "profile": ("Where the attention of every head goes, in full.", "Give one input or --pairs."),
        "predictive": ("Which words of one input help to predict which.", ""),
    },
    "One head": {
        "head": ("Everything about one head or several.", "Give one input or --pairs."),
        "show": ("The weights of one head, or of several, on one input.", ""),
        "explain": ("How heads make their patterns.", "Give one input or --pairs."),
    },
    "Studies": {
        "ablate": (
            "Switch heads off, and measure what the model loses.",
            "Beside them it switches off random heads of the same layers.",
        ),
        "similar": (
            "Find heads that attend alike.",
            "It shows the nearest of each, groups, and with -o FILE.svg a map of all.",
        ),
        "compare": ("Compare two models' heads on the same pairs.", ""),
        "syntax": (
            "Compare every head with the trees of a treebank.",
            "It shows which relations heads follow, and how much better than fixed rules.",
        ),
    },
    "Pictures and pages": {
        "plot": ("Draw what heads do, for a paper or a slide.", "Give one input or --pairs."),
        "report": (
            "Write one offline page to look at every head.",
            "Of one input, it has all weights; of --pairs, labels and scores with errors.",
        ),
        "serve": ("Serve a page that answers as you type.", "It runs on this machine alone. Ctrl-C ends it."),
    },
    "About": {
        "patterns": ("The patterns, and what each counts.", "No model is needed."),
        "models": ("The models that can run now.", "Given a checkpoint, it shows what can be scored in it."),
    },
}
"""What each command does, by their groups: a line for the list, which imports none of them, and more for its help."""
_SHIPPED = "Without either it reads the 102 pairs that ship with attnscan."
_OF_PAIRS = ("profile", "head", "explain", "plot", "report")
COMMANDS = {
    name: " ".join(filter(None, (*parts, _SHIPPED if name in _OF_PAIRS else "")))
    for commands in LISTED.values()
    for name, parts in commands.items()
}
"""What each command's help begins with."""
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
    """The commands together; each reports a wrong use itself."""

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Read what stands before the command."""
        with misuse_reported("attnscan"):
            return super().make_context(*args, **named)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Nothing at all asks for help; that it is no run of a command, the exit code says."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the commands in groups, each in a line."""
        for heading, commands in LISTED.items():
            with formatter.section(heading):
                formatter.write_dl([(name, line) for name, (line, _) in commands.items()], 12)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by its name."""
        with misuse_reported("attnscan"):
            return super().resolve_command(ctx, args)


class _Command(_QuickFlags, TyperCommand):
    """A command by its name; all else is imported when it is run, asked for help, or completed."""

    def load(self) -> Any:
        """Find out what it takes: its own options, those that it shares with others, and `--help-all`."""
        from attnscan.cli.options import read, shared_params

        module = import_module(f"attnscan.cli.commands.{self.name}")
        self._run = read(getattr(module, str(self.name)))
        self.params = [*self._run.params, *shared_params(str(self.name)), *read(_with_help_all).params]
        return module

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Begin to run it: first of all, find out what it takes."""
        module = self.load()
        self.epilog = "\n".join(["\b", "Examples:", *(f"  {example}" for example in module.EXAMPLES)])
        self._example = module.EXAMPLES[0]
        with misuse_reported(f"attnscan {self.name}", self._example):
            return super().make_context(*args, **named)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options in groups; those that few need, where all are asked for."""
        from attnscan.cli.options import RARE, grouped

        rare = () if ctx.meta.get("help_all") else RARE
        params = {param.name: param for param in self.get_params(ctx) if param.name not in rare}
        params = {name: param for name, param in params.items() if not getattr(param, "hidden", False)}
        arguments = [name for name, param in params.items() if param.param_type_name == "argument"]
        required = [name for name, param in params.items() if param.required]
        groups = grouped([name for name in params if name not in arguments], required)
        for heading, names in ({"Arguments": arguments} | groups).items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([params[name].get_help_record(ctx) for name in names], _OPTION)

    def invoke(self, ctx: Any) -> Any:
        """Run it; what a user can mend is one line."""
        from attnscan.cli.output import check_given

        given = ctx.params
        del given["help_all"]
        with misuse_reported(f"attnscan {self.name}", self._example), reported(str(self.name), given):
            check_given(given)
            return self._run.callback(**{param.name: given[param.name] for param in self._run.params})


def _show_all(ctx: Any, wanted: bool) -> None:
    """Show help with every option."""
    if wanted and not ctx.resilient_parsing:
        ctx.meta["help_all"] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        raise typer.Exit


def _with_help_all(
    help_all: Annotated[
        bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show all options and exit.")
    ] = False,
) -> None:
    """Takes the option that every command has."""


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
for command_name, about in COMMANDS.items():
    app.command(command_name, cls=_Command, help=about)(lambda: None)


def main() -> None:
    """Run the command line."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets every line
    keep_standard_error()
    gc.set_threshold(100_000)  # of the million objects that a model brings, nearly all stay to the end
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
def misuse_reported(path: str, example: str = "") -> Iterator[None]:
    """Report a wrong use of a command in one line, and exit with 2.

    `path` is the command as it is typed, and `example` is a right use.
    """
    try:
        yield
    except _ERRORS.UsageError as error:
        is_ours = isinstance(error, _ERRORS.BadParameter) and error.param is None
        line = error.message if is_ours else error.format_message()
        if isinstance(error, _ERRORS.MissingParameter):
            line += f" Example: {example}"
        for theirs, ours in _PYDANTIC.items():
            line = line.replace(theirs, ours)
        say(f"{' '.join(line.split()).removesuffix('.')} ({path} --help)")
        raise typer.Exit(2) from None


def command_named(name: str) -> Any:
    """A command of the line, with all that it takes."""
    command: Any = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    command.load()
    return command
