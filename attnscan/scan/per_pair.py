"""Every pair's score of every head and pattern, in a Parquet file, for one's own statistics; and back to a ranking.

Columns: `file`, `pair` (which of the file's records it is, from 1, bad ones counted) and, if a column of ids was named,
`id`; `kind`, if it is not an encoder's; `layer`, `head`, `pattern`; `score`, `chance`, `self` (how much of the score is
a word's weight on itself) and `n` with every key; `words_score`, `words_chance`, `words_self` and `words_n` with words
alone, all in 32 bits. A row is left out where the pair has no eligible query. The rows of a pair stand together,
ordered by layer, head and pattern.

A cluster writes a directory of such files. What one file says of itself in its metadata stands there in
`_common_metadata`. It is not trusted when it is read: a small file can name a huge model, so sizes are bounded here,
before anything is laid out to their measure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OutputError, PairsError, needs
from attnscan.inputs.option import words_of
from attnscan.inputs.pairs import Place
from attnscan.inputs.weights import MAX_HEADS
from attnscan.results.files import begun, check_suffix, descriptor, explained, partial_of, settle
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.ranking import Ranking
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.results.terms import Scored
from attnscan.scan.events import PairScores
from attnscan.scoring.sums import KINDS, ScoreSums

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


_CODED = ("file", "pair", "id", "kind", "layer", "head", "pattern", "n", "words_n")
_PREFIXES = ("", "words_")  # of the columns of each of the `KINDS`
COMMON = "_common_metadata"  # what Parquet's readers call a file that holds no rows
KEY = "attnscan"
"""Of the metadata."""
_MAX_SCORES = 1 << 20
"""Layers x heads x patterns: two and a half times those of the largest model and our patterns."""
_MAX_PATTERNS = 127  # their numbers in the file have eight bits
_MAX_TEXT = 1 << 16
_KINDS = {kind.word: kind for kind in (AttentionKind.DECODER, AttentionKind.CROSS)}

_AT_ONCE = 256  # pairs of a file that are added together, or fewer
_CELLS = 1 << 20  # pairs x layers x heads x patterns: ten arrays of 8 MB
_PART = re.compile(r"[a-z0-9-]{1,40}")


class PerPairWriter:
    """Writes the file as the pairs come; it gets its name when it is whole.

    Raises: OutputError if it cannot be written, is no regular file or not called one of Parquet, or pyarrow is not
    installed.
    """

    def __init__(
        self,
        path: Path,
        patterns: Sequence[str],
        *,
        ids: bool = False,
        heads: str | None = None,
        kind: AttentionKind = AttentionKind.ONLY,
    ) -> None:
        """With `ids`, the pairs' ids are a column; `heads` of the `kind` are those whose rows are wanted, None all."""
        self._path, self._patterns = path, list(patterns)
        self._how: dict[str, Any] = {"ids": ids, "heads": heads, "kind": kind}
        _pyarrow_parquet()
        if descriptor(path) is not None or (path.exists() and not path.is_file()):
            raise OutputError(f"{path} is not a regular file, and Parquet needs one", "name another --per-pair file")
        check_suffix(path, ".parquet", "--per-pair")
        with explained(path):
            self._beside = begun(path)
        self._writer: Any = None

    def __enter__(self) -> PerPairWriter:
        return self

    def table(self, scores: PairScores) -> pa.Table:
        """The rows of some pairs, smaller than their scores."""
        return pair_table(scores.places, scores.sums, self._patterns, **self._how)

    def write(self, table: pa.Table) -> None:
        """Add the rows of some pairs."""
        with explained(self._path):
            if self._writer is None:
                self._writer = parquet_writer(self._beside, table.schema)
            self._writer.write_table(table)

    def finish(self, signature: Signature, grid: Grid, *, whole: bool = True) -> None:
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


def parquet_writer(where: Any, schema: pa.Schema) -> Any:
    """Pyarrow's writer of such files: numbers that differ from row to row are packed faster and smaller as they are."""
    _, parquet = _pyarrow_parquet()
    coded = [name for name in schema.names if name in _CODED]
    return parquet.ParquetWriter(where, schema, compression="zstd", use_dictionary=coded)


