"""Real kills, interruptions and full disks of real runs, at random moments.

Each run is a fork of this process, which has imported all that takes seconds, and never runs a model itself.
"""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from attnscan.api import many_pairs as ranking
from attnscan.cli.app import main
from attnscan.inputs.read import shipped_pairs
from attnscan.scan import local as windows

# So that a fork finds them: a run imports them only when it needs them
for _name in ("attnscan.scan.state", "attnscan.scan.scanner", "attnscan.results.tables"):
    importlib.import_module(_name)


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    status: int
    """The exit code; below zero, the signal that killed it."""
    stderr: str
    seconds: float

    @property
    def calm(self) -> bool:
        """Whether it said nothing but lines of its own: no traceback."""
        return all(line.startswith("attnscan: ") for line in self.stderr.splitlines())


class Scene:
    """A directory with a model and pairs, in which the same command is run again and again, and disturbed."""

    def __init__(self, directory: Path, model: Path, count: int) -> None:
        self.directory, self.model, self.pairs = directory, model, directory / "pairs.csv"
        self.state, self.table, self.scores = (directory / n for n in ("scan.state", "heads.csv", "scores.parquet"))
        with self.pairs.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("sentence_a", "sentence_b"))
            for number, record in enumerate(itertools.islice(itertools.cycle(shipped_pairs()), count)):
                writer.writerow((f"{number} {record.pair.a}", record.pair.b))
        scan = ["heads", "--model", str(model), "--pairs", str(self.pairs), "--no-related", "--predictive", "off"]
        scan += ["--best", "--batch-tokens", "400", "-o", str(self.table)]
        self.resumable = [*scan, "--state", str(self.state)]
        self.keeping = [*scan, "--per-pair", str(self.scores)]
        ended = self.run(self.resumable)
        assert ended.status == 0, ended.stderr
        self.expected, self.seconds = self.table.read_bytes(), ended.seconds
        self.clear()

    def clear(self) -> None:
        """Remove what runs have written."""
        for path in (self.state, self.table, self.scores, *self.hidden()):
            path.unlink(missing_ok=True)

    def hidden(self) -> list[Path]:
        """Temporary files that are still there: a run that is killed leaves its own."""
        return [path for path in self.directory.iterdir() if path.name.startswith(".")]

    def run(
        self, arguments: Sequence[str], signals: Sequence[tuple[float, int]] = (), largest_file: int | None = None
    ) -> Ended:
        """A run of its own, sent signals so many seconds after the command begins and after one another."""
        begun, begins = os.pipe()
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            self._run_here(arguments, largest_file, begins)
        os.close(begins)
        os.read(begun, 1)  # however long a busy machine takes to get there
        os.close(begun)
        began = time.monotonic()
        for after, number in signals:
            time.sleep(after)
            os.kill(pid, number)  # it is not waited for yet, and so its number is not another's
        _, status = os.waitpid(pid, 0)
        said = self.directory / f"{pid}.stderr"
        stderr = said.read_text(encoding="utf-8") if said.exists() else ""  # none of a run that was killed before
        said.unlink(missing_ok=True)
        return Ended(os.waitstatus_to_exitcode(status), stderr, time.monotonic() - began)

    def _run_here(self, arguments: Sequence[str], largest_file: int | None, begins: int) -> None:
        """Run the command, and exit; a byte goes into `begins` before."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(self.directory / f"{os.getpid()}.stderr", os.O_CREAT | os.O_WRONLY), 2)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
        ranking._SAVE_EVERY = 0.0  # a state after every window, and small windows
        windows._BATCHES_IN_WINDOW = 2, 2  # so that two threads have something to do
        if largest_file is not None:  # a disk that is full: what is written beyond fails
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        sys.argv, code = ["attnscan", *arguments], 70  # a traceback
        try:
            os.write(begins, b"!")
            main()
        except SystemExit as end:
            code = int(end.code or 0) if isinstance(end.code, int | None) else 70
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def check_and_go_on(self, *, resume: bool = True) -> None:
        """Whatever has a final name is whole; the same command, undisturbed, gives the table that it always gives.

        Raises: AssertionError.
        """
        assert not self.table.exists() or self.table.read_bytes() == self.expected, "a table that is not whole"
        if self.scores.exists():
            pd.read_parquet(self.scores)
        self.table.unlink(missing_ok=True)
        if resume:
            ended = self.run(self.resumable)
            assert ended.status == 0 and ended.calm, ended
            assert self.table.read_bytes() == self.expected, "another table"


def killed(scene: Scene, draw: random.Random) -> bool:
    """A run that is killed, gone on with and killed again, up to three times, then let alone.

    Returns, as all of these do, whether the fault struck before the run was through.
    """
    scene.clear()
    struck, times = False, draw.randint(1, 3)
    for time_ in range(times):
        ended = scene.run(scene.resumable, [(draw.uniform(0, scene.seconds), signal.SIGKILL)])
        assert ended.status in (-signal.SIGKILL, 0) and ended.calm, ended
        struck |= ended.status != 0
        scene.check_and_go_on(resume=time_ == times - 1)
    return struck


def killed_while_keeping(scene: Scene, draw: random.Random) -> bool:
    """A run that writes every pair's scores, killed: there is no such file, or a whole one."""
    scene.clear()
    ended = scene.run(scene.keeping, [(draw.uniform(0, scene.seconds), signal.SIGKILL)])
    assert ended.status in (-signal.SIGKILL, 0) and ended.calm, ended
    assert not scene.table.exists() or scene.scores.exists(), "a result without what was to be kept"
    scene.check_and_go_on(resume=False)
    return ended.status != 0


def interrupted_twice(scene: Scene, draw: random.Random) -> bool:
    """Ctrl-C, and again before the first one is done with: no traceback, and the run can be gone on with."""
    scene.clear()
    first, second = draw.uniform(0.05, scene.seconds), draw.choice((0.0, 0.002, 0.02))
    ended = scene.run(scene.resumable, [(first, signal.SIGINT), (second, signal.SIGINT)])
    assert ended.status in (130, 0) and ended.calm, ended
    scene.check_and_go_on()
    return ended.status != 0


def out_of_space(scene: Scene, draw: random.Random) -> bool:
    """A disk that is full after so many bytes: one line, nothing half-written, and nothing left beside."""
    scene.clear()
    ended = scene.run(draw.choice((scene.resumable, scene.keeping)), largest_file=draw.randrange(1, 12_000))
    if ended.status:
        *_, line = ended.stderr.splitlines()
        assert ended.status == 1 and ended.calm and line.startswith("attnscan: cannot "), ended
    assert not scene.hidden(), "something is left beside"
    scene.check_and_go_on()
    return ended.status != 0


FAULTS = (killed, killed_while_keeping, interrupted_twice, out_of_space)
