"""`attnscan explain`: the screen, the rows, and queries and keys in full."""

from __future__ import annotations

import json
from functools import cache

import pytest
from typer.testing import CliRunner

from attnscan.cli.app import app

ARTICLE = ("I went to the store.", "At the store, I bought fresh strawberries.")


@cache
def _run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"}).invoke(app, ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_screen_of_one_head_and_token() -> None:
    text = _run("0-2", *ARTICLE, "--token", "store#2")
    assert "store  token 10" in text
    under = text.splitlines().index("0-2  store  token 10")
    assert text.splitlines()[under + 2].split()[:3] == ["9", "the", "1.000"]
    assert text.splitlines()[4].startswith("0-2 follows previous-word by position")
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.usefixtures("each_run_once")
def test_neurons_stand_beside_rotated_bases_and_shuffles_have_an_error() -> None:
    lines = _run("1-8", *ARTICLE).splitlines()
    row = json.loads(_run("1-8", *ARTICLE, "--format", "json"))["heads"][0]
    rotated = f"{row['effective_neurons_rotated']:.2f} ± {row['effective_neurons_rotated_sd']:.2f}"
    at = next(at for at, line in enumerate(lines) if line.split() == ["own", "basis", "rotated", "bases"])
    assert lines[at + 1] == f"effective neurons      {row['effective_neurons']:.2f}  ≈ {rotated}"
    assert f"shuffled  {row['positions_shuffled']:.3f} ± {row['positions_shuffled_se']:.3f}" in "\n".join(lines)
    assert row["positions_shuffled_fall_se"] == row["positions_shuffled_se"] > 0  # over shuffles, of one input
    assert row["se"] is None and row["segments_zeroed_se"] is None
    assert "mean of 8 shuffles of words; special tokens keep theirs" in " ".join(lines)
    other = json.loads(_run("1-8", *ARTICLE, "--format", "json", "--seed", "1"))["heads"][0]
    assert other["effective_neurons"] == row["effective_neurons"]
    assert other["effective_neurons_rotated"] != row["effective_neurons_rotated"]


def test_every_head_is_a_row() -> None:
    lines = _run("layer:0", *ARTICLE, "--csv").splitlines()
    assert len(lines) == 1 + 12
    assert lines[0] == (
        "model,layer,head,label,pattern,score,chance,above_chance,effective_neurons,stability,sign_agreement,"
        "positions_shuffled,segments_zeroed,segments_swapped,n,pairs,se,positions_shuffled_se,segments_zeroed_se,"
        "segments_swapped_se,positions_shuffled_fall_se,segments_zeroed_fall_se,segments_swapped_fall_se,"
        "effective_neurons_rotated,effective_neurons_rotated_sd,stability_rotated,stability_rotated_sd,"
        "sign_agreement_rotated,sign_agreement_rotated_sd,label_stays,by,conclusion"
    )
    one = _run("0-2", *ARTICLE, "--csv").splitlines()[1]
    assert one == lines[3]


def test_a_tokens_keys_as_rows() -> None:
    header, *rows = _run("0-2", *ARTICLE, "--token", "5", "--csv").splitlines()
    columns = header.split(",")
    assert columns[:9] == ["model", "layer", "head", "query", "query_token", "key", "key_token", "weight", "logit"]
    assert columns[9:] == [f"neuron_{n}" for n in range(32)] and len(rows) == 19
    for row in rows:
        cells = row.split(",")[-33:]
        assert float(cells[0]) == pytest.approx(sum(map(float, cells[1:])), abs=1e-4)
