"""`attnscan explain`: the screen, the rows, and queries and keys in full."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from attnscan.cli.app import app

ARTICLE = ("I went to the store.", "At the store, I bought fresh strawberries.")


def _run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"}).invoke(app, ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_screen_of_one_head_and_token() -> None:
    text = _run("0-2", *ARTICLE, "--token", "store#2")
    assert "store  token 10" in text
    assert text.splitlines()[4].split()[:3] == ["9", "the", "1.000"]
    assert "0-2 finds the previous word by position" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_every_head_in_rows() -> None:
    lines = _run("--all", *ARTICLE, "--csv").splitlines()
    assert len(lines) == 1 + 72
    assert lines[0] == (
        "model,layer,head,label,pattern,score,chance,above_chance,effective_neurons,stability,sign_agreement,"
        "positions_shuffled,segments_zeroed,segments_swapped,n,pairs,conclusion"
    )
    one = _run("0-2", *ARTICLE, "--csv").splitlines()[1]
    assert one == lines[3]


def test_json_holds_queries_keys_and_products_in_full() -> None:
    found = json.loads(_run("1-8", *ARTICLE, "--format", "json"))
    head = found["heads"][0]
    query, key, products = (np.array(head[name]) for name in ("query", "key", "products"))
    assert products.shape == (19, 19, 32) and len(found["tokens"]) == 19
    assert_allclose(products, query[:, None] * key[None] * head["scaling"], atol=1e-4)
    logits = products.sum(-1)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert_allclose(weights, head["weights"], atol=1e-4)


def test_a_tokens_keys_as_rows() -> None:
    header, *rows = _run("0-2", *ARTICLE, "--token", "5", "--csv").splitlines()
    columns = header.split(",")
    assert columns[:9] == ["model", "layer", "head", "query", "query_token", "key", "key_token", "weight", "logit"]
    assert columns[9:] == [f"neuron_{n}" for n in range(32)] and len(rows) == 19
    for row in rows:
        cells = row.split(",")[-33:]
        assert float(cells[0]) == pytest.approx(sum(map(float, cells[1:])), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["12-0", "a b"], 1, "12-0: this model has layers 0 to 5"),
        (["0-2", "a b", "--token", "x"], 1, "the input has no token 'x'"),
        (["nonsense", "a b"], 1, "'nonsense' names no head"),
        ([], 2, "name heads"),
        (["0-2", "--token", "x"], 2, "--token is a token of one input"),
        (["0-2", "a b", "--pairs", "x.csv"], 2, "sentences or --pairs"),
        (["0-2", "-p", "predictive"], 2, "predictive is explained by one input"),
        (["0-2", "a b", "-p", "delimeter"], 2, "did you mean 'delimiter'?"),
        (["--all", "a", "b", "c"], 2, "--all takes the place of HEADS"),
    ],
)
def test_what_cannot_be_explained(arguments: list[str], code: int, message: str) -> None:
    result = CliRunner(env={"COLUMNS": "200", "ATTNSCAN_MODEL": "bundled"}).invoke(app, ["explain", *arguments])
    assert result.exit_code == code
    assert message in result.stderr and not result.stdout
