"""Threads on one model: how many there are, how they share the cores, the order of results."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnscan.model.threads import map_in_this_thread, most_workers, parallel_map


def _loaded(device: str = "cpu", **module: Any) -> Any:
    """What is asked of a loaded model; of its only module, attributes."""
    model = torch.nn.Module()
    for name, value in module.items():
        setattr(model, name, value)
    return SimpleNamespace(device=torch.device(device), model=model, room=lambda tokens: tokens)


@pytest.mark.parametrize(
    ("cores", "batch_tokens", "longest", "workers"),
    [
        (4, 1024, 100, 4),
        (64, 1024, 100, 16),
        (64, 16_384, 100, 4),  # 65,536 tokens in all
        (64, 100, 16_384, 1),
        (64, 1024, 4096, 4),  # a head's weights in all batches are 67 million
        (64, 1024, 20_000, 1),
        (64, 100_000, 100, 1),
    ],
)
def test_workers_are_as_many_as_cores_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, cores: int, batch_tokens: int, longest: int, workers: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    assert most_workers(_loaded(), batch_tokens, longest) == workers


@pytest.mark.parametrize(
    ("loaded", "workers"),
    [
        (_loaded("meta"), 1),
        (_loaded(rope_type="dynamic"), 1),
        (_loaded(rope_type="longrope"), 1),
        (_loaded(rope_type="default"), 4),
    ],
)
def test_one_worker_runs_on_a_device_and_where_rotations_grow(
    monkeypatch: pytest.MonkeyPatch, loaded: Any, workers: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert most_workers(loaded, 1024, 100) == workers


def test_one_worker_on_a_cpu_is_the_thread_that_asks() -> None:
    """Items are taken one by one, as they are worked on."""
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(3):
            taken.append(item)
            yield item

    results = map_in_this_thread(items(), lambda item: (item, threading.get_ident(), list(taken)))
    here = threading.get_ident()
    assert next(results) == (0, (0, here, [0]))
    assert list(results) == [(1, (1, here, [0, 1])), (2, (2, here, [0, 1, 2]))]


@given(st.lists(st.integers(), max_size=30), st.integers(1, 4))
def test_results_come_in_order(items: list[int], workers: int) -> None:
    results = parallel_map(workers, items, lambda item: item + 1)
    assert list(results) == [(item, item + 1) for item in items]


def test_an_error_is_raised_in_its_items_place() -> None:
    stream = parallel_map(2, [2, 1, 0, 4], lambda item: 1 / item)
    assert [next(stream), next(stream)] == [(2, 0.5), (1, 1.0)]
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert list(stream) == []


@pytest.mark.parametrize(("cores", "workers", "share"), [(4, 2, 2), (4, 3, 1), (2, 4, 1)])
def test_workers_share_the_cores(threads: Any, cores: int, workers: int, share: int) -> None:
    threads(cores)
    shares = parallel_map(workers, range(8), lambda _: torch.get_num_threads())
    assert {taken for _, taken in shares} == {share}
    assert torch.get_num_threads() == cores


def test_no_more_items_are_taken_than_workers_need() -> None:
    taken: list[int] = []

    def items() -> Any:
        for item in range(100):
            taken.append(item)
            yield item

    stream = parallel_map(2, items(), lambda item: item)
    next(stream)
    assert len(taken) == 5  # two for each worker, and the first
    stream.close()
