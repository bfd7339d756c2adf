"""What could mix two runs: a changed model under a state, a part over a whole result, a pause."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

from hostile.kills import Scene


def model_changed(scene: Scene, draw: random.Random) -> bool:
    """A run that is killed, and gone on with by a model of the same name whose weights, config or tokenizer differ.

    Returns, as all of these do, whether the fault struck: here, whether there was a state to refuse.
    """
    scene.clear()
    ended = scene.run(scene.resumable, [(draw.uniform(0.3, 1) * scene.seconds, signal.SIGKILL)])
    assert ended.status in (-signal.SIGKILL, 0) and ended.calm, ended
    scene.table.unlink(missing_ok=True)
    change = draw.choice((_weight, _config, _vocabulary))
    path, content = change(scene.model, draw)
    before, state = path.read_bytes(), scene.state.read_bytes() if scene.state.exists() else None
    path.write_bytes(content)
    try:
        ended = scene.run(scene.resumable)
        if state is not None:
            _refused(scene, ended.status, ended.stderr, state)
        else:  # it began anew; and now the state is of the changed model
            assert ended.status == 0 and ended.calm, ended
            state = scene.state.read_bytes()
            scene.table.unlink()
            path.write_bytes(before)
            ended = scene.run(scene.resumable)
            _refused(scene, ended.status, ended.stderr, state)
            scene.state.unlink()
    finally:
        path.write_bytes(before)
    scene.goes_on()
    return True


def _refused(scene: Scene, status: int, stderr: str, state: bytes) -> None:
    """In one line, with everything as it was."""
    (line,) = stderr.splitlines()
    assert status == 1 and line.startswith(f"attnscan: {scene.state} "), stderr
    assert scene.state.read_bytes() == state and not scene.table.exists(), "the state or the table was written"


def _weight(model: Path, draw: random.Random) -> tuple[Path, bytes]:
    """One bit of one number."""
    path = model / "model.safetensors"
    content = bytearray(path.read_bytes())
    first = 8 + int.from_bytes(content[:8], "little")
    number = draw.randrange(first, len(content) - 3, 4)
    content[number + 1] ^= 1 << draw.randrange(8)  # of its mantissa: it stays a number
    return path, bytes(content)


def _config(model: Path, draw: random.Random) -> tuple[Path, bytes]:
    path = model / "config.json"
    config = json.loads(path.read_bytes())
    name, value = draw.choice((("hidden_act", "relu"), ("layer_norm_eps", 0.1), ("num_attention_heads", 4)))
    assert config[name] != value
    return path, json.dumps({**config, name: value}).encode()


def _vocabulary(model: Path, draw: random.Random) -> tuple[Path, bytes]:
    """Two letters that change places."""
    path = model / "tokenizer.json"
    tokenizer = json.loads(path.read_bytes())
    vocabulary = tokenizer["model"]["vocab"]
    one, other = draw.sample("abcdefghijklmnopqrstuvwxyz", 2)
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    return path, json.dumps(tokenizer).encode()


def interrupted_over_whole_results(scene: Scene, draw: random.Random) -> bool:
    """Ctrl-C where a whole result stands: it is untouched, and nothing is left beside it."""
    scene.clear()
    whole = _whole(scene)
    for path, content in whole.items():
        path.write_bytes(content)
    ended = scene.run(scene.keeping, [(draw.uniform(0.05, scene.seconds), signal.SIGINT)])
    assert ended.status in (130, 0) and ended.calm, ended
    assert {path: path.read_bytes() for path in whole} == whole, "a whole result was written over"
    assert not scene.hidden(), "something is left beside"
    return ended.status != 0


def _whole(scene: Scene) -> dict[Path, bytes]:
    """The results of a run that nothing disturbs; it is run once."""
    kept = {scene.table: scene.directory / "whole.csv", scene.scores: scene.directory / "whole.parquet"}
    if not all(path.exists() for path in kept.values()):
        ended = scene.run(scene.keeping)
        assert ended.status == 0 and ended.calm, ended
        for path, copy in kept.items():
            path.rename(copy)
    return {path: copy.read_bytes() for path, copy in kept.items()}


def stopped_for_a_while(scene: Scene, draw: random.Random) -> bool:
    """A run that is stopped and let go on, up to three times: what it gives is what it always gives."""
    scene.clear()
    signals: list[tuple[float, int]] = []
    for _ in range(draw.randint(1, 3)):
        signals += [(draw.uniform(0, scene.seconds / 2), signal.SIGSTOP), (draw.uniform(0, 0.3), signal.SIGCONT)]
    ended = scene.run(draw.choice((scene.resumable, scene.keeping)), signals)
    assert ended.status == 0 and ended.calm, ended
    assert scene.table.read_bytes() == scene.expected, "another table"
    scene.check_files()
    return ended.seconds > sum(after for after, _ in signals[:2])


FAULTS = (model_changed, interrupted_over_whole_results, stopped_for_a_while)
