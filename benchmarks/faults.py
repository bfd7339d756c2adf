"""What a user can do by accident or malice, in full: inputs tried, faults injected, and how often attnscan failed.

    python benchmarks/faults.py [--texts 1000] [--checkpoints 300] [--kills 25] [--pairs 100000]
    [--models 300] [--mixings 10] [--every 8] [--strings 2] [--options 1] [--writers 2] [--part NAME ...]

--every, --strings, --options and --writers take every so many of what they list; 1 is all of it. At these counts, the
defaults, all parts should take less than an hour on two quiet cores; the time of a part grows with its count.
The generators and checks are those of the tests, `tests/support/hostile/`. Each part is a process of its own, whose
peak memory is the operating system's; the libraries alone take about 450 MiB of it. Prints a table in Markdown, which
stands in RESULTS.md and from there in docs/faults.md, and each failure as it comes; exits with 1 if there was one.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import torch
from hostile import checkpoints, files, kills, mixing, models, options, strings, texts, writers
from hostile.runs import check, loaded_once, run, save_tiny_model
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tokenizers_of_kinds import byte_level
from transformers import BertConfig, BertModel

from attnscan.errors import AttnscanError
from attnscan.inputs.columns import FileReading
from attnscan.inputs.pairs import read_pairs, shipped_pairs
from attnscan.inputs.weights import read_weights
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

Trial = Callable[[], bool]
"""One thing tried; whether it was taken, or the fault struck. Raises: AssertionError if attnscan failed."""
Part = Callable[[Path], Iterator[Trial]]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    counts: Counter[str]
    mebibytes: int
    seconds: float


def of_texts(count: int, directory: Path) -> Iterator[Trial]:
    """Each pair of sentences through the five commands that take sentences."""
    model = save_tiny_model(directory / "model")
    drawn: list[tuple[tuple[str, str | None], int]] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(texts.pairs, st.integers(0, 1000))
    def draw(pair: tuple[str, str | None], number: int) -> None:
        drawn.append((pair, number))

    draw()
    with loaded_once():
        for pair, number in drawn[:count]:
            taken = texts.commands(model, directory, pair, number)
            for _ in range(5):
                yield partial(next, taken)


def of_files(every: int, directory: Path) -> Iterator[Trial]:
    """Each kind of file, broken at every byte, or every so many."""
    model = save_tiny_model(directory / "model")
    options = ScanOptions(model=str(model), predictive="off", related=False, on_long="truncate")
    with Scanner(options) as scanner:
        for kind in itertools.chain(files.pair_kinds(), [files.weights_kind()], files.scan_kinds(scanner)):
            path = directory / kind.name
            kind.write(path)
            whole, content = kind.read(path), path.read_bytes()
            for damaged in itertools.islice(files.broken(content, 0), 0, None, every | 1):
                yield partial(files.survives, kind, path, damaged, whole)


def of_bombs(directory: Path) -> Iterator[Trial]:
    """Small files that ask for much."""

    def read(path: Path) -> bool:
        try:
            _ = read_weights(path) if path.suffix == ".npz" else list(read_pairs([str(path)], FileReading(("1",))))
        except AttnscanError:
            return False
        return True

    for path in files.bombs(directory):
        yield partial(read, path)


def of_checkpoints(count: int, directory: Path) -> Iterator[Trial]:
    """Every trap, and so many checkpoints with one thing damaged."""
    model, draw = save_tiny_model(directory / "tiny"), random.Random(0)

    def classified(place: Path, trap: bool) -> bool:
        taken = check(run("classify", "the cat sat", "--model", place, "--predictive", "off", "--csv"))
        assert not (place / "sprung").exists(), "its code was run"
        assert not (taken and trap), "a trap was taken"
        return taken

    damaged = {str(number): checkpoints.mutated(draw) for number in range(count)}
    for name, place in checkpoints.copies(model, directory, {**checkpoints.TRAPS, **damaged}):
        yield partial(classified, place, name in checkpoints.TRAPS)


def of_models(count: int, _directory: Path) -> Iterator[Trial]:
    """Every change of every kind of model in memory, and so many of several changes at once."""
    for number, (kind, names) in enumerate(models.trials(count)):
        yield partial(models.tried, kind, names, number)


def of_faults(fault: Callable[[kills.Scene, random.Random], bool], count: int, directory: Path) -> Iterator[Trial]:
    """One fault, at so many random moments."""
    scene = _prepared(directory)
    for seed in range(count):
        yield partial(fault, scene, random.Random(seed))


def of_strings(every: int, directory: Path) -> Iterator[Trial]:
    """Each string of each file that is read, or every so many, with what a terminal obeys in it."""
    model = save_tiny_model(directory / "model")
    with loaded_once():
        yield from strings.trials(model, directory, every)


def of_options(every: int, directory: Path) -> Iterator[Trial]:
    """Each option of each command at its extremes, or every so many of these."""
    model = save_tiny_model(directory / "model")
    (place := directory / "place").mkdir()
    options.prepared(place, model)
    with loaded_once():
        for _, trial in itertools.islice(options.trials(place), 0, None, every):
            yield trial


def of_full_disks(every: int, directory: Path) -> Iterator[Trial]:
    """Each command that writes, in each format, or every so many, on a disk that is full after so many bytes."""
    scene, draw = _prepared(directory, 12), random.Random(0)
    listed = list(writers.writers(scene))
    for writer in listed[::every]:
        yield partial(writers.on_a_full_disk, scene, writer, draw)
    to_stdout = [(writer, form) for writer in listed if writer.name == "result.csv" for form in writers.STDOUT]
    for writer, form in to_stdout[::every]:
        yield partial(writers.to_a_full_device, scene, writer, form)


def of_closed_places(every: int, directory: Path) -> Iterator[Trial]:
    """Each command that writes, in each format, or every so many, where a user may not write."""
    scene = _prepared(directory, 12)
    listed = list(writers.writers(scene))
    at_home = {(writer.option, Path(writer.name).suffix): writer for writer in listed}  # one for each library
    for writer in listed[::every]:
        for older in (True, False):
            yield partial(writers.in_a_place_that_may_not_be_written, scene, writer, older=older)
        if writer in at_home.values():
            yield partial(writers.at_home_where_nothing_may_be_written, scene, writer)


def of_pairs(count: int, directory: Path) -> Iterator[Trial]:
    """One scan of so many short pairs."""
    model, path = save_tiny_model(directory / "model"), directory / "pairs.tsv"
    with path.open("w", encoding="utf-8") as file:
        file.write("sentence_a\tsentence_b\n")
        file.writelines(f"the cat {number}\ta mat\n" for number in range(count))

    def ranked() -> bool:
        flags = ("--no-related", "--predictive", "off", "--pattern", "next-word", "--format", "json")
        result = run("heads", "--model", model, "--pairs", path, *flags)
        taken = check(result)
        assert taken == (count > 0), result.stderr
        assert not taken or json.loads(result.stdout)["signature"]["pairs_read"] == count
        return taken

    yield ranked


def of_a_large_model(directory: Path) -> Iterator[Trial]:
    """A pair of 512 tokens on 24 x 16 heads, by each command that keeps all of its attention."""
    torch.manual_seed(0)
    tokenizer = byte_level()
    sizes = {"hidden_size": 128, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=512, **sizes)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    long = " ".join(record.pair.a for record in itertools.islice(shipped_pairs(), 60))
    for command in (["classify", "--csv"], ["report", "-o", directory / "page.html"], ["show", "23-15", "--csv"]):
        flags = ["--truncate", "--no-related", "--predictive", "off", "--model", directory]
        yield lambda command=command, flags=flags: check(run(*command, long, long, *flags))  # type: ignore[misc]


def _prepared(directory: Path, pairs: int = 100) -> kills.Scene:
    """A scene whose model was saved by a fork: this process must not have run torch's threads when it forks."""
    if (pid := os.fork()) == 0:
        save_tiny_model(directory / "model")
        os._exit(0)
    os.waitpid(pid, 0)
    (directory / "scene").mkdir()
    return kills.Scene(directory / "scene", directory / "model", pairs)


