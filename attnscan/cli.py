"""The command line: the commands put together. Torch is imported only to compute."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import attnscan
from attnscan.commands import (
    ablate,
    classify,
    compare,
    explain,
    heads,
    models,
    patterns,
    plot,
    predictive,
    report,
    show,
    similar,
)

app = typer.Typer(
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


def _epilog(examples: str | tuple[str, ...] | None) -> str | None:
    """What stands below a command's options: one example, or several, a line each."""
    if isinstance(examples, tuple):
        return "\n\n".join(["Examples:", *examples])
    return None if examples is None else f"Example: {examples}"


for command, example in (
    (classify.classify, classify.EXAMPLE),
    (heads.heads, heads.EXAMPLE),
    (show.show, show.EXAMPLE),
    (explain.explain, explain.EXAMPLE),
    (predictive.predictive, predictive.EXAMPLE),
    (report.report, report.EXAMPLE),
    (plot.plot, plot.EXAMPLE),
    (ablate.ablate, ablate.EXAMPLES),
    (compare.compare, compare.EXAMPLES),
    (similar.similar, similar.EXAMPLES),
    (patterns.patterns, None),
    (models.models, models.EXAMPLE),
):
    app.command(epilog=_epilog(example))(command)
