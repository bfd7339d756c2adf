"""Every pair's score of every head and pattern, in a Parquet file, for statistics of one's own; and back to a ranking.

Columns: `file`, `pair` (which of the file's records it is, from 1, bad ones counted) and, if a column of ids was named,
`id`; `layer`, `head`, `pattern`; `score`, `chance`, `self` (how much of the score is a word's weight on itself) and `n`
with every key; `words_score`, `words_chance`, `words_self` and `words_n` with words alone. A row is left out where the
pair has no eligible query. The rows of a pair stand together, ordered by layer, head and pattern.

A cluster writes a directory of such files. What one file says of itself in its metadata stands there in
`_common_metadata`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OutputError, PairsError, needs
from attnscan.inputs.pairs import Place
from attnscan.results.files import begun, check_suffix, descriptor, explained, partial_of, settle
from attnscan.results.ranking import Ranking
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.results.terms import Scored
from attnscan.scan.per_pair_about import About, Unsound
from attnscan.scoring.sums import KINDS, ScoreSums

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_PREFIXES = ("", "words_")  # of the columns of each of the `KINDS`
_AT_ONCE = 256  # pairs of a file that are added together, or fewer
_CELLS = 1 << 20  # pairs x layers x heads x patterns: ten arrays of 8 MB
_COMMON = "_common_metadata"  # what Parquet's readers call a file that holds no rows
_PART = re.compile(r"[a-z0-9-]{1,40}")


class PerPairWriter:
    """Writes the file as the pairs come; it gets its name when it is whole.

    Raises: OutputError if it cannot be written, is no regular file or not called one of Parquet, or pyarrow is not
    installed.
    """

    def __init__(self, path: Path, patterns: Sequence[str], *, ids: bool = False) -> None:
        """With `ids`, the pairs' ids are a column."""
        self._path, self._patterns, self._ids = path, list(patterns), ids
        _, self._parquet = _pyarrow()
        if descriptor(path) is not None or (path.exists() and not path.is_file()):
            raise OutputError(f"{path} is not a regular file, and Parquet needs one", "name another --per-pair file")
        check_suffix(path, ".parquet", "--per-pair")
        with explained(path):
            self._beside = begun(path)
        self._writer: Any = None
        self._held: list[pa.Table] = []

    def __enter__(self) -> PerPairWriter:
        return self

    def write(self, places: Sequence[Place], sums: Mapping[str, FloatArray]) -> None:
        """Add some pairs. Shape: each of `sums` is [pair, layer, head, pattern]."""
        self._add(pair_table(places, sums, self._patterns, ids=self._ids))

    def hold(self, places: Sequence[Place], sums: Mapping[str, FloatArray]) -> None:
        """Keep some pairs in memory until `write_held`; without that, they never come into the file."""
        self._held.append(pair_table(places, sums, self._patterns, ids=self._ids))

    def write_held(self) -> None:
        """Add the pairs that were held."""
        for table in self._held:
            self._add(table)
        self._held.clear()

    def _add(self, table: pa.Table) -> None:
        with explained(self._path):
            if self._writer is None:
                self._writer = self._parquet.ParquetWriter(self._beside, table.schema)
            self._writer.write_table(table)

    def finish(self, signature: Signature, grid: tuple[int, int], *, whole: bool = True) -> None:
        """Add what the file has to say of itself, and give it its name, or that of `partial_of`."""
        with explained(self._path):
            if self._writer is not None:
                self._writer.add_key_value_metadata(About(signature, tuple(self._patterns), grid).metadata())
                self._writer.close()
                settle(self._beside, self._path if whole else partial_of(self._path))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # a full disk, which is then what ended the run
            if self._writer is not None:
                self._writer.close()
        self._beside.unlink(missing_ok=True)


def pair_table(
    places: Sequence[Place], sums: Mapping[str, FloatArray], patterns: Sequence[str], *, ids: bool = False
) -> pa.Table:
    """The rows of some pairs; with `ids`, these are a column.

    Shape: each of `sums` is [pair, layer, head, pattern].
    """
    arrow, _ = _pyarrow()
    place = np.nonzero(sums["every_key.n"] > 0)
    files = {file: number for number, file in enumerate(dict.fromkeys(each.file for each in places))}
    of_file = np.array([files[each.file] for each in places], dtype=np.int32)[place[0]]
    columns: dict[str, Any] = {
        "file": arrow.DictionaryArray.from_arrays(of_file, list(map(_readable, files))),
        "pair": np.array([each.row for each in places], dtype=np.int64)[place[0]],
    }
    if ids:
        names = [None if each.id is None else _readable(each.id) for each in places]
        columns["id"] = arrow.array(names, arrow.string()).take(arrow.array(place[0]))
    columns |= {
        "layer": place[1].astype(np.int32),
        "head": place[2].astype(np.int32),
        "pattern": arrow.DictionaryArray.from_arrays(place[3].astype(np.int8), list(patterns)),
    }
    return arrow.table(columns | _measured(sums, place))


