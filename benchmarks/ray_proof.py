"""The proof: three workers on a cluster of three machines find what the one-machine engine finds, whatever dies.

    python benchmarks/ray_proof.py --pairs FILE [--model bundled|tiny|NAME] [--count 5000] [--block-pairs 256]

The pairs of the file are repeated until there are --count of them. One machine plays three, each with one core, by
Ray's own `ray.cluster_utils.Cluster`. The scan runs three times: unharmed; with a worker killed (SIGKILL) once a third
of the pairs is in; and with a machine taken away at a third, and another one joining at two thirds. Printed for each:
the time it took, and the largest difference of any number of any head from the one-machine engine's.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import ray
import torch
from ray.cluster_utils import Cluster
from transformers import AutoTokenizer, BertConfig, BertModel

from attnscan.inputs.columns import FileReading
from attnscan.inputs.pairs import read_pairs
from attnscan.model.sources import bundled_directory
from attnscan.results.ranking import Ranking
from attnscan.scan.cluster.blocks import BlockFiles
from attnscan.scan.cluster.progress import BlockResult, Totals
from attnscan.scan.cluster.scan import scan_on_ray
from attnscan.scan.events import outcome
from attnscan.scan.local import finished, scan
from attnscan.scan.options import ClusterOptions, ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState

_MEMORY = 200 << 20  # bytes of each machine's object store


def main() -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", required=True, help="a TSV file")
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--block-pairs", type=int, default=256)
    parser.add_argument("--predictive-pairs", type=int, default=4)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        options = ScanOptions(
            model=tiny(Path(directory)) if asked.model == "tiny" else asked.model,
            device="cpu",
            on_long="truncate",
            predictive_pairs=asked.predictive_pairs,
            predictive_words=16,
        )
        file = repeated(Path(asked.pairs), asked.count, Path(directory))
        started = time.perf_counter()
        load = os.getloadavg()[0]
        print(f"{asked.model}, {asked.count:,} pairs, blocks of {asked.block_pairs}; load before {load:.1f}")
        expected = local(options, file)
        print(f"{'run':28} {'seconds':>8}  killed    largest difference")
        print(f"{'one machine, 3 threads':28} {time.perf_counter() - started:8.1f}  nothing", flush=True)
        for name, harms in (("Ray", {}), ("Ray", {1: kill_worker}), ("Ray", {1: remove_machine, 2: add_machine})):
            with machines() as cluster, harmed(harms, cluster, asked.count) as killed:
                started = time.perf_counter()
                blocks = BlockFiles((str(file),), FileReading(), False, asked.block_pairs)
                result, _ = outcome(scan_on_ray(options, blocks, ClusterOptions(workers=3)))
                took = time.perf_counter() - started
            what = ", ".join(killed) or "nothing"
            print(
                f"{name + ', 3 workers':28} {took:8.1f}  {what:9} {largest_difference(result, expected):.1e}",
                flush=True,
            )


def repeated(pairs: Path, count: int, directory: Path) -> Path:
    """A file with the header and so many lines of another, again and again."""
    header, *lines = pairs.read_text(encoding="utf-8").splitlines()
    made = directory / "pairs.tsv"
    made.write_text("\n".join([header, *itertools.islice(itertools.cycle(lines), count)]), encoding="utf-8")
    return made


def tiny(directory: Path) -> str:
    """A BERT of two layers of four heads, of random weights, with the bundled model's tokenizer."""
    bundled = bundled_directory()
    assert bundled is not None
    tokenizer = AutoTokenizer.from_pretrained(bundled)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    BertModel(config).save_pretrained(directory / "tiny")
    tokenizer.save_pretrained(directory / "tiny")
    return str(directory / "tiny")


def local(options: ScanOptions, file: Path) -> Ranking:
    """What the one-machine engine finds."""
    torch.set_num_threads(3)
    with Scanner(options) as scanner:
        state = ScanState(scanner.options)
        for event in scan(scanner, read_pairs([str(file)])):
            state = event if isinstance(event, ScanState) else state
        return outcome(finished(scanner, state))


def largest_difference(one: Ranking, other: Ranking) -> float:
    """Of any score, chance, standard error, number of queries or pairs, share or entropy of any head."""
    differences = [one.scores.entropy - other.scores.entropy]
    for table in ("every_key", "words_only"):
        mine, theirs = getattr(one.scores, table), getattr(other.scores, table)
        for field in fields(mine):
            a, b = getattr(mine, field.name).astype(float), getattr(theirs, field.name).astype(float)
            assert (np.isnan(a) == np.isnan(b)).all(), field.name
            differences.append(np.nan_to_num(a - b))
    return max(float(np.abs(each).max()) for each in differences)


@contextmanager
def machines() -> Iterator[tuple[Cluster, list[Any]]]:
    """A cluster of three machines with a core each, and one that only leads."""
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": _MEMORY}
    )
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=_MEMORY) for _ in range(3)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        with redirect_stdout(sys.stderr):  # where Ray tells of what died
            yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


Harm = Callable[[Cluster, list[Any]], str]


@contextmanager
def harmed(harms: dict[int, Harm], cluster: tuple[Cluster, list[Any]], count: int) -> Iterator[list[str]]:
    """Harm is done when so many thirds of the pairs are in; yields what was done."""
    done: list[str] = []
    waiting = dict(harms)
    add = Totals.add

    def watched(self: Totals, found: BlockResult) -> None:
        add(self, found)
        due = [thirds for thirds in waiting if self.state.seen.read >= count * thirds / 3]
        done.extend(waiting.pop(thirds)(*cluster) for thirds in due)

    Totals.add = watched  # type: ignore[method-assign]
    try:
        yield done
    finally:
        Totals.add = add  # type: ignore[method-assign]
    assert not waiting


def kill_worker(_: Cluster, __: list[Any]) -> str:
    """Kill the actor that has worked most."""
    ours = psutil.Process().children(recursive=True)
    workers = [each for each in ours if "MapWorker" in " ".join(each.cmdline())]
    max(workers, key=lambda each: sum(each.cpu_times()[:2])).kill()
    return "a worker"


def remove_machine(cluster: Cluster, nodes: list[Any]) -> str:
    """Take a machine away, with all that runs and lies there."""
    cluster.remove_node(nodes.pop(), allow_graceful=False)
    return "a machine"


def add_machine(cluster: Cluster, nodes: list[Any]) -> str:
    """Another one joins."""
    nodes.append(cluster.add_node(num_cpus=1, object_store_memory=_MEMORY))
    return "(one joins)"


if __name__ == "__main__":
    main()
