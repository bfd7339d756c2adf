"""The Ray engine: the stream of pairs goes out in parts to workers that each hold the model; their states add up.

Ray runs the workers, starts those anew that die, and repeats the part that each was at. Parts are added in the order
of the stream: the state is always that of its beginning, as on one machine, so that a state file of either engine
goes on by the other.
"""

import logging
import math
import os
import re
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from attnscan.errors import AttnscanError, EngineError, InputError, needs
from attnscan.inputs.sentence import Record
from attnscan.model.running import first_line
from attnscan.model.sources import Source
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import OnBad, group_records
from attnscan.scan.pair_scan import scan as scan_locally
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState
from attnscan.scoring.cross import ALL_PATTERNS

_QUEUED = 2  # parts that each worker has: one at work, and one to go on with
_AHEAD = 8  # parts for each worker, at most, that wait to be added
_RESTARTS = 100  # of a worker, and as many times a part is tried again


class Worker:
    """An actor that holds a model, and scores one part after the other."""

    def __init__(self, options: ScanOptions, source: Source) -> None:
        self.options, self.source = options, source
        self.scanner: Scanner | None = None

    def score(self, records: list[Record], *, skip: bool) -> tuple[ScanState, list[InputError]]:
        """The state of some records alone, and the errors of those that it left out where these are to be skipped."""
        if (
            self.scanner is None
        ):  # not when the actor is made, whose errors Ray hands on as text alone
            self.scanner = Scanner(self.options, self.source).__enter__()
        skipped: list[InputError] = []
        return scan_locally(self.scanner, records, None, skipped.append if skip else None), skipped


class _OwnOutput:
    """Standard output for this thread alone; what Ray's print, such as which worker died, goes to standard error."""

    def __init__(self) -> None:
        self._thread, self._output = threading.get_ident(), sys.stdout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output if threading.get_ident() == self._thread else sys.stderr, name)


def scan(
    scanner: Scanner,
    records: Iterable[Record],
    start: ScanState | None = None,
    on_bad: OnBad | None = None,
    *,
    doing: str = "scoring pairs",
    keep: Callable[[ScanState], object] | None = None,
    total: int | None = None,
) -> ScanState:
    """Score every head on a stream of pairs by the workers of a cluster; arguments and result are `pair_scan.scan`'s.

    Raises: EngineError for a cluster that is not there, and where workers die again and again; as `pair_scan.scan`.
    """
    state, parts = start or ScanState(scanner.options), group_records(records)
    unread: Exception | None = None
    with redirect_stdout(_OwnOutput()), _workers(scanner) as (ray, workers):
        free = deque(workers * _QUEUED)
        sent: deque[Any] = deque()
        busy: dict[Any, Any] = {}
        while True:
            while free and unread is None and len(sent) < _AHEAD * len(workers):
                try:
                    part = next(parts, None)
                except Exception as error:  # it is raised behind what was read before it
                    unread = error
                    break
                if part is None:
                    break
                sent.append(free[0].score.remote(part, skip=on_bad is not None))
                busy[sent[-1]] = free.popleft()
            if not sent:
                break
            for done in ray.wait(list(busy))[0]:
                free.append(busy.pop(done))
            while sent and sent[0] not in busy:
                of_part, skipped = _result(ray, sent.popleft())
                if on_bad is not None:
                    for bad in skipped:
                        on_bad(bad)
                state += replace(of_part, options=state.options)
                scanner.tell(doing, state.seen.read, total)
                if keep is not None:
                    keep(state)
    if unread is not None:
        raise unread
    return state


def _result(ray: ModuleType, part: Any) -> tuple[ScanState, list[InputError]]:
    """Fetch a worker's result. Raises: its error, as if it were raised here; EngineError if the worker is gone."""
    try:
        return ray.get(part)  # type: ignore[no-any-return]
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, AttnscanError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"the workers of --engine ray died: {first_line(error)}",
            "see that each has the memory for a model, or give fewer --ray-workers",
        ) from None


@contextmanager
def _workers(scanner: Scanner) -> Iterator[tuple[ModuleType, list[Any]]]:
    """Ray itself and the workers, as long as the block runs. Raises: EngineError."""
    if scanner.loaded.original is not None:
        raise EngineError(
            "--engine ray loads the model in every worker, and this one is in memory",
            "save it with save_pretrained, and give the directory as model",
        )
    with needs("--engine ray needs ray", "ray", EngineError):
        import ray
    options, source = scanner.options, scanner.loaded.source
    if Path(source.location).exists():  # workers run in directories of their own
        source = replace(source, location=str(Path(source.location).absolute()))
    if source.adapter:
        source = replace(source, adapter=str(Path(source.adapter).absolute()))
    started = not ray.is_initialized()
    scanner.tell("starting workers")
    if started:
        address = options.ray_address or os.environ.get("RAY_ADDRESS")
        try:
            if place := re.fullmatch(
                r"(?:ray://)?(.+):(\d+)", address or ""
            ):  # Ray itself would ask for minutes
                socket.create_connection((place[1], int(place[2])), timeout=10).close()
            ray.init(
                address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
            )
        except (OSError, OverflowError, RuntimeError, ValueError) as error:
            raise EngineError(
                f"no Ray cluster at {address or 'this machine'}: {first_line(error)}",
                "check --ray-address and $RAY_ADDRESS, or leave them out to start a cluster here",
            ) from None
    try:
        for pattern in options.patterns:
            module = sys.modules.get(getattr(pattern.target, "__module__", ""))
            if pattern not in ALL_PATTERNS and module is not None and module.__name__ != "__main__":
                ray.cloudpickle.register_pickle_by_value(
                    module
                )  # workers need not find the file of one's own patterns
        count, share = _shares(ray, options.ray_workers)
        actor = ray.remote(Worker).options(
            **share,
            max_restarts=_RESTARTS,
            max_task_retries=_RESTARTS,
            scheduling_strategy="SPREAD",
        )
        workers = [actor.remote(options, source) for _ in range(count)]
        try:
            yield ray, workers
        finally:
            for worker in workers:
                ray.kill(worker)
    finally:
        if started:
            ray.shutdown()


def _shares(ray: ModuleType, wanted: int | None) -> tuple[int, dict[str, Any]]:
    """Count the workers, one for each GPU, or machine if there is no GPU, and share a machine's units among them."""
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    gpus = sum(machine.get("GPU", 0) for machine in machines)
    count = wanted or int(gpus) or len(machines)
    per_machine = math.ceil(count / len(machines))
    return count, {
        "num_cpus": _share(min(machine.get("CPU", 0) for machine in machines), per_machine),
        "num_gpus": _share(gpus, count),
    }


def _share(units: float, workers: int) -> float:
    """The units of each worker, as Ray counts them: whole ones, or a part of one."""
    return units // workers if units >= workers else math.floor(1000 * units / workers) / 1000