def pair_frame(
    places: Sequence[Place], sums: Mapping[str, FloatArray], patterns: Sequence[str], *, ids: bool = False
) -> pd.DataFrame:
    """The same rows as a data frame, for which Arrow is not needed."""
    import pandas as pd

    pair, layer, head, pattern = place = np.nonzero(sums["every_key.n"] > 0)
    columns: dict[str, Any] = {
        "file": pd.Categorical(np.array([each.file for each in places], dtype=object)[pair]),
        "pair": np.array([each.row for each in places], dtype=np.int64)[pair],
    }
    if ids:
        columns["id"] = np.array([each.id for each in places], dtype=object)[pair]
    columns |= {"layer": layer.astype(np.int32), "head": head.astype(np.int32)}
    columns["pattern"] = pd.Categorical.from_codes(pattern, pd.Index(list(patterns)))
    return pd.DataFrame(columns | _measured(sums, place))


def _measured(sums: Mapping[str, FloatArray], place: tuple[NDArray[Any], ...]) -> dict[str, NDArray[Any]]:
    """The columns of numbers, of the rows at some places in [pair, layer, head, pattern]."""
    columns: dict[str, NDArray[Any]] = {}
    for prefix, kind in zip(_PREFIXES, KINDS, strict=True):
        count = sums[f"{kind}.n"][place]
        with np.errstate(invalid="ignore", divide="ignore"):
            columns[f"{prefix}score"] = sums[f"{kind}.weight"][place] / count
            columns[f"{prefix}chance"] = sums[f"{kind}.chance"][place] / count
            columns[f"{prefix}self"] = sums[f"{kind}.itself"][place] / count
        columns[f"{prefix}n"] = count.astype(np.int64)
    return columns


def _readable(text: str) -> str:
    """As UTF-8, which file names and JSON need not be."""
    return text.encode(errors="backslashreplace").decode()


def finish_directory(directory: Path, ranking: Ranking, parts: Sequence[str]) -> None:
    """Add to a directory what it has to say of itself; each of its parts is a directory of one file.

    Raises: OutputError if a part is not there, or the directory cannot be written.
    """
    arrow, parquet = _pyarrow()
    missing = [part for part in parts if len(list((directory / part).glob("*.parquet"))) != 1]
    if missing:
        raise OutputError(
            f"{len(missing)} of {len(parts)} parts of the pairs' scores are not in {directory.parent}",
            "name a directory on a disk that all machines of the cluster share",
        )
    about = About(ranking.signature, ranking.scores.patterns, ranking.scores.grid, tuple(parts))
    parquet.write_metadata(arrow.schema([], metadata=about.metadata()), directory / _COMMON)


def rank_file(path: Path, wanted: Sequence[str] = ()) -> Ranking:
    """Rank heads by a file or directory that `--per-pair` wrote, read as a stream, without the model.

    Raises: PairsError if it is another one, or damaged, or lacks one of the `wanted` patterns.
    """
    _pyarrow()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise PairsError(f"{path} is not a regular file", "name a file that --per-pair wrote")
    try:
        about, files = _told(path)
        shape, scored = (*about.grid, len(about.patterns)), tuple(map(Scored, about.patterns))
        nothing = np.full(about.grid, np.nan)
        sums = ScoreSums.of(_of_pairs(_NO_ROWS, shape), scored, nothing, nothing, products=True)
        for rows in _whole_pairs(files, shape, about.patterns):
            sums += ScoreSums.of(_of_pairs(rows, shape), scored, nothing, nothing, products=True)
    except FileNotFoundError:
        raise PairsError(f"there is no file {path}", "check the path") from None
    except OutputError:
        raise
    except Exception as error:  # whatever pyarrow and a damaged file make of each other, in words for its developers
        why = str(error)[:120] if isinstance(error, Unsound) else "it is damaged, or of another kind"
        raise PairsError(f"{path} is not a file that --per-pair wrote: {why}", "run heads --per-pair again") from None
    if missing := [pattern for pattern in wanted if pattern not in about.patterns]:
        raise PairsError(
            f"{path} has no scores for {', '.join(missing)}: it holds {', '.join(about.patterns)}",
            "run heads --per-pair again with that --pattern",
        )
    return Ranking(sums.finish(), about.signature)


def _told(path: Path) -> tuple[About, list[Path]]:
    """What a file or a directory says of itself, and the files with its rows. Raises: Unsound, and pyarrow's errors."""
    _, parquet = _pyarrow()
    common = path / _COMMON if path.is_dir() else path
    if path.is_dir() and not common.is_file():
        raise Unsound(f"it has no {_COMMON}")
    about = About.read(parquet.read_metadata(common).metadata)
    if not path.is_dir():
        return about, [path]
    if about.parts is None:
        raise Unsound("it does not name its parts")
    files = []
    for part in about.parts:
        found = list((path / part).glob("*.parquet")) if _PART.fullmatch(part) else []
        if len(found) != 1:
            raise Unsound(f"its part {part} is not there")
        files += found
    return about, files


