"""Faults that strike forks of a process of its own, which never runs torch's threads.

    python tests/support/hostile/forked.py runs|writers COUNT DIRECTORY

Prints as JSON how often each fault struck. A trial that attnscan fails ends it with a traceback.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile import kills, writers
from hostile.runs import save_tiny_model


def scene_in(directory: Path, pairs: int) -> kills.Scene:
    """A scene whose model is saved by a fork: this process must not have run torch's threads when it forks."""
    if (pid := os.fork()) == 0:
        save_tiny_model(directory / "model")
        os._exit(0)
    os.waitpid(pid, 0)
    (directory / "scene").mkdir()
    return kills.Scene(directory / "scene", directory / "model", pairs)


def of_runs(times: int, directory: Path) -> dict[str, int]:
    """Each fault so many times, at random moments."""
    scene = scene_in(directory, 100)
    return {fault.__name__: sum(fault(scene, random.Random(seed)) for seed in range(times)) for fault in kills.FAULTS}


def of_writers(every: int, directory: Path) -> dict[str, int]:
    """Every so many of the commands and formats, on a full disk."""
    scene, draw = scene_in(directory, 12), random.Random(0)
    listed = list(writers.writers(scene))
    full = [writers.on_a_full_disk(scene, writer, draw) for writer in listed[::every]]
    return {"full": sum(full)}


if __name__ == "__main__":
    kind, count, place = sys.argv[1:]
    print(json.dumps({"runs": of_runs, "writers": of_writers}[kind](int(count), Path(place))))
