"""Reading ahead, and work that several threads share: in order, errors in their place, on one model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import torch
from families import TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from attnscan.model import threads as side_by_side
from attnscan.model.calls import remembers_runs
from attnscan.model.tap import Tap
from attnscan.model.threads import ahead
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner


@given(st.lists(st.integers(), max_size=30), st.integers(1, 4))
def test_results_come_in_order(items: list[int], workers: int) -> None:
    results = side_by_side.side_by_side(workers, items, lambda item: item + 1)
    assert list(results) == [(item, item + 1) for item in items]


def test_workers_work_at_the_same_time() -> None:
    """Three meet at a gate that opens for three alone."""
    gate = threading.Barrier(3)
    assert len(list(side_by_side.side_by_side(3, range(6), lambda _: gate.wait(60)))) == 6


def test_an_error_is_raised_in_its_items_place() -> None:
    stream = side_by_side.side_by_side(2, [2, 1, 0, 4], lambda item: 1 / item)
    assert [next(stream), next(stream)] == [(2, 0.5), (1, 1.0)]
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert list(stream) == []


def test_closing_starts_no_other_work_and_leaves_no_thread(threads: Callable[[int], None]) -> None:
    threads(2)
    others = set(threading.enumerate())  # of a server that another test has
    worked: list[int] = []
    stream = side_by_side.side_by_side(2, range(10**9), worked.append)
    assert next(stream) == (0, None)
    stream.close()
    assert len(worked) < 100
    for thread in set(threading.enumerate()) - others:
        thread.join(60)
    assert not set(threading.enumerate()) - others
    assert torch.get_num_threads() == 2


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


def test_two_taps_of_one_model_take_turns() -> None:
    """As of two scanners that compare a model with itself."""
    model, inputs = tiny_model("bert", TAPPED["bert"]), tiny_inputs()
    with Tap(model) as one, Tap(model) as other, ThreadPoolExecutor(4) as pool:
        collected = [Collected() for _ in range(40)]
        list(pool.map(lambda number: (one, other)[number % 2].run(inputs, collected[number]), range(40)))
    for each in collected[1:]:
        assert all(torch.equal(each.layer(layer), collected[0].layer(layer)) for layer in range(3))


_DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}


@pytest.mark.parametrize(
    ("family", "own", "remembers"),
    [("bert", {}, False), ("mpnet", {}, False), ("llama", {}, False), ("llama", _DYNAMIC, True)],
)
def test_a_model_that_remembers_its_runs_is_run_by_one_thread(family: str, own: Any, remembers: bool) -> None:
    model = tiny_model(family, {**TAPPED, **UNTAPPED}[family] | own)
    assert remembers_runs(model) == remembers
    model.register_forward_hook(lambda module, _, output: setattr(module, "noted", output[0]))
    assert remembers_runs(model)


def test_as_many_work_as_cores_and_memory_allow(toy: str, threads: Callable[[int], None]) -> None:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        results = []
        for count, tokens in ((1, None), (2, None), (8, None), (64, None), (8, 20_000), (8, 10**9)):
            threads(count)
            results.append(side_by_side.most_workers(scanner.loaded, tokens, 512))
        threads(16)
        by_length = [side_by_side.most_workers(scanner.loaded, None, length) for length in (2048, 4096, 8192, 10**6)]
        on_gpu = replace(scanner.loaded, device=torch.device("cuda"))
        assert side_by_side.most_workers(on_gpu, None, 512) == 1
    assert results == [1, 2, 8, 16, 3, 1] and by_length == [16, 4, 1, 1]


@given(st.lists(st.integers()))
def test_reading_ahead_changes_neither_items_nor_order(items: list[int]) -> None:
    assert list(ahead(items, 2)) == items


def through_workers(items: Iterator[int]) -> Iterator[int]:
    with closing(side_by_side.side_by_side(2, items, lambda item: item)) as stream:
        yield from (item for item, _ in stream)


STREAMS = pytest.mark.parametrize("stream_of", [lambda items: ahead(items, 2), through_workers], ids=["ahead", "work"])


@STREAMS
def test_items_are_taken_a_few_ahead(stream_of: Callable[[Iterator[int]], Iterator[int]]) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    with closing(stream_of(items())) as stream:  # type: ignore[type-var]
        assert next(stream) == 0
        threading.Event().wait(0.3)
        assert len(taken) <= 1 + 2 + 1  # the one that came, those that wait, and the one being put


@STREAMS
def test_an_error_of_the_items_waits_for_those_before(stream_of: Callable[[Iterator[int]], Iterator[int]]) -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise ZeroDivisionError

    stream = stream_of(items())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        next(stream)


def test_a_closed_stream_ends_its_thread() -> None:
    stream = ahead(iter(range(10**9)), 1)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name == "attnscan-ahead":
            thread.join(60)
    assert not [thread for thread in threading.enumerate() if thread.name == "attnscan-ahead"]
