"""Models in the layout of the hub's local cache, which nobody loads."""

from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHOLE = ("config.json", "tokenizer.json", "model.safetensors")


def checkpoint(path: Path, files: tuple[str, ...] = WHOLE) -> Path:
    """A directory with the files of a checkpoint, which nobody loads here."""
    path.mkdir(parents=True, exist_ok=True)
    for name in files:
        (path / name).write_text('{"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 3}')
    return path


def in_cache(cache: Path, hub_id: str, files: tuple[str, ...] = WHOLE) -> Path:
    """A model in the layout of the hub's local cache; returns its snapshot."""
    repository = cache / f"models--{hub_id.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return checkpoint(repository / "snapshots" / COMMIT, files)
