"""The one thread that runs models, and what waits for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

MOST_WAITING = 16
_MOST_CLIENTS = 1024


class Stale(Exception):
    """Raised for a question whose client has asked another one since."""


class Full(Exception):
    """Raised where `most` questions wait already."""


@dataclass(eq=False)
class _Job:
    work: Callable[[], Any]
    client: str
    turn: int
    future: Future[Any] = field(default_factory=Future)


class Worker:
    """Does one piece of work at a time, in its own thread, in the order it came."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._waiting: list[_Job] = []
        self._latest: OrderedDict[str, int] = OrderedDict()  # each client's turn; those who asked last
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, daemon=True, name="attnscan-model").start()

    def submit(self, work: Callable[[], Any], client: str, turn: int) -> Future[Any]:
        """Have some work done for a client's turn, unless the client's next turn comes first.

        The future may raise Stale, or be cancelled while the work waits. Raises: Stale for an earlier turn; Full.
        """
        with self._changed:
            if turn < self._latest.get(client, 0):
                raise Stale
            self._latest[client] = turn
            self._latest.move_to_end(client)
            if len(self._latest) > _MOST_CLIENTS:
                self._latest.popitem(last=False)
            self._leave_out(lambda job: self._is_stale(job) or job.future.cancelled())
            if self._closed or len(self._waiting) >= self._most:
                raise Full
            self._waiting.append(job := _Job(work, client, turn))
            self._changed.notify()
            return job.future

    def close(self) -> None:
        """Begin nothing more; what runs is not waited for."""
        with self._changed:
            self._closed = True
            self._leave_out(lambda _: True)
            self._changed.notify()

    def _leave_out(self, which: Callable[[_Job], bool]) -> None:
        left_out = [job for job in self._waiting if which(job)]
        self._waiting = [job for job in self._waiting if job not in left_out]
        for job in left_out:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(Stale())

    def _is_stale(self, job: _Job) -> bool:
        return job.turn < self._latest.get(job.client, 0)

    def _next(self) -> _Job | None:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            return self._waiting.pop(0)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                result = job.work()
            except BaseException as error:  # it belongs to whoever asked
                job.future.set_exception(error)
                continue
            with self._changed:
                stale = self._is_stale(job)
            if stale:
                job.future.set_exception(Stale())
            else:
                job.future.set_result(result)
            del job, result
