"""Large files cut into parts, by tasks on the cluster that read them through side by side. Needs `attnscan[ray]`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import ray

from attnscan.inputs.parts import MOST_PARTS, PART_BYTES, Outcome, Starts, Trial, can_be_cut, read_through, starts_of
from attnscan.inputs.places.files import size_of
from attnscan.inputs.places.names import scheme_of
from attnscan.scan.cluster.blocks import BlockFiles

_ASKED_AT_ONCE = 32  # files, of stores that answer slowly
_Cutting = Generator[list[Trial], Sequence[Outcome], Starts]


def cut(files: BlockFiles) -> Mapping[int, Starts]:
    """Where parts start of the files that are to have several, by the files' places: the same for the same files.

    Of more than `MOST_PARTS` files, those in stores are not asked for their sizes: there are readers enough.
    Raises: PairsError.
    """
    some = [at for at, file in enumerate(files.paths) if len(files.paths) <= MOST_PARTS or not scheme_of(file)]
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
        told = list(threads.map(size_of, (files.paths[at] for at in some)))
    sizes = {at: size for at, size in zip(some, told, strict=True) if size is not None}
    piece = max(PART_BYTES, -(-sum(sizes.values()) // MOST_PARTS))
    large = [at for at, size in sizes.items() if size > piece and can_be_cut(files.paths[at])]
    cuttings = {at: starts_of(files.paths[at], sizes[at], piece) for at in large}
    cuts = dict(_together(cuttings, files)) if cuttings else {}
    return {at: starts for at, starts in cuts.items() if len(starts) > 1}


def _together(cuttings: Mapping[int, _Cutting], files: BlockFiles) -> Generator[tuple[int, Starts], None, None]:
    """What comes of all, whose trials run at the same time."""
    task = ray.remote(read_through).options(num_cpus=1, scheduling_strategy="SPREAD")
    told: dict[int, list[Outcome] | None] = dict.fromkeys(cuttings)
    while told:
        asked = {}
        for at, outcomes in told.items():
            try:
                trials = cuttings[at].send(outcomes) if outcomes is not None else next(cuttings[at])
            except StopIteration as done:
                yield at, done.value
            else:
                asked[at] = [task.remote(files.paths[at], files.reading, trial) for trial in trials]
        told = {at: ray.get(refs) for at, refs in asked.items()}
