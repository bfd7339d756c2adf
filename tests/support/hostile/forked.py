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

if __name__ == "__main__":
    kind, count, place = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if (pid := os.fork()) == 0:  # the model is saved by a fork, too
        save_tiny_model(place / "model")
        os._exit(0)
    os.waitpid(pid, 0)
    (place / "scene").mkdir()
    scene = kills.Scene(place / "scene", place / "model", 100 if kind == "runs" else 12)
    if kind == "runs":  # each fault so many times, at random moments
        struck = {fault.__name__: sum(fault(scene, random.Random(s)) for s in range(count)) for fault in kills.FAULTS}
    else:  # every so many of the commands and formats, on a full disk
        draw, listed = random.Random(0), list(writers.writers(scene))[::count]
        struck = {"full": sum(writers.on_a_full_disk(scene, writer, draw) for writer in listed)}
    print(json.dumps(struck))
