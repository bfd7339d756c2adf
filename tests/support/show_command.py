"""`attnscan show` on the bundled model: what it prints, as a screen and as rows."""

from __future__ import annotations

import io

import pandas as pd
from typer.testing import CliRunner

from attnscan.cli.app import app

ARTICLE = ("I went to the store.", "At the store, I bought fresh strawberries.")


def outcome_of(*arguments: str, width: int = 80) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": str(width), "ATTNSCAN_MODEL": "bundled"}).invoke(app, ["show", *arguments])
    return result.exit_code, result.stdout, result.stderr


def screen_of(*arguments: str, width: int = 80) -> str:
    code, text, errors = outcome_of(*arguments, width=width)
    assert code == 0, errors
    return text


def rows_of(*arguments: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(screen_of(*arguments, "--csv")), keep_default_na=False)
