"""What the benchmarks share: rivals measured in turn, ratios of neighbouring runs, and the lines that report them.

Times on a shared machine drift, so none is reported bare: what counts is the median ratio of neighbouring runs, of wall
time and of the processor time of all threads. Where others use the machine, believe the second.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True)
class Cost:
    """Of one run, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Row:
    """One line of the main table: attnscan against a rival."""

    what: str
    rival: str
    wall: float
    cpu: float
    """Ours divided by the rival's: below 1 is faster."""
    bound: float | None = None

    def __str__(self) -> str:
        bound = "–" if self.bound is None else f"{self.bound:.2f}"
        return f"| {self.what} | {self.rival} | {self.wall:.2f} | {self.cpu:.2f} | {bound} |"


HEAD = "| attnscan | against | wall time | CPU time | bound |\n| --- | --- | ---: | ---: | ---: |"


def cost(run: Callable[[], object]) -> Cost:
    """One call in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def process_cost(command: Sequence[str]) -> Cost:
    """One run of a command, which must succeed."""
    start = time.perf_counter()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status  # it has been waited for
    if status != 0:
        raise RuntimeError(f"{command[0]} failed: {said.decode(errors='replace')}")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime)


def in_turn(rivals: Mapping[Name, Callable[[], Cost]], runs: int) -> dict[Name, list[Cost]]:
    """Every rival's costs, run after run, after one round that is not counted."""
    rounds = [{name: run() for name, run in rivals.items()} for _ in range(runs + 1)][1:]
    return {name: [each[name] for each in rounds] for name in rivals}


def ratios(ours: Sequence[Cost], theirs: Sequence[Cost]) -> tuple[float, float]:
    """Median ratios of neighbouring runs: wall time, CPU time."""
    pairs = list(zip(ours, theirs, strict=True))
    return statistics.median(a.wall / b.wall for a, b in pairs), statistics.median(a.cpu / b.cpu for a, b in pairs)


def row(what: str, rival: str, ours: Sequence[Cost], theirs: Sequence[Cost], bound: float | None = None) -> Row:
    """The line that compares two of them."""
    return Row(what, rival, *ratios(ours, theirs), bound)


def show(rows: Sequence[Row]) -> None:
    """Print them as a table."""
    print(HEAD)
    for each in rows:
        print(each)


def machine() -> str:
    """Where and when, with how much else went on: one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    now = datetime.now(UTC).date()
    return f"{now}, {model}, {os.cpu_count()} cores{load}, Python {platform.python_version()}"
