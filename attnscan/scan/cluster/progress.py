"""How far a scan on a cluster is: sums of its first blocks, in a file too, so that another driver goes on from there.

Blocks are added in their order, so that sums are the same to the last bit however often a scan is stopped, and the file
names the next block alone. The block before it, scored again, shows that pairs and model are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from attnscan.errors import PairsError, StateError
from attnscan.hashing import hashed
from attnscan.inputs.formats.columnar import RowGroups
from attnscan.inputs.places.files import version_of
from attnscan.results.grid import Grid
from attnscan.results.stored_file import Saving, StoredFile
from attnscan.scan.cluster.blocks import Bad, BlockFiles, Cuts
from attnscan.scan.options import ScanOptions
from attnscan.scan.per_pair_about import signature_read
from attnscan.scan.shard import Shard
from attnscan.scan.stored import read_checked, seen_dumped, seen_loaded, sums_loaded, write_checked

SAVE_EVERY = 60.0
"""Seconds between two states in a file."""
_FORMAT = "cluster 7"
_ASKED_AT_ONCE = 32  # files, of stores that answer slowly

Number = tuple[int, int]
"""Of a block: its part's place, and its own."""


@dataclass(frozen=True)
class Proof:
    """A block that has been added, by which another run shows that it has the same pairs and model."""

    number: Number
    digest: str
    """Of its pairs."""


@dataclass(frozen=True)
class ClusterState:
    """The sums of the first blocks, and which is next."""

    shard: Shard
    next: Number = (0, 0)
    bad: Bad = field(default_factory=Bad)
    proof: Proof | None = None
    """The last of them that had pairs; None where none had."""
    cuts: Cuts = field(default_factory=dict)
    """What blocks are numbered by."""


def save_progress(path: Path | StoredFile, progress: ClusterState, about: Mapping[str, Any]) -> None:
    """Write what `load_progress` reads, whole or not at all. Raises: OutputError."""
    shard, proof, bad = progress.shard, progress.proof, progress.bad
    assert shard.signature is not None and shard.sums.any is not None and proof is not None
    whole = {
        "scan": about,
        "cuts": progress.cuts,
        "next": progress.next,
        "proof": [*proof.number, proof.digest],
        "bad": [bad.count, *([error.what, error.remedy] for error in bad.first)],
        "signature": asdict(shard.signature),
        "grid": shard.sums.any.entropy.shape,
        "seen": seen_dumped(shard.seen),
    }
    write_checked(path, _FORMAT, whole, shard.sums)


def load_progress(path: Path | StoredFile, options: ScanOptions, about: Mapping[str, Any]) -> ClusterState:
    """Read what `save_progress` wrote. Raises: StateError if that was of other files or options, or is damaged."""
    with read_checked(path, _FORMAT) as (data, arrays):
        _check_about(path, data["scan"], about)
        signature, grid = signature_read(data["signature"]), Grid.square(*data["grid"])
        sums = sums_loaded(arrays, options, grid, predictive=signature.predictive != "off")
        part, block, digest = data["proof"]
        count, *first = data["bad"]
        shard = Shard(options, seen_loaded(**data["seen"]), sums, signature)
        bad = Bad(count, tuple(PairsError(what, remedy) for what, remedy in first))
        cuts = {int(at): tuple(RowGroups(*groups) for groups in cut) for at, cut in data["cuts"].items()}
        part_next, block_next = data["next"]
        return ClusterState(shard, (part_next, block_next), bad, Proof((part, block), digest), cuts)


@contextmanager
def saved(
    path: Path | StoredFile | None,
    about: Mapping[str, Any],
    now: Callable[[], ClusterState],
    say: Callable[[str], None],
) -> Iterator[Callable[[], None]]:
    """What keeps in a file how far a scan is, if that is wanted and was not done within a minute.

    At the end, however it comes, it is kept as well. A file that cannot be written ends no scan, and is told.
    """
    last, before, saving = time.monotonic(), now(), Saving(say)

    def save(*, at_end: bool = False) -> None:
        nonlocal before
        if path is None or (progress := now()) is before or progress.proof is None:
            return
        if saving(partial(save_progress, path, progress, about), last=at_end):
            before = progress

    def now_and_then() -> None:
        nonlocal last
        if time.monotonic() - last > SAVE_EVERY:
            save()
            last = time.monotonic()

    try:
        yield now_and_then
    except BaseException:
        save(at_end=True)
        raise
    save(at_end=True)


def about_scan(options: ScanOptions, files: BlockFiles) -> dict[str, Any]:
    """What must be equal for a scan to be gone on with, as JSON holds it.

    Raises: PairsError if a file cannot be looked at.
    """
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
        versions = list(threads.map(version_of, files.paths))
    told = (f"{name} {version}".encode() for name, version in zip(files.paths, versions, strict=True))
    return {
        **options.deciding,
        "columns": str(files.reading),
        "skip_bad": files.skip_bad,
        "block_pairs": files.block_pairs,
        "files": hashed(*told),
    }


def _check_about(path: Path | StoredFile, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    for name in (name for name, value in ours.items() if theirs.get(name) != value):
        if name == "files":
            raise StateError(
                f"{path} was begun with other files, or with these before they changed",
                "give the same files in the same order, or another --state file",
            )
        raise StateError(
            f"{path} belongs to another run: its {name} is {theirs.get(name)}, and here it is {ours[name]}",
            "give the same options, or another --state file",
        )
