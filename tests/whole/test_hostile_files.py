"""Files of every kind that is read, whole and broken at every byte: a right result or one line,
never a pickle.
"""

import gzip
import json
import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook
from support.hostile.runs import check, run, save_tiny_model

from attnscan.errors import AttnscanError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.records import FileReading
from attnscan.inputs.sentence import Pair, Record
from attnscan.inputs.weights import read_weights
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import scan
from attnscan.scan.scanner import open_scanner
from attnscan.scan.state import load_state, save_state

PAIRS = [
    Pair("the cat sat .", "a mat , \u202e [bold] =1+1"),
    Pair('"quoted" \\ the', "日本 👩\u200d🚀"),
    Pair("cat", "dog"),
]
NAMES = ("sentence_a", "sentence_b")
A_FEW = 60  # ways to break each kind of file, or somewhat fewer


class Kind(NamedTuple):
    """One kind of file; what is read must be what was written, also of a damaged file that carries
    a checksum.
    """

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    detects: bool = False


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def pair_kinds() -> Iterator[Kind]:
    rows = [pair.texts for pair in PAIRS]
    frame = pd.DataFrame(rows, columns=NAMES)
    texts = {
        "pairs.csv": frame.to_csv(index=False, quoting=1),
        "pairs.tsv": "\n".join("\t".join(row) for row in [NAMES, *rows]) + "\n",
        "pairs.jsonl": "".join(
            json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows
        ),
        "pairs.json": json.dumps([dict(zip(NAMES, row, strict=True)) for row in rows]),
        "pairs.txt": "".join(f"{a}\n" for a, _ in rows),
        "pairs.conllu": "".join(
            f"# text = {a}\n1\t{a}\t_\tX\t_\t_\t0\troot\t_\t_\n\n" for a, _ in rows
        ),
    }
    for name, text in texts.items():
        yield Kind(name, partial(Path.write_bytes, data=text.encode()), _pairs)
        yield Kind(
            f"{name}.gz",
            partial(Path.write_bytes, data=gzip.compress(text.encode(), mtime=0)),
            _pairs,
        )
    for codec in (None, "snappy", "zstd"):
        yield Kind(f"pairs.{codec}.parquet", partial(frame.to_parquet, compression=codec), _pairs)
    for codec in ("uncompressed", "lz4"):
        yield Kind(f"pairs.{codec}.arrow", partial(frame.to_feather, compression=codec), _pairs)
    yield Kind("pairs.xlsx", _write_xlsx, _pairs)


def _pairs(path: Path) -> list[Pair]:
    return [record.pair for record in read_pairs([str(path)])]


def _write_xlsx(path: Path) -> None:
    book = Workbook()
    for row in (NAMES, *(pair.texts for pair in PAIRS)):
        book.active.append(row)
    for cells in book.active:
        for cell in cells:
            cell.data_type = "s"  # no formula
    book.save(path)


def _weights(path: Path) -> Any:
    saved = read_weights(path)
    return saved.attention.tolist(), saved.tokens, saved.segments, saved.special


def _save_weights(path: Path) -> None:
    tokens = np.array(["[CLS]", "=1", "\u202e", "[SEP]"])
    np.savez_compressed(
        path, attention=np.full((2, 2, 4, 4), 0.25), tokens=tokens, segments=np.zeros(4, int)
    )


