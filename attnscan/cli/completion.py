"""What a shell completes: patterns, models that can run now, and their heads.

Nothing is asked of the hub, and no model is loaded.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import typer

from attnscan.errors import AttnscanError
from attnscan.model.sources import BUNDLED, cached_ids, choose, grid_shape
from attnscan.scoring.cross import ALL_PATTERNS

Completer = Callable[[typer.Context, str], list[str]]


def completer(metavar: str) -> Completer | None:
    """The function that completes values, by the word that stands for these in help."""
    if metavar == "PATTERN":
        return complete_patterns
    if metavar in ("NAME", "CHECKPOINT", "MODEL_A", "MODEL_B"):
        return complete_models
    if metavar == "HEADS":
        return complete_heads
    return None


def complete_patterns(_: typer.Context, incomplete: str) -> list[str]:
    """The names of patterns that begin so."""
    return [pattern.id for pattern in ALL_PATTERNS if pattern.id.startswith(incomplete)]


def complete_models(_: typer.Context, incomplete: str) -> list[str]:
    """The names of models that begin so: the bundled one, those in the cache, and directories."""
    names = [BUNDLED, *cached_ids(), *_directories(incomplete)]
    return [name for name in names if name.startswith(incomplete)]


def _directories(incomplete: str) -> Iterator[str]:
    """Directories with a model, below that of an incomplete path."""
    parent, _, name = incomplete.rpartition("/")
    with suppress(OSError):
        for config in sorted(Path(parent or ".").glob(f"{name}*/config.json")):
            directory = config.parent.name
            yield f"{parent}/{directory}" if parent else directory


def complete_heads(context: typer.Context, incomplete: str) -> list[str]:
    """Heads of the model that was named, behind those that are complete."""
    complete, comma, last = incomplete.rpartition(",")
    return [f"{complete}{comma}{name}" for name in _heads(context) if name.startswith(last)]


def _heads(context: typer.Context) -> Iterator[str]:
    """All names of heads of a model, and of several of its heads."""
    yield "all"
    model = context.params.get("model") or context.params.get("model_a")
    shape = None
    with suppress(AttnscanError):
        shape = grid_shape(Path(choose(model, lambda: False).location))
    if shape is None:
        return
    layers, heads = shape
    for layer in range(layers):
        yield f"layer:{layer}"
    for layer in range(layers):
        for head in range(heads):
            yield f"{layer}-{head}"
