"""Sums in a file: an .npz with one array for each sum, to the last bit, and JSON in `about` for all that is no sum.

A file of them is replaced whole, so that a kill at any moment leaves the last one or the one before; and it is not
trusted, since a damaged sum would go on into every later one: zip keeps a CRC of every array.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from attnscan.errors import StateError
from attnscan.inputs.pairs import Pair, Place
from attnscan.inputs.sentence import Sentence
from attnscan.results.files import write_file
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray
from attnscan.results.statement import COLUMNS
from attnscan.results.stored_file import StoredFile
from attnscan.results.terms import Scored
from attnscan.scan.local import ScanSums
from attnscan.scan.options import ScanOptions
from attnscan.scan.seen import Drawn, Seen
from attnscan.scoring.block_sums import BlockSums
from attnscan.scoring.label_sums import LabelSums
from attnscan.scoring.profile import profiled
from attnscan.scoring.profile_sums import sums_shapes
from attnscan.scoring.sums import KINDS, HeadProducts, ScoreSums, Sums

_MAX_BYTES = 512 << 20  # 384 heads x 7 patterns take 50 MiB, nearly all for the products of heads; split, twice that
_ABOUT = "about"


def write_checked(path: Path | StoredFile, form: int | str, about: Mapping[str, Any], sums: ScanSums) -> None:
    """Write what `read_checked` reads, whole or not at all. Raises: OutputError."""
    file = BytesIO()
    arrays: dict[str, Any] = {_ABOUT: np.array(json.dumps({"format": form, **about})), **arrays_of(sums)}
    np.savez(file, allow_pickle=False, **arrays)
    if isinstance(path, StoredFile):
        path.write_bytes(file.getvalue())
    else:
        write_file(path, file.getvalue())


@contextmanager
def read_checked(path: Path | StoredFile, form: int | str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Read a state file of a format, which of clusters is text: what it is about, and its arrays by name.

    Raises: StateError if it is of another format or damaged, as any error of the caller's says, too.
    """
    try:
        content = _whole(path)
        if content is None:
            raise StateError(f"{path} is too large for a state file", "give the file that an earlier --state wrote")
        if content.startswith(b'{"format"'):  # as earlier versions wrote states
            raise _of_another_version(path)
        with np.load(BytesIO(content), allow_pickle=False) as file:
            if sum(member.file_size for member in file.zip.infolist()) > len(content):
                raise ValueError("compressed, as no state is")
            arrays = dict(file)
        about = json.loads(str(arrays.pop(_ABOUT)))
        if (theirs := about.pop("format")) != form:
            if isinstance(theirs, str) != isinstance(form, str):
                where = "a cluster" if isinstance(theirs, str) else "one machine"
                raise StateError(f"{path} is of a run on {where}", "go on there, or name another --state file")
            raise _of_another_version(path)
        yield about, arrays
    except StateError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    except Exception:  # parsing a damaged file fails in any way
        raise StateError(f"{path} is not a sound state file", "remove it to start anew") from None


def _of_another_version(path: Path | StoredFile) -> StateError:
    return StateError(f"{path} was written by another version of attnscan", "remove it to start anew")


def _whole(path: Path | StoredFile) -> bytes | None:
    """What is in a file; None of one that is too large. Raises: OSError; StateError."""
    if isinstance(path, StoredFile):
        content = path.read_bytes(_MAX_BYTES)
        return content if len(content) <= _MAX_BYTES else None
    return path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None


def arrays_of(sums: ScanSums) -> dict[str, Any]:
    """All arrays of sums, each by the names of the fields that it is in."""
    return dict(_arrays("sums", sums))


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray):
        yield name, value
        return
    if isinstance(value, BlockSums):
        value = value.packed()
    elif is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    for key, part in value.items() if isinstance(value, Mapping) else ():
        yield from _arrays(f"{name}.{key}", part)


def seen_dumped(seen: Seen) -> dict[str, Any]:
    """What was read, as JSON holds it."""
    drawn = [[key, *astuple(place), *map(_sentence_dumped, pair.sentences)] for key, place, pair in seen.sample]
    return {**asdict(seen), "sample": drawn}


def _sentence_dumped(sentence: Sentence) -> str | list[Any]:
    return sentence.text if sentence.words is None else [sentence.text, sentence.words, sentence.tags]


