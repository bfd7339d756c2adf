"""Real kills, interruptions and full disks of real runs, at random moments; and every command that
writes a file.

    python tests/support/hostile/kills.py kills|per-pair|full-disks COUNT DIRECTORY

Each run is a fork of this process, which has imported all that takes seconds, and never runs a
model itself. Prints how often a fault struck. A trial that attnscan fails ends it with a traceback.
"""

import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.hostile.options import lines
from support.hostile.runs import save_tiny_model
from support.treebanks import planted_file

from attnscan.api import many_pairs as ranking
from attnscan.cli.app import main
from attnscan.inputs.read import shipped_pairs
from attnscan.scan import pair_scan as windows
from attnscan.scan import scanner, state  # noqa: F401  (so that a fork finds them)

OLDER = b"of an earlier run"
TABLES = ("csv", "tsv", "json", "jsonl", "md", "txt", "parquet", "xlsx")
PICTURES = ("svg", "png", "pdf")
SCAN = (
    "heads --model model --pairs pairs.csv --no-related --best --predictive off --batch-tokens 400"
)
_FORKS = multiprocessing.get_context("fork")


def run(
    arguments: Sequence[str],
    signals: Sequence[tuple[float, int]] = (),
    largest_file: int | None = None,
) -> tuple[int, str]:
    """Run a command with signals, each so many seconds after the command has begun or after the
    signal before.

    Returns its exit code, or the signal that killed it below zero, and what it wrote to standard
    error. Raises: AssertionError if that was more than lines of its own, such as a traceback.
    """
    errors = Path("stderr")
    begun = _FORKS.Event()
    errors.write_bytes(b"")
    process = _FORKS.Process(target=_run_here, args=(arguments, largest_file, errors, begun.set))
    process.start()
    begun.wait()  # however long a busy machine takes to get there
    for seconds, number in signals:
        time.sleep(seconds)
        os.kill(
            int(process.pid or 0), number
        )  # it is not waited for yet, and so its number is not another's
    process.join()
    text = errors.read_text(encoding="utf-8")
    errors.unlink()
    assert all(line.startswith("attnscan: ") for line in text.splitlines()), text
    return int(process.exitcode or 0), text


def _run_here(
    arguments: Sequence[str], largest_file: int | None, errors: Path, begins: Callable[[], None]
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(errors, os.O_WRONLY), sys.stderr.fileno())
    ranking._SAVE_EVERY = 0.0  # a state after every window, and small windows
    windows._BATCHES_IN_WINDOW = 2, 2  # so that two threads have something to do
    if largest_file is not None:  # a disk that is full: what is written beyond fails
        sys.dont_write_bytecode = True  # Python would leave half of a module that it compiles
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    sys.argv = ["attnscan", *arguments]
    begins()
    main()


def kills(count: int) -> Iterator[bool]:
    """Whether a kill, its request, or Ctrl-C twice ended a scan too early; run again, its table is
    always the same.
    """
    before = {*Path().iterdir()}
    kept = Path("scan.state")
    table = Path("heads.csv")
    command = [*SCAN.split(), "--state", str(kept), "-o", str(table)]
    began = time.monotonic()
    assert run(command)[0] == 0
    expected = table.read_bytes()
    seconds = time.monotonic() - began
    for seed in range(count):
        draw = random.Random(seed)
        kill = [(draw.uniform(0.05, seconds), signal.SIGKILL)]
        request = [(draw.uniform(0.05, seconds), signal.SIGTERM)]
        interrupts = [
            (draw.uniform(0.05, seconds), signal.SIGINT),
            (draw.choice((0.0, 0.002, 0.02)), signal.SIGINT),
        ]
        for signals, code in ((kill, -signal.SIGKILL), (request, 143), (interrupts, 130)):
            for path in {*Path().iterdir()} - before:
                path.unlink()
            ended, _ = run(command, signals)
            assert ended in (code, 0), ended
            assert signals == kill or {*Path().iterdir()} <= {*before, kept, table}, (
                "a file that is not whole"
            )
            assert not table.exists() or table.read_bytes() == expected, "a table that is not whole"
            table.unlink(missing_ok=True)
            assert run(command)[0] == 0
            assert table.read_bytes() == expected, "another table"
            yield ended != 0