def measured(name: str, part: Part) -> Row:
    """Run a part in a process of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        if (pid := os.fork()) == 0:
            place.joinpath("counts.json").write_text(json.dumps(_counted(name, part, place)))
            os._exit(0)
        _, status, usage = os.wait4(pid, 0)
        counts = Counter({"died": 1}) if status else Counter(json.loads(place.joinpath("counts.json").read_text()))
    return Row(name, counts, usage.ru_maxrss >> 10, time.monotonic() - began)


def _counted(name: str, part: Part, directory: Path) -> dict[str, int]:
    counts = dict.fromkeys(("tried", "taken", "failures"), 0)
    (directory / "work").mkdir()
    devnull = os.open(os.devnull, os.O_WRONLY)
    talk = os.dup(2)
    os.dup2(devnull, 2)  # progress bars of saving; a run's own standard error is caught
    for trial in part(directory / "work"):
        counts["tried"] += 1
        try:
            counts["taken"] += trial()
        except BaseException:
            counts["failures"] += 1
            os.write(talk, f"{name}, trial {counts['tried']}:\n{traceback.format_exc(limit=-3)[-1500:]}\n".encode())
    return counts


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, default in (
        ("texts", 1000),
        ("checkpoints", 300),
        ("models", 300),
        ("kills", 25),
        ("mixings", 10),
        ("writers", 2),
        ("strings", 2),
        ("options", 1),
        ("every", 8),
        ("pairs", 100_000),
    ):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--part", nargs="+", help="only parts whose names hold one of these words")
    sizes = parser.parse_args()
    parts: dict[str, Part] = {
        "sentences and pairs, through five commands": partial(of_texts, sizes.texts),
        "files, cut and broken at every byte": partial(of_files, sizes.every),
        "small files that ask for gigabytes": of_bombs,
        "checkpoints: traps, and damaged at random": partial(of_checkpoints, sizes.checkpoints),
        "models in memory, changed as their weights do not show": partial(of_models, sizes.models),
        **{
            f"runs {fault.__name__.replace('_', ' ')}": partial(of_faults, fault, sizes.kills) for fault in kills.FAULTS
        },
        **{
            f"runs {fault.__name__.replace('_', ' ')}": partial(of_faults, fault, sizes.mixings)
            for fault in mixing.FAULTS
        },
        "every string of every file, with what a terminal obeys": partial(of_strings, sizes.strings),
        "every option of every command, at its extremes": partial(of_options, sizes.options),
        "every command and format, on a full disk": partial(of_full_disks, sizes.writers),
        "every command and format, where it may not write": partial(of_closed_places, sizes.writers),
        "a scan of 0 pairs": partial(of_pairs, 0),
        "a scan of 1 pair": partial(of_pairs, 1),
        f"a scan of {sizes.pairs // 10:,} pairs": partial(of_pairs, sizes.pairs // 10),
        f"a scan of {sizes.pairs:,} pairs": partial(of_pairs, sizes.pairs),
        "512 tokens on 24 × 16 heads, three commands": of_a_large_model,
    }
    head = ("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD")
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    counts = " ".join(f"--{name} {count}" for name, count in vars(sizes).items() if name != "part")
    print(f"{datetime.date.today()}, commit `{commit}`, {os.cpu_count()} cores, `{counts}`\n")
    print("| what | tried | taken or struck | failures | peak memory | seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    failed = False
    for name, part in parts.items():
        if not sizes.part or any(word in name for word in sizes.part):
            row = measured(name, part)
            failed |= bool(row.counts["failures"] or row.counts["died"])
            cells = (f"{row.counts['tried']:,}", f"{row.counts['taken']:,}", f"{row.counts['failures']}")
            outcome = ("died",) * 3 if row.counts["died"] else cells
            print("|", " | ".join((name, *outcome, f"{row.mebibytes} MiB", f"{row.seconds:.0f}")), "|", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