def seen_loaded(*, read: int, truncated: int, skipped: int, digest: str, sample: list[list[Any]]) -> Seen:
    """Read what `seen_dumped` made. Raises: ValueError for counts or places of another type."""
    if not all(type(each) is int and each >= 0 for each in (read, truncated, skipped)) or type(digest) is not str:
        raise ValueError("counts of another type")
    return Seen(read, truncated, skipped, digest, tuple(_drawn(*each) for each in sample))


def _drawn(key: str, file: str, row: int, name: str | None, *sentences: str | list[Any]) -> Drawn:
    if not (type(key) is type(file) is str and type(row) is int and isinstance(name, str | None)):
        raise ValueError("a place of another type")
    return (
        key,
        Place(file, row, name),
        Pair(*(Sentence(*known) if isinstance(known, list) else known for known in sentences)),
    )


def sums_loaded(arrays: Mapping[str, Any], options: ScanOptions, grid: Grid, *, predictive: bool) -> ScanSums:
    """Read a model's sums from the arrays of a file; `predictive` says whether these patterns were asked for.

    Raises: KeyError, ValueError if they are not those of a scan with these options.
    """
    parts = profiled(options.patterns, predictive=predictive and options.predictive_part)
    return _Arrays(arrays, tuple(pattern.scored for pattern in options.patterns), grid).sums(len(parts))


class _Arrays:
    """The arrays of a file, each of which has to be of the shape that is expected."""

    def __init__(self, arrays: Mapping[str, Any], scored: tuple[Scored, ...], grid: Grid) -> None:
        self._arrays, self._scored, self._grid = arrays, scored, grid

    def sums(self, parts: int) -> ScanSums:
        shape, columns = self._grid.shape, (*self._grid.shape, COLUMNS)
        return ScanSums(
            told=self._scores("sums.told"),
            ranked=self._scores("sums.ranked"),
            profile=self._blocks("sums.profile", sums_shapes(*shape, parts)),
            labels=self._labels("sums.labels"),
            carried=self._scores("sums.carried"),
            carried_labels=self._labels("sums.carried_labels"),
            classes=self._blocks("sums.classes", {"on": columns, "even": columns, "n": (*shape, 1)}),
        )

    def _has(self, name: str) -> bool:
        return any(key.startswith(f"{name}.") for key in self._arrays)

    def _array(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        values: FloatArray = self._arrays[name]
        if values.shape != shape or values.dtype != np.float64 or not np.isfinite(values).all():
            raise ValueError(f"{name} of another shape")
        return values

    def _record(self, kind: Any, name: str, shape: tuple[int, ...]) -> Any:
        return kind(*(self._array(f"{name}.{f.name}", shape) for f in fields(kind)))

    def _scores(self, name: str) -> ScoreSums | None:
        if not self._has(name):
            return None
        grid, patterns = self._grid, len(self._scored)
        every_key, words_only = (self._record(Sums, f"{name}.{kind}", (*grid.shape, patterns)) for kind in KINDS)
        entropy, words = (self._array(f"{name}.{of_rows}", grid.shape) for of_rows in ("entropy", "words"))
        products, of_heads = None, (patterns, len(grid), len(grid))
        if self._has(f"{name}.products"):
            products = {kind: self._record(HeadProducts, f"{name}.products.{kind}", of_heads) for kind in KINDS}
        return ScoreSums(self._scored, every_key, words_only, entropy, words, products)

    def _labels(self, name: str) -> LabelSums | None:
        if not self._has(name):
            return None
        votes, shape = self._arrays[f"{name}.votes"], (len(KINDS), *self._grid.shape, len(self._scored) + 1)
        if votes.shape != shape or votes.dtype != np.int64:
            raise ValueError("votes of another shape")
        return LabelSums(self._scored, self._unpacked(f"{name}.blocks"), votes).checked()

    def _blocks(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> BlockSums | None:
        return self._unpacked(name).checked(shapes) if self._has(name) else None

    def _unpacked(self, name: str) -> BlockSums:
        start = f"{name}."
        return BlockSums.unpacked(
            {key.removeprefix(start): values for key, values in self._arrays.items() if key.startswith(start)}
        )