def per_pair_kills(count: int) -> Iterator[bool]:
    """Whether a kill, its request, or Ctrl-C ended a run with `--per-pair` too early.

    An earlier run's file is untouched until the new one is whole; run again, it is always the same.
    """
    path = Path("every.parquet")
    command = [*SCAN.split(), "--per-pair", str(path), "-o", "heads.csv"]
    began = time.monotonic()
    assert run(command)[0] == 0
    expected = pd.read_parquet(path)
    seconds = time.monotonic() - began
    for seed in range(count):
        draw = random.Random(seed)
        for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
            path.write_bytes(OLDER)
            before = {*Path().iterdir()}
            ended, _ = run(command, [(draw.uniform(0.05, seconds), number)])
            assert ended in (code, 0), ended
            if path.read_bytes() != OLDER:  # the new file was whole before the run ended
                pd.testing.assert_frame_equal(pd.read_parquet(path), expected)
            left = {*Path().iterdir()} - before
            assert number == signal.SIGKILL or not left, f"temporary files: {left}"
            for temporary in left:
                temporary.unlink()
            assert run(command)[0] == 0
            pd.testing.assert_frame_equal(pd.read_parquet(path), expected)
            yield ended != 0


@dataclass(frozen=True)
class Writer:
    """A command, the option that names its file, and the file's name."""

    arguments: tuple[str, ...]
    option: str
    name: str


def writers() -> Iterator[Writer]:
    """All of them. A test holds this list to the commands and to the formats that there are."""
    formats: dict[str, tuple[str, ...]] = {"report": ("html",), "plot": PICTURES, "serve": ()}
    formats |= dict.fromkeys(("ablate", "similar", "compare", "trace"), (*TABLES, *PICTURES))
    commands = {
        name: (name, *(line[: line.index("-o")] if "-o" in line else line))
        for name, line in lines().items()
    }
    for name, arguments in commands.items():
        for suffix in formats.get(name, TABLES):
            yield Writer(arguments, "-o", f"result.{suffix}")
    yield Writer(commands["classify"], "--save-weights", "result.npz")
    for option, suffix in {
        "--signature": "json",
        "--per-pair": "parquet",
        "--state": "state",
    }.items():
        yield Writer(commands["heads"], option, f"result.{suffix}")


def full_disks(every: int) -> Iterator[bool]:
    """Whether a disk was full before a file was written: one line, an earlier run's file is
    untouched, and no other.
    """
    draw = random.Random(0)
    directory = Path("full")
    directory.mkdir()
    for writer in list(writers())[::every]:
        for path in directory.iterdir():
            path.unlink()
        path = directory / writer.name
        if (
            writer.option != "--state"
        ):  # which is read before it is written, and what is there would be refused
            path.write_bytes(OLDER)
        before = {path.name: path.read_bytes() for path in directory.iterdir()}
        limit = draw.randrange(
            200, 3000
        )  # standard error is a file as well, and its one line must fit
        ended, text = run([*writer.arguments, writer.option, str(path)], largest_file=limit)
        after = {path.name: path.read_bytes() for path in directory.iterdir()}
        if ended:
            # a workbook's sheets are written elsewhere first; a signature is a file beside a table
            # on standard output
            remedies = ("choose another place\n", "or set TMPDIR\n", "free some space\n")
            assert ended == 1 and "; " in text and text.endswith(remedies), text
            assert after == before, f"{writer}: {sorted(after)}"
        else:
            assert set(after) <= {path.name}, text
            assert writer.option == "--state" or path.read_bytes() != OLDER, "nothing was written"
        yield ended != 0


if __name__ == "__main__":
    kind = sys.argv[1]
    number = int(sys.argv[2])
    os.chdir(sys.argv[3])
    planted_file(Path(), "trees.conllu")
    saving = _FORKS.Process(
        target=save_tiny_model, args=(Path("model"),)
    )  # a fork, since it runs torch
    saving.start()
    saving.join()
    records = list(islice(cycle(shipped_pairs()), 12 if kind == "full-disks" else 60))
    rows = [(f"{i} {record.pair.a}", record.pair.b) for i, record in enumerate(records)]
    pd.DataFrame(rows, columns=["sentence_a", "sentence_b"]).to_csv("pairs.csv", index=False)
    trials = {"kills": kills, "per-pair": per_pair_kills, "full-disks": full_disks}
    print(sum(trials[kind](number)))
