"""What can run now: the bundled model, those in the hub's local cache, and whether the hub answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnscan.errors import ModelError
from attnscan.model.sources import BUNDLED, BUNDLED_PACKAGE, bundled_directory, choose, fault_of, hub_answers

if TYPE_CHECKING:
    import pandas as pd

# The same two numbers under the names that different families give them
_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
_HEADS = ("num_attention_heads", "n_heads", "n_head", "num_heads")


@dataclass(frozen=True)
class Catalog:
    """All models found, what a run without --model would take, and whether others can be fetched."""

    entries: list[dict[str, Any]]
    """Of each model what to give as --model, its `family`, `layers` and `heads`, its `state`, which is `ready` or why
    it cannot run, and `where` it is; the bundled one first."""
    default: str
    """The model that a run takes where none is named, or why there is none."""
    hub: bool
    """Whether the hub answered, so that others can be fetched."""

    def to_frame(self) -> pd.DataFrame:
        """One row a model."""
        import pandas as pd

        entries = pd.DataFrame(self.entries)
        return entries.astype({"layers": "Int64", "heads": "Int64"})  # whole numbers, even where one is unknown

    @property
    def ready(self) -> list[str]:
        """The models that can run now without the hub."""
        return [entry["model"] for entry in self.entries if entry["state"] == "ready"]

    @classmethod
    def now(cls, *, ask_hub: bool = True) -> Catalog:
        """Look around on this machine, and ask the hub once, for at most two seconds."""
        from huggingface_hub import CacheNotFound, scan_cache_dir

        hub = ask_hub and hub_answers()
        try:
            default = choose(None, lambda: hub).name
        except ModelError as error:
            default = f"none: {error.what}"
        entries = [_entry(BUNDLED, bundled_directory(), f"package {BUNDLED_PACKAGE}")]
        try:
            repositories = sorted(scan_cache_dir().repos, key=lambda repository: repository.repo_id)
        except (CacheNotFound, ValueError):
            repositories = []
        for repository in repositories:  # each at the commit that runs: its main's
            main = repository.refs.get("main")
            if main is not None and repository.repo_type == "model" and (main.snapshot_path / "config.json").is_file():
                entries.append(_entry(repository.repo_id, main.snapshot_path, f"cache {main.commit_hash[:8]}"))
        return cls(entries, default, hub)


def _entry(name: str, directory: Path | None, where: str) -> dict[str, Any]:
    """What config.json says of a model, and whether its files are all there and can be read."""
    entry = {"model": name, "family": "unknown", "layers": None, "heads": None, "state": "ready", "where": where}
    if directory is None:
        return entry | {"state": "not installed: pip install 'attnscan[bundled]'"}
    if fault := fault_of(directory):
        entry["state"] = f"cannot run: it has {fault[0]}"
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        layers, heads = (next((config[key] for key in keys if key in config), None) for keys in (_LAYERS, _HEADS))
        return entry | {"family": config.get("model_type", "unknown"), "layers": layers, "heads": heads}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return entry | {"state": "cannot run: config.json cannot be read"}
