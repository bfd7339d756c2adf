"""Work that several threads share: in order, errors in their place, on one model."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from families import TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from attnscan.model import running as side_by_side
from attnscan.model.tap import Tap


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