_MEASURED = ("score", "chance", "self", "n")
_Columns = dict[str, NDArray[Any]]
"""Rows of a file as arrays, all of one length: what stands for the `file`, `pair`, `place` in [layer, head, pattern]
laid flat, and its numbers."""


_NO_ROWS: _Columns = {name: np.zeros(0, dtype=np.int64) for name in ("file", "pair", "place")} | {
    f"{prefix}{name}": np.zeros(0) for prefix in _PREFIXES for name in _MEASURED
}


def _whole_pairs(files: Sequence[Path], shape: tuple[int, int, int], patterns: Sequence[str]) -> Iterator[_Columns]:
    """The rows of some whole pairs at a time, file by file. Raises: Unsound if a row is of another grid."""
    _, parquet = _pyarrow()
    most = math.prod(shape)
    at_once = max(1, min(_AT_ONCE, _CELLS // most))
    for name in files:
        with parquet.ParquetFile(name) as file:
            rest: _Columns | None = None
            for batch in file.iter_batches(batch_size=1 << 16):
                rows = _columns(batch, shape, patterns)
                if rest is not None:
                    rows = {name: np.concatenate([rest[name], values]) for name, values in rows.items()}
                starts = np.flatnonzero(_begins(rows))
                for first in range(0, len(starts) - 1, at_once):
                    part = slice(starts[first], starts[min(first + at_once, len(starts) - 1)])
                    yield {name: values[part] for name, values in rows.items()}
                rest = {name: values[starts[-1] :] for name, values in rows.items()} if len(starts) else None
                if rest is not None and len(rest["pair"]) > most:
                    raise Unsound("a pair with more rows than there are heads and patterns")
            if rest is not None:
                yield rest


def _begins(rows: _Columns) -> NDArray[np.bool_]:
    """Which rows are the first of a pair: a file may be there twice, so its pair's places must rise as well."""
    begins = np.ones(len(rows["pair"]), dtype=np.bool_)
    begins[1:] = (np.diff(rows["file"]) != 0) | (np.diff(rows["pair"]) != 0) | (np.diff(rows["place"]) <= 0)
    return begins


def _columns(rows: pa.RecordBatch, shape: tuple[int, int, int], patterns: Sequence[str]) -> _Columns:
    numbers = {pattern: i for i, pattern in enumerate(patterns)}
    pattern = _coded(rows.column("pattern"), lambda name: numbers.get(name, -1))
    file = _coded(rows.column("file"), hash)
    pair, layer, head = (rows.column(name).to_numpy().astype(np.int64) for name in ("pair", "layer", "head"))
    place = np.ravel_multi_index((layer, head, pattern), shape)
    measured = [f"{prefix}{name}" for prefix in _PREFIXES for name in _MEASURED]
    columns = {"file": file, "pair": pair, "place": place}
    return columns | {name: rows.column(name).to_numpy().astype(float) for name in measured}


def _coded(names: Any, code: Callable[[str], int]) -> NDArray[np.int64]:
    """A column of names as numbers, each name asked for once."""
    names = names if hasattr(names, "dictionary") else names.dictionary_encode()
    codes = np.array([code(name) for name in names.dictionary.to_pylist()], dtype=np.int64)
    of_rows: NDArray[np.int64] = codes[names.indices.to_numpy()]
    return of_rows


def _of_pairs(rows: _Columns, shape: tuple[int, int, int]) -> dict[str, FloatArray]:
    """The sums of each pair, as `Scorer.pair_sums` names them; what a part has of its whole is not told."""
    number = np.cumsum(_begins(rows)) - 1
    pairs = int(number[-1]) + 1 if len(number) else 0
    size = math.prod(shape)

    def laid_out(values: FloatArray) -> FloatArray:
        flat = np.bincount(number * size + rows["place"], values, pairs * size).astype(float)
        return flat.reshape(pairs, *shape)

    sums = {}
    for prefix, kind in zip(_PREFIXES, KINDS, strict=True):
        n = rows[f"{prefix}n"]
        for name, column in (("weight", "score"), ("chance", "chance"), ("itself", "self")):
            mean = np.where(n > 0, rows[f"{prefix}{column}"], 0)  # where words alone leave no query there is no score
            sums[f"{kind}.{name}"] = laid_out(mean * n)
        sums[f"{kind}.n"] = laid_out(n)
        sums[f"{kind}.whole"] = np.full((pairs, *shape), np.nan)
    return sums


def _pyarrow() -> tuple[Any, Any]:
    with needs("Parquet needs pyarrow", "parquet"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet
