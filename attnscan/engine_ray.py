"""Many machines: the scan of engine.py as a Ray Data pipeline. Needs `attnscan[ray]`, here alone.

    files -> tasks that read them, block by block -> actors that hold the model -> sums, added on the driver

A block (blocks.py) is known by its file's place and its own number, and is the same however often it is read. A
worker or machine that dies is replaced by Ray, and what it had not handed over is done again; the driver adds a block
once, and at the end finds every block of every file there, or says that one is missing. Sums are added as they come,
so two runs may differ in the last bits, as floating-point sums do.
Does not handle: `--state`, `--per-pair`, standard input.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attnscan.engine import ScanState, Seen, scan
from attnscan.errors import AttnscanError, DeviceError, EngineError, InputError
from attnscan.files.blocks import Bad, Block, BlockFiles, row
from attnscan.files.remote_files import files_named
from attnscan.options import ClusterOptions, ScanOptions
from attnscan.pairs import Record
from attnscan.results import Ranking
from attnscan.scanner import Scanner, hashed
from attnscan.sources import Source, choose

try:
    import ray
    import ray.data
except ImportError:
    raise EngineError("--engine ray needs Ray, which is not installed", "run: pip install 'attnscan[ray]'") from None

_MODULUS = 1 << 256
_PATIENCE = 5.0  # seconds, for a cluster to answer


@dataclass(frozen=True)
class Found:
    """What a block adds."""

    block: Block
    """Without its records."""
    state: ScanState = field(default_factory=ScanState)
    bad: Bad = field(default_factory=Bad)


@dataclass(frozen=True)
class Plan:
    """What the workers are told."""

    options: ScanOptions
    source_name: str
    """The model as the user calls it; `options.model` is how every machine finds it."""
    files: BlockFiles
    threads: int

    def scanner(self) -> Scanner:
        """The model, loaded here and now."""
        import torch

        torch.set_num_threads(self.threads)
        return Scanner(self.options, replace(choose(self.options.model), name=self.source_name))


@dataclass
class Totals:
    """Blocks added, each once."""

    state: ScanState = field(default_factory=ScanState)
    bad: Bad = field(default_factory=Bad)
    arrived: set[tuple[int, int]] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)
    """The number of the last block of each file that was read to its end."""

    def add(self, found: Found, sample: int) -> None:
        """Add what a block found, unless it is here already.

        Raises: AttnscanError if the block says so.
        """
        block = found.block
        if block.error is not None:
            raise block.error
        if (block.file, block.number) in self.arrived:
            return
        self.arrived.add((block.file, block.number))
        if block.last:
            self.ends[block.file] = block.number
        self.state = merged(self.state, found.state, sample)
        self.bad += found.bad

    def check(self, files: int) -> None:
        """Raises: EngineError if a block of a file has not arrived."""
        due = sum(last + 1 for last in self.ends.values())
        if len(self.ends) != files or due != len(self.arrived):
            raise EngineError("the cluster lost blocks of pairs, and the sums are not whole", "run it again")


def merged(one: ScanState, other: ScanState, sample: int) -> ScanState:
    """Two states of different pairs as one, whichever came first."""
    a, b = one.seen, other.seen
    drawn = {key: (key, number, pair) for key, number, pair in (*a.sample, *b.sample)}
    seen = Seen(
        read=a.read + b.read,
        truncated=a.truncated + b.truncated,
        skipped=a.skipped + b.skipped,
        digest=f"{(int(a.digest or '0', 16) + int(b.digest or '0', 16)) % _MODULUS:064x}",
        sample=tuple(drawn[key] for key in sorted(drawn)[:sample]),
    )
    if one.sums is None or other.sums is None:
        return ScanState(seen, one.sums or other.sums)
    return ScanState(seen, one.sums + other.sums)


class Worker:
    """An actor that holds the model and scores blocks: rows of `block` to rows of `found`, both pickled."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._error: AttnscanError | None = None
        try:
            self._scanner = plan.scanner().__enter__()
        except AttnscanError as error:  # told in the place of the first block, in one line
            self._error = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """One block."""
        block: Block = pickle.loads(batch["block"][0])
        return row("found", self.score(block))

    def score(self, block: Block) -> Found:
        """The sums of a block, or the error that it met."""
        bare = replace(block, records=(), error=block.error or self._error)
        if bare.error is not None or not block.records:
            return Found(bare, bad=block.bad)
        bad = [block.bad]
        digest = [0]

        def skip(error: InputError) -> None:
            bad[0] = bad[0].and_then(error)

        def counted() -> Iterator[Record]:
            for record in block.records:
                digest[0] += int(hashed(*[sentence.encode() for sentence in record.pair.sentences]), 16)
                yield record

        state = ScanState()
        try:
            for after in scan(self._scanner, counted(), on_bad=skip if self._plan.files.skip_bad else None):
                state = after
        except AttnscanError as error:
            return Found(replace(bare, error=error))
        seen = replace(state.seen, digest=f"{digest[0] % _MODULUS:064x}")
        return Found(bare, ScanState(seen, state.sums), bad[0])


