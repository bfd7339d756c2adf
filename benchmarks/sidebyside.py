"""What the benchmarks share: rivals measured in turn, and the lines that report ratios of
neighbouring runs.

Times on a shared machine drift, so none is reported bare: what counts is the median ratio of
neighbouring runs, of wall time and of the processor time of all threads. Where others use the
machine, believe the second.
"""

import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HEAD = "| attnscan | against | wall time | CPU time | bound |\n| --- | --- | ---: | ---: | ---: |"


@dataclass(frozen=True)
class Cost:
    """Of one run, in seconds."""

    wall: float
    cpu: float


def cost(run: Callable[[], object]) -> Cost:
    """Run something once: the processor time is that of this process and of those that it started
    and waited for.
    """
    start = time.perf_counter()
    cpu_start = _processor_time()
    run()
    return Cost(time.perf_counter() - start, _processor_time() - cpu_start)


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def run_command(command: Sequence[str], directory: str | None = None, **variables: str) -> None:
    """Run a command, which must succeed, in a directory and with more variables of the
    environment.
    """
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **variables}
    subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, env=environment, check=True)


def in_turn(rivals: Mapping[str, Callable[[], object]], runs: int) -> dict[str, list[Cost]]:
    """Every rival's costs, run after run, after one round that is not counted."""
    costs: dict[str, list[Cost]] = {name: [] for name in rivals}
    for _ in range(runs + 1):
        for name, run in rivals.items():
            costs[name].append(cost(run))
    return {name: measured[1:] for name, measured in costs.items()}


def ratios(ours: Sequence[Cost], theirs: Sequence[Cost]) -> tuple[float, float]:
    """Median ratios of neighbouring runs, ours divided by the rival's: wall time, CPU time."""
    pairs = list(zip(ours, theirs, strict=True))
    wall = statistics.median(a.wall / b.wall for a, b in pairs)
    cpu = statistics.median(a.cpu / b.cpu for a, b in pairs)
    return wall, cpu


def row(
    what: str, rival: str, ours: Sequence[Cost], theirs: Sequence[Cost], bound: float | None = None
) -> str:
    """The line of a table that compares two of them."""
    wall, cpu = ratios(ours, theirs)
    limit = "–" if bound is None else f"{bound:.2f}"
    return f"| {what} | {rival} | {wall:.2f} | {cpu:.2f} | {limit} |"


def machine() -> str:
    """Where and when, with how much else went on: one line."""
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":")[1].strip() for line in info if line.startswith("model name")] or [
        platform.machine()
    ]
    cores = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start"
    return f"{datetime.now(UTC).date()}, {models[0]}, {cores}, Python {platform.python_version()}"