def pair_table(
    places: Sequence[Place],
    sums: Mapping[str, FloatArray],
    patterns: Sequence[str],
    *,
    ids: bool = False,
    heads: str | None = None,
    kind: AttentionKind = AttentionKind.ONLY,
) -> pa.Table:
    """The rows of some pairs, of all heads of the kind or those named; with `ids`, these are a column.

    Shape: each of `sums` is [pair, layer, head, pattern].
    Raises: SelectionError for a head that is not there.
    """
    arrow, _ = _pyarrow_parquet()
    eligible = sums["every_key.n"] > 0
    if heads is not None:
        grid = Grid(((kind, *eligible.shape[1:3]),))
        wanted = np.zeros(grid.shape, dtype=np.bool_)
        for head in grid.select(heads):
            wanted[head.place] = True
        eligible = eligible & wanted[..., None]
    place = np.nonzero(eligible)
    files = {file: number for number, file in enumerate(dict.fromkeys(origin.file for origin in places))}
    of_file = np.array([files[origin.file] for origin in places], dtype=np.int32)[place[0]]
    columns: dict[str, Any] = {
        "file": arrow.DictionaryArray.from_arrays(of_file, list(map(_readable, files))),
        "pair": np.array([origin.row for origin in places], dtype=np.int64)[place[0]],
    }
    if ids:
        names = [None if origin.id is None else _readable(origin.id) for origin in places]
        columns["id"] = arrow.array(names, arrow.string()).take(arrow.array(place[0]))
    if kind is not AttentionKind.ONLY:
        codes = np.zeros(len(place[0]), dtype=np.int8)
        columns["kind"] = arrow.DictionaryArray.from_arrays(codes, [kind.word])
    columns |= {
        "layer": place[1].astype(np.int32),
        "head": place[2].astype(np.int32),
        "pattern": arrow.DictionaryArray.from_arrays(place[3].astype(np.int8), list(patterns)),
    }
    for name, values in _measured(sums, place).items():
        columns[name] = values.astype(np.float32 if values.dtype == np.float64 else np.int32)
    return arrow.table(columns)


def pair_frame(
    places: Sequence[Place],
    sums: Mapping[str, FloatArray],
    patterns: Sequence[str],
    *,
    ids: bool = False,
    kind: AttentionKind = AttentionKind.ONLY,
) -> pd.DataFrame:
    """Rows as a data frame, for which Arrow is not needed."""
    import pandas as pd

    pair, layer, head, pattern = place = np.nonzero(sums["every_key.n"] > 0)
    columns: dict[str, Any] = {
        "file": pd.Categorical(np.array([origin.file for origin in places], dtype=object)[pair]),
        "pair": np.array([origin.row for origin in places], dtype=np.int64)[pair],
    }
    if ids:
        columns["id"] = np.array([origin.id for origin in places], dtype=object)[pair]
    if kind is not AttentionKind.ONLY:
        columns["kind"] = pd.Categorical.from_codes(np.zeros_like(pair), pd.Index([kind.word]))
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


def finish_directory(directory: Path, ranking: Ranking, parts: Sequence[str], rows: int) -> None:
    """Add to a directory what it has to say of itself; each of its parts is a file, of so many rows in all.

    Raises: OutputError if a part or a row is not there, or one is there twice, or the directory cannot be written.
    """
    arrow, parquet = _pyarrow_parquet()
    files = [directory / f"{part}.parquet" for part in parts]
    if missing := [file for file in files if not file.is_file()]:
        raise OutputError(
            f"{len(missing)} of {len(parts)} files of the pairs' scores are not in {directory.parent}",
            "name a directory on a disk that all machines of the cluster share",
        )
    if (written := sum(parquet.read_metadata(file).num_rows for file in files)) != rows:
        raise OutputError(f"{written:,} rows of pairs' scores were written, and not {rows:,}", "run it again")
    about = About(ranking.signature, ranking.scores.patterns, ranking.scores.grid, tuple(parts))
    parquet.write_metadata(arrow.schema([], metadata=about.metadata()), directory / COMMON)


