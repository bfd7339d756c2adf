"""Back from every pair's scores, as `per_pair.py` wrote them, to a ranking; read as a stream, and not trusted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OutputError, PairsError
from attnscan.results.ranking import Ranking
from attnscan.results.scores import FloatArray
from attnscan.results.terms import Scored
from attnscan.scan.per_pair import COMMON, PREFIXES, About, Unsound, pyarrow_parquet
from attnscan.scoring.sums import KINDS, ScoreSums

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 256  # pairs of a file that are added together, or fewer
_CELLS = 1 << 20  # pairs x layers x heads x patterns: ten arrays of 8 MB
_PART = re.compile(r"[a-z0-9-]{1,40}")


def rank_file(path: Path, wanted: Sequence[str] = ()) -> Ranking:
    """Rank heads by a file or directory that `--per-pair` wrote, read as a stream, without the model.

    Raises: PairsError if it is another one, or damaged, or lacks one of the `wanted` patterns.
    """
    pyarrow_parquet()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise PairsError(f"{path} is not a regular file", "name a file that --per-pair wrote")
    try:
        about, files = _told(path)
        shape, scored = (*about.grid.shape, len(about.patterns)), tuple(map(Scored, about.patterns))
        nothing = np.full(about.grid.shape, np.nan)
        sums = ScoreSums.of(_of_pairs(_NO_ROWS, shape), scored, nothing, nothing, products=True)
        for rows in _whole_pairs(files, shape, about.patterns):
            sums += ScoreSums.of(_of_pairs(rows, shape), scored, nothing, nothing, products=True)
    except FileNotFoundError:
        raise PairsError(f"there is no file {path}", "check the path") from None
    except OutputError:
        raise
    except Exception as error:  # whatever pyarrow and a damaged file make of each other, in words for its developers
        why = str(error)[:120] if isinstance(error, Unsound) else "it is damaged, or in another format"
        raise PairsError(f"{path} is not a file that --per-pair wrote: {why}", "run heads --per-pair again") from None
    if missing := [pattern for pattern in wanted if pattern not in about.patterns]:
        raise PairsError(
            f"{path} has no scores for {', '.join(missing)}: it holds {', '.join(about.patterns)}",
            "run heads --per-pair again with that --pattern",
        )
    ((kind, *_),) = about.grid.shapes
    return Ranking(sums.finish(kind), about.signature)


def _told(path: Path) -> tuple[About, list[Path]]:
    """What a file or a directory says of itself, and the files with its rows. Raises: Unsound, and pyarrow's errors."""
    _, parquet = pyarrow_parquet()
    common = path / COMMON if path.is_dir() else path
    if path.is_dir() and not common.is_file():
        raise Unsound(f"it has no {COMMON}")
    about = About.read(parquet.read_metadata(common).metadata)
    if not path.is_dir():
        return about, [path]
    if about.parts is None:
        raise Unsound("it does not name its parts")
    files = []
    for part in about.parts:
        file = path / f"{part}.parquet"
        if not _PART.fullmatch(part) or not file.is_file():
            raise Unsound(f"its part {part} is not there")
        files.append(file)
    return about, files


_MEASURED = ("score", "chance", "self", "n")
_Columns = dict[str, NDArray[Any]]
"""Rows of a file as arrays, all of one length: what stands for the `file`, `pair`, `place` in [layer, head, pattern]
laid flat, and its numbers."""


_NO_ROWS: _Columns = {name: np.zeros(0, dtype=np.int64) for name in ("file", "pair", "place")} | {
    f"{prefix}{name}": np.zeros(0) for prefix in PREFIXES for name in _MEASURED
}


def _whole_pairs(files: Sequence[Path], shape: tuple[int, int, int], patterns: Sequence[str]) -> Iterator[_Columns]:
    """The rows of some whole pairs at a time, file by file. Raises: Unsound if a row is of another grid."""
    _, parquet = pyarrow_parquet()
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
    pair, layer, head = (_numbers(rows.column(name)).astype(np.int64) for name in ("pair", "layer", "head"))
    place = np.ravel_multi_index((layer, head, pattern), shape)
    measured = [f"{prefix}{name}" for prefix in PREFIXES for name in _MEASURED]
    columns = {"file": file, "pair": pair, "place": place}
    return columns | {name: _numbers(rows.column(name)).astype(float) for name in measured}


def _coded(names: Any, code: Callable[[str], int]) -> NDArray[np.int64]:
    """A column of names as numbers, each name asked for once."""
    names = names if hasattr(names, "dictionary") else names.dictionary_encode()
    codes = np.array([code(name) for name in names.dictionary.to_pylist()], dtype=np.int64)
    of_rows: NDArray[np.int64] = codes[_numbers(names.indices)]
    return of_rows


def _numbers(column: Any) -> NDArray[Any]:
    """A column without gaps as it lies in memory: Arrow's own `to_numpy` imports pandas."""
    return np.from_dlpack(column)


def _of_pairs(rows: _Columns, shape: tuple[int, int, int]) -> dict[str, FloatArray]:
    """The sums of each pair, as `Scorer.pair_sums` names them; what a part has of its whole is not told."""
    number = np.cumsum(_begins(rows)) - 1
    pairs = int(number[-1]) + 1 if len(number) else 0
    size = math.prod(shape)

    def laid_out(values: FloatArray) -> FloatArray:
        flat = np.bincount(number * size + rows["place"], values, pairs * size).astype(float)
        return flat.reshape(pairs, *shape)

    sums = {}
    for prefix, kind in zip(PREFIXES, KINDS, strict=True):
        n = rows[f"{prefix}n"]
        for name, column in (("weight", "score"), ("chance", "chance"), ("itself", "self")):
            mean = np.where(n > 0, rows[f"{prefix}{column}"], 0)  # where words alone leave no query there is no score
            sums[f"{kind}.{name}"] = laid_out(mean * n)
        sums[f"{kind}.n"] = laid_out(n)
        sums |= dict.fromkeys((f"{kind}.whole", f"{kind}.whole_chance"), np.full((pairs, *shape), np.nan))
    return sums
