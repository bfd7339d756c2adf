"""What a billion pairs ask of the driver: blocks' sums through its own code, without a cluster.

    python benchmarks/ray_driver.py [--blocks 1000000] [--model tiny|bundled|NAME] [--pairs FILE] [--labels]

One block is scored; its sums, pickled as Ray hands them over, come again and again under the numbers of the next
blocks, some of them before their turn. Printed at each power of ten: the driver's memory, its CPU time a
block, and how large its state is, how long that takes to write and to read. The sums after all blocks are held to the
block's, times their number.
"""

from __future__ import annotations

import argparse
import pickle
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
from ray_proof import tiny

from attnscan.inputs.columns import FileReading
from attnscan.inputs.pairs import read_pairs, shipped_pairs
from attnscan.scan.cluster.blocks import Block, BlockFiles
from attnscan.scan.cluster.progress import ClusterProgress, Totals, about_scan, load_progress, save_progress
from attnscan.scan.cluster.worker import Plan, ScoringActor
from attnscan.scan.options import ScanOptions
from attnscan.scan.state import ScanState

_OF_FILE = 10_000  # blocks
_BEFORE_THEIR_TURN = 16


def main() -> None:
    """Print a row for each power of ten."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--labels", action="store_true")
    parser.add_argument("--pairs", help="those of the block, in place of the shipped ones")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        model = tiny(Path(directory)) if asked.model == "tiny" else asked.model
        options = ScanOptions(model=model, device="cpu", on_long="truncate", predictive="off", labelled=asked.labels)
        paths = [Path(directory, f"{number:06}.tsv") for number in range(-(-asked.blocks // _OF_FILE))]
        for path in paths:
            path.touch()
        files = BlockFiles(tuple(map(str, paths)), FileReading())
        about = about_scan(options, files)
        records = tuple(read_pairs([asked.pairs]) if asked.pairs else shipped_pairs())
        found = ScoringActor(Plan(options, model, files, 1)).score(Block(0, 0, records), [])
        assert found.state is not None
        whole, shard = pickle.dumps(found, protocol=5), found.state
        print(f"{asked.model}: a block of {len(records)} pairs hands over {len(whole):,} bytes", flush=True)
        totals, state = Totals(ClusterProgress(ScanState(options))), Path(directory, "state")
        print(f"{'blocks':>9} {'MiB':>7} {'CPU ms a block':>15} {'state MB':>9} {'write s':>8} {'resume s':>9}")
        cpu, done, mark = 0.0, 0, 100
        for number, last in numbers(asked.blocks, _BEFORE_THEIR_TURN):
            started = time.process_time()
            handed = pickle.loads(whole)
            totals.add(replace(handed, block=Block(*number, last=last)))
            cpu, done = cpu + time.process_time() - started, done + 1
            if done in (mark, asked.blocks):
                tell(done, cpu, totals, state, options, about)
                mark *= 10
        totals.check(len(paths))
        assert totals.state.sums.told is not None and shard.sums.told is not None
        np.testing.assert_allclose(
            totals.state.sums.told.every_key.total, shard.sums.told.every_key.total * asked.blocks, rtol=1e-9
        )


def numbers(blocks: int, order: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """The blocks' numbers, and whether each is the last of its file, somewhat out of order."""
    draw = random.Random(0)
    for first in range(0, blocks, order):
        some = list(range(first, min(first + order, blocks)))
        draw.shuffle(some)
        for each in some:
            yield divmod(each, _OF_FILE), each % _OF_FILE == _OF_FILE - 1 or each == blocks - 1


def tell(done: int, cpu: float, totals: Totals, state: Path, options: ScanOptions, about: dict[str, object]) -> None:
    """Print a row."""
    memory = psutil.Process().memory_info().rss / 2**20
    started = time.perf_counter()
    save_progress(state, totals.progress, about)
    saved = time.perf_counter()
    load_progress(state, options, about)
    loaded, size = time.perf_counter(), state.stat().st_size / 1e6
    print(
        f"{done:9,} {memory:7.0f} {cpu / done * 1e3:15.3f} {size:9.1f} {saved - started:8.2f} {loaded - saved:9.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
