"""The Ray engine: parts of the stream go to workers that each hold the model; their states add up.

Ray runs the workers, starts those anew that die, and repeats the part that each was at. Parts are
added in the order of the stream: the state is always that of its beginning, as on one machine, so
that a state file of either engine goes on by the other.
"""

import logging
import math
import os
import re
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from attnscan.errors import AttnscanError, EngineError, InputError, needs
from attnscan.inputs.sentence import Record
from attnscan.model.forward import first_line
from attnscan.model.sources import Source
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import OnBad, OnCount, group_records
from attnscan.scan.pair_scan import scan as scan_locally
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.scan.state import ScanState
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import Pattern

_QUEUED = 2  # parts that each worker has: one at work, and one to go on with
_AHEAD = 8  # parts for each worker, at most, that wait to be added
_RESTARTS = 100  # of a worker, and as many times a part is tried again

PartResult = tuple[ScanState, list[InputError]]
"""What a worker makes of a part: the state of its records, and the errors of those left out."""


class Worker:
    """An actor that holds a model, and scores one part after the other."""

    def __init__(self, options: ScanOptions, source: Source) -> None:
        self.options = options
        self.source = source
        self._stack = ExitStack()
        self.scanner: Scanner | None = None

    def score(self, records: list[Record], *, skip: bool) -> PartResult:
        """The state of some records alone, and the errors of those that it left out.

        These are skipped with `skip`, else raised.
        """
        # Not when the actor is made, whose errors Ray hands on as text alone
        if self.scanner is None:
            opened = open_scanner(self.options, self.source)
            self.scanner = self._stack.enter_context(opened)
        skipped: list[InputError] = []
        on_bad = skipped.append if skip else None
        return scan_locally(self.scanner, records, None, on_bad), skipped


class _OwnOutput:
    """Standard output for this thread alone.

    What Ray's threads print, such as which worker died, goes to standard error.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._output = sys.stdout

    def __getattr__(self, name: str) -> Any:
        is_ours = threading.get_ident() == self._thread
        return getattr(self._output if is_ours else sys.stderr, name)


def scan(
    scanner: Scanner,
    records: Iterable[Record],
    start: ScanState | None = None,
    on_bad: OnBad | None = None,
    *,
    on_count: OnCount | None = None,
    keep: Callable[[ScanState], object] | None = None,
) -> ScanState:
    """Score every head on a stream of pairs by the workers of a cluster.

    Arguments and result are those of `pair_scan.scan`.
    Raises: EngineError for a cluster that is not there, and where workers die again and again; as
    `pair_scan.scan`.
    """
    state = start or ScanState(scanner.options)
    if on_count is None:
        on_count = partial(scanner.tell, "scoring pairs")
    with redirect_stdout(_OwnOutput()), _workers(scanner) as (ray, workers):
        results = _score_parts(ray, workers, group_records(records), skip=on_bad is not None)
        with closing(results):
            for part_state, skipped in results:
                if on_bad is not None:
                    for error in skipped:
                        on_bad(error)
                state += replace(part_state, options=state.options)
                on_count(state.seen.read)
                if keep is not None:
                    keep(state)
    return state


def _score_parts(
    ray: ModuleType, workers: list[Any], parts: Iterator[list[Record]], *, skip: bool
) -> Generator[PartResult, None, None]:
    """Hand out parts to workers that are free, and yield the results in the order of the parts.

    Raises: what reading the parts raises, behind the results of what was read before it.
    """
    free = deque(workers * _QUEUED)
    sent: deque[Any] = deque()
    busy: dict[Any, Any] = {}
    most_sent = _AHEAD * len(workers)
    unread: Exception | None = None
    is_at_end = False
    while True:
        while free and len(sent) < most_sent and not is_at_end:
            try:
                part = next(parts)
            except StopIteration:
                is_at_end = True
            except Exception as error:
                unread = error
                is_at_end = True
            else:
                worker = free.popleft()
                sent.append(worker.score.remote(part, skip=skip))
                busy[sent[-1]] = worker
        if not sent:
            break
        for done in ray.wait(list(busy))[0]:
            free.append(busy.pop(done))
        while sent and sent[0] not in busy:
            yield _result(ray, sent.popleft())
    if unread is not None:
        raise unread


def _result(ray: ModuleType, part: Any) -> PartResult:
    """Fetch a worker's result.

    Raises: its error, as if it were raised here; EngineError if the worker is gone.
    """
    try:
        return ray.get(part)  # type: ignore[no-any-return]
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, AttnscanError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"the workers of ``engine=ray`` died: {first_line(error)}",
            "see that each has the memory for a model, or give fewer ``ray_workers``",
        ) from None


@contextmanager
def _workers(scanner: Scanner) -> Iterator[tuple[ModuleType, list[Any]]]:
    """Ray itself and the workers, as long as the block runs. Raises: EngineError."""
    if scanner.loaded.original is not None:
        raise EngineError(
            "``engine=ray`` loads the model in every worker, and this one is in memory",
            "save it with save_pretrained, and give the directory as model",
        )
    with needs("``engine=ray`` needs ray", "ray", EngineError):
        import ray
    options = scanner.options
    source = _absolute(scanner.loaded.source)
    is_started_here = not ray.is_initialized()
    scanner.tell("starting workers")
    if is_started_here:
        _connect(ray, options)
    try:
        _send_modules(ray, options.patterns)
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
        if is_started_here:
            ray.shutdown()


def _absolute(source: Source) -> Source:
    """A source whose paths hold in the workers, which run in directories of their own."""
    if Path(source.location).exists():
        source = replace(source, location=str(Path(source.location).absolute()))
    if source.adapter:
        source = replace(source, adapter=str(Path(source.adapter).absolute()))
    return source


def _connect(ray: ModuleType, options: ScanOptions) -> None:
    """Connect to a cluster, or start one here. Raises: EngineError if there is none."""
    address = options.ray_address or os.environ.get("RAY_ADDRESS")
    try:
        place = re.fullmatch(r"(?:ray://)?(.+):(\d+)", address or "")
        if place is not None:  # Ray itself would ask for minutes
            socket.create_connection((place[1], int(place[2])), timeout=10).close()
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"no Ray cluster at {address or 'this machine'}: {first_line(error)}",
            "check ``ray_address`` and $RAY_ADDRESS, or leave them out to start a cluster here",
        ) from None


def _send_modules(ray: ModuleType, patterns: Iterable[Pattern]) -> None:
    """Pickle own patterns with their modules, whose files workers need not find."""
    for pattern in patterns:
        module = sys.modules.get(getattr(pattern.target, "__module__", ""))
        if pattern not in ALL_PATTERNS and module is not None and module.__name__ != "__main__":
            ray.cloudpickle.register_pickle_by_value(module)


def _shares(ray: ModuleType, wanted: int | None) -> tuple[int, dict[str, Any]]:
    """Count the workers, and share a machine's units among them.

    There is one for each GPU, or machine if there is no GPU.
    """
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    gpus = sum(machine.get("GPU", 0) for machine in machines)
    count = wanted or int(gpus) or len(machines)
    per_machine = math.ceil(count / len(machines))
    least_cpus = min(machine.get("CPU", 0) for machine in machines)
    share = {"num_cpus": _share(least_cpus, per_machine), "num_gpus": _share(gpus, count)}
    return count, share


def _share(units: float, workers: int) -> float:
    """The units of each worker, as Ray counts them: whole ones, or a part of one."""
    if units >= workers:
        return units // workers
    return math.floor(1000 * units / workers) / 1000