def _pyarrow_parquet() -> tuple[Any, Any]:
    """The two modules. Raises: OutputError if they are not installed."""
    with needs("Parquet needs pyarrow", "parquet"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet


class _Unsound(ValueError):
    """What is wrong with such a file, in a few words."""


@dataclass(frozen=True)
class About:
    """What such a file says of itself."""

    signature: Signature
    patterns: tuple[str, ...]
    grid: Grid
    """The model's heads."""
    parts: tuple[str, ...] | None = None
    """The files of a directory, by name and in order, without `.parquet`; None for a file."""

    def metadata(self) -> dict[str, str]:
        """The metadata that says it."""
        ((kind, *shape),) = self.grid.shapes
        grid = shape if kind is AttentionKind.ONLY else [kind.word, *shape]
        about = {"signature": asdict(self.signature), "patterns": list(self.patterns), "grid": grid}
        return {KEY: json.dumps(about if self.parts is None else {**about, "parts": list(self.parts)})}

    @classmethod
    def read(cls, metadata: Mapping[bytes, bytes] | None) -> About:
        """What metadata says, every type and size of it checked.

        Raises: _Unsound, which says what is wrong.
        """
        if metadata is None or KEY.encode() not in metadata:
            raise _Unsound("it says nothing of itself")
        about = json.loads(metadata[KEY.encode()])
        _check(isinstance(about, dict) and {"signature", "patterns", "grid"} <= set(about), "it lacks what it must say")
        _check(set(about) <= {field.name for field in fields(cls)}, "it says more than it can")
        shape, patterns = about["grid"], _names(about["patterns"], "patterns")
        kind = AttentionKind.ONLY
        if isinstance(shape, list) and len(shape) == 3 and shape[0] in _KINDS:
            kind, *shape = _KINDS[shape[0]], *shape[1:]
        _check(isinstance(shape, list) and len(shape) == 2 and all(map(_is_count, shape)), "it has no valid grid")
        grid = Grid(((kind, *shape),))
        _check(0 < len(patterns) <= _MAX_PATTERNS, f"it has {len(patterns)} patterns")
        _check(0 < math.prod(shape) <= MAX_HEADS, f"it is of {shape[0]} layers of {shape[1]} heads")
        _check(len(grid) * len(patterns) <= _MAX_SCORES, "it is of more heads and patterns than any model has")
        parts = about.get("parts")
        return cls(
            signature_read(about["signature"]),
            patterns,
            grid,
            None if parts is None else _names(parts, "parts"),
        )


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise _Unsound(what)


def signature_read(said: Any) -> Signature:
    """A signature whose fields are all there, each of its type. Raises: _Unsound."""
    _check(isinstance(said, dict), "it has no valid signature")
    types = get_type_hints(Signature)
    _check(set(said) <= set(types), "its signature has fields of another version")
    for field in fields(Signature):
        if field.name not in said:
            _check(field.default is not MISSING, f"its signature has no {field.name}")
            continue
        value, kind = said[field.name], types[field.name]
        if words := words_of(kind):
            right = value in words
        else:
            right = _is_count(value) if kind is int else isinstance(value, kind)
        _check(right and len(str(value)) <= _MAX_TEXT, f"its {field.name} is of another type")
    return Signature(**said)


def _names(said: Any, what: str) -> tuple[str, ...]:
    """Names, each there once."""
    _check(isinstance(said, Sequence) and not isinstance(said, str), f"its {what} are not a list")
    _check(all(isinstance(name, str) and 0 < len(name) <= _MAX_TEXT for name in said), f"its {what} are not names")
    _check(len(set(said)) == len(said), f"one of its {what} is there twice")
    return tuple(said)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def rank_file(path: Path, wanted: Sequence[str] = ()) -> Ranking:
    """Rank heads by a file or directory that `--per-pair` wrote, read as a stream, without the model.

    Raises: PairsError if it is another one, or damaged, or lacks one of the `wanted` patterns.
    """
    _pyarrow_parquet()
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
        why = str(error)[:120] if isinstance(error, _Unsound) else "it is damaged, or in another format"
        raise PairsError(f"{path} is not a file that --per-pair wrote: {why}", "run heads --per-pair again") from None
    if missing := [pattern for pattern in wanted if pattern not in about.patterns]:
        raise PairsError(
            f"{path} has no scores for {', '.join(missing)}: it holds {', '.join(about.patterns)}",
            "run heads --per-pair again with that --pattern",
        )
    ((kind, *_),) = about.grid.shapes
    return Ranking(sums.finish(kind), about.signature)


def _told(path: Path) -> tuple[About, list[Path]]:
    """What a file or directory says of itself, and the files with its rows. Raises: _Unsound, and pyarrow's errors."""
    _, parquet = _pyarrow_parquet()
    common = path / COMMON if path.is_dir() else path
    if path.is_dir() and not common.is_file():
        raise _Unsound(f"it has no {COMMON}")
    about = About.read(parquet.read_metadata(common).metadata)
    if not path.is_dir():
        return about, [path]
    if about.parts is None:
        raise _Unsound("it does not name its parts")
    files = []
    for part in about.parts:
        file = path / f"{part}.parquet"
        if not _PART.fullmatch(part) or not file.is_file():
            raise _Unsound(f"its part {part} is not there")
        files.append(file)
    return about, files


_MEASURED = ("score", "chance", "self", "n")
_Columns = dict[str, NDArray[Any]]
"""Rows of a file as arrays, all of one length: what stands for the `file`, `pair`, `place` in [layer, head, pattern]
laid flat, and its numbers."""


_NO_ROWS: _Columns = {name: np.zeros(0, dtype=np.int64) for name in ("file", "pair", "place")} | {
    f"{prefix}{name}": np.zeros(0) for prefix in _PREFIXES for name in _MEASURED
}


def _whole_pairs(files: Sequence[Path], shape: tuple[int, int, int], patterns: Sequence[str]) -> Iterator[_Columns]:
    """The rows of some whole pairs at a time, file by file. Raises: _Unsound if a row is of another grid."""
    _, parquet = _pyarrow_parquet()
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
                    raise _Unsound("a pair with more rows than there are heads and patterns")
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
    measured = [f"{prefix}{name}" for prefix in _PREFIXES for name in _MEASURED]
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
    for prefix, kind in zip(_PREFIXES, KINDS, strict=True):
        n = rows[f"{prefix}n"]
        for name, column in (("weight", "score"), ("chance", "chance"), ("itself", "self")):
            mean = np.where(n > 0, rows[f"{prefix}{column}"], 0)  # where words alone leave no query there is no score
            sums[f"{kind}.{name}"] = laid_out(mean * n)
        sums[f"{kind}.n"] = laid_out(n)
        sums |= dict.fromkeys((f"{kind}.whole", f"{kind}.whole_chance"), np.full((pairs, *shape), np.nan))
    return sums
