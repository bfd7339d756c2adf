"""The command line: commands by their names, each imported when it is asked for. Torch is imported only to compute."""

import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attnscan.__version__ import __version__
from attnscan.errors import AttnscanError, OptionError, out_of_memory

_EITHER = (
    "Give one input or --pairs; without either it reads the 336 pairs that ship with attnscan."
)
LISTED: dict[str, dict[str, str]] = {
    "What heads do": {
        "classify": "What every head does on one sentence or pair.",
        "heads": "What every head does over many pairs. Without --pairs it reads the 336 that ship with attnscan.",
        "profile": f"Where the attention of every head goes, in full. {_EITHER}",
        "predictive": "Which words of one input help to predict which.",
    },
    "One head": {
        "head": f"Everything about one head or several. {_EITHER}",
        "show": "The weights of one head, or of several, on one input.",
        "explain": f"How heads make their patterns. {_EITHER}",
    },
    "Studies": {
        "ablate": "Switch heads off, and measure what the model loses, beside random heads of the same layers.",
        "similar": "Find heads that attend alike: the nearest of each, groups and, with -o FILE.svg, a map of all.",
        "compare": "Compare two models' heads on the same pairs.",
        "syntax": "Compare every head with the trees of a treebank. Gains are over the best fixed rule.",
    },
    "Pictures and pages": {
        "plot": f"Draw what heads do, for a paper or a slide. {_EITHER}",
        "report": f"Write one offline page to look at every head. {_EITHER}",
        "serve": "Serve a page that answers as you type. It runs on this machine alone. Ctrl-C ends it.",
    },
    "About": {
        "patterns": "The patterns, and what each counts. No model is needed.",
        "models": "The models that can run now. Given a checkpoint, it shows what can be scored in it.",
    },
}
"""The first line of each command's help, by groups, which are modules of `commands`; a list shows its first words."""
COMMANDS = {name: about for commands in LISTED.values() for name, about in commands.items()}
COULD_KEEP = "; with --state FILE the next run goes on from what is done"
_UsageError: Any = import_module(
    typer.BadParameter.__module__
).UsageError  # Typer's own, or Click's, by its version


@contextmanager
def report_errors(command: str, params: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors that a user can mend into a line and an exit code: 2 for wrong usage, else 1; Ctrl-C into 130.

    `command` is what was typed, and `params` are its options.
    """
    line, code = "", 1
    try:
        yield
        return
    except _UsageError as error:
        message = " ".join(
            error.format_message().replace("Value error, ", "").split()
        ).removesuffix(".")
        message += _remedy(
            message, [param.name for param in error.ctx.command.params] if error.ctx else []
        )
        line, code = f"{message} ({error.ctx.command_path if error.ctx else command} --help)", 2
    except OptionError as error:
        line, code = f"{error.line} ({command} --help)", 2
    except AttnscanError as error:
        line = error.line
    except (
        BrokenPipeError
    ):  # the reader has what it wanted; standard output must not be flushed once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        advice = (
            "; run the same command to resume"
            if params.get("state")
            else COULD_KEEP
            if "state" in params
            else ""
        )
        line, code = f"interrupted{advice}", 130
    except Exception as error:
        if not out_of_memory(error):
            raise
        line = "memory ran out; free some, use fewer --batch-tokens or shorter inputs"
    from attnscan.cli.output import say

    say(line)
    raise typer.Exit(code)


def _remedy(message: str, names: Sequence[str]) -> str:
    """What to do about words that a command, whose parameters have these names, does not take."""
    if "extra argument" in message and {"a", "pairs"} & {*names}:
        of_text = "; put each sentence in quotes, and name a file of pairs by --pairs of heads"
        return (
            of_text
            if "a" in names
            else "; a sentence is for classify, and a file of pairs for --pairs"
        )
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
        """Write the commands in groups, each in a line."""
        for heading, commands in LISTED.items():
            lines = [
                (name, re.split("[.:,] ", about.rstrip("."))[0] + ".")
                for name, about in commands.items()
            ]
            with formatter.section(heading):
                formatter.write_dl(lines, 12)


class _Command(TyperCommand):
    """A command by its name; all else is imported when it is run, asked for help, or completed."""

    def load(self) -> Any:
        """Read its parameters: its own, and those that it shares with other commands."""
        from attnscan.cli.options import make_command, shared_params

        group = next(heading for heading, commands in LISTED.items() if self.name in commands)
        module = import_module(f"attnscan.cli.commands.{group.lower().replace(' ', '_')}")
        self._run = make_command(getattr(module, str(self.name)))
        self.params = [*self._run.params, *shared_params(str(self.name))]
        return self

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read its parameters, and parse what was typed."""
        with report_errors(f"attnscan {self.load().name}", {}):
            return super().make_context(*args, **kwargs)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options in groups; rare options for --help-all alone."""
        from attnscan.cli.options import RARE, grouped

        rare = () if ctx.meta.get("help_all") else RARE
        params = {param.name: param for param in self.get_params(ctx) if param.name not in rare}
        arguments = [name for name, param in params.items() if param.param_type_name == "argument"]
        required = [name for name, param in params.items() if param.required]
        groups = grouped([name for name in params if name not in arguments], required)
        for heading, names in ({"Arguments": arguments} | groups).items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl(
                        [params[name].get_help_record(ctx) for name in names], col_max=26
                    )

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from attnscan.cli.output import check_overwrites

        with report_errors(f"attnscan {self.name}", ctx.params):
            check_overwrites(ctx.params)
            return self._run.callback(
                **{param.name: ctx.params[param.name] for param in self._run.params}
            )


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
    if sys.stdout is None:  # the shell's `>&-`
        sys.exit("attnscan: standard output is closed; leave it open, or send it to /dev/null")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a terminal without UTF-8 gets all
    logging.getLogger("matplotlib").setLevel(
        logging.ERROR
    )  # it warns of a home where it cannot keep anything
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # what is half written is removed, as after Ctrl-C
    gc.set_threshold(
        100_000
    )  # of the million objects that a model brings, nearly all stay to the end
    try:
        app(sys.argv[1:] or ["--help"], prog_name="attnscan")
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(
                number, signal.SIG_IGN
            )  # all is said; threads that end now must not be disturbed
        gc.freeze()  # nothing is searched through at the end: the system takes back all memory at once


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
