"""Commands that must succeed, and the article's pair to run them on."""

import io
from functools import cache
from typing import Any

import pandas as pd
import typer
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.results.columns import MEAN_COLUMNS
from attnscan.scoring.patterns import PATTERNS

A = "I went to the store."
B = "At the store, I bought fresh strawberries."
COLUMNS = ",".join(
    (
        "model,layer,head,name,label,label_stays,among_words,share,average",
        *(pattern.id for pattern in PATTERNS),
        *(column.name for column in MEAN_COLUMNS),
    )
)
"""Of the table with a row for each head."""


def run(*arguments: str, stdin: str | None = None) -> Result:
    """Run a command that must succeed."""
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    assert result.exit_code == 0, result.output
    return result


def table(*arguments: str, **reading: Any) -> pd.DataFrame:
    """The rows that a command writes, as pandas reads them."""
    return pd.read_csv(io.StringIO(run(*arguments, "--csv").stdout), **reading)


def command_named(name: str) -> Any:
    """A command of the line, with all that it takes."""
    command: Any = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return command.load()


def misuse(*arguments: str) -> str:
    """The one line that a wrong use ends with, exit code 2."""
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("attnscan: ") and line.endswith(" --help)")
    return line


@cache
def classify(*options: str) -> Result:
    """The article's pair by the bundled model, run once for each line of options that writes no
    file.
    """
    return run("classify", A, B, "--model", "bundled", *options)
