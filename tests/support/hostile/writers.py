"""Every command that writes a file, in every format: on a full disk.

Runs are forks, as those of `kills`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treebanks import planted_file

from hostile.kills import Ended, Scene

OLDER = b"of an earlier run"
ONE = ("the cat sat on the mat", "a cat sat")
TABLES = ("csv", "tsv", "json", "jsonl", "md", "txt", "parquet", "xlsx")
PICTURES = ("svg", "png", "pdf")
_LEAST = 200  # bytes: standard error is a file as well, and its one line must fit


@dataclass(frozen=True)
class Writer:
    """A command and where it writes; its arguments but for that."""

    arguments: tuple[str, ...]
    option: str
    """The one that names the file."""
    name: str

    @property
    def label(self) -> str:
        """What tells it from the others."""
        of = " --pairs" if "--pairs" in self.arguments else ""
        return f"{self.arguments[0]}{of} {self.option} {self.name}"


def writers(scene: Scene) -> Iterator[Writer]:
    """All of them. Two tests hold this list to the commands and to the formats that there are."""
    off = ("--model", str(scene.model), "--no-related")
    one = (*ONE, *off, "--predictive", "off")
    many = ("--pairs", str(scene.pairs), *off)
    commands: dict[tuple[str, ...], tuple[str, ...]] = {
        ("classify", *one): TABLES,
        ("show", "0-1", *one): TABLES,
        ("predictive", *ONE, "--model", str(scene.model)): TABLES,
        ("explain", "0-1", *one): TABLES,
        ("heads", *many, "--predictive", "off"): TABLES,
        ("head", "0-1", *many): TABLES,
        ("ablate", *many, "--heads", "0-1", "--draws", "2"): (*TABLES, *PICTURES),
        ("similar", *many): (*TABLES, *PICTURES),
        ("profile", *many): TABLES,
        ("compare", *(str(scene.model),) * 2, "--pairs", str(scene.pairs)): (*TABLES, *PICTURES),
        ("report", *one): ("html",),
        ("report", *many, "--predictive", "off"): ("html",),
        ("plot", *one): PICTURES,
        ("plot", *many, "--predictive", "off"): PICTURES,
        ("models",): TABLES,
        ("patterns",): TABLES,
    }
    treebank = planted_file(scene.pairs.parent)
    commands["syntax", "--treebank", treebank, "--model", str(scene.model)] = TABLES
    for arguments, suffixes in commands.items():
        for suffix in suffixes:
            yield Writer(arguments, "-o", f"result.{suffix}")
    yield Writer(("classify", *one), "--save-weights", "result.npz")
    yield Writer(("classify", *one), "--signature", "result.json")
    yield Writer(("heads", *many, "--predictive", "off"), "--signature", "result.json")
    yield Writer(("heads", *many, "--predictive", "off"), "--per-pair", "result.parquet")
    yield Writer(("heads", *many, "--predictive", "off"), "--state", "result.state")


def on_a_full_disk(scene: Scene, writer: Writer, draw: random.Random) -> bool:
    """A disk that is full after so many bytes: one line, what an earlier run wrote is untouched, nothing is beside it.

    Returns, as the others do, whether the fault struck.
    """
    path = _older(scene.directory / "full", writer)
    # a state is read before it is written, and what is there would be refused
    if writer.option == "--state":
        path.unlink()
    before = _files(path.parent)
    ended = scene.run([*writer.arguments, writer.option, str(path)], largest_file=draw.randrange(_LEAST, 3000))
    if ended.status:
        _said_once(ended)
        # a workbook's sheets are written elsewhere first; a signature is a file beside a table on standard output
        remedies = (
            "choose another place",
            *["or set TMPDIR"] * (path.suffix == ".xlsx"),
            *["free some space"] * (writer.option != "-o"),
        )
        assert ended.stderr.rstrip().endswith(remedies), ended
        assert _files(path.parent) == before, f"{writer.label}: {sorted(_files(path.parent))}"
    else:
        assert ended.calm and set(_files(path.parent)) <= {path.name}, ended
        assert writer.option == "--state" or path.read_bytes() != OLDER, "nothing was written"
    return ended.status != 0


def _said_once(ended: Ended) -> None:
    """It ended with one line of its own, and beside it no others but its own."""
    assert ended.status == 1 and ended.calm and ended.stderr.strip(), ended
    *_, line = ended.stderr.splitlines()
    assert line.startswith("attnscan: ") and "; " in line, ended


def _older(directory: Path, writer: Writer) -> Path:
    """A directory with what an earlier run wrote, and nothing else."""
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    path = directory / writer.name
    path.write_bytes(OLDER)
    return path


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
