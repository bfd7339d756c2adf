"""How often each worker of a cluster was started: Ray does so for ever, and some causes kill each. Needs Ray.

Ray Data itself gives the actors of a pool `max_restarts=-1` and `max_task_retries=-1`. To set another bound is by
`ray_remote_args`, which it will drop in 2.64, so deaths are counted here.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from types import TracebackType

import ray
import ray.exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from attnscan.errors import EngineError


class Lives:
    """Counts starts, on the driver's machine; it travels to the workers."""

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
