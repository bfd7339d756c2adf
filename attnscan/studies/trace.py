"""The checkpoints of a training run: which there are, their order, and whether all can be read."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnscan.errors import AttnscanError, ModelError
from attnscan.model.sources import Source, choose

_SIZES = (
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
)
"""What configs call the numbers of layers and of heads."""


@dataclass(frozen=True)
class CheckpointOfRun:
    """A checkpoint, and the training step at which it was saved."""

    name: str
    step: int | None  # None where neither the checkpoint nor its name tells
    model: Source


def find_checkpoints(names: Sequence[str]) -> list[str]:
    """Names of checkpoints, where a directory that holds only checkpoints stands for these."""
    found = []
    for name in names:
        inner = _inner_checkpoints(Path(name).expanduser())
        found += [str(path) for path in inner] or [name]
    return found


def _inner_checkpoints(path: Path) -> list[Path]:
    if not path.is_dir() or any((path / f"{kind}_config.json").is_file() for kind in ("adapter",)):
        return []
    if (path / "config.json").is_file():
        return []
    return sorted(inner.parent for inner in path.glob("*/config.json"))


def step_of(name: str) -> int | None:
    """The step of a checkpoint: of its trainer_state.json, else the last number in its name."""
    path = Path(name).expanduser()
    try:
        state = json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
        return int(state["global_step"])
    except (OSError, ValueError, KeyError, TypeError):
        numbers = re.findall(r"\d+", name.rpartition("@")[2] if "@" in name else path.name)
        return int(numbers[-1]) if numbers else None


def order_checkpoints(
    names: Sequence[str], *, skip_bad: bool = False
) -> tuple[list[CheckpointOfRun], list[str]]:
    """The checkpoints in the order of their steps, as given where a step is not known.

    With `skip_bad`, those that cannot be read are left out; returns a line for each of these, too.
    Nothing is loaded. Raises: ModelError for a checkpoint that cannot be read, or models that
    differ in layers or heads.
    """
    checkpoints = []
    faults = []
    for name in find_checkpoints(names):
        try:
            checkpoints.append(CheckpointOfRun(name, step_of(name), choose(name)))
        except AttnscanError as error:
            if not skip_bad:
                remedy = f"{error.remedy}; or skip it with ``skip_bad``"
                raise ModelError(error.what, remedy) from None
            faults.append(f"skipped: {error.what}")
    if not checkpoints:
        reason = faults[0] if faults else "no checkpoint was given"
        raise ModelError(f"there is nothing to trace: {reason}", "give checkpoints of one run")
    _check_sizes(checkpoints)
    if all(checkpoint.step is not None for checkpoint in checkpoints):
        checkpoints.sort(key=lambda checkpoint: checkpoint.step or 0)
    return checkpoints, faults


def _check_sizes(checkpoints: Sequence[CheckpointOfRun]) -> None:
    """Raises: ModelError if configs on this disk say other numbers of layers or heads."""
    sizes = list(_sizes(checkpoints))
    for name, size in sizes[1:]:
        first_name, first_size = sizes[0]
        if size != first_size:
            raise ModelError(
                f"{first_name} has {_written(first_size)}, and {name} {_written(size)}",
                "trace checkpoints of one run, whose models have one shape",
            )


def _sizes(checkpoints: Sequence[CheckpointOfRun]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for checkpoint in checkpoints:
        try:
            path = Path(checkpoint.model.location) / "config.json"
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # on a hub, or found out when it is loaded
        size = []
        for names in _SIZES:
            known = [config[name] for name in names if name in config]
            size.append(known[0] if known else None)
        yield checkpoint.name, tuple(size)


def _written(size: tuple[Any, ...]) -> str:
    layers, heads = size
    return f"{layers} layers × {heads} heads"
