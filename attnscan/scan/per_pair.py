"""Every pair's score of every head and pattern, in a Parquet file, for one's own statistics.

Columns: `file`, `pair` (which of the file's records it is, from 1, bad ones counted) and, if a
column of ids was named, `id`; `kind`, if it is not an encoder's; `layer`, `head`, `pattern`;
`score`, `chance`, `self` (how much of the score is a word's weight on itself) and `n` with every
key; `words_score`, `words_chance`, `words_self` and `words_n` with words alone; numbers have 32
bits. A row is left out where the pair has no eligible query. The rows of a pair stand together,
ordered by layer, head and pattern.

The file's metadata say under `attnscan`, in JSON, what ran: the signature, the patterns, and the
model's heads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from attnscan.errors import OutputError, needs
from attnscan.inputs.sentence import EncodedInput, Place
from attnscan.results.files import (
    check_suffix,
    check_writable,
    create_temporary,
    explained,
    is_stream,
    settle,
)
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.lazy import pd
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.scan.options import ScanOptions
from attnscan.scoring.blocks import KEY_SETS, SumsByName

if TYPE_CHECKING:
    from attnscan.model.attention_block import Consumer

_PREFIXES = ("", "words_")  # of the columns of each of the `KEY_SETS`
_MEANS = {"score": "weight", "chance": "chance", "self": "itself"}  # columns, by their sums


def pair_frame(
    places: Sequence[Place],
    sums: Mapping[str, FloatArray],
    options: ScanOptions,
    layers: Sequence[int],
    *,
    ids: bool,
) -> pd.DataFrame:
    """The rows of some pairs; `ids` adds a column.

    `layers` has the layers' numbers, or none if these are their places.
    Shape: each of `sums` is [pair, layer, head, pattern].
    """
    rows = np.nonzero(sums["every_key.n"] > 0)
    pair, layer, head, pattern = rows
    columns: dict[str, Any] = {
        "file": pd.Categorical(np.array([_readable(place.file) for place in places])[pair]),
        "pair": np.array([place.row for place in places])[pair],
    }
    if ids:
        columns["id"] = np.array([_readable(place.id) for place in places], object)[pair]
    if options.kind is not AttentionKind.ONLY:
        columns["kind"] = pd.Categorical([options.kind.word] * len(pair))
    columns["layer"] = (np.array(layers)[layer] if layers else layer).astype(np.int32)
    columns["head"] = head.astype(np.int32)
    columns["pattern"] = pd.Categorical.from_codes(
        pattern, pd.Index([scored.id for scored in options.patterns])
    )
    for prefix, kind in zip(_PREFIXES, KEY_SETS, strict=True):
        count = sums[f"{kind}.n"][rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            for name, sum_name in _MEANS.items():
                columns[f"{prefix}{name}"] = sums[f"{kind}.{sum_name}"][rows] / count
        columns[f"{prefix}n"] = count.astype(np.int64)
    return pd.DataFrame(columns)


def _readable(text: str | None) -> str | None:
    """Make a text valid UTF-8, which file names and JSON need not be."""
    return text and text.encode(errors="backslashreplace").decode()


class PerPairWriter:
    """Writes the file as the pairs come; it gets its name when it is whole.

    Raises: OutputError if it cannot be written, is no .parquet file, or pyarrow is not installed.
    """

    def __init__(self, path: Path) -> None:
        with needs("Parquet needs pyarrow", "parquet"):
            import pyarrow.parquet  # noqa: F401
        if is_stream(path):
            raise OutputError(
                f"{path} is not a regular file, and Parquet needs one",
                "name another ``per_pair`` file",
            )
        check_suffix(path, ".parquet", "``per_pair``")
        check_writable(path)
        self._path = path
        self._writer: Any = None
        with explained(path):
            self._temporary = create_temporary(path)

    def __enter__(self) -> Self:
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Add the rows of some pairs, as `pair_frame` makes them, in 32 bits."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        small = dict.fromkeys(frame.select_dtypes("float"), "float32")
        small |= {"n": "int32", "words_n": "int32"}
        table = pa.Table.from_pandas(frame.astype(small), preserve_index=False)
        with explained(self._path):
            if self._writer is None:
                schema = table.schema
                self._writer = pq.ParquetWriter(self._temporary.path, schema, compression="zstd")
            self._writer.write_table(table)

    def finish(self, signature: Signature, patterns: Sequence[str], grid: Grid) -> None:
        """Add the file's metadata, and rename it to its path."""
        if self._writer is None:
            return
        is_only = grid.kind is AttentionKind.ONLY
        about = {
            "signature": asdict(signature),
            "patterns": patterns,
            "grid": grid.shape if is_only else [grid.kind.word, *grid.shape],
        }
        with explained(self._path):
            self._writer.add_key_value_metadata({"attnscan": json.dumps(about)})
            self._writer.close()
            settle(self._temporary, self._path)

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk, which is then what ended the run
            if self._writer is not None:
                self._writer.close()
        self._temporary.discard()


class PairRows:
    """Writes the rows of pairs as they are scored: an observer of a scan."""

    def __init__(
        self, writer: PerPairWriter, options: ScanOptions, layers: Sequence[int], *, ids: bool
    ) -> None:
        self._writer = writer
        self._options = options
        self._layers = layers
        self._ids = ids

    def consumers(self, _inputs: Sequence[EncodedInput]) -> Sequence[Consumer]:
        """None: sums are enough."""
        return ()

    def measure(
        self, inputs: Sequence[EncodedInput], _consumers: Sequence[Consumer], sums: SumsByName
    ) -> pd.DataFrame:
        """The rows of some pairs."""
        places = [encoded.place for encoded in inputs]
        return pair_frame(places, sums, self._options, self._layers, ids=self._ids)

    def take(self, measured: pd.DataFrame) -> None:
        """Write the rows of some pairs."""
        self._writer.write(measured)
