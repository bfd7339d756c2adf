"""Every command that writes a file, in every format: on a full disk, and where it may not be written.

Runs are forks, as those of `kills`.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from treebanks import planted_file

from hostile.kills import Ended, Scene

OLDER = b"of an earlier run"
ONE = ("the cat sat on the mat", "a cat sat")
TABLES = ("csv", "tsv", "json", "jsonl", "md", "txt", "parquet", "xlsx")
PICTURES = ("svg", "png", "pdf")
_LEAST = 200  # bytes: standard error is a file as well, and its one line must fit
STDOUT = ("table", "csv", "json", "parquet", "xlsx")


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
            f"choose another place with {writer.option}",
            *["or set TMPDIR"] * (path.suffix == ".xlsx"),
            *["free some space"] * (writer.option != "-o"),
        )
        assert ended.stderr.rstrip().endswith(remedies), ended
        assert _files(path.parent) == before, f"{writer.label}: {sorted(_files(path.parent))}"
    else:
        assert ended.calm and set(_files(path.parent)) <= {path.name}, ended
        assert writer.option == "--state" or path.read_bytes() != OLDER, "nothing was written"
    return ended.status != 0


def to_a_full_device(scene: Scene, writer: Writer, form: str) -> bool:
    """Standard output goes to a disk that is full: one line, whatever the format."""
    ended = scene.run([*writer.arguments, "--format", form], first=_full_stdout)
    assert ended.status == 1, ended
    _said_once(ended)
    return True


def _full_stdout() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def in_a_place_that_may_not_be_written(scene: Scene, writer: Writer, *, older: bool) -> bool:
    """A directory of files that are read alone, which is the user's home, too: one line, and nothing is lost."""
    path = _older(scene.directory / "closed", writer)
    if not older:
        path.unlink()
    before = _files(path.parent)
    path.parent.chmod(0o555)
    try:
        first = partial(_as_a_user_at_home_in, path.parent)
        ended = scene.run([*writer.arguments, writer.option, str(path)], first=first)
    finally:
        path.parent.chmod(0o755)
    _said_once(ended)
    assert "permission" in ended.stderr.lower() or "protected" in ended.stderr, ended
    assert _files(path.parent) == before, f"{writer.label}: {sorted(_files(path.parent))}"
    return True


def at_home_where_nothing_may_be_written(scene: Scene, writer: Writer) -> bool:
    """The result goes elsewhere, and the home and its caches may not be written: the run does its work, and is calm."""
    home = scene.directory / "home"
    home.mkdir(exist_ok=True)
    path = _older(scene.directory / "open", writer)
    path.unlink()
    home.chmod(0o555)
    try:
        first = partial(_as_a_user_at_home_in, home)
        ended = scene.run([*writer.arguments, writer.option, str(path)], first=first)
    finally:
        home.chmod(0o755)
    assert ended.status == 0 and ended.calm, ended
    assert path.stat().st_size > 0 and not list(home.iterdir()), writer.label
    return True


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


def _as_a_user_at_home_in(directory: Path) -> None:
    """From here on the process may do no more than any user, and what it keeps for itself goes to this home."""
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "HF_HOME"):
        os.environ.pop(name, None)
    os.environ["HOME"] = str(directory)
    os.chdir(directory)
    if os.geteuid() == 0:
        _drop_capabilities()
        assert not os.access(directory, os.W_OK), "it may still write everywhere"


def _drop_capabilities() -> None:
    """Root without them is held to the modes of files as anyone is, and can still read what only root can."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # the interface's third version, and this process
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        raise OSError(ctypes.get_errno(), "capset")
