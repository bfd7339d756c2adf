"""What can run now: the bundled model, those in the hub's local cache, and whether the hub answers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.errors import ModelError
from attnscan.model.sources import BUNDLED, BUNDLED_PACKAGE, bundled_directory, choose, fault_of, hub_answers

if TYPE_CHECKING:
    import pandas as pd

# The same two numbers under the names that different families give them
_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
_HEADS = ("num_attention_heads", "n_heads", "n_head", "num_heads")


@dataclass(frozen=True)
class Entry:
    """One model."""

    model: str
    """What to give as --model."""
    family: str
    layers: int | None
    heads: int | None
    state: str
    """`ready`, or why it cannot run."""
    where: str


@dataclass(frozen=True)
class Catalog:
    """All models found, what a run without --model would take, and whether others can be fetched."""

    entries: tuple[Entry, ...]
    """The models, the bundled one first."""
    default: str
    """The model that a run takes where none is named, or why there is none."""
    hub: bool
    """Whether the hub answered, so that others can be fetched."""

    def to_frame(self) -> pd.DataFrame:
        """One row a model."""
        import pandas as pd

        entries = pd.DataFrame([asdict(entry) for entry in self.entries])
        return entries.astype({"layers": "Int64", "heads": "Int64"})  # whole numbers, even where one is unknown

    @classmethod
    def now(cls) -> Catalog:
        """Look around on this machine, and ask the hub once, for at most two seconds."""
        hub = hub_answers()
        try:
            default = choose(None, lambda: hub).name
        except ModelError as error:
            default = f"none: {error.what}"
        return cls(_entries(), default, hub)


def ready() -> list[str]:
    """The names of the models that can run now without the hub."""
    return [entry.model for entry in _entries() if entry.state == "ready"]


def _entries() -> tuple[Entry, ...]:
    """The bundled model, and of the hub's local cache each at the commit that runs: its main's."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    directory, where = bundled_directory(), f"package {BUNDLED_PACKAGE}"
    missing = Entry(BUNDLED, "bert", 6, 12, "not installed: pip install 'attnscan[bundled]'", where)
    entries = [missing if directory is None else _entry(BUNDLED, directory, where)]
    try:
        repositories = sorted(scan_cache_dir().repos, key=lambda repository: repository.repo_id)
    except (CacheNotFound, ValueError):
        repositories = []
    for repository in repositories:
        main = repository.refs.get("main")
        if main is not None and repository.repo_type == "model" and (main.snapshot_path / "config.json").is_file():
            entries.append(_entry(repository.repo_id, main.snapshot_path, f"cache {main.commit_hash[:8]}"))
    return tuple(entries)


def _entry(name: str, directory: Path, where: str) -> Entry:
    """What config.json says of a model, and whether its files are all there and can be read."""
    fault = fault_of(directory)
    state = f"cannot run: it has {fault[0]}" if fault else "ready"
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        family = str(config.get("model_type", "unknown"))
    except (OSError, ValueError, AttributeError, RecursionError):
        config, family, state = {}, "unknown", "cannot run: config.json cannot be read"
    layers, heads = (
        next((value for name in names if isinstance(value := config.get(name), int)), None)
        for names in (_LAYERS, _HEADS)
    )
    return Entry(name, family, layers, heads, state, where)
