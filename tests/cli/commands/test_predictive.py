"""`attnscan predictive`: which words predict which."""

from __future__ import annotations

from io import StringIO

import pandas as pd
from command_line import A, B, run


def test_predictive_prints_which_words_predict_which() -> None:
    text = run("predictive", A, B, "--model", "bundled").stdout
    row = next(line for line in text.splitlines() if line.startswith(" 16 ##berries"))
    assert row.rstrip().endswith("straw#15 0.67") and "██" in row
    table = pd.read_csv(StringIO(run("predictive", A, B, "--model", "bundled", "--csv").stdout))
    assert table.columns.tolist() == ["model", "query", "query_token", "key", "key_token", "help", "target"]
    assert len(table) == 13 * 15  # words that are asked about x other words
    best = table.loc[table["query_token"] == "straw"].sort_values("help").iloc[-1]
    assert (best["key_token"], best["target"]) == ("##berries", 1)
