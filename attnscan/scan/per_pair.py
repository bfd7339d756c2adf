"""Every pair's score of every head and pattern, in a Parquet file, for one's own statistics.

Columns: `file`, `pair` (which of the file's records it is, from 1, bad ones counted) and, if a column of ids was named,
`id`; `kind`, if it is not an encoder's; `layer`, `head`, `pattern`; `score`, `chance`, `self` (how much of the score is
a word's weight on itself) and `n` with every key; `words_score`, `words_chance`, `words_self` and `words_n` with words
alone, all in 32 bits. A row is left out where the pair has no eligible query. The rows of a pair stand together,
ordered by layer, head and pattern.

The file's metadata say under `attnscan`, in JSON, what ran: the signature, the patterns, and the model's heads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OutputError, needs
from attnscan.inputs.sentence import Place
from attnscan.results.files import begun, check_suffix, check_writable, explained, is_stream, settle
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.scoring.blocks import KINDS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


_CODED = ("file", "pair", "id", "kind", "layer", "head", "pattern", "n", "words_n")
_PREFIXES = ("", "words_")  # of the columns of each of the `KINDS`


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
        kind: AttentionKind = AttentionKind.ONLY,
    ) -> None:
        """With `ids`, the pairs' ids are a column; `kind` is that of the heads."""
        self._path, self._patterns = path, list(patterns)
        self._how: dict[str, Any] = {"ids": ids, "kind": kind}
        _pyarrow_parquet()
        if is_stream(path):
            raise OutputError(f"{path} is not a regular file, and Parquet needs one", "name another --per-pair file")
        check_suffix(path, ".parquet", "--per-pair")
        check_writable(path)
        with explained(path):
            self._beside = begun(path)
        self._writer: Any = None

    def __enter__(self) -> PerPairWriter:
        return self

    def write(self, places: Sequence[Place], sums: Mapping[str, FloatArray], layers: Sequence[int] = ()) -> None:
        """Add the rows of some pairs, of layers of these numbers. Shape: `sums` are [pair, layer, head, pattern]."""
        table = pair_table(places, sums, self._patterns, **self._how, layers=layers)
        with explained(self._path):
            if self._writer is None:
                self._writer = self._opened(table.schema)
            self._writer.write_table(table)

    def _opened(self, schema: pa.Schema) -> Any:
        """Pyarrow's writer: numbers that differ from row to row are packed faster and smaller as they are."""
        _, parquet = _pyarrow_parquet()
        coded = [name for name in schema.names if name in _CODED]
        return parquet.ParquetWriter(self._beside, schema, compression="zstd", use_dictionary=coded)

    def finish(self, signature: Signature, grid: Grid) -> None:
        """Add what the file has to say of itself, and give it its name."""
        with explained(self._path):
            if self._writer is not None:
                heads = grid.shape if grid.kind is AttentionKind.ONLY else [grid.kind.word, *grid.shape]
                about = {"signature": asdict(signature), "patterns": self._patterns, "grid": heads}
                self._writer.add_key_value_metadata({"attnscan": json.dumps(about)})
                self._writer.close()
                settle(self._beside, self._path)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # a full disk, which is then what ended the run
            if self._writer is not None:
                self._writer.close()
        self._beside.unlink(missing_ok=True)


def pair_table(
    places: Sequence[Place],
    sums: Mapping[str, FloatArray],
    patterns: Sequence[str],
    *,
    ids: bool = False,
    kind: AttentionKind = AttentionKind.ONLY,
    layers: Sequence[int] = (),
) -> pa.Table:
    """The rows of some pairs; with `ids`, these are a column.

    Shape: each of `sums` is [pair, layer, head, pattern].
    """
    arrow, _ = _pyarrow_parquet()
    place = np.nonzero(sums["every_key.n"] > 0)
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
        "layer": _numbers(place[1], layers),
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
    layers: Sequence[int] = (),
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
    columns |= {"layer": _numbers(layer, layers), "head": head.astype(np.int32)}
    columns["pattern"] = pd.Categorical.from_codes(pattern, pd.Index(list(patterns)))
    return pd.DataFrame(columns | _measured(sums, place))


def _numbers(rows: NDArray[Any], layers: Sequence[int]) -> NDArray[Any]:
    """The numbers that layers have in the model, of their rows in arrays."""
    return (np.array(layers)[rows] if layers else rows).astype(np.int32)


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


def _pyarrow_parquet() -> tuple[Any, Any]:
    """The two modules. Raises: OutputError if they are not installed."""
    with needs("Parquet needs pyarrow", "parquet"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet
