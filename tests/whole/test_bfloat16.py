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

PAIRS = [("the cat sat on the mat .", "the mat sat ."), ("the cats", "on the mat ."), ("cat on mat", "the cat .")]
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
@pytest.mark.parametrize(("function", "given"), [(attnscan.classify, PAIRS[0]), (attnscan.heads, (PAIRS,))])
def test_scores_move_by_little(small: str, by: str, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    exact, rounded = _both(function, *given, model=small, by=by, predictive="off")
    assert (exact.signature.dtype, rounded.signature.dtype) == ("float32", "bfloat16")
    off = np.abs(rounded.scores.every_key.score - exact.scores.every_key.score)
    assert 10 * NEAR < np.nanmax(off) < MOST


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (attnscan.predictive, PAIRS[0]),
        (attnscan.explain, ("all", *PAIRS[0])),
        (lambda pairs, **named: attnscan.explain(pairs=pairs, **named), (PAIRS[:2],)),
        (attnscan.similar, (PAIRS,)),
        (lambda *given, **named: attnscan.ablate(*given, heads=["1-1"], **named), (PAIRS,)),
        (lambda pairs, model, **named: attnscan.compare(model, model, pairs, **named), (PAIRS,)),
    ],
)
def test_studies_are_those_of_float32(small: str, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    exact, rounded = _both(function, *given, model=small)
    pd.testing.assert_frame_equal(rounded.to_frame(), exact.to_frame(), rtol=NEAR, atol=NEAR)


def test_a_model_that_was_loaded_once_serves_both(small: str) -> None:
    model = attnscan.load(small, device="cpu", dtype="bfloat16")
    assert attnscan.classify(*PAIRS[0], model=model, predictive="off").signature.dtype == "bfloat16"
    assert attnscan.similar(PAIRS, model=model).signature.dtype == "float32"


def test_the_command_says_what_it_computed_in(small: str) -> None:
    outcome = CliRunner().invoke(app, ["predictive", *PAIRS[0], "--model", small, "--dtype", "bfloat16"])
    assert outcome.exit_code == 0
    assert "attnscan: computed in float32: on a CPU, bfloat16 is for scores alone" in outcome.stderr.splitlines()
    assert "cpu float32" in outcome.stdout