def broken(content: bytes) -> Iterator[bytes]:
    """A file cut at every byte, with one bit flipped in every byte, and then spliced and filled at
    random.
    """
    draw = random.Random(0)
    for at in range(len(content)):
        yield content[:at]
        yield content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
    for _ in range(len(content) // 4):
        start, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
        filling = draw.choice(
            (b"", bytes(end - start), b"\xff" * (end - start), content[:start], draw.randbytes(9))
        )
        yield content[:start] + filling + content[end:]


def check_broken(kind: Kind, directory: Path) -> Any:
    """Read the file whole, and broken in many ways: each is read, or refused in one line. Returns
    what is read of it.

    Raises: AssertionError.
    """
    path = directory / kind.name
    outcomes = set()
    kind.write(path)
    whole = kind.read(path)
    content = path.read_bytes()
    ways = sum(1 for _ in broken(content))
    for damaged in islice(broken(content), 0, None, (ways // A_FEW) | 1):
        path.write_bytes(damaged)
        try:
            read = kind.read(path)
        except AttnscanError as error:
            assert str(error).isprintable() and error.remedy, error
            outcomes.add("refused")
        else:
            assert not kind.detects or read == whole, "damage that was not noticed"
            outcomes.add("read")
    assert "refused" in outcomes, "a control: some damage must be found"
    return whole


@pytest.mark.parametrize("kind", pair_kinds(), ids=lambda kind: kind.name)
def test_a_broken_file_of_pairs_is_read_right_or_refused(tmp_path: Path, kind: Kind) -> None:
    has_one_column = kind.name.startswith(("pairs.txt", "pairs.conllu"))
    expected = [Pair(pair.a) if has_one_column else pair for pair in PAIRS]
    found = check_broken(kind, tmp_path)
    assert [Pair(pair.a) if has_one_column else pair for pair in found] == expected


def test_saved_weights_are_read_right_or_refused(tmp_path: Path) -> None:
    check_broken(Kind("weights.npz", _save_weights, _weights), tmp_path)


def test_what_a_scan_keeps_is_read_right_or_refused(tmp_path: Path, tiny: Path) -> None:
    with open_scanner(
        ScanOptions(model=str(tiny), predictive="off", related=False, on_long="truncate")
    ) as scanner:
        state = scan(scanner, [Record(pair, f"{number}") for number, pair in enumerate(PAIRS)])

        def read(path: Path) -> Any:
            loaded = load_state(path, scanner)
            sums = loaded.sums["scored"].sums
            return loaded.seen, sums["every_key.weight"].tolist(), sums["rows"].tolist()

        kind = Kind("state.json", lambda path: save_state(path, state, scanner), read, detects=True)
        check_broken(kind, tmp_path)


def test_how_a_file_is_read_may_stand_before_what_is_wrong(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "quoted.tsv"
    path.write_text('sentence_a\tsentence_b\n"the ""cat"""\ta mat\n\ta cat\n')
    refused = run("heads", "--pairs", path, "--model", tiny, "--predictive", "off", "--csv")
    assert not check(refused) and len(refused.stderr.splitlines()) == 2


@pytest.mark.long
def test_no_small_table_takes_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.parquet"
    pd.DataFrame({"sentence_a": ["a" * (8 << 20)] * 8, "sentence_b": ["b"] * 8}).to_parquet(path)
    tracemalloc.start()
    assert len(list(read_pairs([str(path)], FileReading(("1",))))) == 8
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 << 20, f"{peak >> 20} MiB"


@pytest.mark.parametrize("kind", ["directory", "nowhere", "loop", "pipe", "device"])
def test_what_is_no_file_is_refused_wherever_a_file_is_read(
    kind: str, tmp_path: Path, tiny: Path
) -> None:
    path = tmp_path / "x.parquet"
    match kind:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to(
                {"nowhere": tmp_path / "no" / "x", "loop": path, "device": Path("/dev/zero")}[kind]
            )
    off = ("--model", tiny, "--predictive", "off")
    commands = [
        ("classify", "--weights", path),
        ("heads", "--state", path, *off),
        ("classify", "a", "--model", path),
    ]
    if kind != "pipe":  # which is read until its writer ends
        commands.append(("heads", "--pairs", path, *off))
    for command in commands:
        assert not check(run(*command)), command
    before = path.lstat()
    assert not check(run("heads", "--per-pair", path, *off))
    assert path.lstat().st_ino == before.st_ino, "it was replaced"
