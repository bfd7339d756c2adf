"""`--dtype bfloat16` on a CPU: scores alone are made in it, and everything else is float32's.

Processors that do not multiply in it do it more slowly, and as well: the check of the processor is what is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_checkpoints import SMALL, save
from transformers import BertConfig, BertForMaskedLM
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.inputs.read import shipped_pairs
from attnscan.results.grid import Grid
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

PAIRS = [record.pair.texts for record in shipped_pairs()][:6]
SMALL_PAIRS = [("the cat sat on the mat .", "the mat sat ."), ("the cats", "on the mat ."), ("cat on mat", "the cat .")]
MOST = 0.01  # how far a score may move; 0.0036 was seen over 447 pairs, on all heads
NEAR = 1e-5  # between two runs of float32, however a processor multiplies; scores of bfloat16 differ by more


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A masked LM with random weights, so large that heads look at some words more than at others."""
    config = BertConfig(**SMALL | {"num_hidden_layers": 2, "initializer_range": 0.5}, pad_token_id=0)
    torch.manual_seed(0)
    return str(save(tmp_path_factory.mktemp("small"), BertForMaskedLM(config)))


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})


def _both(function: Callable[..., Any], *given: Any, **named: Any) -> list[Any]:
    return [function(*given, dtype=dtype, **named) for dtype in ("float32", "bfloat16")]


@pytest.mark.parametrize("by", ["weight", "carried"])
def test_scores_of_one_input_move_by_little_and_what_predicts_not_at_all(small: str, by: str) -> None:
    exact, rounded = _both(attnscan.classify, *SMALL_PAIRS[0], model=small, by=by)
    assert (exact.signature.dtype, rounded.signature.dtype) == ("float32", "bfloat16")
    for mine, theirs in ((rounded.scores_by[by], exact.scores_by[by]) for by in ("weight", "carried")):
        off = np.abs(mine.every_key.score - theirs.every_key.score)
        assert 10 * NEAR < np.nanmax(off) < MOST
    words = _both(attnscan.predictive, *SMALL_PAIRS[0], model=small)
    assert [each.signature.dtype for each in words] == ["float32", "float32"]
    np.testing.assert_allclose(words[0].help.matrix, words[1].help.matrix, atol=NEAR)


@pytest.mark.long
def test_scores_of_many_pairs_move_by_little(threads: Callable[[int], None]) -> None:
    threads(2)  # replicas, too, run in it
    exact, rounded = _both(attnscan.heads, PAIRS, model="bundled", predictive="off", batch_tokens=64)
    assert (exact.signature.dtype, rounded.signature.dtype) == ("float32", "bfloat16")
    off = np.abs(rounded.scores.every_key.score - exact.scores.every_key.score)
    assert 10 * NEAR < np.nanmax(off) < MOST
    assert (rounded.label == exact.label).mean() > 0.95


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (attnscan.explain, ("all", *SMALL_PAIRS[0])),
        (lambda pairs, **named: attnscan.explain(pairs=pairs, **named), (SMALL_PAIRS[:2],)),
        (attnscan.similar, (SMALL_PAIRS,)),
        (lambda *given, **named: attnscan.ablate(*given, heads=["1-1"], **named), (SMALL_PAIRS,)),
    ],
)
def test_studies_are_those_of_float32(small: str, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    exact, rounded = _both(function, *given, model=small)
    assert rounded.signature.dtype == "float32"
    pd.testing.assert_frame_equal(rounded.to_frame(), exact.to_frame(), rtol=NEAR, atol=NEAR)


def test_so_is_a_comparison(small: str) -> None:
    exact, rounded = _both(attnscan.compare, small, small, SMALL_PAIRS)
    assert {signature.dtype for signature in rounded.signatures} == {"float32"}
    pd.testing.assert_frame_equal(rounded.to_frame(), exact.to_frame(), rtol=NEAR, atol=NEAR)


def test_a_model_that_was_loaded_once_serves_both(small: str) -> None:
    model = attnscan.load(small, device="cpu", dtype="bfloat16")
    assert attnscan.classify(*SMALL_PAIRS[0], model=model, predictive="off").signature.dtype == "bfloat16"
    assert attnscan.similar(SMALL_PAIRS, model=model).signature.dtype == "float32"


def test_the_command_says_what_it_computed_in(small: str) -> None:
    outcome = CliRunner().invoke(app, ["predictive", *SMALL_PAIRS[0], "--model", small, "--dtype", "bfloat16"])
    assert outcome.exit_code == 0
    assert "attnscan: computed in float32: on a CPU, bfloat16 is for scores alone" in outcome.stderr.splitlines()
    assert "cpu float32" in outcome.stdout


def test_an_exact_scanner_is_closed_with_the_other(small: str) -> None:
    with Scanner(ScanOptions(model=small, device="cpu", dtype="bfloat16")) as scanner:
        exact = scanner.exact()
        assert exact.loaded.scored is exact.loaded.model is scanner.loaded.model is not scanner.loaded.scored
        assert exact.grid() == scanner.grid() == Grid((2, 2))
