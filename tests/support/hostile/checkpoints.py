"""Directories that claim to be models: one thing in each is a trap, a contradiction or damage."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Change = Callable[[Path], object]


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self._marker),))


def configured(**values: Any) -> Change:
    """Change entries of the config."""

    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


def _weights_as(name: str, *, sound: bool, index: bool) -> Change:
    """Pickled weights, sound or a trap, under a name that something in the checkpoint gives."""

    def change(directory: Path) -> None:
        weights: dict[str, Any] = load_file(directory / "model.safetensors")
        names = list(weights)
        torch.save(weights if sound else {"a": Trap(directory / "sprung")}, directory / name)
        if index:
            (directory / "model.safetensors").unlink()
            about = {"metadata": {}, "weight_map": dict.fromkeys(names, name)}
            (directory / "model.safetensors.index.json").write_text(json.dumps(about))
        else:
            configured(transformers_weights=name)(directory)

    return change


def _changed_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def changed(directory: Path) -> None:
        weights = load_file(directory / "model.safetensors")
        change(weights)
        save_file(weights, directory / "model.safetensors", {"format": "pt"})

    return changed


def _of_nan(weights: dict[str, torch.Tensor]) -> None:
    weights[next(name for name in weights if "query.weight" in name)].fill_(torch.nan)


def _remote_code(directory: Path) -> None:
    for name in ("evil.py", "__init__.py"):
        (directory / name).write_text(f"import os\nos.mkdir({str(directory / 'sprung')!r})\nclass Evil: pass\n")
    own = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    configured(model_type="evil", auto_map=own, architectures=["Evil"])(directory)


def _written(content: bytes) -> Change:
    """Weights that are these bytes."""
    return lambda directory: (directory / "model.safetensors").write_bytes(content)


def _cut(share: float) -> Change:
    """Weights whose file ends early."""

    def change(directory: Path) -> None:
        path = directory / "model.safetensors"
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])

    return change


def _index_of_nothing(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": "../../part.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def ruled(**parts: Any) -> Change:
    """Change parts of tokenizer.json; what is added to a list or a dictionary is added to what is there."""

    def change(directory: Path) -> None:
        path = directory / "tokenizer.json"
        rules = json.loads(path.read_text())
        for name, value in parts.items():
            rules[name] = rules[name] + value if name == "added_tokens" else value
        path.write_text(json.dumps(rules))

    return change


def _of_class(name: str) -> Change:
    """The tokenizer said to be of another class of transformers."""

    def change(directory: Path) -> None:
        path = directory / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "tokenizer_class": name}))

    return change


def _replaced(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def split_at(regex: str) -> dict[str, Any]:
    """A pre-tokenizer with a regular expression of its own."""
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


_CAT = {"content": "cat", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
EXPLODES = "(?:(?:[^x]*)*(?:[^y]*)*)*(?<=[0-9])[^!]"
"""A regular expression that no sentence matches, and that is given up after ten million attempts."""

_TOKENIZERS: dict[str, Change] = {
    "a map of letters that is none": ruled(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}),
    "an added word that explodes": ruled(
        normalizer=_replaced({"Regex": EXPLODES}, "a"), added_tokens=[{"id": 340, **_CAT, "content": "cat " * 10}]
    ),
    "pieces of no length": ruled(pre_tokenizer={"type": "FixedLength", "length": 0}),
    "a template without a sentence": ruled(
        post_processor={
            "type": "TemplateProcessing",
            "single": [],
            "pair": [{"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {},
        }
    ),
    "an empty word list": ruled(model={"type": "Unigram", "unk_id": None, "vocab": [], "byte_fallback": False}),
    "a tokenizer of words and boxes": _of_class("LayoutLMv3Tokenizer"),
}
"""Tokenizers that break inside their library, or that read no sentences."""

TRAPS: dict[str, Change] = {
    **_TOKENIZERS,
    "a config that names a pickle": _weights_as("adapter_model.bin", sound=True, index=False),
    "a config that names a trap": _weights_as("adapter_model.bin", sound=False, index=False),
    "an index of traps": _weights_as("weights.bin", sound=False, index=True),
    "code of its own": _remote_code,
    "weights that are empty": _written(b""),
    "weights that are a pickle": _written(b"\x80\x02}q\x00."),
    "weights that are cut in their header": _cut(0.01),
    "weights that are cut in their midst": _cut(0.5),
    "an index without its parts": _index_of_nothing,
    "weights of NaN": _changed_weights(_of_nan),
    "a weight that is missing": _changed_weights(lambda weights: weights.pop(next(n for n in weights if "key" in n))),
    "more layers than weights": configured(num_hidden_layers=3),
    "another width": configured(hidden_size=16),
    "a million heads": configured(num_attention_heads=1_000_000),
    "no heads": configured(num_attention_heads=0),
    "fewer words than the tokenizer": configured(vocab_size=3),
}
"""Each must be refused in one line, and nothing of it run."""

_VALUES = (None, True, -1, 0, 3, 2.5, 1e308, 10**30, "x", "../../etc/passwd", [1], {}, {"a": {}})


def mutated(draw: random.Random) -> Change:
    """One file of the checkpoint damaged at random: an entry of a JSON file, or bytes of any file."""

    def change(directory: Path) -> None:
        path = draw.choice(sorted(directory.iterdir()))
        content = path.read_bytes()
        if path.suffix == ".json" and draw.random() < 0.6:
            path.write_text(json.dumps(_other(json.loads(content), draw)))
        else:
            at = draw.randrange(min(len(content), 4096))  # the start, where headers are
            flipped = content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
            path.write_bytes(draw.choice((flipped, content[:at], content[:at] + draw.randbytes(8) + content[at:])))

    return change


def _other(data: Any, draw: random.Random) -> Any:
    """The same JSON with one entry another."""
    data = copy.deepcopy(data)
    place = data
    while isinstance(place, dict) and place:
        name = draw.choice(sorted(place))
        if isinstance(place[name], dict) and draw.random() < 0.7:
            place = place[name]
            continue
        place[name] = draw.choice(_VALUES)
        break
    return data


def copies(model: Path, directory: Path, changes: dict[str, Change]) -> Iterator[tuple[str, Path]]:
    """The checkpoint with each of the changes; it is removed once the next is asked for."""
    for name, change in changes.items():
        place = directory / "model"
        shutil.copytree(model, place)
        try:
            change(place)
            yield name, place
        finally:
            shutil.rmtree(place)
