"""The command line: the commands put together. Torch is imported only to compute."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import attnscan
from attnscan.commands import classify, explain, heads, models, patterns, plot, predictive, report, show
from attnscan.plain import plain


class _Commands(TyperGroup):
    """The commands, with a user's own words in their complaints made safe to show."""

    def make_context(self, *rest: Any, **more: Any) -> Any:
        with _shown():
            return super().make_context(*rest, **more)

    def invoke(self, ctx: Any) -> Any:
        with _shown():
            return super().invoke(ctx)


@contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):  # of all usage errors, and those alone
            error.message = plain(message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    cls=_Commands,
    name="attnscan",
    help="Find out which attention head of a BERT-family model does what.",
    epilog='Example: attnscan classify "I went to the store." "At the store, I bought fresh strawberries."',
    no_args_is_help=True,
    rich_markup_mode=None,  # its import takes longer than everything else that --help does
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets every line
    app(prog_name="attnscan")


def _version(wanted: bool | None) -> None:
    if wanted:
        typer.echo(f"attnscan {attnscan.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    # None, not False: a value to check would make Typer import pydantic, which takes longer than `patterns` itself
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = None,
) -> None:
    pass


for command, example in (
    (classify.classify, classify.EXAMPLE),
    (heads.heads, heads.EXAMPLE),
    (show.show, show.EXAMPLE),
    (explain.explain, explain.EXAMPLE),
    (predictive.predictive, predictive.EXAMPLE),
    (report.report, report.EXAMPLE),
    (plot.plot, plot.EXAMPLE),
    (patterns.patterns, None),
    (models.models, models.EXAMPLE),
):
    app.command(epilog=None if example is None else f"Example: {example}")(command)
