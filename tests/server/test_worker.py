"""The worker: one thing at a time, a bounded number of them, and none for who has asked again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from attnscan.server.worker import Full, Stale, Worker

WAIT = 60


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(most=4)
    yield worker
    worker.close()


@pytest.fixture
def busy(worker: Worker) -> Iterator[Callable[[], None]]:
    """The worker is at something; the call lets it go on."""
    begun, let = threading.Event(), threading.Event()
    future = worker.submit(lambda: (begun.set(), let.wait(WAIT)), "another", 1)
    assert begun.wait(WAIT)

    def go_on() -> None:
        let.set()
        future.result(WAIT)

    yield go_on
    let.set()


def test_what_raises_raises_where_it_is_waited_for_and_the_next_is_done(worker: Worker) -> None:
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 / 0, "me", 1).result(WAIT)
    assert worker.submit(lambda: 1, "me", 1).result(WAIT) == 1


def test_a_later_turn_drops_what_the_same_client_waits_for_and_nothing_else(
    worker: Worker, busy: Callable[[], None]
) -> None:
    done: list[str] = []
    old = worker.submit(lambda: done.append("old"), "me", 1)
    second = worker.submit(lambda: done.append("its rest"), "me", 1)
    others = worker.submit(lambda: done.append("another's"), "you", 1)
    new = worker.submit(lambda: done.append("new"), "me", 2)
    for each in (old, second):
        with pytest.raises(Stale):
            each.result(WAIT)
    busy()
    assert (others.result(WAIT), new.result(WAIT)) == (None, None) and done == ["another's", "new"]


def test_what_runs_when_the_next_turn_comes_is_stale_when_it_ends(worker: Worker) -> None:
    begun, let = threading.Event(), threading.Event()
    old = worker.submit(lambda: (begun.set(), let.wait(WAIT)), "me", 1)
    assert begun.wait(WAIT)
    new = worker.submit(lambda: "new", "me", 2)
    let.set()
    with pytest.raises(Stale):
        old.result(WAIT)
    assert new.result(WAIT) == "new"


def test_an_earlier_turn_that_comes_late_is_stale_at_once_and_the_same_is_not(worker: Worker) -> None:
    worker.submit(int, "me", 2).result(WAIT)
    with pytest.raises(Stale):
        worker.submit(int, "me", 1)
    assert worker.submit(int, "me", 2).result(WAIT) == 0


def test_no_more_than_so_much_waits(worker: Worker, busy: Callable[[], None]) -> None:
    answers = [worker.submit(int, f"a{i}", 1) for i in range(4)]
    with pytest.raises(Full):
        worker.submit(int, "b", 1)
    busy()
    assert [answer.result(WAIT) for answer in answers] == [0] * 4


def test_what_is_called_off_leaves_its_place_and_is_not_done(worker: Worker, busy: Callable[[], None]) -> None:
    done: list[int] = []
    futures = [worker.submit(lambda i=i: done.append(i), f"c{i}", 1) for i in range(4)]
    assert futures[1].cancel()
    last = worker.submit(lambda: done.append(4), "c4", 1)
    busy()
    last.result(WAIT)
    assert done == [0, 2, 3, 4]


def test_at_the_end_what_waits_is_dropped_and_what_runs_is_left(worker: Worker, busy: Callable[[], None]) -> None:
    waiting = worker.submit(int, "me", 1)
    worker.close()
    with pytest.raises(Stale):
        waiting.result(WAIT)
    with pytest.raises(Full):
        worker.submit(int, "me", 2)
    busy()


def test_clients_are_forgotten_so_that_memory_has_an_end(worker: Worker) -> None:
    worker.submit(int, "me", 5).result(WAIT)
    for i in range(1100):
        worker.submit(int, f"c{i}", 1).result(WAIT)
    assert worker.submit(int, "me", 1).result(WAIT) == 0
    assert len(worker._latest) == 1024
