"""Work that several threads share: in order, errors in their place, on one model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from families import TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from attnscan.model import running as side_by_side
from attnscan.model.tap import Tap
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner


@given(st.lists(st.integers(), max_size=30), st.integers(1, 4))
def test_results_come_in_order(items: list[int], workers: int) -> None:
    results = side_by_side.side_by_side(workers, items, lambda item: item + 1)
    assert list(results) == [(item, item + 1) for item in items]


def test_an_error_is_raised_in_its_items_place() -> None:
    stream = side_by_side.side_by_side(2, [2, 1, 0, 4], lambda item: 1 / item)
    assert [next(stream), next(stream)] == [(2, 0.5), (1, 1.0)]
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert list(stream) == []


@pytest.mark.parametrize("family", [*TAPPED, *UNTAPPED])
def test_threads_that_run_one_model_at_once_show_what_it_shows_alone(family: str) -> None:
    model, inputs = tiny_model(family, {**TAPPED, **UNTAPPED}[family]), tiny_inputs()
    gate = threading.Barrier(3)

    def read(row: int) -> list[torch.Tensor]:
        collected = Collected()

        def consume(block: Any) -> None:
            if (block.layer, block.inputs.start, block.heads.start) == (1, 0, 0):
                gate.wait(60)  # all are in the midst of their second layer
            collected(block)

        tap.run({name: values[[row % 2]] for name, values in inputs.items()}, consume)
        return [collected.layer(layer) for layer in sorted(collected.blocks)]

    with Tap(model) as tap, ThreadPoolExecutor(3) as pool:
        together = list(pool.map(read, range(3)))
        gate = threading.Barrier(1)
        for row, shown in enumerate(together):
            torch.testing.assert_close(shown, read(row), atol=1e-6, rtol=0)


_DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}


def test_as_many_work_as_cores_and_memory_allow(toy: str, threads: Callable[[int], None]) -> None:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        results = []
        for count, tokens in ((1, None), (2, None), (8, None), (64, None), (8, 20_000), (8, 10**9)):
            threads(count)
            results.append(side_by_side.most_workers(scanner.loaded, tokens, 512))
        threads(16)
        by_length = [side_by_side.most_workers(scanner.loaded, None, length) for length in (2048, 4096, 8192, 10**6)]
        on_gpu = replace(scanner.loaded, device=torch.device("cuda"))
        scanner.loaded.model.rope_type = "dynamic"  # frequencies change with the longest input so far
        assert side_by_side.most_workers(on_gpu, None, 512) == side_by_side.most_workers(scanner.loaded, None, 512) == 1
        del scanner.loaded.model.rope_type
    assert results == [1, 2, 8, 16, 3, 1] and by_length == [16, 4, 1, 1]
