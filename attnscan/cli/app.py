"""The command line: commands by their names, each imported when it is asked for.

Torch is imported only to compute.
"""

import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attnscan.__version__ import __version__
from attnscan.cli.commands_table import COMMANDS, SUBJECTS, Command, command_named
from attnscan.errors import AttnscanError, OptionError, out_of_memory

COULD_KEEP = "; with --state FILE the next run goes on from what is done"
# Typer's own, or Click's, by its version
_UsageError: Any = import_module(typer.BadParameter.__module__).UsageError


@contextmanager
def report_errors(command: str, params: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors that a user can mend into a line and an exit code.

    The code is 2 for wrong usage, 130 for Ctrl-C, else 1. `command` is what was typed, and `params`
    are its options.
    """
    try:
        yield
        return
    except _UsageError as error:
        line = _usage_line(error, command)
        code = 2
    except OptionError as error:
        line = f"{error.line} ({command} --help)"
        code = 2
    except AttnscanError as error:
        line = error.line
        code = 1
    except BrokenPipeError:
        # the reader has what it wanted; standard output must not be flushed once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        line = ""
        code = 0
    except KeyboardInterrupt:
        line = f"interrupted{_how_to_resume(params)}"
        code = 130
    except Exception as error:
        if not out_of_memory(error):
            raise
        line = "memory ran out; free some, use fewer --batch-tokens or shorter inputs"
        code = 1
    from attnscan.cli.output import say

    say(line)
    raise typer.Exit(code)


def _usage_line(error: Any, command: str) -> str:
    """What is wrong with what was typed, what to do about it, and which help to read."""
    words = error.format_message().replace("Value error, ", "").split()
    message = " ".join(words).removesuffix(".")
    if error.ctx is None:
        return f"{message}{_remedy(message, [])} ({command} --help)"
    names = [param.name for param in error.ctx.command.params]
    remedy = _remedy(message, names)
    if message.startswith("Missing") and isinstance(error.ctx.command, _Command):
        remedy = f"; for example: {error.ctx.command.row.examples[0]}"
    return f"{message}{remedy} ({error.ctx.command_path} --help)"


def _how_to_resume(params: Mapping[str, Any]) -> str:
    if params.get("state"):
        return "; run the same command to resume"
    return COULD_KEEP if "state" in params else ""


def _remedy(message: str, names: Sequence[str]) -> str:
    """What to do about words that a command, whose parameters have these names, does not take."""
    if "extra argument" in message and "a" in names:
        return "; put each sentence in quotes, and name a file of pairs by --pairs of heads"
    if "extra argument" in message and "pairs" in names:
        return "; a sentence is for classify, and a file of pairs for --pairs"
    if "'pharaoh' is not one of" in message:
        return "; links of words are written by: attnscan show c1-0 A B --format pharaoh"
    if "a" in names and re.search("option: -([^-]|- )", message):
        return "; put -- before a sentence that begins with a dash"
    return ""


class _Commands(TyperGroup):
    """All commands; an error that a user can mend is one line."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read what stands before the command."""
        with report_errors("attnscan", {}):
            return super().make_context(*args, **kwargs)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by its name."""
        with report_errors("attnscan", {}):
            return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the commands by their subjects, each in a line."""
        for subject in SUBJECTS:
            lines = []
            for command in COMMANDS:
                if command.subject == subject:
                    first_words = re.split("[.:,] ", command.summary.rstrip("."))[0]
                    lines.append((command.name, f"{first_words}."))
            with formatter.section(subject):
                formatter.write_dl(lines, 12)


class _Command(TyperCommand):
    """A command by its name; all else is imported when it is run, asked for help, or completed."""

    def load(self) -> Any:
        """Read its parameters."""
        from attnscan.cli.options import command_params

        self.row = command_named(str(self.name))
        self.own = _own_function(self.row)
        self.params = command_params(self.row, self.own)
        return self

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read its parameters, and parse what was typed."""
        with report_errors(f"attnscan {self.load().name}", {}):
            return super().make_context(*args, **kwargs)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options in groups; rare options for --help-all alone."""
        from attnscan.cli.options import RARE, grouped

        rare = frozenset() if ctx.meta.get("help_all") else RARE
        params = {param.name: param for param in self.get_params(ctx) if param.name not in rare}
        arguments = [name for name, param in params.items() if param.param_type_name == "argument"]
        required = [name for name, param in params.items() if param.required]
        groups = grouped([name for name in params if name not in arguments], required)
        for heading, names in ({"Arguments": arguments} | groups).items():
            records = [params[name].get_help_record(ctx) for name in names]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records, col_max=26)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write commands that can be tried."""
        with formatter.section("Examples"):
            for example in self.row.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from attnscan.cli.calls import write_view
        from attnscan.cli.options import own_names
        from attnscan.cli.output import check_overwrites

        with report_errors(f"attnscan {self.name}", ctx.params):
            check_overwrites(ctx.params)
            if self.own is None:
                return write_view(self.row, ctx)
            return self.own(ctx, **{name: ctx.params[name] for name in own_names(self.own)})


def _own_function(command: Command) -> Callable[..., None] | None:
    """The function that reads a command's own options, and writes its result."""
    if command.module is None:
        return None
    module = import_module(f"attnscan.cli.commands.{command.module}")
    function: Callable[..., None] = getattr(module, command.name)
    return function


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
for command in COMMANDS:
    app.command(command.name, cls=_Command, help=command.summary)(lambda: None)


def main() -> None:
    """Run the command line."""
    if sys.stdout is None:  # the shell's `>&-`
        sys.exit("attnscan: standard output is closed; leave it open, or send it to /dev/null")
    # a terminal without UTF-8 gets all
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # it warns of a home where it cannot keep anything
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # what is half written is removed, as after Ctrl-C
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # of the million objects that a model brings, nearly all stay to the end
    gc.set_threshold(100_000)
    try:
        app(sys.argv[1:] or ["--help"], prog_name="attnscan")
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
    finally:
        # all is said; threads that end now must not be disturbed
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        # nothing is searched through at the end: the system takes back all memory at once
        gc.freeze()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnscan {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass
