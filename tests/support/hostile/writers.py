"""Every command that writes a file, in every format: on a full disk.

Runs are forks, as those of `kills`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treebanks import planted_file

from hostile.kills import Scene

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


def writers(scene: Scene) -> Iterator[Writer]:
    """All of them. A test holds this list to the commands and to the formats that there are."""
    off = ("--model", str(scene.model), "--no-related")
    one = (*ONE, *off, "--predictive", "off")
    many = ("--pairs", str(scene.pairs), *off)
    heads = ("heads", *many, "--predictive", "off")
    commands: dict[tuple[str, ...], tuple[str, ...]] = {
        ("classify", *one): TABLES,
        ("show", "0-1", *one): TABLES,
        ("predictive", *ONE, "--model", str(scene.model)): TABLES,
        ("explain", "0-1", *one): TABLES,
        heads: TABLES,
        ("head", "0-1", *many): TABLES,
        ("ablate", *many, "--heads", "0-1", "--draws", "2"): (*TABLES, *PICTURES),
        ("similar", *many): (*TABLES, *PICTURES),
        ("profile", *many): TABLES,
        ("compare", *(str(scene.model),) * 2, "--pairs", str(scene.pairs)): (*TABLES, *PICTURES),
        ("syntax", "--treebank", planted_file(Path(scene.pairs).parent), "--model", str(scene.model)): TABLES,
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

    Returns, as the others do, whether the fault struck.
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
    if ended.status:
        assert ended.status == 1 and ended.calm and ended.stderr.strip(), ended
        # a workbook's sheets are written elsewhere first; a signature is a file beside a table on standard output
        remedies = (
            "choose another place",
            *["or set TMPDIR"] * (path.suffix == ".xlsx"),
            *["free some space"] * (writer.option != "-o"),
        )
        line = ended.stderr.splitlines()[-1]
        assert line.startswith("attnscan: ") and "; " in line and line.endswith(remedies), ended
        assert after == before, f"{writer}: {sorted(after)}"
    else:
        assert ended.calm and set(after) <= {path.name}, ended
        assert writer.option == "--state" or path.read_bytes() != OLDER, "nothing was written"
    return ended.status != 0
