"""A Ray cluster: how it is reached, what a worker gets of it, and how often one is replaced. Needs `attnscan[ray]`.

Does not handle: the Ray client (`ray://`), through which Ray Data does not run.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass
from types import TracebackType

from attnscan.errors import DeviceError, EngineError, needs
from attnscan.inputs.library_calls import without_stderr
from attnscan.model.sources import Device
from attnscan.scan.options import ClusterOptions, ScanOptions

with needs("--engine ray needs Ray", "ray", EngineError):
    import ray
    import ray.data  # sets its logger up when it is imported
    import ray.exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_PATIENCE = 5.0  # seconds, for a cluster to answer
_PARTS = 10_000  # of a GPU: finer shares Ray refuses


@contextmanager
def connected(cluster: ClusterOptions) -> Iterator[None]:
    """A connection to the cluster, or a cluster on this machine; its end ends our workers, however it comes.

    What Ray prints meanwhile, such as of a machine that died, goes to standard error.

    Raises: EngineError if there is no cluster.
    """
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with redirect_stdout(sys.stderr), nullcontext() if ray.is_initialized() else _joined(cluster):
        yield


@contextmanager
def _joined(cluster: ClusterOptions) -> Iterator[None]:
    address = cluster.ray_address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # What Ray's C++ core writes on standard error is for Ray's developers; what ends a run comes as an exception
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    _check_answers(address)
    try:
        own = {"include_dashboard": False} if address == "local" else {}
        with without_stderr:  # where Ray's C++ announces at which level it logs
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:
        why = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise EngineError(f"cannot reach a Ray cluster at {address}: {why}", "start one with `ray start`") from None
    try:
        yield
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class Share:
    """How many workers there are, and what each has of its machine."""

    workers: int
    most: int
    """As many there may be in time, as far as there is room."""
    cpus: int
    gpus: float
    """A share of one, or 0."""
    device: Device
    tokenizers: int = 0
    """As many processes of one core may tokenize for workers that have GPUs; with 0, workers do it themselves."""

    @property
    def told(self) -> str:
        """How many workers there are, in words."""
        return str(self.workers) if self.workers == self.most else f"{self.workers} to {self.most}"


def shared(options: ScanOptions, cluster: ClusterOptions, say: Callable[[str], None]) -> Share:
    """Share the cluster's machines among workers.

    Raises: DeviceError if no machine has enough for one, and no number of workers was asked for; or if they are to have
    shares of GPUs, and run on CPUs.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    on_gpu = options.device == "cuda" or (options.device == "auto" and any(machine.get("GPU") for machine in machines))
    if cluster.worker_gpus is not None and not on_gpu:
        raise DeviceError("--worker-gpus is a share of a GPU, and workers run on CPUs", "leave it out, or use cuda")
    gpus = math.floor((cluster.worker_gpus or 1) * _PARTS + 1e-6) / _PARTS if on_gpu else 0
    room = left = 0
    for machine in machines:
        by_cpu = int(machine.get("CPU", 0) // cluster.worker_cpus)
        fit = min(by_cpu, int(machine.get("GPU", 0)) * int(1 / gpus + 1e-6)) if on_gpu else by_cpu
        room, left = room + fit, left + int(machine.get("CPU", 0)) - fit * cluster.worker_cpus
    workers, most = cluster.pool
    if room < (workers or 1):
        of_gpu = " and a GPU" if gpus == 1 else f" and {gpus:g} of a GPU"
        share = f"{cluster.worker_cpus} CPUs{of_gpu if on_gpu else ''}"
        if workers is None:
            raise DeviceError(f"no machine of the cluster has {share} for a worker", "give fewer --worker-cpus")
        say(f"the cluster has room for {room} of {workers} workers of {share} now; the others wait")
    device: Device = options.device if options.device != "auto" else "cuda" if on_gpu else "cpu"
    most = most or workers or room
    left += max(0, room - most) * cluster.worker_cpus
    tokenizers = left if on_gpu and options.attention == "encoder" else 0  # of targets, the model itself makes inputs
    return Share(min(workers or room, most), most, cluster.worker_cpus, gpus, device, tokenizers)


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


class Lives:
    """Counts starts of workers, on the driver's machine; it travels to them.

    Ray Data restarts a pool's actors for ever (`max_restarts=-1`), and some causes kill each. Another bound is set by
    `ray_remote_args`, which Ray will drop in 2.64, so deaths are counted here.
    """

    def __init__(self, most: int) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._most = most
        self._counter = ray.remote(_Counted).options(num_cpus=0, scheduling_strategy=here).remote()

    def __enter__(self) -> Lives:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(ray.exceptions.RayError):  # such as that the cluster has gone
            ray.kill(self._counter)

    def check(self) -> None:
        """In a worker, once in each of its lives. Raises: EngineError if that is one too many."""
        number = ray.get(self._counter.next.remote(ray.get_runtime_context().get_actor_id()))
        if number > self._most:
            raise EngineError(
                f"a worker of the cluster died, and {self._most - 1} times the one in its place",
                "give each more memory, or smaller --block-pairs and --batch-tokens; `ray logs` says more",
            )


class _Counted:
    def __init__(self) -> None:
        self._lives = Counter[str]()

    def next(self, name: str) -> int:
        self._lives[name] += 1
        return self._lives[name]