def scan_on_ray(
    options: ScanOptions,
    paths: list[str],
    columns: list[str] | None,
    cluster: ClusterOptions,
    *,
    skip_bad: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Ranking, Bad]:
    """Rank every head by the pairs of files that all machines can read. Returns what was skipped as bad, too.

    The signature's hash is the sum, modulo 2**256, of the hashes of all records: the same in any order, and so not
    that of the one-machine engine.

    Raises: AttnscanError, whichever a worker met first.
    """
    files = files_named(paths)
    source = choose(options.model)
    say(source.note)
    with _connected(cluster):
        workers, needs, device = _shares(options, cluster, say)
        plan = Plan(
            replace(options, model=_everywhere(source), device=device),
            source.name,
            BlockFiles(tuple(files), tuple(columns) if columns else None, skip_bad, cluster.block_pairs),
            cluster.worker_cpus,
        )
        started, totals = time.monotonic(), Totals()
        for each in _pipeline(plan, workers, needs).iter_rows():
            totals.add(pickle.loads(each["found"]), options.predictive_pairs)
        totals.check(len(files))
        took = time.monotonic() - started
        read = totals.state.seen.read
        say(f"{read:,} pairs in {took:,.1f} s, {read / max(took, 1e-3):,.1f} a second, by {workers} workers")
        result, error = ray.get(ray.remote(_finished).options(**needs, max_retries=3).remote(plan, totals.state))
        if error is not None:
            raise error
    return result, totals.bad


def _pipeline(plan: Plan, workers: int, needs: dict[str, float]) -> Any:
    """The rows of what was found, as they are found."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = sys.stderr.isatty()
    context.target_max_block_size = 1  # byte: what is read goes on to the workers at once, not when 128 MiB are full
    count = len(plan.files.paths)
    # Readers take no share of the CPUs: the workers may hold them all, and would wait for readers that wait for them
    reading = ray.data.from_items(list(range(count)), override_num_blocks=count).map_batches(
        plan.files.rows, batch_size=1, num_cpus=0, compute=ray.data.TaskPoolStrategy(size=min(workers, count))
    )
    return reading.map_batches(
        Worker,
        fn_constructor_args=(plan,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2),
        **needs,
    )


def _finished(plan: Plan, state: ScanState) -> tuple[Ranking | None, AttnscanError | None]:
    """The ranking, `predictive` measured by a worker like the others: the driver may have no such device."""
    try:
        with plan.scanner() as scanner:
            return state.finish(scanner), None
    except AttnscanError as error:
        return None, error


@contextmanager
def _connected(cluster: ClusterOptions) -> Iterator[None]:
    """A connection to the cluster, or a cluster on this machine; its end ends our workers, however it comes.

    Raises: EngineError if there is no cluster.
    """
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if ray.is_initialized():  # by a caller, whose it is
        yield
        return
    address = cluster.address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    _check_answers(address)
    try:
        own = {"include_dashboard": False} if address == "local" else {}
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:
        why = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise EngineError(f"cannot reach a Ray cluster at {address}: {why}", "start one with `ray start`") from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Ray itself tries an address where nothing listens for seven minutes, and then ends the process.

    Raises: EngineError if nothing does.
    """
    if "://" in address:
        raise EngineError(
            f"cannot reach a Ray cluster at {address}: Ray Data does not run through the Ray client",
            "run attnscan on a machine of the cluster, with --ray-address auto",
        )
    host, colon, port = address.rpartition(":")
    if not colon:  # `auto`, `local`
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, ValueError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise EngineError(f"cannot reach a Ray cluster at {address}: {why}", "start one with `ray start`") from None


def _shares(
    options: ScanOptions, cluster: ClusterOptions, say: Callable[[str], None]
) -> tuple[int, dict[str, float], Any]:
    """How many workers, what each holds of its machine, and its device.

    Raises: DeviceError if no machine of the cluster has that much, and no number of workers was asked for.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    on_gpu = options.device == "cuda" or (options.device == "auto" and any(each.get("GPU") for each in machines))
    needs = {"num_cpus": float(cluster.worker_cpus), "num_gpus": float(on_gpu)}
    room = 0
    for each in machines:
        by_cpu = int(each.get("CPU", 0) // cluster.worker_cpus)
        room += min(by_cpu, int(each.get("GPU", 0))) if on_gpu else by_cpu
    if room < (cluster.workers or 1):
        share = f"{cluster.worker_cpus} CPUs{' and a GPU' if on_gpu else ''}"
        if cluster.workers is None:
            raise DeviceError(f"no machine of the cluster has {share} for a worker", "give fewer --worker-cpus")
        say(f"the cluster has room for {room} of {cluster.workers} workers of {share} now; the others wait")
    device = options.device if options.device != "auto" else "cuda" if on_gpu else "cpu"
    return cluster.workers or room, needs, device


def _everywhere(source: Source) -> str:
    """A model's name as every machine of the cluster finds it: directories whole, others as they are."""
    path = Path(source.name).expanduser()
    return str(path.absolute()) if path.is_dir() else source.name
