"""Real kills, interruptions and full disks of real runs, at random moments; and every command that writes a file.

    python tests/support/hostile/kills.py runs|writers COUNT DIRECTORY

Each run is a fork of this process, which has imported all that takes seconds, and never runs a model itself. Prints as
JSON how often each fault struck. A trial that attnscan fails ends it with a traceback.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from treebanks import planted_file

from attnscan.api import many_pairs as ranking
from attnscan.cli.app import main
from attnscan.inputs.read import shipped_pairs
from attnscan.scan import local as windows
from attnscan.scan import scanner, state  # noqa: F401  (so that a fork finds them)
from hostile.runs import save_tiny_model

OLDER = b"of an earlier run"
ONE = ("the cat sat on the mat", "a cat sat")
TABLES = ("csv", "tsv", "json", "jsonl", "md", "txt", "parquet", "xlsx")
PICTURES = ("svg", "png", "pdf")
_LEAST = 200  # bytes: standard error is a file as well, and its one line must fit


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
        self.table, self.state = directory / "heads.csv", directory / "scan.state"
        with self.pairs.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("sentence_a", "sentence_b"))
            for number, record in enumerate(itertools.islice(itertools.cycle(shipped_pairs()), count)):
                writer.writerow((f"{number} {record.pair.a}", record.pair.b))
        self.command = ["heads", "--model", str(model), "--pairs", str(self.pairs), "--no-related", "--best"]
        self.command += ["--predictive", "off", "--batch-tokens", "400", "--state", str(self.state)]
        self.command += ["-o", str(self.table)]
        ended = self.run(self.command)
        assert ended.status == 0, ended.stderr
        self.expected, self.seconds = self.table.read_bytes(), ended.seconds

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

    def disturb(self, signals: Sequence[tuple[float, int]], expected: int) -> bool:
        """Run the command from its beginning with signals, and again without: the table is the one it always gives.

        Returns whether they struck before the run was through. Raises: AssertionError.
        """
        for path in self.directory.iterdir():  # a run that is killed leaves its temporary files
            if path not in (self.pairs, self.model) and path.is_file():
                path.unlink()
        ended = self.run(self.command, signals)
        assert ended.status in (expected, 0) and ended.calm, ended
        assert not self.table.exists() or self.table.read_bytes() == self.expected, "a table that is not whole"
        self.table.unlink(missing_ok=True)
        again = self.run(self.command)
        assert again.status == 0 and again.calm, again
        assert self.table.read_bytes() == self.expected, "another table"
        return ended.status != 0


def killed(scene: Scene, draw: random.Random) -> bool:
    """A run that is killed, and gone on with."""
    return scene.disturb([(draw.uniform(0, scene.seconds), signal.SIGKILL)], -signal.SIGKILL)


def interrupted_twice(scene: Scene, draw: random.Random) -> bool:
    """Ctrl-C, and again before the first one is done with: no traceback, and the run can be gone on with."""
    first, second = draw.uniform(0.05, scene.seconds), draw.choice((0.0, 0.002, 0.02))
    return scene.disturb([(first, signal.SIGINT), (second, signal.SIGINT)], 130)


@dataclass(frozen=True)
class Writer:
    """A command and where it writes; its arguments but for that."""

    arguments: tuple[str, ...]
    option: str
    """The one that names the file."""
    name: str


def writers(model: str, pairs: Path) -> Iterator[Writer]:
    """All of them. A test holds this list to the commands and to the formats that there are."""
    off = ("--model", model, "--no-related")
    one, many = (*ONE, *off, "--predictive", "off"), ("--pairs", str(pairs), *off)
    heads = ("heads", *many, "--predictive", "off")
    commands: dict[tuple[str, ...], tuple[str, ...]] = {
        ("classify", *one): TABLES,
        ("show", "0-1", *one): TABLES,
        ("predictive", *ONE, "--model", model): TABLES,
        ("explain", "0-1", *one): TABLES,
        heads: TABLES,
        ("head", "0-1", *many): TABLES,
        ("ablate", *many, "--heads", "0-1", "--draws", "2"): (*TABLES, *PICTURES),
        ("similar", *many): (*TABLES, *PICTURES),
        ("profile", *many): TABLES,
        ("compare", model, model, "--pairs", str(pairs)): (*TABLES, *PICTURES),
        ("syntax", "--treebank", planted_file(pairs.parent), "--model", model): TABLES,
        ("report", *one): ("html",),
        ("plot", *many, "--predictive", "off"): PICTURES,
        ("models",): TABLES,
        ("patterns",): TABLES,
    }
    for arguments, suffixes in commands.items():
        for suffix in suffixes:
            yield Writer(arguments, "-o", f"result.{suffix}")
    yield Writer(("classify", *one), "--save-weights", "result.npz")
    for option, suffix in {"--signature": "json", "--per-pair": "parquet", "--state": "state"}.items():
        yield Writer(heads, option, f"result.{suffix}")


def on_a_full_disk(scene: Scene, writer: Writer, draw: random.Random) -> bool:
    """A disk that is full after so many bytes: one line, what an earlier run wrote is untouched, nothing is beside it.

    Returns whether it was. Raises: AssertionError.
    """
    directory = scene.directory / "full"
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    path = directory / writer.name
    if writer.option != "--state":  # which is read before it is written, and what is there would be refused
        path.write_bytes(OLDER)
    before = {each.name: each.read_bytes() for each in directory.iterdir()}
    ended = scene.run([*writer.arguments, writer.option, str(path)], largest_file=draw.randrange(_LEAST, 3000))
    after = {each.name: each.read_bytes() for each in directory.iterdir()}
    assert ended.status in (0, 1) and ended.calm, ended
    if ended.status:
        # a workbook's sheets are written elsewhere first; a signature is a file beside a table on standard output
        remedies = ("choose another place", "or set TMPDIR", "free some space")
        line = ended.stderr.splitlines()[-1]
        assert line.startswith("attnscan: ") and "; " in line and line.endswith(remedies), ended
        assert after == before, f"{writer}: {sorted(after)}"
    else:
        assert set(after) <= {path.name}, ended
        assert writer.option == "--state" or path.read_bytes() != OLDER, "nothing was written"
    return ended.status != 0


if __name__ == "__main__":
    kind, count, place = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if (pid := os.fork()) == 0:  # the model is saved by a fork, too
        save_tiny_model(place / "model")
        os._exit(0)
    os.waitpid(pid, 0)
    (place / "scene").mkdir()
    scene = Scene(place / "scene", place / "model", 100 if kind == "runs" else 12)
    if kind == "runs":  # each fault so many times
        faults = (killed, interrupted_twice)
        struck = {fault.__name__: sum(fault(scene, random.Random(seed)) for seed in range(count)) for fault in faults}
    else:  # every so many of the commands and formats
        draw, listed = random.Random(0), list(writers(str(scene.model), scene.pairs))[::count]
        struck = {"full": sum(on_a_full_disk(scene, writer, draw) for writer in listed)}
    print(json.dumps(struck))
