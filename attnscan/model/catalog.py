"""What can run now: the bundled model, those in the hub's local cache, and whether the hub answers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.errors import ModelError
from attnscan.model.sources import BUNDLED, BUNDLED_PACKAGE, bundled_directory, choose, has_safetensors, hub_answers

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
        hub = cache(hub_answers)
        try:
            default = choose(None, hub).name
        except ModelError as error:
            default = f"none: {error.what}"
        return cls((_bundled(), *_cached()), default, hub())


def ready() -> list[str]:
    """The names of the models that can run now without the hub."""
    return list(dict.fromkeys(entry.model for entry in (_bundled(), *_cached()) if entry.state == "ready"))


def _bundled() -> Entry:
    directory = bundled_directory()
    if directory is None:
        return Entry(
            BUNDLED, "bert", 6, 12, "not installed: pip install 'attnscan[bundled]'", f"package {BUNDLED_PACKAGE}"
        )
    return _entry(BUNDLED, directory, f"package {BUNDLED_PACKAGE}")


def _cached() -> list[Entry]:
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        cache = scan_cache_dir()
    except (CacheNotFound, ValueError):
        return []
    return [
        _entry(repo.repo_id, revision.snapshot_path, f"cache {revision.commit_hash[:8]}")
        for repo in sorted(cache.repos, key=lambda repo: repo.repo_id)
        if repo.repo_type == "model"
        for revision in sorted(repo.revisions, key=lambda revision: revision.commit_hash)
        if (revision.snapshot_path / "config.json").is_file()
    ]


def _entry(name: str, directory: Path, where: str) -> Entry:
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = {}
    config = config if isinstance(config, dict) else {}
    state = "ready" if has_safetensors(directory) else "cannot run: no safetensors weights"
    return Entry(
        model=name,
        family=str(config.get("model_type", "unknown")),
        layers=_count(config, _LAYERS),
        heads=_count(config, _HEADS),
        state=state if config else "cannot run: config.json cannot be read",
        where=where,
    )


def _count(config: dict[str, object], names: tuple[str, ...]) -> int | None:
    return next((value for name in names if isinstance(value := config.get(name), int)), None)
