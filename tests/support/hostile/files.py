"""Files of every kind that is read, whole and broken at every byte: a right result or one line, never a pickle."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from openpyxl import Workbook

from attnscan.errors import AttnscanError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.sentence import Pair, Record
from attnscan.inputs.weights import read_weights
from attnscan.scan.local import scan
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState
from attnscan.scan.stored import load_state, save_state

PAIRS = [
    Pair("the cat sat .", "a mat , \u202e [bold] =1+1"),
    Pair('"quoted" \\ the', "日本 👩\u200d🚀"),
    Pair("cat", "dog"),
]


@dataclass(frozen=True)
class Kind:
    """One kind of file."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    """Raises: AttnscanError."""
    detects: bool = False
    """Whether what is read of a damaged file must be what was written: the file carries a checksum."""


def pair_kinds() -> Iterator[Kind]:
    """The files of pairs."""
    rows = [pair.texts for pair in PAIRS]
    names = ("sentence_a", "sentence_b")
    quoted = [",".join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) for row in rows]
    texts = {
        "pairs.csv": "\n".join([",".join(names), *quoted]) + "\n",
        "pairs.tsv": "\n".join("\t".join(row) for row in [names, *rows]) + "\n",
        "pairs.jsonl": "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows),
        "pairs.json": json.dumps([dict(zip(names, row, strict=True)) for row in rows]),
        "pairs.txt": "".join(f"{row[0]}\n" for row in rows),
        "pairs.conllu": "".join(f"# text = {row[0]}\n1\t{row[0]}\t_\tX\t_\t_\t0\troot\t_\t_\n\n" for row in rows),
    }
    contents = {name: text.encode() for name, text in texts.items()}
    contents |= {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in contents.items()}
    for name, content in contents.items():
        yield Kind(name, partial(Path.write_bytes, data=content), _pairs)
    frame = pd.DataFrame(rows, columns=names)
    for codec in (None, "snappy", "zstd"):
        yield Kind(f"pairs.{codec}.parquet", partial(frame.to_parquet, compression=codec), _pairs)
    for codec in ("uncompressed", "lz4"):
        yield Kind(f"pairs.{codec}.arrow", partial(frame.to_feather, compression=codec), _pairs)
    yield Kind("pairs.xlsx", partial(_write_xlsx, [names, *rows]), _pairs)


def _write_xlsx(rows: Iterable[Sequence[str | None]], path: Path) -> None:
    book = Workbook()
    for number, row in enumerate(rows, 1):
        for column, cell in enumerate(row, 1):
            book.active.cell(number, column, cell).data_type = "s"
    book.save(path)


def _pairs(path: Path) -> list[Pair]:
    return [record.pair for record in read_pairs([str(path)])]


def weights_kind() -> Kind:
    """Saved weights. Zip checks each array's bytes."""
    even = np.full((2, 2, 4, 4), 0.25)
    arrays = {"attention": even, "tokens": np.array(["[CLS]", "=1", "\u202e", "[SEP]"]), "segments": np.zeros(4, int)}

    def read(path: Path) -> Any:
        saved = read_weights(path)
        return saved.attention.tolist(), saved.tokens, saved.segments, saved.special

    return Kind("weights.npz", lambda path: np.savez_compressed(path, **arrays), read)  # type: ignore[arg-type]


def state_kind(scanner: Scanner) -> Kind:
    """What a scan keeps."""
    state = scan(scanner, [Record(pair, f"{number}") for number, pair in enumerate(PAIRS)])

    def read_state(path: Path) -> Any:
        loaded: ScanState = load_state(path, scanner)
        told = loaded.sums["told"]
        return loaded.seen, told.sums["every_key.weight"].tolist(), told.sums["rows"].tolist()

    return Kind("state.json", lambda path: save_state(path, state, scanner), read_state, detects=True)


def broken(content: bytes, seed: int) -> Iterator[bytes]:
    """A file cut at every byte, with one bit flipped in every byte, and then spliced and filled at random."""
    draw = random.Random(seed)
    for at in range(len(content)):
        yield content[:at]
        yield content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
    for _ in range(len(content) // 4):
        start, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
        filling = draw.choice((b"", bytes(end - start), b"\xff" * (end - start), content[:start], draw.randbytes(9)))
        yield content[:start] + filling + content[end:]


def survives(kind: Kind, path: Path, content: bytes, whole: Any) -> bool:
    """Whether a damaged file was read; if not, it was refused in one line.

    Raises: AssertionError if it was read wrong, or refused in another way.
    """
    path.write_bytes(content)
    try:
        read = kind.read(path)
    except AttnscanError as error:
        assert str(error).isprintable() and error.remedy, error
        return False
    except Exception as error:
        raise AssertionError(f"{kind.name}: {error!r}") from error
    assert not kind.detects or read == whole, f"{kind.name}: damage that was not noticed"
    return True
