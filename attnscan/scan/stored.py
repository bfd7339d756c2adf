"""Sums in JSON: to the last bit, as the bytes of their numbers in base64, with a hash of all that beside them.

A file of them is replaced whole, so that a kill at any moment leaves the last one or the one before; and it is not
trusted, since a damaged sum would go on into every later one.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from attnscan.errors import StateError
from attnscan.hashing import hashed
from attnscan.inputs.pairs import Pair, Place
from attnscan.inputs.sentence import Sentence
from attnscan.results.files import write_file
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.statement import COLUMNS
from attnscan.results.stored_file import StoredFile
from attnscan.results.terms import Scored
from attnscan.scan.local import ScanSums
from attnscan.scan.options import ScanOptions
from attnscan.scan.seen import Drawn, Seen
from attnscan.scoring.block_sums import BlockSums
from attnscan.scoring.label_sums import LabelSums
from attnscan.scoring.profile import profiled
from attnscan.scoring.profile_sums import ProfileSums
from attnscan.scoring.sums import KINDS, HeadProducts, ScoreSums, Sums

_SCORES = ("told", "ranked", "carried")
_LABELS = ("labels", "carried_labels")
_OF_ROWS = ("entropy", "words")
_MAX_BYTES = 512 << 20  # 384 heads x 7 patterns take 67 MiB, nearly all for the products of heads; split, twice that


def write_checked(path: Path | StoredFile, form: int | str, data: Mapping[str, Any]) -> None:
    """Write what `read_checked` reads, whole or not at all. Raises: OutputError."""
    content = json.dumps({"format": form, "sha256": _hash(data), **data}).encode()
    if isinstance(path, StoredFile):
        path.write_bytes(content)
    else:
        write_file(path, content)


@contextmanager
def read_checked(path: Path | StoredFile, form: int | str) -> Iterator[dict[str, Any]]:
    """What is in a state file of a format, those of clusters being text; whatever its reader meets is its damage.

    Raises: StateError if it is of another format, or damaged.
    """
    try:
        content = _whole(path)
        if content is None:
            raise StateError(f"{path} is too large for a state file", "give the file that an earlier --state wrote")
        data = json.loads(content)
        if (theirs := data.pop("format")) != form:
            if isinstance(theirs, str) != isinstance(form, str):
                where = "a cluster" if isinstance(theirs, str) else "one machine"
                raise StateError(f"{path} is of a run on {where}", "go on there, or name another --state file")
            raise StateError(f"{path} was written by another version of attnscan", "remove it to start anew")
        if data.pop("sha256") != _hash(data):
            raise ValueError("changed since it was written")
        yield data
    except StateError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    except Exception:  # whatever a damaged file makes of itself
        raise StateError(f"{path} is not a sound state file", "remove it to start anew") from None


def _whole(path: Path | StoredFile) -> bytes | None:
    """What is in a file; None of one that is too large. Raises: OSError; StateError."""
    if isinstance(path, StoredFile):
        content = path.read_bytes(_MAX_BYTES)
        return content if len(content) <= _MAX_BYTES else None
    return path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None


def seen_dumped(seen: Seen) -> dict[str, Any]:
    """What was read, as JSON holds it."""
    drawn = [[key, *astuple(place), *map(_sentence_dumped, pair.sentences)] for key, place, pair in seen.sample]
    return {**asdict(seen), "sample": drawn}


def _sentence_dumped(sentence: Sentence) -> str | list[Any]:
    return sentence.text if sentence.words is None else [sentence.text, sentence.words, sentence.tags]


def sums_dumped(sums: ScanSums) -> dict[str, Any]:
    """Sums, as JSON holds them to the last bit."""
    return {
        "sums": {name: _dumped(getattr(sums, name)) for name in _SCORES},
        "labels": {name: _dumped_labels(getattr(sums, name)) for name in _LABELS},
        "classes": _dumped_blocks(sums.classes),
        "profile": None if sums.profile is None else [_text(each) for each in sums.profile.fields],
    }


def sums_loaded(data: Mapping[str, Any], options: ScanOptions, grid: Grid, *, predictive: bool) -> ScanSums:
    """Read a model's sums from what `sums_dumped` wrote; `predictive` says whether these patterns were asked for.

    Raises: whatever a damaged file makes of itself.
    """
    scored = tuple(pattern.scored for pattern in options.patterns)
    told, ranked, carried = (_loaded(data["sums"][name], scored, grid) for name in _SCORES)
    labels, carried_labels = (_loaded_labels(data["labels"][name], scored, grid) for name in _LABELS)
    parts = profiled(options.patterns, predictive=predictive and options.predictive_part)
    profile, classes = _loaded_profile(data["profile"], parts, grid), _loaded_classes(data["classes"], grid)
    return ScanSums(told, ranked, profile, labels, carried, carried_labels, classes)


def _hash(data: Mapping[str, Any]) -> str:
    return hashed(json.dumps(data).encode())


def _dumped(sums: ScoreSums | None) -> dict[str, Any] | None:
    if sums is None:
        return None
    dumped: dict[str, Any] = {name: _text(getattr(sums, name)) for name in _OF_ROWS}
    dumped |= {kind: {f.name: _text(getattr(getattr(sums, kind), f.name)) for f in fields(Sums)} for kind in KINDS}
    if sums.products is not None:
        dumped["products"] = {
            kind: {f.name: _text(getattr(products, f.name)) for f in fields(HeadProducts)}
            for kind, products in sums.products.items()
        }
    return dumped


def seen_loaded(*, read: int, truncated: int, skipped: int, digest: str, sample: list[list[Any]]) -> Seen:
    """The same again. Raises: ValueError."""
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


def _loaded(data: Mapping[str, Any] | None, scored: tuple[Scored, ...], grid: Grid) -> ScoreSums | None:
    if data is None:
        return None
    shape, of_heads = (*grid.shape, len(scored)), (len(scored), len(grid), len(grid))
    every_key, words_only = (Sums(**_arrays(data[kind], Sums, shape)) for kind in KINDS)
    products = None
    if "products" in data:
        products = {kind: HeadProducts(**_arrays(data["products"][kind], HeadProducts, of_heads)) for kind in KINDS}
    of_rows = {name: _array(data[name], grid.shape) for name in _OF_ROWS}
    return ScoreSums(scored, every_key, words_only, **of_rows, products=products)


def _dumped_labels(sums: LabelSums | None) -> dict[str, Any] | None:
    if sums is None:
        return None
    groups = {
        str(key): {name: [values.shape, _text(values)] for name, values in group.items()}
        for key, group in sums.groups.items()
    }
    return {"bits": sums.bits, "votes": _text(sums.votes), "groups": groups}


def _loaded_labels(data: Mapping[str, Any] | None, scored: tuple[Scored, ...], grid: Grid) -> LabelSums | None:
    if data is None:
        return None
    groups = {
        int(key): {name: _array(text, tuple(shape)) for name, (shape, text) in group.items()}
        for key, group in data["groups"].items()
    }
    votes = _array(data["votes"], (len(KINDS), *grid.shape, len(scored) + 1)).astype(np.int64)
    sums = LabelSums(scored, groups, votes, int(data["bits"]))
    sums.check()
    return sums


def _dumped_blocks(sums: BlockSums | None) -> dict[str, Any] | None:
    if sums is None:
        return None
    blocks = {
        str(key): {name: [values.shape, _text(values)] for name, values in block.items()}
        for key, block in sums.blocks.items()
    }
    return {"bits": sums.bits, "most": sums.most, "blocks": blocks}


def _loaded_classes(data: Mapping[str, Any] | None, grid: Grid) -> BlockSums | None:
    """Raises: ValueError if blocks are not of the shape or the keys that they must be."""
    if data is None:
        return None
    shapes = {"on": (*grid.shape, COLUMNS), "even": (*grid.shape, COLUMNS), "n": (*grid.shape, 1)}
    blocks = {
        int(key): {name: _array(text, tuple(shape)) for name, (shape, text) in block.items()}
        for key, block in data["blocks"].items()
    }
    sums = BlockSums(blocks, int(data["most"]), int(data["bits"]))
    sums.check(shapes)
    return sums


def _loaded_profile(data: list[str] | None, parts: Sequence[str], grid: Grid) -> ProfileSums | None:
    if data is None:
        return None
    like = ProfileSums.zero(*grid.shape, len(parts)).fields
    return ProfileSums(*(_array(text, each.shape) for text, each in zip(data, like, strict=True)))


def _arrays(data: Mapping[str, Any], kind: Any, shape: tuple[int, ...]) -> dict[str, FloatArray]:
    return {f.name: _array(data[f.name], shape) for f in fields(kind)}


def _text(values: FloatArray | IntArray) -> str:
    """Numbers as text that gives them back to the last bit, and takes no longer to write than to copy."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


def _array(text: str, shape: tuple[int, ...]) -> FloatArray:
    array = np.frombuffer(base64.b64decode(text, validate=True), "<f8").astype(np.float64)
    if array.size != math.prod(shape) or not np.isfinite(array).all():
        raise ValueError("sums of another shape")
    return array.reshape(shape)
