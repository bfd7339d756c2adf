"""`--dtype bfloat16` on a CPU: scores alone are made in it, and everything else is float32's to the last bit.

Processors that do not multiply in it do it more slowly, and as well: the check of the processor is what is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import A, B
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.inputs.pairs import shipped_pairs
from attnscan.results.grid import Grid
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

PAIRS = [record.pair.sentences for record in shipped_pairs()][:6]
MOST = 0.01  # how far a score may move; 0.0036 was seen over 447 pairs, on all heads


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})


def _both(function: Callable[..., Any], *given: Any, **named: Any) -> list[Any]:
    return [function(*given, model="bundled", dtype=dtype, **named) for dtype in ("float32", "bfloat16")]


@pytest.mark.parametrize("norm", [False, True])
def test_scores_of_one_input_move_by_little_and_what_predicts_not_at_all(norm: bool) -> None:
    exact, rounded = _both(attnscan.classify, A, B, norm=norm)
    assert (exact.signature.dtype, rounded.signature.dtype) == ("float32", "bfloat16")
    for mine, theirs in ((rounded.by_weight, exact.by_weight), (rounded.carried.scores, exact.carried.scores)):
        off = np.abs(mine.every_key.score - theirs.every_key.score)
        assert 1e-6 < np.nanmax(off) < MOST
    words = _both(attnscan.dependencies, A, B)
    assert [each.signature.dtype for each in words] == ["float32", "float32"]
    np.testing.assert_array_equal(words[0].help.matrix, words[1].help.matrix)


def test_scores_of_many_pairs_move_by_little(threads: Callable[[int], None]) -> None:
    threads(2)  # replicas, too, run in it
    exact, rounded = _both(attnscan.rank_heads, PAIRS, predictive="off", batch_tokens=64)
    assert (exact.signature.dtype, rounded.signature.dtype) == ("float32", "bfloat16")
    off = np.abs(rounded.scores.every_key.score - exact.scores.every_key.score)
    assert 1e-6 < np.nanmax(off) < MOST
    assert (rounded.label == exact.label).mean() > 0.95


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (attnscan.explain, (A, B)),
        (attnscan.explain_over, (PAIRS[:2],)),
        (attnscan.similar, (PAIRS,)),
        (lambda *given, **named: attnscan.ablate(*given, heads=["1-9"], **named), (PAIRS,)),
    ],
)
def test_studies_are_those_of_float32(function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    exact, rounded = _both(function, *given)
    assert rounded.signature.dtype == "float32"
    pd.testing.assert_frame_equal(rounded.to_frame(), exact.to_frame(), check_exact=True)


def test_so_is_a_comparison() -> None:
    exact, rounded = (
        attnscan.compare("bundled", "bundled", PAIRS, dtype=dtype, predictive="off")
        for dtype in ("float32", "bfloat16")
    )
    assert {signature.dtype for signature in rounded.signatures} == {"float32"}
    pd.testing.assert_frame_equal(rounded.to_frame(), exact.to_frame(), check_exact=True)


def test_a_model_that_was_loaded_once_serves_both() -> None:
    model = attnscan.load("bundled", device="cpu", dtype="bfloat16")
    assert attnscan.classify(A, B, model=model, predictive="off").signature.dtype == "bfloat16"
    assert attnscan.similar(PAIRS, model=model).signature.dtype == "float32"


def test_the_command_says_what_it_computed_in() -> None:
    outcome = CliRunner().invoke(app, ["predictive", A, B, "--model", "bundled", "--dtype", "bfloat16"])
    assert outcome.exit_code == 0
    assert "attnscan: computed in float32: on a CPU, bfloat16 is for scores alone" in outcome.stderr.splitlines()
    assert "cpu float32" in outcome.stdout


def test_an_exact_scanner_is_closed_with_the_other() -> None:
    with Scanner(ScanOptions(model="bundled", device="cpu", dtype="bfloat16")) as scanner:
        exact = scanner.exact()
        assert exact.loaded.scored is exact.loaded.model is scanner.loaded.model is not scanner.loaded.scored
        assert exact.grid() == scanner.grid() == Grid.square(6, 12)
